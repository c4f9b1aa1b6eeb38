"""A worker whose database goes away: at the claim, the preparation, the send or the outcome; shortly and for long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from messaging.delivery.committer import Release, Tally
from messaging.delivery.status import SendStatus
from messaging.embedded import Postgres
from tests.integration.delivery.desk import Desk, counted, sessions
from tests.integration.delivery.records import ACCEPTED, STALE, A, blocked, held, seconds_ahead
from tests.polling import eventually

pytestmark = pytest.mark.postgres16

PENDING, SENDING, SENT, RETRY, FAILED, DEAD_LETTER = SendStatus


@contextmanager
def ending_sessions(desk: Desk, when: str, times: int) -> Iterator[None]:
    """The server ends the session that makes this change of a row, in the middle of its statement, so many times."""
    desk.run("CREATE SEQUENCE ended")
    desk.run(
        "CREATE FUNCTION end_session() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF {when} AND nextval('ended') <= {times} THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;"
        " RETURN NEW; END $$"
    )
    desk.run("CREATE TRIGGER ends BEFORE UPDATE ON mail_send_record FOR EACH ROW EXECUTE FUNCTION end_session()")
    yield
    desk.run("DROP TRIGGER ends ON mail_send_record")
    desk.run("DROP FUNCTION end_session")
    desk.run("DROP SEQUENCE ended")


CLAIMED = "NEW.status = 'SENDING' AND OLD.status <> 'SENDING'"
PREPARED = "NEW.prepared_at IS NOT NULL AND OLD.prepared_at IS NULL"
ENDED = "OLD.status = 'SENDING' AND NEW.status <> 'SENDING'"


def end_all_sessions(desk: Desk) -> None:
    with desk.own.connect() as connection:
        for pid, _, _ in sessions(desk.own):
            connection.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})


def test_connections_that_died_while_idle_cost_nothing(desk: Desk) -> None:
    first, second = desk.records.accept(count=2)
    assert desk.deliver(first) == {"sent": 1}
    rows = desk.records.rows()
    end_all_sessions(desk)
    assert desk.worker.deliver([[second, rows[second].version]]) == {"sent": 1}
    assert desk.server.copies() == {A: 2}


@pytest.mark.parametrize("when", [CLAIMED, PREPARED, ENDED], ids=["claim", "preparation", "outcome"])
def test_a_session_that_ends_once_in_a_statement_costs_no_attempt(desk: Desk, when: str) -> None:
    ids = desk.records.accept(count=3)
    with ending_sessions(desk, when, 1):
        assert desk.deliver(*ids) == {"sent": 3}
    assert {row.retry_count for row in desk.records.rows().values()} == {0}
    assert len(desk.server.messages) == 3


def test_a_claim_that_stays_unclear_is_given_back(desk: Desk) -> None:
    ids = desk.records.accept(count=2)
    with ending_sessions(desk, CLAIMED, 2), pytest.raises(OperationalError):
        desk.deliver(*ids)
    assert {(row.status, row.version) for row in desk.records.rows().values()} == {(PENDING, 0)}
    assert desk.deliver(*ids) == {"sent": 2}


def test_a_preparation_that_stays_unclear_is_given_back_by_its_token(desk: Desk) -> None:
    ids = desk.records.accept(count=2)
    with ending_sessions(desk, PREPARED, 2):
        assert desk.deliver(*ids) == {"released": 2}
        eventually(lambda: {row.status for row in desk.records.rows().values()} == {RETRY})
    rows = desk.records.rows()
    assert {(row.error_code, row.retry_count) for row in rows.values()} == {("CLAIM_RELEASED", 0)}
    assert all(5 <= seconds_ahead(desk.records, i) <= 30 for i in ids)
    assert desk.server.connections == 0
    assert desk.deliver(*ids) == {"sent": 2}


def test_an_outcome_is_written_again_until_the_database_answers(desk: Desk) -> None:
    record_id = desk.records.one()
    with ending_sessions(desk, ENDED, 2):
        assert desk.deliver(record_id) == {"sent": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.version, len(desk.records.attempts(record_id))) == (SENT, 3, 1)


def test_a_restart_of_the_database_during_the_send_loses_nothing(desk: Desk, postgres: Postgres) -> None:
    desk.server.on("EOD", hang=True)
    ids = desk.records.accept(count=2)
    sending = [desk.begin(i) for i in ids]
    desk.server.wait_for_command("EOD", 10, count=2)
    postgres.stop()
    desk.server.release()
    eventually(lambda: all(desk.worker.watch.oldest_seconds() == 0 for _ in ids))
    postgres.start()
    assert [s.result(10) for s in sending] == [{"sent": 1}] * 2
    assert {(row.status, row.retry_count) for row in desk.records.rows().values()} == {(SENT, 0)}
    assert len(desk.server.transactions) == 2


def test_a_database_away_for_longer_than_stale_repeats_no_mail(desk: Desk, postgres: Postgres) -> None:
    # D4 closed: the sweep comes before the outcome that waits, the cool-down leaves it its time (C3, T14).
    desk.server.on("EOD", hang=True)
    record_id = desk.records.one()
    sending = desk.begin(record_id)
    desk.server.wait_for_command("EOD", 10)
    postgres.stop()
    desk.server.release()
    eventually(lambda: desk.worker.watch.oldest_seconds() == 0)
    before = counted("messaging_late_outcomes_total", channel="mail", result="sent")
    postgres.start()
    desk.records.shift(STALE + 1, record_id)
    swept = desk.records.sweep()
    assert sending.result(10) == {"sent": 1}
    late = counted("messaging_late_outcomes_total", channel="mail", result="sent") - before
    assert late == len(swept)
    row = desk.records.row(record_id)
    assert (row.status, row.uncertain) == (SENT, bool(swept))
    desk.records.shift(10_000)
    assert (desk.records.promote(), desk.records.lease()) == (0, [])
    assert len(desk.server.transactions) == 1


def test_o57_with_the_database_away_nothing_is_claimed_and_nothing_sent(desk: Desk, postgres: Postgres) -> None:
    record_id = desk.records.one()
    postgres.stop()
    with pytest.raises(OperationalError):
        desk.worker.deliver([[record_id, 0]])
    postgres.start()
    assert desk.server.connections == 0
    assert desk.deliver(record_id) == {"sent": 1}


def test_a_worker_closes_when_every_outcome_is_written(desk: Desk) -> None:  # I7
    desk.server.on("EOD", hang=True)
    record_id = desk.records.one()
    sending = desk.begin(record_id)
    desk.server.wait_for_command("EOD", 5)
    desk.worker.stop()
    desk.server.release()
    assert sending.result(5) == {"sent": 1}
    assert desk.worker.close(5)
    assert desk.records.row(record_id).status == SENT
    eventually(lambda: sessions(desk.own, "messaging committer") == [])


def test_a_worker_that_cannot_write_says_so_when_it_closes(desk: Desk, postgres: Postgres) -> None:
    desk.server.on("EOD", hang=True)
    record_id = desk.records.one()
    sending = desk.begin(record_id)
    desk.server.wait_for_command("EOD", 5)
    postgres.stop()
    desk.server.release()
    eventually(lambda: desk.worker.watch.oldest_seconds() == 0)
    assert not desk.worker.close(0.1)
    postgres.start()
    assert sending.result(10) == {"sent": 1}


def test_an_outcome_waits_for_whoever_holds_its_row(desk: Desk) -> None:
    record_id = desk.records.one()
    with desk.own.connect() as other:
        desk.server.on("EOD", hang=True)
        sending = desk.begin(record_id)
        desk.server.wait_for_command("EOD", 5)
        with held(other, record_id):
            desk.server.release()
            waiting = blocked(desk.own, sending.result)
            assert not sending.done()
        assert waiting.result(5) == {"sent": 1}
    assert sending.result(5) == {"sent": 1}


# The committer


def test_outcomes_and_releases_of_one_group_are_both_written(desk: Desk) -> None:
    ids = desk.records.accept(count=3)
    claims = desk.records.claim_now(*ids)
    tally = Tally()
    committer = desk.worker._committer
    committer.submit(desk.records.judge(claims[0], {A: ACCEPTED}), tally)
    committer.submit(Release(claims[1], 0.0, "hold"), tally)
    lost = desk.records.judge(claims[2], {A: ACCEPTED})
    lost.claim.version = 99
    committer.submit(lost, tally)
    committer.hurry()
    assert tally.wait() == {"sent": 1, "released": 1, "not_mine": 1}


def test_many_threads_share_their_commits(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    desk.add_server()
    ids = desk.records.accept(count=40)
    sending = [desk.begin(*ids[n::8]) for n in range(8)]
    assert [s.result(20) for s in sending] == [{"sent": 5}] * 8
    assert desk.server.copies() == {A: 40}
    statuses = {row.status for row in desk.records.rows().values()}
    assert statuses == {SENT}
