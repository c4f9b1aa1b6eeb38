"""Received mails are listed a page at a time, looked at, read, archived and marked deleted, each in its own tenant."""

from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

import messaging
from messaging import LinkStatus, MailType, ReceivedFlag, ReceivedStatus, RecordNotFound, tenancy
from messaging.receive import received
from messaging.receive.vocabulary import BounceKind
from tests.integration.receive.books import A, Books, failed
from tests.integration.rows_read import rows_read

UNREAD, READ, ARCHIVED, DELETED = ReceivedStatus


pytestmark = pytest.mark.usefixtures("configured")


def mail(books: Books, **columns: Any) -> int:
    """An ordinary mail."""
    return books.received(None, **{"link_status": "NONE", "subject": "Hello", **columns})


@pytest.mark.parametrize("status", ReceivedStatus)
def test_only_what_is_unread_becomes_read(books: Books, status: ReceivedStatus) -> None:  # receive.md R63
    received_id = mail(books, status=status)
    assert messaging.mark_received_read(received_id) is (status is UNREAD)
    assert books.mail(received_id).status == (READ if status is UNREAD else status)


@pytest.mark.parametrize("status", ReceivedStatus)
def test_only_what_is_unread_or_read_is_archived(books: Books, status: ReceivedStatus) -> None:
    received_id = mail(books, status=status)
    assert messaging.archive_received(received_id) is (status in (UNREAD, READ))
    assert books.mail(received_id).status == (ARCHIVED if status in (UNREAD, READ) else status)


@pytest.mark.parametrize("status", ReceivedStatus)
def test_everything_can_be_marked_deleted(books: Books, status: ReceivedStatus) -> None:
    received_id = mail(books, status=status)
    assert messaging.mark_received_deleted(received_id) is (status is not DELETED)
    assert books.mail(received_id).status == DELETED


def test_many_are_marked_read_at_once(books: Books) -> None:
    ids = [mail(books, status=status) for status in (UNREAD, READ, ARCHIVED, DELETED, UNREAD)]
    assert messaging.mark_received_read_batch([*ids, ids[0], 10**9, 2**70, -1]) == 2
    assert [books.mail(i).status for i in ids] == [READ, READ, ARCHIVED, DELETED, READ]
    assert messaging.mark_received_read_batch([]) == 0


def test_an_unknown_id_is_not_found(session: Session) -> None:  # receive.md R63
    for call in (
        messaging.mark_received_read,
        messaging.archive_received,
        messaging.mark_received_deleted,
        messaging.get_received,
    ):
        for number in (404, 0, 2**63):
            with pytest.raises(RecordNotFound, match=str(number)):
                call(number, session=session)
        with pytest.raises(TypeError, match="an int"):
            call("404", session=session)  # type: ignore[arg-type]
    assert session.scalar(text("SELECT 1")) == 1


def test_a_callers_transaction_decides(books: Books, session: Session) -> None:
    received_id = mail(books)
    assert messaging.mark_received_read(received_id, session=session)
    session.rollback()
    assert books.mail(received_id).status == UNREAD


def test_a_list_is_read_page_by_page_without_what_is_deleted(books: Books) -> None:
    ids = [mail(books) for _ in range(5)]
    deleted = mail(books, status=DELETED)
    first = messaging.list_received(limit=3)
    second = messaging.list_received(limit=3, before=first[-1].id)
    assert [line.id for line in first + second] == ids[::-1]
    assert [line.id for line in messaging.list_received(status=DELETED)] == [deleted]


def test_a_list_is_narrowed_by_what_a_mail_is(books: Books) -> None:
    record_id = books.sent()
    bounce, receipt = books.bounce(record_id), books.receipt(record_id)
    spam = mail(books, is_spam=True, is_bulk=True, status=READ, server_config_id=9)
    bulk = mail(books, is_bulk=True)
    books.link()

    def ids(**narrowed: Any) -> list[int]:
        return [line.id for line in messaging.list_received(**narrowed)]

    assert ids(mail_type=MailType.BOUNCE) == [bounce]
    assert ids(status=READ) == [spam]
    assert ids(link_status=LinkStatus.LINKED) == [receipt, bounce]
    assert ids(flags=[ReceivedFlag.BULK]) == [bulk, spam]
    assert ids(flags=[ReceivedFlag.BULK, ReceivedFlag.SPAM]) == [spam]
    assert ids(mailbox_id=9) == [spam]
    assert ids(record_id=record_id) == [receipt, bounce]
    assert ids(record_id=record_id, mail_type=MailType.READ_RECEIPT) == [receipt]
    [line] = messaging.list_received(mail_type=MailType.BOUNCE)
    assert (line.bounce_kind, line.linked_send_record_id, line.flags) == (BounceKind.HARD, record_id, [])


def test_a_mail_is_told_as_a_whole(books: Books) -> None:
    record_id = books.sent()
    received_id = books.bounce(record_id, failed(A, remote_mta="dns; mx"), body_text="It failed.", is_bulk=True)
    books.link()
    found = messaging.get_received(received_id)
    assert (found.body_text, found.flags, found.status) == ("It failed.", [ReceivedFlag.BULK], UNREAD)
    assert found.bounce_recipients == [failed(A, remote_mta="dns; mx")]
    assert (found.linked_send_record_id, found.original_message_id) == (record_id, f"<{record_id}@example.org>")
    assert messaging.get_received(received_id, with_bodies=False).body_text is None
    assert messaging.mark_received_deleted(received_id)
    assert messaging.get_received(received_id).status is DELETED


def test_no_tenant_sees_or_changes_what_another_received(books: Books) -> None:  # operate.md O5
    mine, others = mail(books, tenant_id=7), mail(books, tenant_id=8)
    tenancy.use_multi_tenancy(True)
    with tenancy.tenant(7):
        assert [line.id for line in messaging.list_received()] == [mine]
        assert messaging.mark_received_read_batch([mine, others]) == 1
        for call in (messaging.mark_received_read, messaging.archive_received, messaging.get_received):
            with pytest.raises(RecordNotFound):
                call(others)
    assert books.mail(others).status == UNREAD
    with tenancy.all_tenants():
        assert [line.id for line in messaging.list_received()] == [others, mine]


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ({}, 51),
        ({"before": 15_000}, 51),
        ({"mail_type": MailType.BOUNCE}, 500),
        ({"flags": [ReceivedFlag.SPAM], "before": 15_000}, 500),
        ({"record_id": 12}, 500),
    ],
)
def test_a_page_reads_by_an_index_no_more_than_it_may(
    books: Books, engine: Engine, asked: dict[str, Any], most: int
) -> None:
    with engine.begin() as connection:
        connection.execute(
            text("""
                INSERT INTO mail_receive_record (server_config_id, folder_name, message_id, received_at, tenant_id)
                SELECT 1, 'INBOX', '<p' || n || '@example.org>', now(), n % 3 - 1 FROM generate_series(1, 20000) n""")
        )
        connection.execute(text("ANALYZE mail_receive_record"))
    with Session(engine) as session:
        received.page(session, **asked, scan_rows=500)
        assert rows_read(session, "mail_receive_record") <= most


def test_a_rare_mail_is_found_page_by_page(books: Books, engine: Engine) -> None:
    ids = [
        mail(books, is_spam=number in (1, 6), truncation_reason="PARSE_FAILED" if number == 6 else None)
        for number in range(9)
    ]
    found: list[int] = []
    before, pages = None, 0
    with Session(engine) as session:
        while pages == 0 or before is not None:
            lines = received.page(session, flags=[ReceivedFlag.SPAM], limit=1, before=before, scan_rows=3)
            found, before, pages = [*found, *(line.id for line in lines)], lines.next_before, pages + 1
    assert (found, pages) == ([ids[6], ids[1]], 4)
    [truncated] = messaging.list_received(truncation="PARSE_FAILED")  # type: ignore[arg-type]
    assert truncated.id == ids[6]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"mail_type": "BOUNCY"}, "mail_type is 'BOUNCY'; allowed: NORMAL, "),
        ({"mail_type": 7}, "mail_type is 7; it is of type MailType"),
        ({"status": []}, r"status is \[\]; it is of type ReceivedStatus"),
        ({"link_status": "\x00"}, "link_status is .*; allowed: NONE, PENDING"),
        ({"truncation": "CUT"}, "truncation is 'CUT'; allowed: "),
        ({"flags": ["LOUD"]}, "flags is 'LOUD'; allowed: MAILING_LIST"),
        ({"flags": "SPAM"}, "flags is 'SPAM'; it is a list of flags"),
        ({"mailbox_id": True}, "mailbox_id is True; it is of type int"),
        ({"record_id": 2**63}, "record_id is 9223372036854775808; allowed: 1 to 9223372036854775807"),
        ({"limit": -1}, "limit is -1; allowed: 1 to"),
        ({"before": "5"}, "before is '5'; it is of type int"),
    ],
)
def test_what_cannot_narrow_a_list_is_named_before_the_database_sees_it(
    session: Session, given: dict[str, Any], told: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        messaging.list_received(**given, session=session)
    assert session.scalar(text("SELECT 1")) == 1


def test_a_list_is_narrowed_by_words_too(books: Books) -> None:
    bounce = books.bounce(books.sent(), link_status="LINKED")
    words: dict[str, Any] = {"mail_type": "BOUNCE", "status": "UNREAD", "link_status": "LINKED"}
    assert [line.id for line in messaging.list_received(**words)] == [bounce]


def test_an_id_of_another_type_is_named(session: Session) -> None:
    with pytest.raises(TypeError, match="a received mail id is an int, not 'x'"):
        messaging.get_received("x", session=session)  # type: ignore[arg-type]
    with pytest.raises(RecordNotFound, match="no received mail 9223372036854775808"):
        messaging.mark_received_read(2**63, session=session)
