"""Every mail is delivered, none twice, whatever is doubled: workers, beats, task messages."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from messaging.api import send_mail
from messaging.db.session import transaction
from tests.acceptance.conftest import Start
from tests.acceptance.records import (
    CONTENT_MARK,
    accept,
    assert_each_once,
    attempt_outcomes,
    recipient,
    row,
    statuses,
    wait_for,
)
from tests.acceptance.system import MessagingSetup
from tests.acceptance.task_events import task_results
from tests.polling import eventually, stays


def test_two_workers_and_two_beats_deliver_2000_mails_and_none_twice(start: Start) -> None:
    # operate.md O50
    setup = start(mail_workers=2, beats=2)
    accept(setup, 2000)
    wait_for(setup, {"SENT": 2000}, 150)
    assert_each_once(setup, 2000)
    assert attempt_outcomes(setup) == {"SENT": 2000}


def test_a_task_message_delivered_five_times_is_one_transaction(start: Start) -> None:
    setup = start(mail_workers=2, control=False, beats=0)
    setup.smtp.on("EOD", delay_seconds=0.4)
    (record_id,) = accept(setup, 1)
    with task_results(setup) as results:
        for _ in range(5):
            setup.publish_accepted([record_id])
        eventually(lambda: len(results) == 5, 30, "five tasks ended")
    assert sorted(results, key=str) == [{"not_mine": 1}] * 4 + [{"sent": 1}]
    assert len(setup.smtp.transactions) == 1
    assert row(setup, record_id).status == "SENT"
    # claim, preparation, outcome: nobody else wrote to it
    assert row(setup, record_id).version == 3


def test_ten_workers_that_claim_at_once_make_one_transaction(start: Start) -> None:
    # case claim-01
    setup = start(mail_workers=2, threads=5, control=False, beats=0)
    setup.smtp.on("EOD", delay_seconds=0.5)
    (record_id,) = accept(setup, 1)
    with task_results(setup) as results:
        for _ in range(10):
            setup.publish_accepted([record_id])
        eventually(lambda: len(results) == 10, 30, "ten tasks ended")
    assert results.count({"sent": 1}) == 1
    assert results.count({"not_mine": 1}) == 9
    assert len(setup.smtp.transactions) == 1


def test_a_message_repeated_while_its_record_is_sent_does_nothing(start: Start) -> None:
    # Case redis-01, in which a send takes longer than the visibility time-out of the broker, with two workers.
    slow = {
        "CELERY__VISIBILITY_TIMEOUT_SECONDS": "2",
        "SWEEPER__STALE_SECONDS": "30",
        "DELIVERY__SEND_BUDGET_SECONDS": "28",
        "DELIVERY__SEND_MAX_SECONDS": "19",
        "DELIVERY__REPLY_WAIT_SECONDS": "15",
        "DELIVERY__STOP_GRACE_SECONDS": "25",
    }
    setup = start(mail_workers=2, settings=slow)
    # Longer than the broker's own look for messages to repeat, every 10 s.
    setup.smtp.on("EOD", delay_seconds=12)
    (record_id,) = accept(setup, 1)
    setup.smtp.wait_for_command("EOD", 30)
    with task_results(setup) as results:
        setup.publish([(record_id, row(setup, record_id).version - offset) for offset in (0, 1, 2)])
        eventually(lambda: {"not_mine": 3} in results, 10, "the repeated message ended")
        assert row(setup, record_id).status == "SENDING"
        eventually(lambda: {"sent": 1} in results, 30, "the send ended")
    wait_for(setup, {"SENT": 1}, 5)
    assert len(setup.smtp.transactions) == 1
    with setup.redis as client:
        assert not client.exists("msg:unacked")


def test_a_mail_is_sent_after_its_commit_and_never_before(start: Start) -> None:
    # case claim-03, first run
    setup = start()
    with transaction(setup.engine) as session:
        record_id = send_mail(to=[recipient("m0")], subject="s", text_body="b", session=session)
        stays(lambda: not setup.smtp.transactions, 2, "nothing is sent")
    wait_for(setup, {"SENT": 1}, 30)
    assert_each_once(setup, 1)
    assert row(setup, record_id).retry_count == 0
    assert_no_trouble(setup)


def test_a_mail_that_is_rolled_back_is_never_sent(start: Start) -> None:
    # case claim-03, second run
    setup = start()
    with setup.engine.connect() as connection, connection.begin() as outer:
        with transaction_on(connection) as session:
            send_mail(to=[recipient("m0")], subject="s", text_body="b", session=session)
        stays(lambda: not setup.smtp.connections, 2, "nothing is sent")
        outer.rollback()
    stays(lambda: not setup.smtp.connections and not statuses(setup), 2, "nothing is sent")
    assert_no_trouble(setup)


def assert_no_trouble(setup: MessagingSetup) -> None:
    """No log has a line above INFO, but for Celery's about who runs it."""
    for name, log in setup.logs().items():
        lines = [line for line in log.splitlines() if '"level": "warning"' in line or '"level": "error"' in line]
        assert not lines, f"{name}: {lines}"
        assert CONTENT_MARK not in log


@contextmanager
def transaction_on(connection: Connection) -> Iterator[Session]:
    """A session inside the connection's transaction."""
    with Session(connection, join_transaction_mode="create_savepoint") as session, session.begin():
        yield session
