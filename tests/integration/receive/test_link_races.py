"""Several workers, a record that others write, a database that gives up: no report is lost, none counts twice."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from messaging import tenancy
from messaging.db.engine import create_engine as make_engine
from messaging.mail import receipts
from messaging.mail.receipts import Effect
from messaging.receive.link import MAX_LOCK_WAITS, LinkCounts
from messaging.settings import Settings
from messaging.tenancy import use_multi_tenancy
from tests.integration.delivery.records import blocked
from tests.integration.receive.books import A, B, Books, C, failed


@pytest.fixture(autouse=True)
def _single_tenant() -> None:
    use_multi_tenancy(False)


@pytest.fixture
def other(settings: Settings) -> Iterator[Engine]:
    """Connections of somebody else."""
    engine = create_engine(settings.database_url)
    yield engine
    engine.dispose()


def test_a_record_that_changes_meanwhile_is_read_again(books: Books, other: Engine) -> None:
    record_id = books.sent()
    books.bounce(record_id)
    with other.begin() as writer:
        writer.execute(text("UPDATE mail_send_record SET version = version + 1, read_receipt_received = true"))
        linking = blocked(other, books.link)
    assert linking.result(10) == LinkCounts(linked=1)
    row = books.record(record_id)
    assert (row.status, row.version, row.read_receipt_received) == ("FAILED", 2, True)


def test_a_manual_retry_meanwhile_leaves_the_bounce_waiting(books: Books, other: Engine) -> None:
    record_id = books.sent(status="FAILED")
    received_id = books.bounce(record_id)
    with other.begin() as writer:
        writer.execute(text("UPDATE mail_send_record SET version = version + 1, status = 'RETRY'"))
        linking = blocked(other, books.link)
    assert linking.result(10) == LinkCounts(waiting=1)
    assert (books.record(record_id).bounced, books.mail(received_id).link_status) == (False, "PENDING")
    assert books.suppressed() == []


@pytest.mark.parametrize(("conflicts", "linked"), [(2, 1), (3, 0)])
def test_three_tries_then_it_waits(books: Books, other: Engine, conflicts: int, linked: int) -> None:
    record_id = books.sent()
    received_id = books.bounce(record_id)
    left = [conflicts]

    def overtake(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE mail_send_record") and left[0]:
            left[0] -= 1
            with other.begin() as writer:
                writer.execute(text("UPDATE mail_send_record SET version = version + 1"))

    event.listen(books.engine, "before_cursor_execute", overtake)
    assert books.link() == LinkCounts(linked=linked, waiting=1 - linked)
    assert (books.record(record_id).status == "FAILED", len(books.suppressed())) == (bool(linked), linked)
    assert books.mail(received_id).link_status == ("LINKED" if linked else "PENDING")
    assert books.link() == LinkCounts(linked=1 - linked)
    assert books.record(record_id).status == "FAILED"


def test_a_mail_that_another_worker_has_is_left_to_it(books: Books, other: Engine) -> None:
    record_id = books.sent()
    books.bounce(record_id)
    with other.begin() as worker:
        worker.execute(text("SELECT FROM mail_receive_record FOR UPDATE"))
        assert books.link() == LinkCounts()
    assert books.record(record_id).status == "SENT"
    assert books.link() == LinkCounts(linked=1)


@pytest.fixture
def impatient(make_settings: Callable[..., Settings]) -> Iterator[Books]:
    """Books whose statements wait for a lock no longer than 0.1 s."""
    settings = make_settings(database={"lock_timeout_seconds": 0.1})
    engine = make_engine(settings)
    yield Books(engine, settings)
    engine.dispose()


def test_many_records_that_stay_locked_do_not_hold_up_a_fetch(impatient: Books, other: Engine) -> None:
    records = [impatient.sent() for _ in range(MAX_LOCK_WAITS + 3)]
    for record_id in records:
        impatient.bounce(record_id)
    tried: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE mail_send_record"):
            tried.append(statement)

    event.listen(impatient.engine, "before_cursor_execute", note)
    with other.begin() as writer:
        writer.execute(text("SELECT FROM mail_send_record FOR UPDATE"))
        assert impatient.link() == LinkCounts(waiting=len(records))
    assert len(tried) == MAX_LOCK_WAITS
    assert impatient.link() == LinkCounts(linked=len(records))


def test_a_record_that_stays_locked_makes_its_mail_wait_and_no_other(impatient: Books, other: Engine) -> None:
    books = impatient
    held, free = books.sent(), books.sent()
    held_mail, _ = books.bounce(held), books.bounce(free)
    with other.begin() as writer:
        writer.execute(text("SELECT FROM mail_send_record WHERE id = :id FOR UPDATE"), {"id": held})
        assert books.link() == LinkCounts(linked=1, waiting=1)
    assert [books.record(i).status for i in (held, free)] == ["SENT", "FAILED"]
    assert books.mail(held_mail).link_status == "PENDING"
    assert books.link() == LinkCounts(linked=1)


def test_what_one_report_changes_is_written_as_one(books: Books, other: Engine) -> None:
    record_id = books.sent()
    received_id = books.bounce(record_id)
    with other.begin() as owner:
        owner.execute(text("ALTER TABLE suppression ADD CONSTRAINT none CHECK (reason <> 'HARD_BOUNCE')"))
    spam = books.sent()
    books.bounce(spam, failed(reason="SPAM"))
    assert books.link() == LinkCounts(linked=1, waiting=1)
    row, mail = books.record(record_id), books.mail(received_id)
    assert (row.status, row.version, mail.link_status, mail.linked_send_record_id) == ("SENT", 0, "PENDING", None)
    assert books.record(spam).status == "FAILED"  # one mail's fault is not another's
    with other.begin() as owner:
        owner.execute(text("ALTER TABLE suppression DROP CONSTRAINT none"))
    assert books.link() == LinkCounts(linked=1)


def test_a_mail_that_the_database_refuses_is_given_up_after_a_day(books: Books, other: Engine) -> None:
    received_id = books.bounce(books.sent(), age="25 hours")
    with other.begin() as owner:
        owner.execute(text("ALTER TABLE suppression ADD CONSTRAINT none CHECK (reason <> 'HARD_BOUNCE')"))
    assert books.link() == LinkCounts(unmatched=1)
    assert books.mail(received_id).link_status == "UNMATCHED"


def test_a_receipt_whose_record_is_sent_at_that_moment_is_noted(books: Books, other: Engine) -> None:
    record_id = books.sent(status="SENDING")
    with tenancy.tenant(0), Session(books.engine) as session, session.begin():
        left = [True]

        def finish(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if statement.startswith("SELECT mail_send_record") and left.pop():
                left.append(False)
                with other.begin() as worker:
                    worker.execute(text("UPDATE mail_send_record SET status = 'SENT', claimed_at = NULL"))

        event.listen(books.engine, "before_cursor_execute", finish)
        assert receipts.mark_read(session, record_id, at=None) is Effect.RECORDED
    assert books.record(record_id).read_receipt_received


def test_a_database_that_goes_away_is_told_and_loses_nothing(books: Books, other: Engine) -> None:
    record_id = books.sent()
    books.bounce(record_id)

    def cut(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE mail_send_record"):
            pid = connection.connection.dbapi_connection.info.backend_pid
            with other.begin() as admin:
                admin.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})

    event.listen(books.engine, "before_cursor_execute", cut)
    with pytest.raises(OperationalError):
        books.link()
    event.remove(books.engine, "before_cursor_execute", cut)
    books.engine.dispose()
    assert books.record(record_id).status == "SENT"
    assert books.link() == LinkCounts(linked=1)


def test_two_mailboxes_that_report_on_one_record_at_once_lose_nothing(engine: Engine, settings: Settings) -> None:
    books = Books(engine, settings)
    records = [books.sent(A, B, C) for _ in range(10)]
    for record_id in records:
        for mailbox, address in ((1, A), (2, B)):
            books.bounce(record_id, failed(address), server_config_id=mailbox)
        books.receipt(record_id, server_config_id=2)
    ready = threading.Barrier(4)

    def run(mailbox: int) -> None:
        own = Books(engine, settings)
        ready.wait(10)
        while True:
            counts = own.link(mailbox=mailbox, limit=4)
            if not counts.linked and not counts.waiting:
                return

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(run, mailbox) for mailbox in (1, 2, 1, 2)]:
            done.result(60)
    for mailbox in (1, 2):
        books.link(mailbox=mailbox)
    for record_id in records:
        row = books.record(record_id)
        assert sorted(row.bounced_recipients) == [A, B]
        assert books.results(record_id) == {A: "bounced", B: "bounced", C: "accepted"}
        assert (row.status, row.read_receipt_received, row.version) == ("FAILED", True, 3)
    assert sorted(address for _, address, *_ in books.suppressed()) == [A, B]


def test_two_records_whose_bounces_name_the_same_addresses_do_not_wait_for_each_other_in_a_ring(
    engine: Engine, settings: Settings
) -> None:
    books = Books(engine, settings)
    for number in range(10):
        record_id = books.sent(*((A, B) if number % 2 else (B, A)))
        books.bounce(record_id, failed(A), failed(B), server_config_id=1 + number % 2)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda mailbox: books.link(mailbox=mailbox), (1, 2)))
    assert found == [LinkCounts(linked=5), LinkCounts(linked=5)]
