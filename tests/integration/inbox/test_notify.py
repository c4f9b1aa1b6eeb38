"""Notifications are accepted in the caller's transaction: O17, O18, O23 of operate.md, and keys."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event, func, select
from sqlalchemy.orm import Session

import messaging
from messaging import tenancy
from messaging.errors import IdempotencyKeyBusy, MessageRejected
from messaging.inbox.models import INBOX_NOTIFICATION
from messaging.requests import NotificationType
from tests.integration.inbox.people import U, V, note, signed_in
from tests.polling import eventually

LATER = datetime(2126, 1, 1, tzinfo=UTC)


def stored(session: Session) -> list[Any]:
    return list(session.execute(select(INBOX_NOTIFICATION).order_by(INBOX_NOTIFICATION.c.id)))


def count(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(INBOX_NOTIFICATION)) or 0


def test_all_fields_are_stored(session: Session) -> None:  # operate.md O17
    with signed_in(7):
        given = note(source_model="Leave", source_id=2**63 - 1, expires_at=LATER, idempotency_key="leave-1")
        notification_id = messaging.send_inbox(given, session=session)
    (row,) = stored(session)
    assert (row.id, row.tenant_id, row.recipient_id) == (notification_id, 0, U)
    assert (row.title, row.content, row.notification_type) == ("Leave", "Please approve.", "SYSTEM")
    assert (row.source_model, row.source_id, row.expires_at) == ("Leave", 2**63 - 1, LATER)
    assert (row.is_read, row.read_at, row.created_by_id, row.created_by) == (False, None, 7, "user 7")
    assert row.idempotency_key == "leave-1"


def test_a_notification_needs_no_more_than_recipient_title_and_content(session: Session) -> None:
    messaging.send_inbox(recipient_id=V, title="x" * 200, content="c" * 100_000, session=session)
    (row,) = stored(session)
    assert (row.source_model, row.source_id, row.expires_at, row.idempotency_key) == (None, None, None, None)


def test_an_application_numbers_its_people_and_things_as_it_likes(session: Session) -> None:
    messaging.send_inbox(note(0, source_id=-5), session=session)
    (row,) = stored(session)
    assert (row.recipient_id, row.source_id) == (0, -5)
    assert messaging.inbox_unread_count(0, session=session) == 1


def test_an_expiry_in_the_past_is_taken(session: Session) -> None:
    messaging.send_inbox(note(expires_at=datetime(2001, 1, 1, tzinfo=UTC)), session=session)
    assert len(stored(session)) == 1


REFUSED = [
    ({"recipient_id": None}, "recipient_id"),  # operate.md O17
    ({"recipient_id": 2**63}, "recipient_id"),
    ({"recipient_id": "41"}, "recipient_id"),
    ({"recipient_id": True}, "recipient_id"),
    ({"title": None}, "title"),
    ({"title": " \n"}, "title"),
    ({"title": "x" * 201}, "title"),  # operate.md O17
    ({"title": "a\x00b"}, "title"),
    ({"title": "\ud800"}, "title"),
    ({"content": None}, "content"),
    ({"content": " \t"}, "content"),  # operate.md O17
    ({"content": "x" * 100_001}, "content"),
    ({"content": "a\x00b"}, "content"),
    ({"content": b"bytes"}, "content"),
    ({"notification_type": "NEWS"}, "notification_type"),
    ({"notification_type": None}, "notification_type"),
    ({"source_model": "x" * 51}, "source_model"),  # operate.md O17
    ({"source_model": "a\nb"}, "source_model"),
    ({"source_id": 2**63}, "source_id"),
    ({"source_id": "1"}, "source_id"),
    ({"expires_at": datetime(2126, 1, 1)}, "expires_at"),  # noqa: DTZ001
    ({"expires_at": "tomorrow"}, "expires_at"),
    ({"idempotency_key": " "}, "idempotency_key"),
    ({"idempotency_key": "k" * 256}, "idempotency_key"),
]


@pytest.mark.parametrize(("fields", "field"), REFUSED)
def test_what_cannot_be_is_refused_by_name_and_nothing_is_written(
    session: Session, fields: dict[str, Any], field: str
) -> None:  # operate.md O17
    with pytest.raises(MessageRejected) as refused:
        messaging.send_inbox(note(**fields), session=session)
    assert (refused.value.channel, refused.value.field, refused.value.index) == ("inbox", field, None)
    with pytest.raises(MessageRejected) as refused:
        messaging.send_inbox_batch([note(), note(**fields)], session=session)
    assert (refused.value.field, refused.value.index) == (field, 1)
    assert stored(session) == []


def test_a_long_content_is_not_repeated_by_its_refusal(session: Session) -> None:
    with pytest.raises(MessageRejected) as refused:
        messaging.send_inbox(note(content="secret " * 20_000), session=session)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("requests", [None, [], [note()] * 501, [note(), None], "text"])
def test_a_batch_that_is_none_is_refused_before_anything(session: Session, requests: Any) -> None:  # operate.md O18
    with pytest.raises(MessageRejected):
        messaging.send_inbox_batch(requests, session=session)
    assert stored(session) == []


def test_a_batch_is_one_insert_and_its_ids_are_in_order(session: Session, engine: Engine) -> None:  # operate.md O18
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    ids = messaging.send_inbox_batch([note(n + 1, title=f"n{n}") for n in range(500)], session=session)
    assert sum("INSERT" in one for one in statements) == 1
    assert ids == sorted(ids)
    assert [(row.id, row.title) for row in stored(session)] == [(ids[n], f"n{n}") for n in range(500)]


def test_what_the_caller_rolls_back_was_never_there(session: Session, engine: Engine) -> None:  # operate.md O23
    messaging.send_inbox(note(), session=session)
    session.rollback()
    assert count(engine) == 0


def test_without_a_session_it_is_committed(engine: Engine) -> None:
    messaging.send_inbox(note(notification_type=NotificationType.WORKFLOW))
    assert count(engine) == 1


def test_the_same_key_again_answers_the_first_id_and_writes_nothing(session: Session) -> None:
    first = messaging.send_inbox(note(idempotency_key="k"), session=session)
    session.commit()
    assert messaging.send_inbox(note(idempotency_key="k", title="other"), session=session) == first
    (row,) = stored(session)
    assert row.title == "Leave"


def test_a_key_is_its_recipients_own(session: Session) -> None:
    ids = messaging.send_inbox_batch([note(U, idempotency_key="k"), note(V, idempotency_key="k")], session=session)
    assert len(set(ids)) == 2


def test_a_batch_of_new_old_and_repeated_keys_answers_in_order(session: Session) -> None:
    old = messaging.send_inbox(note(idempotency_key="old"), session=session)
    session.commit()
    batch = [note(), note(idempotency_key="old"), note(idempotency_key="new"), note(), note(idempotency_key="new")]
    ids = messaging.send_inbox_batch(batch, session=session)
    assert ids[1] == old
    assert ids[2] == ids[4]
    assert len(set(ids)) == 4
    assert ids[0] < ids[3]
    assert len(stored(session)) == 4


def test_a_task_that_runs_again_notifies_each_once(engine: Engine) -> None:  # inbox inbox-03
    def task() -> list[int]:
        with Session(engine) as session:
            ids = messaging.send_inbox_batch(
                [note(n, idempotency_key=f"run-9-{n}") for n in (1, 2, 3)], session=session
            )
            session.commit()
            return ids

    first = task()  # and its worker is killed before it acknowledges
    assert task() == first
    assert count(engine) == 3


def test_two_that_write_a_key_at_once_answer_the_same_id(engine: Engine) -> None:
    answers: list[int] = []

    def second() -> None:
        answers.append(messaging.send_inbox(note(idempotency_key="k")))

    with Session(engine) as session:
        answers.append(messaging.send_inbox(note(idempotency_key="k"), session=session))
        thread = threading.Thread(target=second)
        thread.start()
        eventually(lambda: _waits(engine), what="the second to wait for the first")
        session.commit()
    thread.join(20)
    assert answers[0] == answers[1]
    assert count(engine) == 1


def _waits(engine: Engine) -> bool:
    with engine.connect() as connection:
        return bool(connection.exec_driver_sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'").all())


def test_a_key_that_stays_held_is_busy_and_the_transaction_usable(engine: Engine, make_settings: Any) -> None:
    messaging.configure(make_settings(database={"lock_timeout_seconds": 0.05}), engine=engine)
    with Session(engine) as holder, Session(engine) as session:
        messaging.send_inbox(note(idempotency_key="k"), session=holder)
        kept = messaging.send_inbox(note(title="kept"), session=session)
        with pytest.raises(IdempotencyKeyBusy):
            messaging.send_inbox(note(idempotency_key="k"), session=session)
        assert session.connection().exec_driver_sql("SHOW lock_timeout").scalar_one() == "2s"
        session.commit()
        assert [row.id for row in stored(session)] == [kept]


def test_a_notification_is_the_current_tenants(session: Session, many_tenants: None) -> None:
    with tenancy.tenant(7):
        messaging.send_inbox(note(), session=session)
    with tenancy.tenant(8):
        messaging.send_inbox(note(), session=session)
    assert [row.tenant_id for row in stored(session)] == [7, 8]


@pytest.mark.parametrize("across", [False, True])
def test_without_a_tenant_nothing_is_written(session: Session, many_tenants: None, across: bool) -> None:
    context = tenancy.all_tenants() if across else tenancy.acting_as(tenancy.Context())
    with context, pytest.raises(MessageRejected, match="tenant_id"):
        messaging.send_inbox(note(), session=session)
    assert stored(session) == []


def test_the_same_key_of_two_tenants_is_two_notifications(session: Session, many_tenants: None) -> None:
    # tenancy tenant-03
    for tenant_id in (7, 8, 7):
        with tenancy.tenant(tenant_id):
            messaging.send_inbox(note(idempotency_key="order-1"), session=session)
    assert [row.tenant_id for row in stored(session)] == [7, 8]


def test_an_expiry_is_kept_to_the_microsecond(session: Session) -> None:
    at = datetime(2126, 1, 1, tzinfo=UTC) + timedelta(microseconds=1)
    messaging.send_inbox(note(expires_at=at), session=session)
    assert stored(session)[0].expires_at == at
