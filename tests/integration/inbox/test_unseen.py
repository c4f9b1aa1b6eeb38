"""What a look finds is what became visible since the one before: each notification once, whatever commits when."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.orm import Session

import messaging
from messaging.inbox.changed import Inbox
from messaging.inbox.unseen import MAX_CONTENT_CHARS, MAX_TOLD, Asked, Mark, Told, look
from tests.integration.inbox.people import U, V, note, signed_in

pytestmark = pytest.mark.postgres16

MINE = Inbox(0, U)


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection


def one_look(connection: Connection, since: Mark | None = None, inbox: Inbox = MINE) -> Told:
    (told,) = look(connection, [Asked(inbox, since)])
    return told


def ids(told: Told) -> list[int]:
    assert not told.must_reload
    return [one["id"] for one in told.notifications]


@contextmanager
def committed_late(engine: Engine, **fields: Any) -> Iterator[int]:
    """A notification whose transaction is open during the block."""
    with Session(engine) as session:
        yield messaging.send_inbox(note(**fields), session=session)
        session.commit()


def test_the_first_look_tells_the_count_and_to_load_the_list(connection: Connection) -> None:
    messaging.send_inbox(note())
    told = one_look(connection)
    assert (told.must_reload, told.notifications, told.unread_count) == (True, (), 1)


def test_a_look_tells_what_came_since_and_the_next_one_nothing(connection: Connection) -> None:
    mark = one_look(connection).mark
    sent = messaging.send_inbox_batch([note(), note(V), note(title="b", source_model="Leave", source_id=3)])
    told = one_look(connection, mark)
    assert ids(told) == [sent[0], sent[2]]
    assert told.notifications[1] == {
        "id": sent[2],
        "title": "b",
        "content": "Please approve.",
        "notification_type": "SYSTEM",
        "source_model": "Leave",
        "source_id": 3,
        "is_read": False,
        "expires_at": None,
        "created_at": told.notifications[1]["created_at"],
    }
    assert told.unread_count == 2
    assert ids(one_look(connection, told.mark)) == []


def test_a_lower_id_that_commits_later_is_neither_missed_nor_doubled(connection: Connection, engine: Engine) -> None:
    before = one_look(connection).mark
    with committed_late(engine) as lower:
        between = one_look(connection, before)
        assert ids(between) == []
        higher = messaging.send_inbox(note())
        after = one_look(connection, between.mark)
        assert ids(after) == [higher]
    assert ids(one_look(connection, after.mark)) == [lower]
    # Who was away all the time has both once, and who heard of neither.
    assert ids(one_look(connection, between.mark)) == [lower, higher]
    assert lower < higher


def test_a_mark_holds_over_any_number_of_open_transactions(connection: Connection, engine: Engine) -> None:
    with committed_late(engine) as first, committed_late(engine, recipient_id=V), committed_late(engine) as third:
        mark = Mark.parse(str(one_look(connection).mark))
    assert ids(one_look(connection, mark)) == [first, third]


def test_a_notification_of_a_savepoint_is_told_once(connection: Connection, engine: Engine) -> None:
    mark = one_look(connection).mark
    with Session(engine) as session:
        with session.begin_nested():
            one = messaging.send_inbox(note(), session=session)
        between = one_look(connection, mark).mark
        session.commit()
    told = one_look(connection, between)
    assert ids(told) == [one]
    assert ids(one_look(connection, told.mark)) == []


def test_what_is_rolled_back_is_not_told(connection: Connection, engine: Engine) -> None:
    mark = one_look(connection).mark
    with Session(engine) as session:
        messaging.send_inbox(note(), session=session)
    assert ids(one_look(connection, mark)) == []


def test_reading_changes_the_count_and_tells_nothing_again(connection: Connection) -> None:
    one = messaging.send_inbox(note())
    mark = one_look(connection).mark
    messaging.mark_notification_read(one)
    told = one_look(connection, mark)
    assert (ids(told), told.unread_count) == ([], 0)


def test_what_was_read_meanwhile_is_told_as_read(connection: Connection) -> None:
    mark = one_look(connection).mark
    one = messaging.send_inbox(note())
    with signed_in(U):
        messaging.mark_my_inbox_read()
    told = one_look(connection, mark)
    assert [(n["id"], n["is_read"]) for n in told.notifications] == [(one, True)]


def test_an_expired_one_is_neither_told_nor_counted(connection: Connection) -> None:
    mark = one_look(connection).mark
    messaging.send_inbox(note(expires_at=datetime(2001, 1, 1, tzinfo=UTC)))
    later = messaging.send_inbox(note(expires_at=datetime(2126, 1, 1, tzinfo=UTC)))
    told = one_look(connection, mark)
    assert (ids(told), told.unread_count) == ([later], 1)


def test_a_tenants_look_sees_no_other_tenant(connection: Connection, many_tenants: None) -> None:
    seven, eight = (one_look(connection, inbox=Inbox(tenant_id, U)).mark for tenant_id in (7, 8))
    with signed_in(U, 7):
        one = messaging.send_inbox(note())
    assert ids(one_look(connection, seven, Inbox(7, U))) == [one]
    told = one_look(connection, eight, Inbox(8, U))
    assert (ids(told), told.unread_count) == ([], 0)


def test_many_inboxes_are_one_statement_and_answered_in_order(connection: Connection) -> None:
    marks = [told.mark for told in look(connection, [Asked(Inbox(0, n), None) for n in (1, 2, 3)])]
    sent = messaging.send_inbox_batch([note(3), note(1), note(3)])
    asked = [Asked(Inbox(0, n), mark) for n, mark in zip((1, 2, 3), marks, strict=True)]
    assert [ids(told) for told in look(connection, asked)] == [[sent[1]], [], [sent[0], sent[2]]]
    assert look(connection, []) == []


def test_who_missed_more_than_is_told_loads_the_list(connection: Connection) -> None:
    mark = one_look(connection).mark
    messaging.send_inbox_batch([note()] * MAX_TOLD)
    assert len(ids(one_look(connection, mark))) == MAX_TOLD
    messaging.send_inbox(note())
    told = one_look(connection, mark)
    assert (told.must_reload, told.notifications, told.unread_count) == (True, (), MAX_TOLD + 1)


def test_a_long_content_is_told_by_its_beginning(connection: Connection) -> None:
    mark = one_look(connection).mark
    messaging.send_inbox(note(content="ü" * 3000))
    assert one_look(connection, mark).notifications[0]["content"] == "ü" * MAX_CONTENT_CHARS


def test_a_mark_of_a_server_that_was_further_on_loads_the_list(connection: Connection) -> None:
    """As of one whose dump this database was restored from, or that failed over and lost its last transactions."""
    xmin = one_look(connection).mark.xmin
    told = one_look(connection, Mark(0, xmin + 10_000, xmin + 10_000, ()))
    assert (told.must_reload, told.notifications) == (True, ())


@pytest.mark.parametrize("written", ["999999999999-1-0", f"0-{2**63 - 1}-0", "0-1-9223372036854775806"])
def test_a_mark_that_somebody_made_up_does_no_harm(connection: Connection, written: str) -> None:
    mark = Mark.parse(written)
    assert mark is not None
    messaging.send_inbox(note())
    assert len(one_look(connection, mark).notifications) <= 1


def test_a_look_does_not_read_what_came_before(engine: Engine, connection: Connection) -> None:
    connection.execute(
        text(
            "INSERT INTO inbox_notification (recipient_id, title, content, is_read)"
            " SELECT :me, 't', 'c', true FROM generate_series(1, 20000)"
        ),
        {"me": U},
    )
    connection.exec_driver_sql("VACUUM ANALYZE inbox_notification")
    mark = one_look(connection).mark
    one = messaging.send_inbox(note())
    with engine.connect() as own:
        own.exec_driver_sql("SELECT pg_stat_force_next_flush()")
        before = _tuples_read(own)
        assert ids(one_look(own, mark)) == [one]
        own.exec_driver_sql("SELECT pg_stat_force_next_flush()")
        own.commit()
        assert _tuples_read(own) - before < 20


def _tuples_read(connection: Connection) -> int:
    """By this connection's transaction, of table and indexes."""
    statement = (
        "SELECT pg_stat_get_xact_tuples_fetched(oid) + pg_stat_get_xact_tuples_returned(oid) FROM pg_class"
        " WHERE oid = 'inbox_notification'::regclass"
    )
    return int(connection.exec_driver_sql(statement).scalar_one())
