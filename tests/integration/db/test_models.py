"""The database as the models describe it, and as a server must be (I10)."""

import os
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from sqlalchemy import Engine

from messaging.db import schema
from messaging.db.base import Base
from messaging.db.engine import check_server, create_engine
from messaging.delivery.dead_letter import DEAD_LETTER_MESSAGE
from messaging.delivery.record import READY_EXPRESSION, SEND_ATTEMPT
from messaging.errors import ConfigurationError
from messaging.mail.models import MAIL_SEND_RECORD
from messaging.settings import Settings

pytestmark = pytest.mark.postgres16


def test_the_migrations_make_what_the_models_say(engine: Engine) -> None:
    assert {DEAD_LETTER_MESSAGE.name, SEND_ATTEMPT.name, MAIL_SEND_RECORD.name} <= set(Base.metadata.tables)
    assert schema.differences(engine) == []


def test_a_difference_is_seen(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE mail_send_record DROP COLUMN uncertain")
        connection.exec_driver_sql("DROP INDEX ix_mail_send_ready")
    found = "\n".join(schema.differences(engine))
    assert "uncertain" in found
    assert "ix_mail_send_ready" in found


def test_checks_indexes_and_settings_are_those_of_the_models(engine: Engine) -> None:
    # What Alembic does not compare: CHECK constraints, index conditions, storage parameters, the generated column.
    table = MAIL_SEND_RECORD
    with engine.connect() as connection:
        checks = dict(
            connection.execute(
                sa.text(
                    "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
                    " WHERE contype = 'c' AND conrelid = 'mail_send_record'::regclass"
                )
            ).fetchall()
        )
        indexes = dict(
            connection.execute(
                sa.text("SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'mail_send_record'")
            ).fetchall()
        )
        options = connection.execute(
            sa.text("SELECT reloptions FROM pg_class WHERE oid = 'mail_send_record'::regclass")
        ).scalar_one()
        ready = connection.execute(
            sa.text(
                "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid"
                " AND attnum = adnum WHERE attrelid = 'mail_send_record'::regclass AND attname = 'ready'"
            )
        ).scalar_one()
    assert set(checks) == {c.name for c in table.constraints if isinstance(c, sa.CheckConstraint)}
    for index in table.indexes:
        definition = indexes[str(index.name)]
        condition = index.dialect_options["postgresql"]["where"]
        assert ("WHERE" in definition) == (condition is not None), definition
        assert ("UNIQUE" in definition) == bool(index.unique)
    assert "WHERE ready" in indexes["ix_mail_send_ready"]
    assert "WHERE (NOT ready)" in indexes["ix_mail_send_waiting"]
    assert sorted(options) == [
        "autovacuum_vacuum_cost_delay=0",
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=20000",
    ]
    assert "next_attempt_at <= updated_at" in ready
    assert "next_attempt_at <= updated_at" in READY_EXPRESSION


@pytest.mark.parametrize(
    "change",
    [
        "status = 'LOST'",
        "status = 'SENDING'",  # claimed_at is null
        "claimed_at = now()",  # not SENDING
        "retry_count = -1",
        "lane = 4",
        "lane = 0",
        "scope = 'ALL'",
        "body_mode = 'RICH'",
        "priority = 'URGENT'",
        "to_addresses = NULL",
        "recipient_results = NULL",
        "next_attempt_at = NULL",
    ],
)
def test_the_schema_holds_what_must_always_hold(engine: Engine, change: str) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO mail_send_record (scope, to_addresses) VALUES ('TENANT', '[\"a@example.org\"]')"
        )
    with pytest.raises(sa.exc.IntegrityError), engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE mail_send_record SET {change}")


def test_i10_our_connections_read_committed_and_time_out(engine: Engine, settings: Settings) -> None:
    for options in ({}, {"isolation_level": "AUTOCOMMIT"}):
        with engine.connect().execution_options(**options) as connection:
            shown = {
                name: connection.execute(sa.text(f"SHOW {name}")).scalar_one()
                for name in ("transaction_isolation", "statement_timeout", "lock_timeout", "TimeZone")
            }
        assert shown == {
            "transaction_isolation": "read committed",
            "statement_timeout": "5s",
            "lock_timeout": "2s",
            "TimeZone": "UTC",
        }
    assert settings.database.lock_timeout_seconds == 2


def test_i10_a_server_that_may_forget_commits_is_refused(
    engine: Engine, make_settings: Callable[..., Settings]
) -> None:
    check_server(engine, make_settings())
    with engine.begin() as connection:
        name = connection.execute(sa.text("SELECT current_database()")).scalar_one()
        connection.exec_driver_sql(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    other = create_engine(make_settings())
    try:
        with pytest.raises(ConfigurationError, match=r"I10: .*synchronous_commit is 'off'"):
            check_server(other, make_settings())
    finally:
        other.dispose()
        with engine.begin() as connection:
            connection.exec_driver_sql(f'ALTER DATABASE "{name}" RESET synchronous_commit')


def test_a_time_zone_that_only_python_knows_is_refused(engine: Engine, make_settings: Callable[..., Settings]) -> None:
    # Both have a database of their own; here stands what neither Python's nor PostgreSQL's check would let through.
    known = make_settings(quota={"timezone": "Asia/Shanghai"})
    check_server(engine, known)
    unknown = known.model_copy(update={"quota": known.quota.model_copy(update={"timezone": "Mars/Olympus"})})
    with pytest.raises(ConfigurationError, match=r"QUOTA__TIMEZONE is 'Mars/Olympus'"):
        check_server(engine, unknown)


def test_a_forked_child_has_connections_of_its_own(engine: Engine) -> None:
    def server_process() -> int:
        with engine.connect() as connection:
            return int(connection.execute(sa.select(sa.func.pg_backend_pid())).scalar_one())

    here = server_process()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, str(server_process()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        assert int(answer.read()) != here
    os.waitpid(child, 0)
    assert server_process() == here
