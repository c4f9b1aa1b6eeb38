"""Every move T1 to T18 of the protocol on the real PostgreSQL: its guard, what it writes, and no other."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, text

from messaging.delivery import statements
from messaging.delivery.cancel import CancelAnswer, cancel
from messaging.delivery.channel import Claim
from messaging.delivery.outcome import Failure
from messaging.delivery.requeue import retry, retry_batch
from messaging.delivery.status import FINAL_STATUSES, OPEN_STATUSES, TRANSITIONS, SendStatus
from messaging.errors import RecordNotFound, StateError
from messaging.mail.channel import envelope_recipients
from messaging.mail.models import MAIL_SEND_RECORD as T
from messaging.mail.receipts import Effect
from tests.integration.delivery.records import (
    ACCEPTED,
    BAD_LOGIN,
    BUSY,
    COOLDOWN,
    DEFERRED,
    MAX_RETRIES,
    NO_REPLY,
    REFUSED,
    STALE,
    A,
    B,
    Records,
    held,
    seconds_ahead,
    stored,
)

pytestmark = pytest.mark.postgres16

PENDING, SENDING, SENT, RETRY, FAILED, DEAD_LETTER = SendStatus


def retry_one(records: Records, record_id: int) -> None:
    with records.engine.connect() as connection:
        retry(connection, T, envelope_recipients, record_id, channel="mail")


def retry_many(records: Records, *record_ids: int) -> int:
    with records.engine.connect() as connection:
        return retry_batch(connection, T, envelope_recipients, record_ids, channel="mail")


def cancel_one(records: Records, record_id: int) -> CancelAnswer:
    with records.engine.connect() as connection:
        return cancel(connection, T, record_id, channel="mail").answer


# T1: acceptance. The whole of it is tested with acceptance; here, what a row begins as.


def test_t1_an_accepted_record_is_in_line_at_version_0(records: Records) -> None:
    row = records.row(records.one())
    assert (row.status, row.version, row.retry_count, row.ready) == (PENDING, 0, 0, True)
    assert (row.claimed_at, row.claim_token, row.swept_at, row.uncertain) == (None, None, None, False)


def test_t1_a_record_for_later_is_not_in_line(records: Records) -> None:
    record_id = records.one(due_in=600)
    assert records.row(record_id).ready is False
    assert records.promote() == 0
    assert records.lease() == []


# T2, T2a: the tick


def test_t2_a_lease_moves_the_due_time_ahead_and_the_version_on(records: Records) -> None:
    record_id = records.one()
    [leased] = records.lease(seconds=120)
    row = records.row(record_id)
    assert (leased.record_id, leased.version, leased.is_alone) == (record_id, 1, False)
    assert (row.status, row.version, row.ready) == (PENDING, 1, False)
    assert seconds_ahead(records, record_id) == 120
    assert records.lease() == []


def test_t2_a_retry_keeps_its_status(records: Records) -> None:
    record_id = records.one(status=RETRY, retry_count=2, error_code="SMTP_450")
    [leased] = records.lease()
    row = records.row(record_id)
    assert (row.status, row.retry_count, row.error_code, leased.version) == (RETRY, 2, "SMTP_450", 1)


@pytest.mark.parametrize("status", [SENT, FAILED, DEAD_LETTER])
def test_t2_what_has_ended_is_not_handed_out(records: Records, status: SendStatus) -> None:
    records.one(status=status)
    assert records.promote() == 0
    assert records.lease() == []


def test_t2_a_row_that_somebody_holds_is_skipped(records: Records, engine: Engine) -> None:
    held_id, free_id = records.accept(count=2)
    with engine.connect() as other, held(other, held_id):
        assert [row.record_id for row in records.lease()] == [free_id]
    assert [row.record_id for row in records.lease()] == [held_id]


def test_t2a_promote_puts_in_line_what_has_become_due_and_ends_older_messages(records: Records) -> None:
    record_id = records.one()
    [leased] = records.lease(seconds=120)
    records.shift(121, record_id)
    assert records.row(record_id).ready is False
    assert records.promote() == 1
    row = records.row(record_id)
    assert (row.status, row.version, row.ready) == (PENDING, 2, True)
    assert records.claim([(record_id, leased.version)]) == []


def test_t2a_promote_changes_neither_count_nor_due_time(records: Records) -> None:
    record_id = records.one(status=RETRY, retry_count=3, due_in=60, swept_at=text("now()"))
    records.shift(61, record_id)
    before = records.row(record_id)
    assert records.promote() == 1
    after = records.row(record_id)
    changed = {name for name in vars(after) if getattr(after, name) != getattr(before, name)}
    assert changed == {"version", "updated_at", "ready"}


def test_t2a_promote_takes_from_both_ends_of_what_is_overdue(records: Records) -> None:
    # A million rows due at nine must not hide another tenant's retry due a second later.
    many = records.accept(count=6, due_in=100)
    newest = records.one(due_in=101)
    records.shift(102)
    assert records.run(statements.promote(T), limit=2) == 4
    ready = {record_id for record_id, row in records.rows().items() if row.ready}
    assert newest in ready
    assert len(ready & set(many)) == 3


# T3: the claim


@pytest.mark.parametrize("status", OPEN_STATUSES)
def test_t3_a_claim_is_by_version_and_answers_the_whole_row(records: Records, status: SendStatus) -> None:
    record_id = records.one(status=status, retry_count=2, recipient_results={B: stored(ACCEPTED)}, to=(A, B))
    [claimed] = records.claim([(record_id, 0)])
    row = records.row(record_id)
    assert (row.status, row.version, row.claim_token) == (SENDING, 1, claimed.token)
    assert row.claimed_at == row.updated_at
    assert (claimed.version, claimed.retry_count, claimed.attempt_no, claimed.is_prepared) == (1, 2, 3, False)
    assert claimed.results == {B: stored(ACCEPTED)}
    assert {**claimed.content} == vars(row)


def test_t3_each_claim_statement_draws_a_token_of_its_own(records: Records) -> None:
    ids = records.accept(count=3)
    first, second = records.claim([(ids[0], 0), (ids[1], 0)])
    [third] = records.claim([(ids[2], 0)])
    assert first.token == second.token != third.token
    assert 0 <= first.token < 2**63


def test_t3_claims_come_in_the_order_of_the_pairs(records: Records) -> None:
    ids = records.accept(count=5)
    pairs = [(record_id, 0) for record_id in (ids[3], ids[0], ids[4], ids[1])]
    assert [(c.record_id, 0) for c in records.claim(pairs)] == pairs


def test_t3_a_row_that_somebody_holds_is_skipped(records: Records, engine: Engine) -> None:
    held_id, free_id = records.accept(count=2)
    with engine.connect() as other, held(other, held_id):
        assert [c.record_id for c in records.claim([(held_id, 0), (free_id, 0)])] == [free_id]
    assert records.row(held_id).status == PENDING


@pytest.mark.parametrize(("accepted", "status"), [((), FAILED), ((B,), SENT)])
def test_t5_what_is_past_its_expiry_ends_in_the_claim(
    records: Records, accepted: tuple[str, ...], status: SendStatus
) -> None:
    results = {address: stored(ACCEPTED) for address in accepted}
    record_id = records.one(to=(A, B), expires_at=text("now()"), recipient_results=results)
    good_id = records.one(expires_at=text("now() + interval '1 hour'"))
    assert [c.record_id for c in records.claim([(record_id, 0), (good_id, 0)])] == [good_id]
    row = records.row(record_id)
    assert (row.status, row.version, row.error_code, row.claimed_at) == (status, 1, "EXPIRED", None)
    assert (row.sent_at is not None) == (status == SENT)
    assert records.attempts(record_id) == []


def test_t5_a_record_that_expires_is_not_promoted_past_its_version(records: Records) -> None:
    record_id = records.one(expires_at=text("now()"))
    assert records.claim([(record_id, 7)]) == []
    assert records.row(record_id).status == PENDING


# T4: the preparation


def test_t4_the_preparation_is_written_once(records: Records) -> None:
    record_id = records.one()
    [claimed] = records.claim([(record_id, 0)])
    assert records.prepare([claimed]) == {record_id}
    row = records.row(record_id)
    assert (row.status, row.version, row.claim_token) == (SENDING, 2, claimed.token)
    assert (row.from_address, row.server_config_id) == ("shop@example.org", 1)
    assert row.prepared_at is not None
    assert row.message_id == f"<{record_id}@example.org>"
    assert records.prepare([claimed]) == set()  # prepared_at is no longer null, whatever the version says


def test_t4_a_null_leaves_what_was_asked_for(records: Records) -> None:
    record_id = records.one(reply_to="reply@example.org", read_receipt_requested=True)
    [claimed] = records.claim([(record_id, 0)])
    records.prepare([claimed])
    row = records.row(record_id)
    assert (row.reply_to, row.read_receipt_requested, row.body_text) == ("reply@example.org", True, "Thank you.")


# T5 to T9: outcomes


@pytest.mark.parametrize(
    ("learnt", "retry_count", "status", "logged"),
    [
        ({A: ACCEPTED, B: ACCEPTED}, 0, SENT, "SENT"),  # T6
        ({A: ACCEPTED, B: REFUSED}, 0, SENT, "PARTIAL"),  # T6
        ({A: ACCEPTED, B: DEFERRED}, 0, RETRY, "RETRY"),  # T7, partly
        (BUSY, 0, RETRY, "RETRY"),  # T7
        (NO_REPLY, 4, RETRY, "RETRY"),  # T7
        (BUSY, 5, DEAD_LETTER, "DEAD_LETTER"),  # T8
        ({A: ACCEPTED, B: DEFERRED}, 5, SENT, "PARTIAL"),  # T8, one accepted
        ({A: REFUSED, B: REFUSED}, 0, FAILED, "FAILED"),  # T9
        (BAD_LOGIN, 0, FAILED, "FAILED"),  # T9, T5
    ],
)
def test_t5_to_t9_an_outcome_moves_its_record(
    records: Records, learnt: Any, retry_count: int, status: SendStatus, logged: str
) -> None:
    record_id = records.one(to=(A, B), retry_count=retry_count, swept_at=text("now()"), trace_id="ab" * 16)
    [claimed] = records.claim_now(record_id)
    records.prepare([claimed])
    assert records.end(claimed, learnt) == status.lower()

    row = records.row(record_id)
    assert (row.status, row.version) == (status, 3)
    assert (row.claimed_at, row.swept_at) == (None, None)
    assert row.uncertain == (learnt is NO_REPLY)
    assert row.retry_count == retry_count + (status == RETRY)
    assert (row.sent_at is not None) == (status == SENT)
    assert set(row.recipient_results) == (set() if isinstance(learnt, Failure) else {A, B})
    if status == RETRY:
        assert seconds_ahead(records, record_id) >= 15
    [attempt] = records.attempts(record_id)
    assert (attempt.attempt_no, attempt.outcome, attempt.error_code) == (retry_count + 1, logged, row.error_code)
    assert (attempt.channel, attempt.provider, attempt.worker_name) == ("mail", "smtp", "worker-1")
    assert (attempt.trace_id, attempt.config_id) == ("ab" * 16, 1)
    assert attempt.started_at < attempt.ended_at <= row.updated_at
    assert len(records.dead_letters(record_id)) == (status == DEAD_LETTER)


def test_t6_sent_clears_the_error_of_an_earlier_attempt(records: Records) -> None:
    record_id = records.one(status=RETRY, error_code="SMTP_450", error_message="greylisted")
    records.deliver(record_id, {A: ACCEPTED})
    row = records.row(record_id)
    assert (row.status, row.error_code, row.error_message) == (SENT, None, None)


def test_t7_uncertain_is_never_cleared(records: Records) -> None:
    record_id = records.one()
    records.deliver(record_id, NO_REPLY)
    records.deliver(record_id, BUSY)
    records.deliver(record_id, {A: ACCEPTED})
    row = records.row(record_id)
    assert (row.status, row.uncertain, row.retry_count) == (SENT, True, 2)


def test_t8_a_dead_letter_says_what_died_and_why(records: Records) -> None:  # O24
    record_id = records.one(retry_count=MAX_RETRIES, tenant_id=7)
    records.deliver(record_id, BUSY)
    [letter] = records.dead_letters(record_id)
    assert (letter.source, letter.status, letter.source_tenant_id) == ("SEND_EXHAUSTED", "PENDING", 7)
    assert (letter.channel, letter.original_queue, letter.event_type) == ("mail", "mail_send", "SEND_DEAD_LETTER")
    assert letter.last_error_msg == "busy"
    assert letter.payload == {
        "channel": "mail",
        "provider": "smtp",
        "record_id": record_id,
        "error_code": "SMTP_421",
        "error_message": "busy",
        "category": "TRANSIENT",
        "retry_count": 5,
    }


def test_t9_a_refused_login_leaves_no_dead_letter(records: Records) -> None:  # O26, F2
    record_id = records.one()
    records.deliver(record_id, BAD_LOGIN)
    row = records.row(record_id)
    assert (row.status, row.error_code, row.error_message) == (FAILED, "SMTP_535_5.7.8", "no")
    assert records.dead_letters(record_id) == []


def test_outcomes_of_one_group_go_each_their_own_way(records: Records) -> None:
    ids = records.accept(count=4)
    records.put(ids[2], retry_count=MAX_RETRIES)
    claims = records.claim_now(*ids)
    learnt: list[Any] = [{A: ACCEPTED}, BUSY, BUSY, BAD_LOGIN]
    records.run(text("UPDATE mail_send_record SET version = 9 WHERE id = :i"), i=ids[0])  # lost meanwhile
    stands = records.write(*(records.judge(c, what) for c, what in zip(claims, learnt, strict=True)))
    assert stands == {claims[1].key: "retry", claims[2].key: "dead_letter", claims[3].key: "failed"}
    assert [row.status for row in records.rows().values()] == [SENDING, RETRY, DEAD_LETTER, FAILED]
    assert [len(records.attempts(i)) for i in ids] == [0, 1, 1, 1]
    assert [len(records.dead_letters(i)) for i in ids] == [0, 0, 1, 0]


# T10, T11: releases


@pytest.mark.parametrize(("delay", "in_line"), [(0, True), (5, False)])
def test_t11_a_release_spends_nothing(records: Records, delay: float, in_line: bool) -> None:
    record_id = records.one(retry_count=2, swept_at=text("now()"), uncertain=True)
    [claimed] = records.claim_now(record_id)
    assert records.release([claimed], delay) == {record_id}
    row = records.row(record_id)
    assert (row.status, row.version, row.retry_count, row.ready) == (RETRY, 2, 2, in_line)
    assert (row.claimed_at, row.error_code, row.uncertain) == (None, "CLAIM_RELEASED", True)
    assert row.swept_at is not None  # a mark that a release cleared was not enough (C4)
    assert seconds_ahead(records, record_id) == delay
    assert records.attempts(record_id) == []


def test_t11_an_unclear_claim_is_released_by_its_token(records: Records) -> None:
    ids = records.accept(count=3)
    mine = records.claim_now(ids[0], ids[1])
    records.prepare(mine[:1])  # its version is one more
    [other] = records.claim_now(ids[2])
    moved = records.run(
        statements.release_unclear(T), ids=ids, token=mine[0].token, delay=6.0, code="CLAIM_RELEASED", message="x"
    )
    assert sorted(row.id for row in moved) == ids[:2]
    rows = records.rows()
    assert [rows[i].status for i in ids] == [RETRY, RETRY, SENDING]
    assert [rows[i].version for i in ids] == [3, 2, 1]
    assert other.token == rows[ids[2]].claim_token


# T12, T13: the sweep


def test_t12_the_sweep_takes_back_what_is_stale_and_counts_it(records: Records) -> None:
    record_id = records.one(retry_count=1)
    [claimed] = records.claim_now(record_id)
    records.shift(STALE - 1)  # O46: 4:59
    assert records.sweep() == {}
    records.shift(2)
    assert records.sweep() == {record_id: RETRY}
    row = records.row(record_id)
    assert (row.status, row.version, row.retry_count) == (RETRY, 2, 2)
    assert (row.claimed_at, row.claim_token, row.uncertain) == (None, claimed.token, True)
    assert (row.swept_at, row.error_code) == (row.updated_at, "ZOMBIE_RECOVERED")
    assert 2 * COOLDOWN <= seconds_ahead(records, record_id) <= 3 * COOLDOWN  # C4: doubled, spread upwards only
    [attempt] = records.attempts(record_id)
    assert (attempt.attempt_no, attempt.outcome, attempt.error_code) == (2, "SWEPT", "ZOMBIE_RECOVERED")
    assert attempt.started_at < attempt.ended_at


@pytest.mark.parametrize(("retry_count", "seconds"), [(0, 30), (2, 120), (4, 480)])
def test_t12_the_cool_down_doubles_with_the_count(records: Records, retry_count: int, seconds: float) -> None:
    record_id = records.one(retry_count=retry_count)
    records.claim_now(record_id)
    records.swept(record_id)
    assert seconds <= seconds_ahead(records, record_id) <= 1.5 * seconds


def test_t12_the_cool_down_has_a_ceiling(records: Records) -> None:
    record_id = records.one(retry_count=60)
    records.claim_now(record_id)
    records.swept(record_id, max_retries=100)
    assert 3600 <= seconds_ahead(records, record_id) <= 1.5 * 3600


def test_t12_a_swept_record_is_handed_out_alone_until_a_result_is_recorded(records: Records) -> None:
    swept, fresh = records.accept(count=2)
    records.claim_now(swept)
    records.swept(swept)
    records.shift(100)
    records.promote()
    assert {row.record_id: row.is_alone for row in records.lease()} == {swept: True, fresh: False}
    [claimed] = records.claim_now(swept)
    records.release([claimed])
    assert {row.record_id: row.is_alone for row in records.lease()} == {swept: True}
    records.deliver(swept, BUSY)
    records.shift(1000)
    records.promote()
    assert {row.record_id: row.is_alone for row in records.lease()} == {swept: False, fresh: False}


def test_t12_batches_are_oldest_first_and_each_record_keeps_its_tenant(records: Records) -> None:  # O47
    ids = [records.one(tenant_id=tenant) for tenant in (1, 2, 3)]
    records.claim_now(*ids)
    for age, record_id in enumerate(ids):
        records.shift(STALE + 10 * (3 - age), record_id)
    assert set(records.sweep(limit=2)) == set(ids[:2])
    assert set(records.sweep(limit=2)) == {ids[2]}
    assert [records.attempts(i)[0].tenant_id for i in ids] == [1, 2, 3]


@pytest.mark.parametrize(("accepted", "status"), [((), DEAD_LETTER), ((B,), SENT)])
def test_t13_at_the_end_of_the_budget_the_sweep_ends_the_record(
    records: Records, accepted: tuple[str, ...], status: SendStatus
) -> None:  # C8
    results = {address: stored(ACCEPTED) for address in accepted}
    record_id = records.one(to=(A, B), retry_count=MAX_RETRIES, recipient_results=results, tenant_id=7)
    records.claim_now(record_id)
    assert records.swept(record_id) == status
    row = records.row(record_id)
    assert (row.status, row.retry_count, row.uncertain) == (status, MAX_RETRIES, True)
    assert (row.sent_at is not None) == (status == SENT)
    letters = records.dead_letters(record_id)
    assert len(letters) == (status == DEAD_LETTER)
    for letter in letters:
        assert (letter.source_tenant_id, letter.payload["category"]) == (7, "UNKNOWN")
        assert letter.payload["error_code"] == "ZOMBIE_RECOVERED"


# T14: late outcomes


@pytest.mark.parametrize(
    ("learnt", "status", "closed"),
    [
        ({A: ACCEPTED, B: ACCEPTED}, SENT, {A, B}),
        ({A: ACCEPTED, B: DEFERRED}, RETRY, {A}),
        ({A: ACCEPTED, B: REFUSED}, RETRY, {A}),  # only the accepted ones are merged
        ({A: REFUSED, B: REFUSED}, RETRY, set()),
        (BUSY, RETRY, set()),
        (BAD_LOGIN, RETRY, set()),
        (NO_REPLY, RETRY, set()),
    ],
)
def test_t14_a_late_outcome_adds_who_accepted(
    records: Records, learnt: Any, status: SendStatus, closed: set[str]
) -> None:  # F17, O46
    record_id = records.one(to=(A, B), retry_count=1)
    [claimed] = records.claim_now(record_id)
    outcome = records.judge(claimed, learnt)
    records.swept(record_id)
    before = records.row(record_id)
    assert records.write(outcome) == {claimed.key: status.lower()}
    row = records.row(record_id)
    assert (row.status, row.version, row.retry_count) == (status, before.version + 1, 2)
    assert (row.next_attempt_at, row.uncertain) == (before.next_attempt_at, True)
    assert set(row.recipient_results) == closed
    assert (row.sent_at is not None) == (status == SENT)
    assert row.error_code == (None if status == SENT else "ZOMBIE_RECOVERED")
    [attempt] = records.attempts(record_id)
    assert (attempt.attempt_no, attempt.outcome) == (2, outcome.log_outcome)  # it overwrites SWEPT


def test_t14_comes_without_a_version_also_after_promote_and_lease(records: Records) -> None:
    record_id = records.one()
    [claimed] = records.claim_now(record_id)
    outcome = records.judge(claimed, {A: ACCEPTED})
    records.swept(record_id)
    records.shift(100)
    records.promote()
    records.lease()
    assert records.write(outcome) == {claimed.key: "sent"}


@pytest.mark.parametrize("status", [s for s in SendStatus if s is not RETRY])
def test_t14_never_from_another_status(records: Records, status: SendStatus) -> None:
    record_id = records.one()
    [claimed] = records.claim_now(record_id)
    outcome = records.judge(claimed, {A: ACCEPTED})
    records.swept(record_id)
    records.put(record_id, status=status, claimed_at=text("now()") if status == SENDING else None)
    before = records.row(record_id)
    assert records.write(outcome) == {}
    assert records.row(record_id) == before


def test_t14_ends_when_another_claim_has_begun(records: Records) -> None:
    record_id = records.one()
    [old] = records.claim_now(record_id)
    outcome = records.judge(old, {A: ACCEPTED})
    records.swept(record_id)
    [new] = records.claim_now(record_id)
    assert records.write(outcome) == {}
    records.release([new])  # RETRY again, but the token is the new claim's
    assert records.write(outcome) == {}
    assert records.row(record_id).recipient_results == {}


def test_t14_leaves_a_recipient_open_that_an_operator_opened_again(records: Records) -> None:
    # B refused; the last attempt delivers to A; the sweep comes first and dead-letters; the operator retries, which
    # opens B again; the late outcome knows B as closed.
    record_id = records.one(to=(A, B), retry_count=MAX_RETRIES, recipient_results={B: stored(REFUSED)})
    [claimed] = records.claim_now(record_id)
    outcome = records.judge(claimed, {A: ACCEPTED})
    assert records.swept(record_id) == DEAD_LETTER
    retry_one(records, record_id)
    assert records.write(outcome) == {claimed.key: "retry"}
    row = records.row(record_id)
    assert (row.status, set(row.recipient_results)) == (RETRY, {A})


# T15, T16: manual retry


@pytest.mark.parametrize("status", [FAILED, DEAD_LETTER])
def test_t15_a_retry_from_a_final_state_is_due_now_and_counts(records: Records, status: SendStatus) -> None:  # F18, O51
    record_id = records.one(status=status, retry_count=3, error_code="SMTP_550", error_message="no", due_in=600)
    retry_one(records, record_id)
    row = records.row(record_id)
    assert (row.status, row.version, row.retry_count, row.ready) == (RETRY, 1, 4, True)
    assert (row.error_code, row.error_message, row.next_attempt_at) == ("MANUAL_RETRY", None, row.updated_at)


@pytest.mark.parametrize("status", [PENDING, RETRY])
def test_t16_a_retry_of_a_waiting_record_is_due_now_and_does_not_count(records: Records, status: SendStatus) -> None:
    record_id = records.one(status=status, retry_count=3, due_in=600)
    for _ in range(5):  # C10: clicks are harmless
        retry_one(records, record_id)
    row = records.row(record_id)
    assert (row.status, row.version, row.retry_count, row.ready) == (RETRY, 5, 3, True)


def test_t16_a_swept_record_keeps_its_cool_down(records: Records) -> None:
    record_id = records.one()
    records.claim_now(record_id)
    records.swept(record_id)
    before = records.row(record_id)
    retry_one(records, record_id)
    row = records.row(record_id)
    assert (row.next_attempt_at, row.ready, row.swept_at) == (before.next_attempt_at, False, before.swept_at)


def test_t15_a_swept_dead_letter_still_travels_alone(records: Records) -> None:
    record_id = records.one(retry_count=MAX_RETRIES)
    records.claim_now(record_id)
    records.swept(record_id)
    retry_one(records, record_id)
    assert [row.is_alone for row in records.lease()] == [True]


@pytest.mark.parametrize(("status", "code"), [(SENT, None), (SENDING, None), (FAILED, "CANCELLED")])
def test_t15_what_cannot_be_retried_says_so(records: Records, status: SendStatus, code: str | None) -> None:
    claimed_at = text("now()") if status == SENDING else None
    record_id = records.one(status=status, error_code=code, claimed_at=claimed_at)
    before = records.row(record_id)
    with pytest.raises(StateError, match=str(record_id)):
        retry_one(records, record_id)
    assert retry_many(records, record_id) == 0
    assert records.row(record_id) == before


def test_t15_a_record_that_is_missing_is_not_found(records: Records) -> None:
    with pytest.raises(RecordNotFound):
        retry_one(records, 404)
    with pytest.raises(RecordNotFound):
        cancel_one(records, 404)
    assert retry_many(records, 404) == 0


def test_t15_retry_of_many_skips_what_one_would_refuse(records: Records) -> None:  # F19
    good = [records.one(status=s) for s in (PENDING, RETRY, FAILED, DEAD_LETTER)]
    other = [records.one(status=SENT), records.one(status=FAILED, error_code="CANCELLED")]
    nobody = records.one(status=DEAD_LETTER, recipient_results={A: stored(ACCEPTED)})
    assert retry_many(records, *good, *other, nobody, 404) == 4
    rows = records.rows()
    assert [rows[i].status for i in good] == [RETRY] * 4
    assert [rows[i].status for i in (*other, nobody)] == [SENT, FAILED, DEAD_LETTER]


def test_t15_a_retry_counts_on_in_the_budget(records: Records) -> None:  # F20, O52
    record_id = records.one(retry_count=MAX_RETRIES)
    records.deliver(record_id, BUSY)
    retry_one(records, record_id)
    records.deliver(record_id, BUSY)
    row = records.row(record_id)
    assert (row.status, row.retry_count) == (DEAD_LETTER, MAX_RETRIES + 1)
    assert len(records.dead_letters(record_id)) == 2


# T17, cancel


@pytest.mark.parametrize("status", OPEN_STATUSES)
def test_t17_cancel_ends_a_waiting_record(records: Records, status: SendStatus) -> None:  # F18b
    record_id = records.one(status=status, error_message="greylisted")
    assert cancel_one(records, record_id) == "cancelled"
    row = records.row(record_id)
    assert (row.status, row.version, row.error_code, row.error_message) == (FAILED, 1, "CANCELLED", None)
    assert cancel_one(records, record_id) == "cancelled"  # the first answer again
    assert records.row(record_id).version == 1
    assert records.claim([(record_id, 0), (record_id, 1)]) == []


@pytest.mark.parametrize(
    "columns",
    [{"uncertain": True}, {"recipient_results": {B: stored(ACCEPTED)}, "to": (A, B)}],
    ids=["uncertain", "accepted"],
)
def test_t17_a_record_that_may_have_reached_somebody_is_stopped(
    records: Records, columns: dict[str, Any]
) -> None:  # C6
    record_id = records.one(status=RETRY, **columns)
    assert cancel_one(records, record_id) == "stopped"
    assert cancel_one(records, record_id) == "stopped"


@pytest.mark.parametrize(
    ("status", "answer"),
    [(SENDING, "in_progress"), (FAILED, "already_final"), (DEAD_LETTER, "already_final"), (SENT, "too_late")],
)
def test_t17_cancel_changes_nothing_else(records: Records, status: SendStatus, answer: str) -> None:
    record_id = records.one(status=status, claimed_at=text("now()") if status == SENDING else None)
    before = records.row(record_id)
    assert cancel_one(records, record_id) == answer
    assert records.row(record_id) == before


# T18: bounces, and the read receipt


def test_t18_a_bounce_fails_what_was_sent(records: Records) -> None:  # send.md C5
    record_id = records.one(to=(A, B))
    records.deliver(record_id, {A: ACCEPTED, B: ACCEPTED})
    version = records.row(record_id).version
    assert records.bounce(record_id, B) is Effect.RECORDED
    row = records.row(record_id)
    assert (row.status, row.version, row.error_code) == (FAILED, version + 1, "BOUNCED")
    assert (row.bounced, row.bounce_code, row.bounced_recipients) == (True, "550 5.1.1", [B])
    assert [row.recipient_results[r]["result"] for r in (A, B)] == ["accepted", "bounced"]
    at = row.recipient_results[B]["at"]
    assert records.bounce(record_id, B) is Effect.RECORDED  # the first one stands
    assert (records.row(record_id).version, records.row(record_id).recipient_results[B]["at"]) == (version + 1, at)


@pytest.mark.parametrize("status", [PENDING, SENDING, RETRY])
def test_t18_a_bounce_or_receipt_leaves_an_attempt_alone(records: Records, status: SendStatus) -> None:  # send.md C7
    record_id = records.one(status=status, claimed_at=text("now()") if status == SENDING else None)
    before = records.row(record_id)
    assert records.bounce(record_id) is Effect.OPEN
    assert records.read_by_someone(record_id) is Effect.OPEN
    assert records.row(record_id) == before


@pytest.mark.parametrize("status", [FAILED, DEAD_LETTER])
def test_t18_what_ended_without_success_takes_note_and_stays(records: Records, status: SendStatus) -> None:
    record_id = records.one(to=(A, B), status=status, error_code="SMTP_450", error_message="busy")
    assert records.bounce(record_id, B) is Effect.RECORDED
    assert records.read_by_someone(record_id) is Effect.RECORDED
    row = records.row(record_id)
    assert (row.status, row.version, row.error_code, row.error_message) == (status, 2, "SMTP_450", "busy")
    assert (row.bounced, row.bounce_code, row.bounced_recipients) == (True, "550 5.1.1", [B])
    assert row.read_receipt_received


def test_a_read_receipt_leaves_the_status(records: Records) -> None:  # send.md C6
    record_id = records.one(status=SENT)
    assert records.read_by_someone(record_id) is Effect.RECORDED
    read_at = records.row(record_id).read_receipt_received_at
    assert records.read_by_someone(record_id) is Effect.RECORDED
    row = records.row(record_id)
    assert (row.status, row.version, row.read_receipt_received) == (SENT, 1, True)
    assert row.read_receipt_received_at == read_at  # the first one's time stands


# Guards: the same statement with one thing changed moves nothing

OTHER = 1


def _claim(r: Records, c: Claim) -> int:
    return len(r.run(statements.claim(T), ids=[c.record_id], versions=[c.version], token=99))


def _unlease(r: Records, c: Claim) -> int:
    moved: int = r.run(statements.unlease(T), ids=[c.record_id], versions=[c.version])
    return moved


def _requeue(r: Records, c: Claim) -> int:
    return len(r.run(statements.requeue(T), ids=[c.record_id], versions=[c.version], results=[None]))


def _cancel(r: Records, c: Claim) -> int:
    return len(r.run(statements.cancel(T), id=c.record_id, version=c.version))


def _outcome(learnt: Any) -> Callable[[Records, Claim], int]:
    def end(r: Records, c: Claim) -> int:
        arrays = OutcomeArrays(r)(c, learnt)
        return len(r.run(statements.outcomes(T), **arrays))

    return end


class OutcomeArrays:
    """The parameters with which the committer would write one outcome."""

    def __init__(self, records: Records, *, is_late: bool = False) -> None:
        self._records, self._is_late = records, is_late

    def __call__(self, claimed: Claim, learnt: Any) -> dict[str, Any]:
        from messaging.clock import boot_seconds
        from messaging.delivery.outcome import OutcomeWriter

        writer = OutcomeWriter(self._records.channel, "worker-1", boot_seconds)
        return writer._parameters([self._records.judge(claimed, learnt)], is_late=self._is_late)


def _late(r: Records, c: Claim) -> int:
    return len(r.run(statements.late_outcomes(T), **OutcomeArrays(r, is_late=True)(c, {A: ACCEPTED})))


def _release(r: Records, c: Claim) -> int:
    return len(r.release([c]))


def _prepare(r: Records, c: Claim) -> int:
    return len(r.prepare([c]))


#: Move, the statuses it starts from, what its guard names beside the id.
GUARDED: dict[str, tuple[Callable[[Records, Claim], int], tuple[SendStatus, ...], set[str]]] = {
    "C18 unlease": (_unlease, OPEN_STATUSES, {"version"}),
    "T3 claim": (_claim, OPEN_STATUSES, {"version"}),
    "T4 prepared": (_prepare, (SENDING,), {"version", "token"}),
    "T6 sent": (_outcome({A: ACCEPTED}), (SENDING,), {"version", "token"}),
    "T7 retry": (_outcome(BUSY), (SENDING,), {"version", "token"}),
    "T9 failed": (_outcome(BAD_LOGIN), (SENDING,), {"version", "token"}),
    "T11 release": (_release, (SENDING,), {"version", "token"}),
    "T14 late": (_late, (RETRY,), {"token"}),
    "T15, T16 requeue": (_requeue, (PENDING, RETRY, FAILED, DEAD_LETTER), {"version"}),
    "T17 cancel": (_cancel, OPEN_STATUSES, {"version"}),
}


def _standing(records: Records, status: SendStatus) -> Claim:
    """A record in this status, and the claim that would move it."""
    record_id = records.one()
    [claimed] = records.claim_now(record_id)
    claimed_at = text("now()") if status == SENDING else None
    records.put(record_id, status=status, claimed_at=claimed_at, swept_at=text("now()"))
    return claimed


@pytest.mark.parametrize("name", GUARDED)
def test_a_move_is_made_only_when_all_of_its_guard_holds(records: Records, name: str) -> None:
    move, sources, guard = GUARDED[name]
    for status in SendStatus:
        claimed = _standing(records, status)
        good_id, good_version, good_token = claimed.record_id, claimed.version, claimed.token
        before = records.row(good_id)
        for field, wrong in (
            ("record_id", good_id + 10_000),
            ("version", good_version - 1),
            ("version", good_version + 1),
            ("token", good_token ^ 1),
        ):
            if field in guard | {"record_id"}:
                good = getattr(claimed, field)
                setattr(claimed, field, wrong)
                assert move(records, claimed) == 0, (status, field)
                setattr(claimed, field, good)
                assert records.row(good_id) == before, (status, field)
        assert move(records, claimed) == (status in sources), status
        after = records.row(good_id)
        if status in sources:
            assert after.version == before.version + 1
        else:
            assert after == before


def _reached(records: Records) -> tuple[set[tuple[SendStatus, SendStatus]], int]:
    """Every statement on records of every status and kind: the changes of status seen, and how many rows moved."""
    times = {
        "claimed": "now() - interval '1 hour'",
        "past": "now() - interval '1 minute'",
        "future": "now() + interval '1 hour'",
    }
    create = text(f"""
        INSERT INTO mail_send_record (scope, to_addresses, body_mode, status, version, claim_token, claimed_at,
            swept_at, retry_count, recipient_results, expires_at, next_attempt_at, error_code, prepared_at, uncertain)
        SELECT 'TENANT', '["{A}", "{B}"]', 'PLAIN', status, 4, 77,
            CASE WHEN status = 'SENDING' THEN {times["claimed"]} END,
            CASE WHEN swept THEN now() END, retry_count,
            CASE WHEN accepted THEN jsonb_build_object('{B}', jsonb_build_object('result', 'accepted')) ELSE '{{}}' END,
            CASE WHEN expired THEN {times["past"]} END,
            CASE WHEN due THEN {times["past"]} ELSE {times["future"]} END, code,
            CASE WHEN swept THEN now() END, swept
        FROM unnest(CAST(:statuses AS text[])) AS s(status), unnest(ARRAY[true, false]) AS a(swept),
            unnest(ARRAY[0, {MAX_RETRIES}]) AS b(retry_count), unnest(ARRAY[true, false]) AS c(accepted),
            unnest(ARRAY[true, false]) AS d(expired), unnest(ARRAY[true, false]) AS e(due),
            unnest(ARRAY[NULL, 'CANCELLED', 'BOUNCED']) AS f(code)
        WHERE (status = 'FAILED' OR code IS NULL)
            AND (status <> 'PENDING' OR NOT (accepted OR swept))  -- never claimed
        RETURNING id""")
    seen: set[tuple[SendStatus, SendStatus]] = set()
    moved = 0
    arrays = OutcomeArrays(records)
    late_arrays = OutcomeArrays(records, is_late=True)
    learnts: list[Any] = [{A: ACCEPTED, B: ACCEPTED}, {A: ACCEPTED, B: DEFERRED}, BUSY, NO_REPLY, BAD_LOGIN]

    def claims() -> list[Claim]:
        return [
            Claim(row.id, row.version, 77, 0, row.retry_count, {**vars(row)}, 0.0) for row in records.rows().values()
        ]

    def one_by_one(statement: Any, make: Callable[[Claim, Any], dict[str, Any]], what: Any) -> Callable[[], None]:
        def run() -> None:
            every = [make(c, what) for c in claims()]
            rows = [row for parameters in every for row in json.loads(parameters["rows"])]
            records.run(statement, **{**every[0], "rows": json.dumps(rows)})

        return run

    def by_pairs(statement: Any, **more: Any) -> Callable[[], None]:
        def run() -> None:
            rows = list(records.rows().values())
            nulls = [None] * len(rows)
            records.run(statement, ids=[r.id for r in rows], versions=[r.version for r in rows], results=nulls, **more)

        return run

    def each(act: Callable[[int], Any]) -> Callable[[], None]:
        def run() -> None:
            for record_id in records.rows():
                try:
                    act(record_id)
                except StateError:
                    pass

        return run

    moves: list[Callable[[], None]] = [
        lambda: records.promote(),
        lambda: records.lease(count=10_000),
        by_pairs(statements.unlease(T)),
        by_pairs(statements.claim(T), token=5),
        lambda: records.prepare(claims(), token=77),
        *(one_by_one(statements.outcomes(T), arrays, what) for what in learnts),
        *(one_by_one(statements.late_outcomes(T), late_arrays, what) for what in learnts),
        lambda: records.release(claims()),
        lambda: records.run(
            statements.release_unclear(T), ids=list(records.rows()), token=77, delay=1.0, code="X", message="x"
        ),
        lambda: records.sweep(limit=10_000),
        by_pairs(statements.requeue(T)),
        each(lambda record_id: retry_one(records, record_id)),
        lambda: retry_many(records, *records.rows()),
        each(lambda record_id: cancel_one(records, record_id)),
        each(records.bounce),
        each(records.read_by_someone),
    ]
    for move in moves:
        records.run(text("TRUNCATE mail_send_record, send_attempt, dead_letter_message"))
        records.run(create, statuses=list(SendStatus))
        before = records.rows()
        move()
        after = records.rows()
        for record_id, row in after.items():
            old = before[record_id]
            if row.version == old.version:
                assert row == old
                continue
            moved += 1
            seen.add((SendStatus(old.status), SendStatus(row.status)))
            if old.status in FINAL_STATUSES and row.status != old.status:
                assert (old.status, row.status) in {(SENT, FAILED), (FAILED, RETRY), (DEAD_LETTER, RETRY)}  # property d
            if old.status == FAILED and old.error_code == "CANCELLED":
                assert (row.status, row.error_code) == (FAILED, "CANCELLED")  # C7
            assert row.version == old.version + 1 or row.status == old.status == RETRY
    return seen, moved


def test_the_statements_make_every_allowed_change_of_status_and_no_other(records: Records) -> None:
    seen, moved = _reached(records)
    assert seen == set(TRANSITIONS)
    assert moved > 500
