"""Every change C1 to C19 of the protocol that concerns the core, each with the trace that broke the earlier rule.

Races are interleaved by hand: `Scan` stops a statement between its snapshot and its locks. C12 and C18 are in
`test_dispatch.py`; C5, C16 and C19 are seen on a worker in `test_attempt.py`; C13 has no part here yet.
"""

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
import redis
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from messaging.category import ErrorCategory
from messaging.clock import boot_seconds
from messaging.db.engine import autocommitting
from messaging.delivery.cancel import cancel
from messaging.delivery.claim import claim
from messaging.delivery.committer import Committer, Tally
from messaging.delivery.dispatch import chunked
from messaging.delivery.gate import ClaimTooOld, SendGate, SendLimits
from messaging.delivery.hints import DispatchHints
from messaging.delivery.outcome import Failure
from messaging.delivery.recipients import RecipientResult, RecipientStatus, open_recipients
from messaging.delivery.requeue import retry, retry_batch
from messaging.delivery.status import SendStatus
from messaging.delivery.sweep import CLOCK_KEY, sweep
from messaging.errors import StateError
from messaging.mail.channel import envelope_recipients
from messaging.mail.models import MAIL_SEND_RECORD as T
from messaging.mail.receipts import Effect, mark_bounced
from messaging.mail.reported_recipients import ReportedRecipient
from messaging.settings import Settings
from tests.integration.delivery.records import (
    ACCEPTED,
    BUSY,
    DEFERRED,
    MAX_RETRIES,
    NO_REPLY,
    REFUSED,
    STALE,
    A,
    B,
    C,
    Records,
    blocked,
    held,
    stored,
)

pytestmark = pytest.mark.postgres16

PENDING, SENDING, SENT, RETRY, FAILED, DEAD_LETTER = SendStatus
R = TypeVar("R")


class Scan:
    """Other sessions whose statements stop when they come across one record: their snapshot is taken, no lock is.

    A row security policy waits for an advisory lock that this session holds; policies bind ordinary roles only.
    """

    def __init__(self, engine: Engine, url: str, record_id: int) -> None:
        self._engine = engine
        self._role = f"scan_{os.urandom(4).hex()}"
        self._holder = engine.connect()
        self.engine = create_engine(url, connect_args={"options": f"-c role={self._role}"})
        self._execute(
            f"CREATE ROLE {self._role}",
            f"GRANT SELECT, UPDATE, INSERT ON ALL TABLES IN SCHEMA public TO {self._role}",
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {self._role}",
            f"""CREATE FUNCTION stop_at(seen bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
                IF seen = {record_id} THEN
                    PERFORM pg_advisory_lock({record_id}); PERFORM pg_advisory_unlock({record_id});
                END IF; RETURN true; END $$""",
            "ALTER TABLE mail_send_record ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY stops ON mail_send_record USING (stop_at(id)) WITH CHECK (true)",
        )
        self._record_id = record_id
        self._holder.execute(text(f"SELECT pg_advisory_lock({record_id})"))

    def _execute(self, *statements: str) -> None:
        with self._engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def start(self, work: Callable[[], R]) -> "Future[R]":
        """Run `work`, which uses `engine`, until it has come across the record."""
        return blocked(self._engine, work)

    def go_on(self) -> None:
        self._holder.execute(text(f"SELECT pg_advisory_unlock({self._record_id})"))
        self._holder.commit()

    def close(self) -> None:
        self._holder.close()
        self.engine.dispose()
        self._execute(
            "DROP POLICY stops ON mail_send_record",
            "ALTER TABLE mail_send_record DISABLE ROW LEVEL SECURITY",
            "DROP FUNCTION stop_at",
            f"DROP OWNED BY {self._role}",
            f"DROP ROLE {self._role}",
        )


@pytest.fixture
def scan_at(engine: Engine, database_url: str) -> Iterator[Callable[[int], Scan]]:
    made: list[Scan] = []

    def make(record_id: int) -> Scan:
        made.append(Scan(engine, database_url, record_id))
        return made[-1]

    yield make
    for scan in made:
        scan.close()


def cancel_one(records: Records, record_id: int) -> str:
    with records.engine.connect() as connection:
        return cancel(connection, T, record_id, channel="mail").answer


def retry_one(records: Records, record_id: int) -> None:
    with records.engine.connect() as connection:
        retry(connection, T, envelope_recipients, record_id, channel="mail")


# C1


def test_c1_the_clock_is_read_before_the_claim_statement_is_sent(records: Records) -> None:
    record_id = records.one()
    seen: list[SendStatus] = []

    def ticker() -> float:
        seen.append(records.row(record_id).status)
        return 1000.0

    [claimed] = records.claim([(record_id, 0)], ticker)
    assert (seen, claimed.claimed_at) == ([PENDING], 1000.0)


def test_c1_a_send_that_takes_its_full_time_is_recorded_before_the_sweep(records: Records, settings: Settings) -> None:
    # Claim; the check passes at the last moment; the send takes its full time; the outcome waits for its group.
    d = settings.delivery
    record_id = records.one()
    [claimed] = records.claim_now(record_id)
    last_moment = d.send_budget_seconds - d.send_max_seconds
    ended = last_moment + d.send_max_seconds + d.group_window_seconds + d.commit_timeout_seconds
    SendGate(
        0, SendLimits(d.send_budget_seconds, d.send_max_seconds, d.reply_wait_seconds), lambda: last_moment
    ).check_start()
    records.shift(ended)
    assert records.sweep(stale=settings.sweeper.stale_seconds) == {}
    assert records.end(claimed, {A: ACCEPTED}) == "sent"


# C2


def test_c2_claims_given_back_never_use_the_budget_up(records: Records) -> None:
    # Claim, deadline passes, sweep, claim, deadline passes, sweep at budget: DEAD_LETTER, nothing ever tried.
    record_id = records.one(retry_count=MAX_RETRIES)
    for _ in range(3 * MAX_RETRIES):
        [claimed] = records.claim_now(record_id)
        records.release([claimed], 5)
        records.shift(6)
    row = records.row(record_id)
    assert (row.status, row.retry_count, records.sweep()) == (RETRY, MAX_RETRIES, {})


# C3


def test_c3_an_outcome_never_meets_the_claim_of_another_worker(records: Records) -> None:
    # Worker 0 claims v1; the claim is lost in a failover; worker 1 claims v1; worker 0's outcome has its version.
    record_id = records.one()
    [leased] = records.lease()
    pair = (leased.record_id, leased.version)
    [first] = records.claim([pair])
    records.put(record_id, status=PENDING, version=pair[1], claimed_at=None, claim_token=None)  # the replica's row
    [second] = records.claim([pair])
    assert first.version == second.version
    assert records.end(first, BUSY) is None
    assert records.release([first]) == set()
    assert records.prepare([first]) == set()
    row = records.row(record_id)
    assert (row.status, row.version, row.claim_token) == (SENDING, second.version, second.token)
    assert records.end(second, {A: ACCEPTED}) == "sent"


def test_c3_outcomes_that_waited_for_the_database_are_recorded_after_the_sweep(records: Records) -> None:  # F17
    ids = records.accept(count=3)
    claims = records.claim_now(*ids)
    records.shift(STALE + 1)
    assert set(records.sweep()) == set(ids)
    stand = records.write(*(records.judge(c, {A: ACCEPTED}) for c in claims))
    assert set(stand.values()) == {"sent"}
    records.shift(1000)
    assert (records.promote(), records.lease()) == (0, [])


def test_c3_a_group_with_two_claims_of_one_record_gives_each_its_own(records: Records) -> None:
    # Both outcomes waited in one process for the database: the old claim was swept, the new one has the record.
    for order in (1, -1):
        record_id = records.one(to=(A, B))
        [old] = records.claim_now(record_id)
        records.swept(record_id)
        [new] = records.claim_now(record_id)
        outcomes = [records.judge(old, {A: ACCEPTED, B: ACCEPTED}), records.judge(new, BUSY)][::order]
        assert records.write(*outcomes) == {new.key: "retry"}
        row = records.row(record_id)
        assert (row.status, row.recipient_results, row.retry_count) == (RETRY, {}, 2)
        assert [a.outcome for a in records.attempts(record_id)] == ["SWEPT", "RETRY"]


def test_c3_a_commit_whose_reply_was_lost_is_not_applied_twice(records: Records) -> None:
    for learnt, status in (({A: ACCEPTED}, "sent"), (BUSY, "retry")):
        record_id = records.one()
        [claimed] = records.claim_now(record_id)
        outcome = records.judge(claimed, learnt)
        records.write(outcome)
        before = records.row(record_id)
        assert records.write(outcome, is_repeat=True) == {claimed.key: status}
        assert records.row(record_id) == before
        assert len(records.attempts(record_id)) == 1


class Breaks:
    """An engine whose connection the server ends after a statement ran, before its reply is read."""

    def __init__(self, engine: Engine, url: str, times: int = 1) -> None:
        self.engine = create_engine(url)
        self._left = times

        @event.listens_for(self.engine, "after_cursor_execute")
        def end(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
            if statement.lstrip().startswith("UPDATE") and self._left:
                self._left -= 1
                cursor.connection.commit()
                with engine.connect() as other:
                    pid = cursor.connection.info.backend_pid
                    other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
                cursor.execute("SELECT 1")  # the connection is found broken here


def test_c3_a_claim_whose_reply_was_lost_is_read_again_by_its_token(
    records: Records, engine: Engine, database_url: str
) -> None:
    ids = records.accept(count=3)
    breaks = Breaks(engine, database_url)
    chunk = claim(autocommitting(breaks.engine), records.channel, [(i, 0) for i in ids], boot_seconds)
    breaks.engine.dispose()
    rows = records.rows()
    assert [c.record_id for c in chunk.claims] == ids
    assert [rows[i].version for i in ids] == [1, 1, 1]
    assert {c.token for c in chunk.claims} == {rows[ids[0]].claim_token}


# C4


def test_c4_a_record_that_kills_its_worker_takes_nobody_along(records: Records) -> None:  # O30
    # {A, B} claimed; A kills; both swept, leased together; A kills; ... B is DEAD_LETTER untried.
    killer, good = records.accept(count=2)
    records.claim_now(killer, good)  # killed
    records.shift(STALE + 1)
    assert set(records.sweep()) == {killer, good}
    kills = 1
    while records.row(killer).status != DEAD_LETTER:
        records.shift(2000)
        records.promote()
        for chunk in chunked(records.lease(), 50):
            assert len(chunk) == 1
            [claimed] = records.claim([(chunk[0].record_id, chunk[0].version)])
            if claimed.record_id == good:
                records.end(claimed, {A: ACCEPTED})
            else:
                kills += 1
        records.shift(STALE + 1)
        records.sweep()
    assert kills == MAX_RETRIES + 1
    assert (records.row(good).status, records.row(good).retry_count) == (SENT, 1)


def test_c4_the_cool_down_leaves_a_late_outcome_its_time(records: Records) -> None:
    record_id = records.one()
    [claimed] = records.claim_now(record_id)
    outcome = records.judge(claimed, {A: ACCEPTED})
    records.swept(record_id)
    records.shift(29)  # I4: reconnect + 2 x commit retry + commit time-out is 12
    assert (records.promote(), records.lease()) == (0, [])
    assert records.write(outcome) == {claimed.key: "sent"}


# C5


def test_c5_a_send_that_was_paused_after_the_first_check_stops_before_the_last_byte(records: Records) -> None:
    # Check passes; pause; sweep; second claim; resume; both send.
    now = 0.0
    record_id = records.one()
    [first] = records.claim([(record_id, 0)], lambda: now)
    gate = SendGate(first.claimed_at, SendLimits(240, 120, 60), lambda: now)
    gate.check_start()
    now = STALE + 1
    records.swept(record_id)
    [second] = records.claim_now(record_id)
    with pytest.raises(ClaimTooOld):
        gate.check_last_byte()
    assert records.release([first]) == set()
    assert records.end(second, {A: ACCEPTED}) == "sent"


# C6


def test_c6_cancel_after_an_unknown_reply_does_not_say_cancelled(records: Records) -> None:
    record_id = records.one()
    records.deliver(record_id, NO_REPLY)
    assert cancel_one(records, record_id) == "stopped"


def test_c6_cancel_after_a_sweep_does_not_say_cancelled(records: Records) -> None:
    record_id = records.one()
    [claimed] = records.claim_now(record_id)
    records.swept(record_id)
    assert cancel_one(records, record_id) == "stopped"
    assert records.end(claimed, {A: ACCEPTED}) is None  # T14 never from another status
    assert cancel_one(records, record_id) == "stopped"


def test_c6_cancel_after_a_bounce_and_a_retry_does_not_say_cancelled(records: Records) -> None:
    # Sent; bounced; the retry opens the bounced recipient, and nothing in the results says any more that it was sent.
    record_id = records.one()
    records.deliver(record_id, {A: ACCEPTED})
    assert records.bounce(record_id) is Effect.RECORDED
    retry_one(records, record_id)
    assert cancel_one(records, record_id) == "stopped"
    assert cancel_one(records, record_id) == "stopped"


# C7


def test_c7_what_was_cancelled_is_not_retried(records: Records) -> None:
    # Cancelled; batch Retry over FAILED rows; sent.
    record_id, other = records.one(), records.one(status=FAILED, error_code="SMTP_550")
    assert cancel_one(records, record_id) == "cancelled"
    with records.engine.connect() as connection:
        assert retry_batch(connection, T, envelope_recipients, [record_id, other], channel="mail") == 1
    with pytest.raises(StateError, match="cancelled"):
        retry_one(records, record_id)
    assert [row.record_id for row in records.lease()] == [other]


# C8


def test_c8_the_sweep_at_the_budget_knows_who_accepted(records: Records) -> None:
    record_id = records.one(to=(A, B), retry_count=MAX_RETRIES - 1)
    records.deliver(record_id, {A: ACCEPTED, B: DEFERRED})
    records.claim_now(record_id)
    assert records.swept(record_id) == SENT
    assert records.dead_letters(record_id) == []


# C9


def test_c9_a_retry_opens_exactly_who_refused_or_bounced(records: Records) -> None:  # F18a
    record_id = records.one(to=(A, B, C))
    records.deliver(record_id, {A: ACCEPTED, B: ACCEPTED, C: REFUSED})
    assert records.bounce(record_id, B) is Effect.RECORDED
    retry_one(records, record_id)
    row = records.row(record_id)
    assert open_recipients([A, B, C], row.recipient_results) == [B, C]
    assert (row.bounced, row.bounce_code, row.bounced_recipients) == (False, None, None)


def test_c9_suppressed_recipients_are_opened_too(records: Records) -> None:
    suppressed = RecipientResult(RecipientStatus.SUPPRESSED, "SUPPRESSED", "", ErrorCategory.PERMANENT)
    record_id = records.one(to=(A, B), status=FAILED, recipient_results={A: stored(suppressed), B: stored(ACCEPTED)})
    retry_one(records, record_id)
    assert set(records.row(record_id).recipient_results) == {B}


def test_c9_with_nobody_left_to_send_to_there_is_no_retry(records: Records) -> None:
    record_id = records.one(status=DEAD_LETTER, recipient_results={A: stored(ACCEPTED)})
    with pytest.raises(StateError, match="no recipient left"):
        retry_one(records, record_id)


# C10


def test_c10_clicks_on_a_waiting_record_do_not_use_its_budget(records: Records) -> None:
    # Five on a waiting record, and its first failure is its last.
    record_id = records.one(due_in=60)
    for _ in range(MAX_RETRIES):
        retry_one(records, record_id)
    records.deliver(record_id, BUSY)
    row = records.row(record_id)
    assert (row.status, row.retry_count) == (RETRY, 1)


# C11


@pytest.fixture
def committer(records: Records, engine: Engine) -> Iterator[Committer]:
    made = Committer(records.engine, records.channel, worker_name="w", window_seconds=0.05, ticker=boot_seconds)
    yield made
    assert made.close(5)


def _with_text(words: str) -> Failure:
    return Failure(ErrorCategory.TRANSIENT, "SMTP_450", words)


@pytest.mark.parametrize("words", ["greylisted\x00again", "lone \ud800 surrogate", "ü" * 5000, "\\u0000 {\"'%s :x"])
def test_c11_any_reply_text_can_be_recorded(records: Records, words: str) -> None:
    said = RecipientResult(RecipientStatus.DEFERRED, "SMTP_450", words, ErrorCategory.TRANSIENT)
    for learnt in (_with_text(words), {A: said}):
        record_id = records.one()
        assert records.deliver(record_id, learnt)
        row = records.row(record_id)
        assert (row.status, row.error_code) == (RETRY, "SMTP_450")
        assert 0 < len(row.error_message) <= 1000
        assert len(records.attempts(record_id)) == 1


@contextmanager
def refusing(records: Records, word: str) -> Iterator[None]:
    """The database takes no row whose error message holds this word."""
    check = f"CHECK (error_message NOT LIKE '%{word}%' AND recipient_results::text NOT LIKE '%{word}%')"
    records.run(text(f"ALTER TABLE mail_send_record ADD CONSTRAINT refusing {check}"))
    yield
    records.run(text("ALTER TABLE mail_send_record DROP CONSTRAINT refusing"))


def test_c11_an_outcome_the_database_refuses_does_not_hold_up_its_group(records: Records, committer: Committer) -> None:
    # One outcome the database refuses fails its group for ever; all in it are swept and sent again.
    ids = records.accept(count=3, to=(A, B))
    claims = records.claim_now(*ids)
    said = RecipientResult(RecipientStatus.DEFERRED, "SMTP_450", "unspeakable", ErrorCategory.TRANSIENT)
    with refusing(records, "unspeakable"):
        tally = Tally()
        committer.submit(records.judge(claims[0], {A: ACCEPTED, B: ACCEPTED}), tally)
        committer.submit(records.judge(claims[1], {A: ACCEPTED, B: said}), tally)
        committer.submit(records.judge(claims[2], _with_text("unspeakable")), tally)
        committer.hurry()
        assert tally.wait() == {"sent": 1, "retry": 2}
        rows = records.rows()
        assert [rows[i].status for i in ids] == [SENT, RETRY, RETRY]
        assert [rows[i].error_code for i in ids] == [None, "SMTP_450", "SMTP_450"]
        assert [rows[i].error_message for i in ids] == [None, None, None]
        # Rule 6: who accepted is never sent to again, also when the words were too much for the database.
        assert open_recipients([A, B], rows[ids[1]].recipient_results) == [B]


def test_c11_a_value_the_driver_refuses_is_not_taken_for_a_database_that_is_away(
    records: Records, committer: Committer
) -> None:
    bad, good = records.accept(count=2)
    claims = records.claim_now(bad, good)
    outcome = records.judge(claims[0], _with_text("x"))
    object.__setattr__(outcome, "retry_count", 2**40)  # no integer of the table
    tally = Tally()
    committer.submit(outcome, tally)
    committer.submit(records.judge(claims[1], {A: ACCEPTED}), tally)
    committer.hurry()
    assert tally.wait() == {"not_mine": 1, "sent": 1}
    assert records.row(bad).status == SENDING  # swept and counted


def test_c11_an_outcome_waits_for_a_schema_that_fits_again(records: Records, committer: Committer) -> None:
    # A table that is renamed, a right that is revoked: what was sent meanwhile is neither forgotten nor sent again.
    record_id = records.one()
    [claim] = records.claim_now(record_id)
    tally = Tally()
    records.run(text("ALTER TABLE send_attempt RENAME TO elsewhere"))
    try:
        committer.submit(records.judge(claim, {A: ACCEPTED}), tally)
        assert not committer.close(0.3)
        assert records.row(record_id).status == SENDING
    finally:
        records.run(text("ALTER TABLE elsewhere RENAME TO send_attempt"))
    assert committer.close(5)
    assert tally.wait() == {"sent": 1}
    assert records.row(record_id).status == SENT


def test_c11_outcomes_are_locked_in_id_order(records: Records, engine: Engine) -> None:
    # Two groups that share records in opposite orders: neither a deadlock nor a loss.
    ids = records.accept(count=20)
    claims = records.claim_now(*ids)
    outcomes = [records.judge(c, BUSY) for c in claims]
    with engine.connect() as other, held(other, ids[0]):
        first = blocked(engine, lambda: records.write(*outcomes))
        second = blocked(engine, lambda: records.write(*reversed(outcomes)))
    stand = [set(first.result(5)), set(second.result(5))]
    assert {c.key for c in claims} in stand
    assert set() in stand
    assert {row.retry_count for row in records.rows().values()} == {1}


# C14: statements that wait between their snapshot and their lock


def test_c14_a_row_leased_meanwhile_is_not_leased_twice(records: Records, scan_at: Callable[[int], Scan]) -> None:
    record_id, other = records.accept(count=2)
    scan = scan_at(record_id)
    slow = Records(scan.engine, records.channel)
    second = scan.start(slow.lease)
    assert len(records.lease()) == 2
    scan.go_on()
    assert second.result(5) == []
    assert [records.row(i).version for i in (record_id, other)] == [1, 1]


def test_c14_a_row_promoted_and_leased_meanwhile_is_not_promoted_again(
    records: Records, scan_at: Callable[[int], Scan]
) -> None:
    record_id = records.one(due_in=10)
    records.shift(11)
    scan = scan_at(record_id)
    second = scan.start(Records(scan.engine, records.channel).promote)
    assert (records.promote(), len(records.lease())) == (1, 1)
    scan.go_on()
    assert second.result(5) == 0
    assert records.row(record_id).version == 2


def test_c14_a_claim_meets_the_newest_version(records: Records, scan_at: Callable[[int], Scan]) -> None:
    # A message is claimed while a tick, after the lease's end, is handing the record out again.
    record_id = records.one()
    [leased] = records.lease()
    scan = scan_at(record_id)
    slow = Records(scan.engine, records.channel)
    claimed = scan.start(lambda: slow.claim([(record_id, leased.version)]))
    records.shift(121)
    records.promote()
    scan.go_on()
    assert claimed.result(5) == []
    assert records.row(record_id).status == PENDING


def test_c14_two_workers_with_the_same_message_claim_once(
    records: Records, scan_at: Callable[[int], Scan]
) -> None:  # claim-01, send.md C1
    record_id = records.one()
    scan = scan_at(record_id)
    slow = Records(scan.engine, records.channel)
    second = scan.start(lambda: slow.claim([(record_id, 0)]))
    assert len(records.claim([(record_id, 0)])) == 1
    scan.go_on()
    assert second.result(5) == []
    assert records.row(record_id).version == 1


def test_c14_an_outcome_that_lands_during_the_sweep_wins(
    records: Records, scan_at: Callable[[int], Scan]
) -> None:  # O46
    record_id = records.one()
    [claimed] = records.claim_now(record_id)
    records.shift(STALE + 1)
    scan = scan_at(record_id)
    swept = scan.start(Records(scan.engine, records.channel).sweep)
    assert records.end(claimed, {A: ACCEPTED}) == "sent"
    scan.go_on()
    assert swept.result(5) == {}
    assert records.row(record_id).status == SENT


def test_the_sweep_skips_a_record_whose_outcome_is_being_written(records: Records, engine: Engine) -> None:
    record_id = records.one()
    records.claim_now(record_id)
    records.shift(STALE + 1)
    with engine.connect() as other, held(other, record_id):
        assert records.sweep() == {}
    assert records.sweep() == {record_id: RETRY}


def test_an_outcome_waits_for_the_sweep_and_is_recorded_late(records: Records, engine: Engine) -> None:
    record_id = records.one()
    [claimed] = records.claim_now(record_id)
    outcome = records.judge(claimed, {A: ACCEPTED})
    records.shift(STALE + 1)
    from messaging.delivery import statements

    with engine.connect() as other, other.begin():
        assert len(other.execute(statements.sweep(T), Records.sweep_parameters()).fetchall()) == 1
        result = blocked(engine, lambda: records.write(outcome))
    assert result.result(5) == {claimed.key: "sent"}
    assert records.row(record_id).retry_count == 1


def test_a_cancel_that_meets_a_claim_answers_by_the_new_row(records: Records, engine: Engine) -> None:
    record_id = records.one()
    from messaging.delivery import statements

    with engine.connect() as worker, worker.begin():
        parameters = {"ids": [record_id], "versions": [0], "token": 5}
        assert len(worker.execute(statements.claim(T), parameters).fetchall()) == 1
        answer = blocked(engine, lambda: cancel_one(records, record_id))
    assert answer.result(5) == "in_progress"
    assert records.row(record_id).status == SENDING


def test_a_cancel_that_meets_a_tick_cancels_all_the_same(records: Records, engine: Engine) -> None:
    record_id = records.one()
    from messaging.delivery import statements

    with engine.connect() as tick, tick.begin():
        assert len(tick.execute(statements.lease(T), {"n": 5, "lease": 120, "after": 2**63 - 1}).fetchall()) == 1
        answer = blocked(engine, lambda: cancel_one(records, record_id))
    assert answer.result(5) == "cancelled"
    assert records.claim([(record_id, 1)]) == []


def test_a_claim_skips_what_a_caller_is_cancelling(records: Records, engine: Engine) -> None:
    record_id = records.one()
    with engine.connect() as caller:
        with caller.begin() as transaction:
            assert cancel(caller, T, record_id, channel="mail").answer == "cancelled"
            assert (records.claim([(record_id, 0)]), records.lease()) == ([], [])
            transaction.rollback()
    assert len(records.claim([(record_id, 0)])) == 1


def test_a_retry_that_meets_a_claim_says_it_changed(records: Records, engine: Engine) -> None:
    record_id = records.one(status=RETRY)
    from messaging.delivery import statements

    with engine.connect() as worker, worker.begin():
        parameters = {"ids": [record_id], "versions": [0], "token": 5}
        assert len(worker.execute(statements.claim(T), parameters).fetchall()) == 1
        result = blocked(engine, lambda: retry_one(records, record_id))
    with pytest.raises(StateError, match="changed meanwhile"):
        result.result(5)
    assert records.row(record_id).status == SENDING


def test_a_bounce_that_meets_a_manual_retry_leaves_it_alone(records: Records, engine: Engine) -> None:
    record_id = records.one(status=FAILED)
    with engine.connect() as connection, connection.begin():
        retry(connection, T, envelope_recipients, record_id, channel="mail")
        result = blocked(engine, lambda: records.bounce(record_id))
    assert result.result(5) is Effect.OPEN
    row = records.row(record_id)
    assert (row.status, row.version, row.bounced) == (RETRY, 1, False)


def test_a_manual_retry_that_meets_a_bounce_looks_again(records: Records, engine: Engine) -> None:
    record_id = records.one(status=FAILED)
    with Session(engine) as session, session.begin():
        reported = [ReportedRecipient((A,), "550 5.1.1")]
        assert mark_bounced(session, record_id, reported, origin="a test", suppresses=False) is Effect.RECORDED
        result = blocked(engine, lambda: retry_one(records, record_id))
    with pytest.raises(StateError, match="changed meanwhile"):
        result.result(5)
    assert records.row(record_id).recipient_results[A]["result"] == "bounced"


def test_two_bounces_about_two_recipients_at_once_are_both_noted(records: Records, engine: Engine) -> None:
    record_id = records.one(to=(A, B, C), status=SENT)
    with Session(engine) as session, session.begin():
        reported = [ReportedRecipient((A,), "550 5.1.1")]
        assert mark_bounced(session, record_id, reported, origin="a test", suppresses=False) is Effect.RECORDED
        result = blocked(engine, lambda: records.bounce(record_id, C, code="552 5.2.2"))
    assert result.result(5) is Effect.RECORDED
    row = records.row(record_id)
    assert (row.status, row.version, row.bounce_code, row.bounced_recipients) == (FAILED, 2, "550 5.1.1", [A, C])
    assert {a: r["code"] for a, r in row.recipient_results.items()} == {A: "550 5.1.1", C: "552 5.2.2"}


def test_an_outcome_that_cannot_have_its_row_gives_up_after_the_lock_time_out_only(
    records: Records, engine: Engine
) -> None:  # I8
    record_id = records.one()
    [claimed] = records.claim_now(record_id)
    outcome = records.judge(claimed, BUSY)
    with engine.connect() as other, held(other, record_id):
        with records.engine.connect() as connection:
            connection.execute(text("SET lock_timeout = 50"))
        with pytest.raises(OperationalError, match="lock timeout"):
            records.write(outcome)
    assert records.write(outcome) == {claimed.key: "retry"}


# C15


def test_c15_a_tick_that_finds_one_begun_after_its_own_creation_ends(redis_client: redis.Redis) -> None:
    now = 1000.0
    hints = DispatchHints(redis_client, "mail", chunk_max=50, queue_length=lambda: 0, wall=lambda: now)
    assert hints.begin(created_at=999.5)
    now = 1000.2
    assert not hints.begin(created_at=999.9)  # created before the first one began
    assert hints.begin(created_at=1000.1)
    redis_client.flushall()
    assert hints.begin(created_at=1.0)  # a hint: losing it is harmless


def test_c15_a_worker_whose_clock_is_ahead_still_runs_ticks(redis_client: redis.Redis) -> None:
    now = 1000.0
    hints = DispatchHints(redis_client, "mail", chunk_max=50, queue_length=lambda: 0, wall=lambda: now + 10)
    ran = []
    for _ in range(12):  # beat's ticks, by beat's clock
        ran.append(hints.begin(created_at=now))
        now += 0.5
    assert sum(ran) >= 4
    assert all(any(ran[n : n + 3]) for n in range(10))  # one in a second and a half at least
    assert [hints.begin(created_at=now - age) for age in (5, 4, 3)][1:] == [False, False]  # what piled up ends at once


# C17


@pytest.fixture
def run_sweep(records: Records, redis_client: redis.Redis, settings: Settings) -> Callable[[], dict[str, int]]:
    return lambda: sweep(records.engine, T, redis_client, settings, channel="mail", provider="smtp", queue="mail_send")


def test_c17_after_a_step_of_the_database_clock_nothing_is_swept_for_a_while(
    records: Records, redis_client: redis.Redis, settings: Settings, run_sweep: Callable[[], dict[str, int]]
) -> None:
    record_id = records.one()
    assert run_sweep() == {"retry": 0, "dead_letter": 0, "sent": 0}
    records.claim_now(record_id)
    records.shift(STALE + 1)

    def last() -> dict[str, float]:
        stored: dict[str, float] = json.loads(redis_client.get(CLOCK_KEY) or b"{}")
        return stored

    for step in (-6, 6):  # forwards sweeps everything in flight at once, backwards leaves what is stuck
        redis_client.set(CLOCK_KEY, json.dumps(last() | {"database": last()["database"] + step, "paused_until": 0}))
        assert run_sweep()["retry"] == 0
        assert last()["paused_until"] == pytest.approx(last()["redis"] + settings.sweeper.stale_seconds)
        assert run_sweep()["retry"] == 0  # the clocks agree again, the pause lasts
    redis_client.set(CLOCK_KEY, json.dumps(last() | {"paused_until": last()["redis"] - 1}))
    assert run_sweep()["retry"] == 1


def test_c17_clocks_that_drift_a_little_do_not_stop_the_sweep(
    records: Records, redis_client: redis.Redis, run_sweep: Callable[[], dict[str, int]]
) -> None:
    run_sweep()
    record_id = records.one()
    records.claim_now(record_id)
    records.shift(STALE + 1)
    stored = json.loads(redis_client.get(CLOCK_KEY) or b"{}")
    redis_client.set(CLOCK_KEY, json.dumps(stored | {"database": stored["database"] - 4}))
    assert run_sweep()["retry"] == 1


@pytest.mark.parametrize(
    "stored", ["{", "[]", '{"database": 1}', '{"database": NaN, "redis": 1, "paused_until": 1e18}']
)
def test_c17_a_last_run_that_cannot_be_read_counts_as_lost(
    records: Records, redis_client: redis.Redis, run_sweep: Callable[[], dict[str, int]], stored: str
) -> None:
    redis_client.set(CLOCK_KEY, stored)
    records.claim_now(records.one())
    records.shift(STALE + 1)
    assert run_sweep()["retry"] == 1
    redis_client.delete(CLOCK_KEY)
    redis_client.hset(CLOCK_KEY, "no", "text")
    assert run_sweep()["retry"] == 0


def test_c17_a_pause_does_not_outlast_a_clock_that_is_set_back(
    redis_client: redis.Redis, settings: Settings, run_sweep: Callable[[], dict[str, int]]
) -> None:
    run_sweep()
    last = json.loads(redis_client.get(CLOCK_KEY) or b"{}")
    redis_client.set(CLOCK_KEY, json.dumps(last | {"paused_until": last["redis"] + 86_400}))
    run_sweep()
    last = json.loads(redis_client.get(CLOCK_KEY) or b"{}")
    assert last["paused_until"] == pytest.approx(last["redis"] + settings.sweeper.stale_seconds)


def test_i9_a_sweep_goes_on_until_a_batch_is_not_full(
    records: Records,
    redis_client: redis.Redis,
    make_settings: Callable[..., Settings],
) -> None:  # O47, O48
    ids = [i for tenant in (1, 2, 3) for i in records.accept(count=3, tenant_id=tenant)]
    records.put(ids[0], retry_count=MAX_RETRIES)
    records.put(ids[1], retry_count=MAX_RETRIES, recipient_results={A: stored(ACCEPTED)})
    records.claim_now(*ids)
    records.shift(STALE + 1)
    both = {"channel": "mail", "provider": "smtp", "queue": "mail_send"}
    off = make_settings(sweeper={"enabled": False})
    assert sum(sweep(records.engine, T, redis_client, off, **both).values()) == 0
    small = make_settings(sweeper={"batch_limit": 2})
    assert sweep(records.engine, T, redis_client, small, **both) == {"retry": 7, "dead_letter": 1, "sent": 1}
    assert sorted({records.attempts(i)[0].tenant_id for i in ids}) == [1, 2, 3]
