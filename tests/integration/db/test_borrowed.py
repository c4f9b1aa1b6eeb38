"""A session over somebody else's psycopg connection: part of its transaction, and nothing of its own is changed."""

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.json import set_json_loads
from sqlalchemy import Engine, make_url, text
from sqlalchemy.exc import DataError
from sqlalchemy.orm import Session

import messaging
from messaging import session_over
from messaging.delivery.status import SendStatus
from messaging.errors import MessageRejected
from messaging.settings import Settings


@pytest.fixture(autouse=True)
def _configured(settings: Settings, engine: Engine, unconfigured: None) -> None:
    messaging.configure(settings, engine=engine)


@pytest.fixture
def owner(database_url: str) -> Iterator["psycopg.Connection[Any]"]:
    address = make_url(database_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address) as connection:
        connection.execute("CREATE TABLE shop_order (id int)")
        connection.commit()
        yield connection
        connection.rollback()


def count(engine: Engine, table: str) -> int:
    with engine.connect() as connection:
        return int(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


def accept(connection: "psycopg.Connection[Any]", **fields: Any) -> int:
    with session_over(connection) as session:
        return messaging.send_mail(**{"to": ["a@example.com"], "text_body": "x", **fields}, session=session)


def accept_and(connection: "psycopg.Connection[Any]", fail: Callable[[Session], object]) -> None:
    with session_over(connection) as session:
        messaging.send_mail(to=["a@example.com"], text_body="x", session=session)
        fail(session)


def test_what_is_accepted_holds_with_the_owners_commit(owner: "psycopg.Connection[Any]", engine: Engine) -> None:
    owner.execute("INSERT INTO shop_order VALUES (1)")
    record_id = accept(owner)
    assert (count(engine, "shop_order"), count(engine, "mail_send_record")) == (0, 0)
    owner.commit()
    assert (count(engine, "shop_order"), count(engine, "mail_send_record")) == (1, 1)
    assert messaging.status(record_id).status is SendStatus.PENDING


def test_what_is_accepted_is_undone_with_the_owners_rollback(owner: "psycopg.Connection[Any]", engine: Engine) -> None:
    accept(owner)
    owner.execute("INSERT INTO shop_order VALUES (1)")
    owner.rollback()
    assert (count(engine, "shop_order"), count(engine, "mail_send_record")) == (0, 0)


def test_a_refusal_leaves_the_owners_transaction_usable(owner: "psycopg.Connection[Any]", engine: Engine) -> None:
    owner.execute("INSERT INTO shop_order VALUES (1)")
    with pytest.raises(MessageRejected):
        accept(owner, to=["nobody"])
    with pytest.raises(ZeroDivisionError):
        accept_and(owner, lambda _: 1 / 0)
    owner.commit()
    assert (count(engine, "shop_order"), count(engine, "mail_send_record")) == (1, 0)


def test_a_statement_that_fails_in_the_database_is_undone_alone(
    owner: "psycopg.Connection[Any]", engine: Engine
) -> None:
    owner.execute("INSERT INTO shop_order VALUES (1)")
    with pytest.raises(DataError, match="division by zero"):
        accept_and(owner, lambda session: session.execute(text("SELECT 1 / 0")))
    accept(owner)
    owner.commit()
    assert (count(engine, "shop_order"), count(engine, "mail_send_record")) == (1, 1)


def test_a_commit_of_the_session_commits_nothing_of_the_owners(
    owner: "psycopg.Connection[Any]", engine: Engine
) -> None:
    with session_over(owner) as session:
        messaging.send_mail(to=["a@example.com"], text_body="x", session=session)
        session.commit()
        messaging.send_mail(to=["b@example.com"], text_body="x", session=session)
    assert count(engine, "mail_send_record") == 0
    owner.commit()
    assert count(engine, "mail_send_record") == 2


def test_the_owner_reads_as_before_and_we_read_as_ever(owner: "psycopg.Connection[Any]") -> None:
    """An owner that has JSON as text, as Django has, and rows as dictionaries."""
    owner.row_factory = dict_row  # type: ignore[assignment]
    set_json_loads(lambda octets: f"text {bytes(octets).decode()}", owner)
    notices: list[str] = []
    owner.add_notice_handler(lambda diagnostic: notices.append(diagnostic.message_primary or ""))
    record_id = accept(owner, template_variables={"a": [1, 2]})
    with session_over(owner) as session:
        assert messaging.status(record_id, session=session).to == ["a@example.com"]
    assert owner.execute("SELECT '[1]'::jsonb AS one").fetchone() == {"one": "text [1]"}
    owner.execute("DO $$ BEGIN RAISE NOTICE 'heard'; END $$")
    assert notices == ["heard"]


def test_a_connection_that_commits_by_itself_is_refused(owner: "psycopg.Connection[Any]", engine: Engine) -> None:
    owner.autocommit = True
    with pytest.raises(ValueError, match="begin a transaction first"):
        accept(owner)
    with owner.transaction():
        accept(owner)
    assert count(engine, "mail_send_record") == 1


def test_a_transaction_that_has_failed_is_refused(owner: "psycopg.Connection[Any]") -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        owner.execute("SELECT 1 / 0")
    with pytest.raises(ValueError, match="INERROR"):
        accept(owner)


def test_many_uses_leave_no_object_and_no_prepared_statement(owner: "psycopg.Connection[Any]") -> None:
    for _ in range(20):
        owner.execute("SELECT 1 WHERE 1 = %s", [1])  # prepared by the owner's object after a few
        accept(owner)
    owner.commit()
    gc.collect()
    assert not owner.closed
    assert owner.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (1,)


def test_threads_borrow_each_their_own(database_url: str, engine: Engine) -> None:
    address = make_url(database_url).set(drivername="postgresql").render_as_string(hide_password=False)

    def work(number: int) -> None:
        with psycopg.connect(address) as connection:
            for _ in range(5):
                accept(connection)
            if number % 2:
                connection.rollback()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert count(engine, "mail_send_record") == 10
