"""What a provider tells an application of a mail does what a received report would do, in the caller's transaction."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

import messaging
from messaging import tenancy
from tests.integration.receive.books import A, B, Books

pytestmark = pytest.mark.usefixtures("configured")


def test_a_mail_bounces_by_its_records_id(books: Books) -> None:
    record_id = books.sent(A, B)
    assert messaging.mark_bounced(
        record_id=record_id,
        recipients=["B@Example.org"],
        reply_code="550",
        status="5.1.1",
        permanent=True,
        text="550 5.1.1 no such user here",
    )
    row = books.record(record_id)
    assert (row.status, row.error_code, row.error_message) == ("FAILED", "BOUNCED", "550 5.1.1 no such user here")
    assert (row.bounced, row.bounce_code, row.bounced_recipients) == (True, "550 5.1.1", [B])
    assert row.recipient_results[B]["text"] == "550 5.1.1 no such user here"
    assert books.suppressed() == [(0, B, "HARD_BOUNCE", record_id)]
    with books.engine.connect() as connection:
        note = connection.execute(text("SELECT note FROM suppression")).scalar_one()
    assert note == "bounced with 550 5.1.1 (told by the application)"


@pytest.mark.parametrize("form", ["<{}@example.org>", "{}@example.org", " <{}@example.org>\r\n"])
def test_a_mail_is_named_by_its_message_id(books: Books, form: str) -> None:
    record_id = books.sent()
    assert messaging.mark_bounced(message_id=form.format(record_id), permanent=False)
    row = books.record(record_id)
    assert (row.status, row.bounce_code, row.bounced_recipients) == ("FAILED", None, [A])
    assert row.recipient_results[A]["permanent"] is False
    other = books.sent()
    assert messaging.mark_read_receipt(message_id=form.format(other), at=None)
    assert books.record(other).read_receipt_received


@pytest.mark.parametrize(
    "told",
    [
        {"permanent": False, "status": "5.1.1", "reply_code": "550"},
        {"permanent": True, "status": "5.7.1", "text": "refused as spam"},
        {"permanent": True, "status": "5.2.2", "text": "mailbox is full"},
        {"permanent": True},
    ],
    ids=["not-permanent", "spam", "full", "nothing-told"],
)
def test_what_says_nothing_about_the_address_lists_nobody(books: Books, told: dict[str, Any]) -> None:
    record_id = books.sent()
    assert messaging.mark_bounced(record_id=record_id, **told)
    assert (books.record(record_id).status, books.suppressed()) == ("FAILED", [])


def test_a_second_report_adds_and_the_same_again_changes_nothing(books: Books) -> None:
    record_id = books.sent(A, B)
    for recipient in (A, B):
        assert messaging.mark_bounced(record_id=record_id, recipients=[recipient], status="5.7.1", permanent=True)
    row = books.record(record_id)
    assert (row.bounced_recipients, row.version) == ([A, B], 2)
    assert messaging.mark_bounced(record_id=record_id, recipients=[A], permanent=True)
    assert books.record(record_id) == row


def test_a_manual_retry_goes_to_the_bounced_alone(books: Books) -> None:
    record_id = books.sent(A, B)
    messaging.mark_bounced(record_id=record_id, recipients=[B], permanent=False)
    messaging.retry(record_id)
    row = books.record(record_id)
    assert (row.status, row.bounced, row.bounced_recipients) == ("RETRY", False, None)
    assert list(row.recipient_results) == [A]


def test_a_bounce_of_nobody_by_name_cannot_be_retried(books: Books) -> None:
    record_id = books.sent(A, B)
    assert messaging.mark_bounced(record_id=record_id, permanent=True)
    with pytest.raises(messaging.StateError, match="no recipient left"):
        messaging.retry(record_id)


@pytest.mark.parametrize("status", ["PENDING", "SENDING", "RETRY"])
def test_an_attempt_that_is_due_or_runs_is_left_alone(books: Books, status: str) -> None:  # receive.md R59
    record_id = books.sent(status=status)
    before = books.record(record_id)
    assert not messaging.mark_bounced(record_id=record_id, permanent=True)
    assert not messaging.mark_read_receipt(record_id=record_id, at=None)
    assert books.record(record_id) == before


def test_what_is_unknown_is_false(books: Books) -> None:
    for named in ({"record_id": 404}, {"record_id": 0}, {"record_id": 2**70}, {"message_id": "<x@example.org>"}):
        assert not messaging.mark_bounced(**named, permanent=True)
        assert not messaging.mark_read_receipt(**named, at=None)


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({}, TypeError, "exactly one of record_id and message_id"),
        ({"record_id": 1, "message_id": "<a@b>"}, TypeError, "exactly one of record_id and message_id"),
        ({"record_id": "1"}, TypeError, "'1'"),
        ({"message_id": 1}, TypeError, "message_id is 1"),
        ({"message_id": " "}, ValueError, "message_id is blank"),
        ({"record_id": 1, "status": "5.1"}, ValueError, "status is '5.1'"),
        ({"record_id": 1, "status": "2.1.1"}, ValueError, "status is '2.1.1'"),
        ({"record_id": 1, "status": "5.1.1 "}, ValueError, "status is '5.1.1 '"),
        ({"record_id": 1, "reply_code": "250"}, ValueError, "reply_code is '250'"),
        ({"record_id": 1, "reply_code": 550}, TypeError, "reply_code is 550"),
        ({"record_id": 1, "recipients": A}, TypeError, f"recipients is '{A}'"),
        ({"record_id": 1, "recipients": [None]}, TypeError, "recipients is None"),
        ({"record_id": 1, "permanent": "yes"}, TypeError, "permanent is 'yes'"),
        ({"record_id": 1, "text": b"x"}, TypeError, "text is b'x'"),
    ],
)
def test_wrong_arguments_are_named_before_the_database_sees_them(
    session: Session, arguments: dict[str, Any], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named.replace("(", r"\(")):
        messaging.mark_bounced(**{"permanent": True, "session": session, **arguments})
    assert session.scalar(text("SELECT 1")) == 1


def test_text_that_cannot_be_stored_is_made_so(books: Books) -> None:
    record_id = books.sent()
    assert messaging.mark_bounced(
        record_id=record_id, recipients=["\ud800\x00"], permanent=True, text="a\x00\ud800" * 999
    )
    row = books.record(record_id)
    assert (row.bounced_recipients, len(row.error_message)) == ([A], 500)


def test_a_callers_transaction_decides(books: Books, session: Session) -> None:
    record_id = books.sent()
    assert messaging.mark_bounced(record_id=record_id, status="5.1.1", permanent=True, session=session)
    assert messaging.mark_read_receipt(record_id=record_id, at=None, session=session)
    session.rollback()
    row = books.record(record_id)
    assert (row.status, row.read_receipt_received, books.suppressed()) == ("SENT", False, [])
    assert messaging.mark_bounced(record_id=record_id, status="5.1.1", permanent=True, session=session)
    session.commit()
    assert (books.record(record_id).status, len(books.suppressed())) == ("FAILED", 1)


def test_no_tenant_reports_on_anothers_mail(books: Books) -> None:  # receive.md R62
    record_id = books.sent(tenant_id=8)
    tenancy.use_multi_tenancy(True)
    with tenancy.tenant(7):
        for named in ({"record_id": record_id}, {"message_id": f"<{record_id}@example.org>"}):
            assert not messaging.mark_bounced(**named, permanent=True)
            assert not messaging.mark_read_receipt(**named, at=None)
    assert books.record(record_id).version == 0
    with tenancy.all_tenants():
        assert messaging.mark_bounced(record_id=record_id, status="5.1.1", permanent=True)
    assert books.suppressed() == [(8, A, "HARD_BOUNCE", record_id)]


def test_it_was_read_when_it_is_said_to_be_where_that_can_be(books: Books) -> None:
    now = datetime.now(UTC)
    between = (now - timedelta(minutes=10)).astimezone(timezone(timedelta(hours=9)))
    for at, is_taken in ((between, True), (now - timedelta(hours=2), False), (now + timedelta(hours=2), False)):
        record_id = books.sent()
        assert messaging.mark_read_receipt(record_id=record_id, at=at)
        read_at = books.record(record_id).read_receipt_received_at
        assert (read_at == at) is is_taken
        assert is_taken or abs(read_at - now) < timedelta(minutes=5)
        assert messaging.mark_read_receipt(record_id=record_id, at=now)  # the first one's time stands
        assert books.record(record_id).read_receipt_received_at == read_at


@pytest.mark.parametrize(
    ("at", "error", "named"),
    [(datetime(2026, 1, 2), ValueError, "no time zone"), ("2026-01-02", TypeError, "at is '2026-01-02'")],  # noqa: DTZ001
)
def test_a_time_without_a_zone_is_refused(session: Session, at: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        messaging.mark_read_receipt(record_id=1, at=at, session=session)
    assert session.scalar(text("SELECT 1")) == 1
