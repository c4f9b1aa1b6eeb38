"""A test's database cannot be told from a new one, whatever the test before it did to it."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from messaging.embedded import Postgres
from tests.databases import Databases

ADD_SERVER = (
    "INSERT INTO mail_send_server_config (tenant_id, name, host, port, from_address, is_default)"
    " VALUES (1, 'far end', '127.0.0.1', 25, 'shop@example.com', true) RETURNING id"
)

ADD_ENTRY = "INSERT INTO audit_log (id, actor, action, target_type) VALUES (1, 'cli', 'added', 'mail_template')"

pytestmark = pytest.mark.postgres16


@pytest.fixture(scope="module")
def own(postgres: Postgres) -> Iterator[Databases]:
    """Databases beside those of the other tests."""
    made = Databases(postgres)
    yield made
    made.close()


def connect(postgres: Postgres, name: str) -> "psycopg.Connection[Any]":
    return psycopg.connect(postgres.url(name).replace("+psycopg", ""), autocommit=True)


def oid(postgres: Postgres, name: str) -> int:
    with connect(postgres, "postgres") as connection:
        found = connection.execute("SELECT oid FROM pg_database WHERE datname = %s", (name,)).fetchone()
    assert found is not None
    return int(found[0])


def use(postgres: Postgres, own: Databases, *statements: str) -> tuple[str, bool]:
    """Run a test that does this: the next one's database, and whether it is the same one."""
    name = own.take()
    before = oid(postgres, name)
    with connect(postgres, name) as connection:
        for statement in statements:
            connection.execute(statement.encode())
    own.give_back(name)
    name = own.take()
    return name, oid(postgres, name) == before


def test_rows_are_gone_and_numbers_start_anew(postgres: Postgres, own: Databases) -> None:
    name, is_same = use(postgres, own, ADD_SERVER, ADD_SERVER.replace("true", "false"))
    assert is_same
    with connect(postgres, name) as connection:
        assert connection.execute("SELECT count(*) FROM mail_send_server_config").fetchone() == (0,)
        assert connection.execute(ADD_SERVER).fetchone() == (1,)


def test_the_audit_log_is_emptied_too(postgres: Postgres, own: Databases) -> None:
    name, is_same = use(postgres, own, ADD_ENTRY)
    assert is_same
    with connect(postgres, name) as connection:
        assert connection.execute("SELECT count(*) FROM audit_log").fetchone() == (0,)
        connection.execute(ADD_ENTRY)
        with pytest.raises(psycopg.errors.RestrictViolation):
            connection.execute("TRUNCATE audit_log")


def test_numbers_start_anew_also_where_the_row_was_refused(postgres: Postgres, own: Databases) -> None:
    number = "SELECT nextval(pg_get_serial_sequence('mail_template', 'id'))"
    name, is_same = use(postgres, own, number)
    assert is_same
    with connect(postgres, name) as connection:
        assert connection.execute(number.encode()).fetchone() == (1,)


def test_what_is_not_made_by_emptying_makes_a_new_database(postgres: Postgres, own: Databases) -> None:
    name, is_same = use(postgres, own, ADD_SERVER, "CREATE TABLE more (n int)")
    assert not is_same
    with connect(postgres, name) as connection:
        assert own.is_as_new(connection)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE mail_template ADD COLUMN more int",
        "ALTER TABLE mail_template RENAME TO elsewhere",
        "ALTER TABLE mail_template ADD CONSTRAINT refusing CHECK (tenant_id > 0)",
        "ALTER TABLE mail_template ALTER COLUMN code DROP NOT NULL",
        "ALTER TABLE mail_template ALTER COLUMN code SET DEFAULT 'a'",
        "ALTER TABLE mail_template ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE mail_template SET (fillfactor = 50)",
        "ALTER TABLE audit_log DISABLE TRIGGER ALL",
        "DROP INDEX {index}",
        "CREATE TABLE more (n int)",
        "CREATE SEQUENCE more",
        "CREATE VIEW more AS SELECT 1",
        "CREATE TYPE more AS ENUM ('a')",
        "CREATE SCHEMA more",
        "CREATE FUNCTION more() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE RULE more AS ON DELETE TO mail_template DO INSTEAD NOTHING",
        "CREATE POLICY more ON mail_template USING (true)",
        # Of one row: autovacuum never does.
        "ANALYZE alembic_version",
        "DELETE FROM country_region WHERE ctid = (SELECT min(ctid) FROM country_region)",
        "UPDATE alembic_version SET version_num = '0001'",
        "SELECT lo_create(0)",
        "ALTER DATABASE {name} SET synchronous_commit TO off",
        "ALTER DATABASE {name} CONNECTION LIMIT 7",
        ADD_SERVER,
    ],
)
def test_a_change_is_seen(postgres: Postgres, own: Databases, change: str) -> None:
    name = own.take()
    with connect(postgres, name) as connection:
        assert own.is_as_new(connection)
        (index,) = (
            connection.execute("SELECT min(indexname) FROM pg_indexes WHERE indexname LIKE 'ix_%'").fetchone() or ()
        )
        connection.execute("BEGIN")
        connection.execute(change.format(name=name, index=index).encode())
        assert not own.is_as_new(connection)
        connection.execute("ROLLBACK")
    own.give_back(name)


def test_a_connection_that_is_left_behind_is_cut_off_and_does_not_come_back(postgres: Postgres, own: Databases) -> None:
    name = own.take()
    with connect(postgres, name) as connection:
        connection.execute("BEGIN")
        connection.execute(ADD_SERVER)
        own.give_back(name)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("COMMIT")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        connect(postgres, name)
    with connect(postgres, own.take()) as connection:
        assert connection.execute("SELECT count(*) FROM mail_send_server_config").fetchone() == (0,)


def test_a_server_that_was_stopped_or_killed_is_started(postgres: Postgres, own: Databases) -> None:
    own.give_back(own.take())
    for end in (postgres.stop, postgres.kill):
        name = own.take()
        with connect(postgres, name) as connection:
            connection.execute(ADD_SERVER)
        end()
        own.give_back(name)
        with connect(postgres, own.take()) as connection:
            assert connection.execute("SELECT count(*) FROM mail_send_server_config").fetchone() == (0,)
