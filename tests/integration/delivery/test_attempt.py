"""Attempts of a worker over real SMTP and the real PostgreSQL: the points F, S and C of send.md, as far as built."""

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text, update

from messaging.delivery.cancel import cancel
from messaging.delivery.requeue import retry
from messaging.delivery.status import SendStatus
from messaging.embedded.server import free_port
from messaging.errors import StateError
from messaging.mail.channel import envelope_recipients
from messaging.mail.models import MAIL_SEND_RECORD as T
from messaging.mail.models import MAIL_SEND_SERVER_CONFIG as CONFIG
from messaging.mail.receipts import Effect
from messaging.tenancy import use_multi_tenancy
from tests.integration.delivery.desk import Desk, counted, sessions
from tests.integration.delivery.records import STALE, A, B, C, seconds_ahead

pytestmark = pytest.mark.postgres16

PENDING, SENDING, SENT, RETRY, FAILED, DEAD_LETTER = SendStatus
Rules = list[tuple[str, str]]


def retry_one(desk: Desk, record_id: int) -> None:
    with desk.records.engine.connect() as connection:
        retry(connection, T, envelope_recipients, record_id, channel="mail")


def cancel_one(desk: Desk, record_id: int) -> str:
    with desk.records.engine.connect() as connection:
        return cancel(connection, T, record_id, channel="mail").answer


# One attempt


def test_a_mail_is_sent_and_the_record_says_so(desk: Desk) -> None:
    record_id = desk.records.one(to=(A, B))
    assert desk.deliver(record_id) == {"sent": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.version, row.retry_count, row.error_code) == (SENT, 3, 0, None)
    assert (row.from_address, row.envelope_sender) == ("shop@example.org", "shop@example.org")
    assert {r: e["result"] for r, e in row.recipient_results.items()} == {A: "accepted", B: "accepted"}
    [message] = desk.server.messages
    assert (message.sender, message.recipients) == ("shop@example.org", (A, B))
    assert row.message_id.encode() in message.content
    [attempt] = desk.records.attempts(record_id)
    assert (attempt.outcome, attempt.worker_name, attempt.config_id) == ("SENT", "worker-1", row.server_config_id)


@pytest.mark.parametrize(
    ("event", "reply", "status", "code", "seconds"),
    [
        ("RCPT", "550 5.1.1 no such user", FAILED, "SMTP_550_5.1.1", None),  # F3
        ("RCPT", "450 4.2.0 greylisted", RETRY, "SMTP_450_4.2.0", 30),  # F4
        ("RCPT", "452 4.2.2 full", RETRY, "SMTP_452_4.2.2", 30),  # F5
        ("RCPT", "452 4.5.3 too many", FAILED, "SMTP_452_4.5.3", None),  # F5, for all
        ("MAIL", "530 5.7.0 authenticate", FAILED, "SMTP_530_5.7.0", None),  # F5a
        ("EOD", "552 5.3.4 too big", FAILED, "SMTP_552_5.3.4", None),  # F6
        ("EOD", "421 4.7.28 flood", RETRY, "SMTP_421_4.7.28", 300),  # F7
        ("CONNECT", "554 not now", RETRY, "SMTP_554", 30),  # F8
        ("EOD", "451 4.3.0 later", RETRY, "SMTP_451_4.3.0", 30),
        ("DATA", "554 5.7.1 spam", FAILED, "SMTP_554_5.7.1", None),
    ],
)
def test_a_refusal_decides_by_its_codes(
    desk: Desk, event: str, reply: str, status: SendStatus, code: str, seconds: float | None
) -> None:
    desk.server.on(event, reply)
    record_id = desk.records.one()
    assert desk.deliver(record_id) == {status.lower(): 1}
    row = desk.records.row(record_id)
    assert (row.status, row.error_code, row.uncertain) == (status, code, False)
    if seconds is not None:
        assert seconds_ahead(desk.records, record_id) == seconds
    assert desk.records.dead_letters(record_id) == []


def test_f2_a_refused_login_fails_at_once(make_desk: Callable[..., Desk]) -> None:  # O26
    desk = make_desk(smtp={"users": {"shop": "right"}})
    desk.add_server(username="shop", password="wrong")
    record_id = desk.records.one()
    assert desk.deliver(record_id) == {"failed": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.error_code) == (FAILED, "SMTP_535_5.7.8")
    assert "wrong" not in row.error_message
    assert desk.records.dead_letters(record_id) == []


def test_f10_nobody_listens(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    desk.add_server(port=free_port())
    record_id = desk.records.one()
    assert desk.deliver(record_id) == {"retry": 1}
    assert desk.records.row(record_id).error_code == "SMTP_CONNECT"


# Several recipients


def test_f9_one_refused_for_good(desk: Desk) -> None:
    desk.server.refuse_rcpt("550 5.1.1 unknown", B)
    record_id = desk.records.one(to=(A, B))
    before = counted("messaging_partial_total", channel="mail", provider="smtp")
    assert desk.deliver(record_id) == {"sent": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.error_code) == (SENT, "SMTP_550_5.1.1")
    assert row.recipient_results[A]["result"] == "accepted"
    assert (row.recipient_results[B]["result"], row.recipient_results[B]["code"]) == ("refused", "SMTP_550_5.1.1")
    assert desk.server.copies() == {A: 1}
    assert counted("messaging_partial_total", channel="mail", provider="smtp") == before + 1


def test_f9a_one_refused_for_now_gets_it_on_the_second_attempt(desk: Desk) -> None:  # S19
    desk.server.refuse_rcpt("450 later", B, times=1)
    record_id = desk.records.one(to=(A, B))
    assert desk.deliver(record_id) == {"retry": 1}
    assert desk.deliver(record_id) == {"sent": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.error_code, row.retry_count) == (SENT, None, 1)
    assert desk.server.copies() == {A: 1, B: 1}
    first, second = desk.server.messages
    assert (first.recipients, second.recipients) == ((A,), (B,))
    assert first.content == second.content
    assert [a.outcome for a in desk.records.attempts(record_id)] == ["RETRY", "SENT"]


def test_f9b_both_refused_for_good(desk: Desk) -> None:
    desk.server.refuse_rcpt("550 5.1.1 unknown")
    record_id = desk.records.one(to=(A, B))
    assert desk.deliver(record_id) == {"failed": 1}
    assert desk.server.messages == []


def test_f9c_one_for_good_and_one_for_now(desk: Desk) -> None:
    desk.server.refuse_rcpt("550 5.1.1 unknown", A)
    desk.server.refuse_rcpt("450 later", B, times=1)
    record_id = desk.records.one(to=(A, B))
    assert desk.deliver(record_id) == {"retry": 1}
    assert desk.deliver(record_id) == {"sent": 1}
    assert [line for line in desk.server.lines("RCPT") if A in line] == [f"RCPT TO:<{A}>"]
    assert desk.server.copies() == {B: 1}


def test_f5_too_many_recipients_leaves_the_rest_for_the_next_attempt(desk: Desk) -> None:
    to = tuple(f"r{n}@example.org" for n in range(5))
    for late in to[2:]:
        desk.server.refuse_rcpt("452 4.5.3 too many", late, times=1)
    record_id = desk.records.one(to=to)
    assert desk.deliver(record_id) == {"retry": 1}
    assert desk.deliver(record_id) == {"sent": 1}
    assert [m.recipients for m in desk.server.messages] == [to[:2], to[2:]]


def test_each_attempt_names_only_who_is_still_open(desk: Desk) -> None:
    desk.server.refuse_rcpt("450 later", B, times=1)
    desk.server.refuse_rcpt("450 later", C, times=2)
    record_id = desk.records.one(to=(A, B, C))
    assert [desk.deliver(record_id) for _ in range(2)] == [{"retry": 1}] * 2
    desk.server.refuse_rcpt("550 5.1.1 unknown", C)
    assert desk.deliver(record_id) == {"sent": 1}
    assert [m.recipients for m in desk.server.messages] == [(A,), (B,)]
    row = desk.records.row(record_id)
    assert (row.status, row.error_code, row.retry_count) == (SENT, "SMTP_550_5.1.1", 2)
    assert {r: e["result"] for r, e in row.recipient_results.items()} == {A: "accepted", B: "accepted", C: "refused"}
    assert [a.outcome for a in desk.records.attempts(record_id)] == ["RETRY", "RETRY", "PARTIAL"]


def test_a_used_up_budget_is_sent_when_somebody_was_accepted(desk: Desk) -> None:
    desk.server.refuse_rcpt("450 later", B)
    record_id = desk.records.one(to=(A, B), retry_count=5)
    assert desk.deliver(record_id) == {"sent": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.error_code, row.recipient_results[B]["result"]) == (SENT, "SMTP_450", "deferred")
    assert desk.records.dead_letters(record_id) == []


def test_no_reply_to_a_message_that_one_recipient_was_refused_for_leaves_both_open(desk: Desk) -> None:
    # Who got it is not known, so all of the message's recipients get it again.
    desk.server.refuse_rcpt("550 5.1.1 unknown", B)
    desk.server.on("EOD", close="before", times=1)
    record_id = desk.records.one(to=(A, B))
    assert desk.deliver(record_id) == {"retry": 1}
    row = desk.records.row(record_id)
    assert (row.error_code, row.uncertain) == ("SMTP_NO_REPLY_AFTER_DATA", True)
    assert desk.deliver(record_id) == {"sent": 1}
    row = desk.records.row(record_id)
    assert {r: e["result"] for r, e in row.recipient_results.items()} == {A: "accepted", B: "refused"}


def test_s16_everybody_is_in_the_envelope_once(desk: Desk) -> None:
    record_id = desk.records.one(to=(A,), cc_addresses=["Bob <b@example.org>", A], bcc_addresses=["hidden@example.org"])
    desk.deliver(record_id)
    [message] = desk.server.messages
    assert message.recipients == (A, B, "hidden@example.org")
    # As a header's name: a Message-ID is hexadecimal and may hold these letters.
    assert b"\nbcc:" not in message.content.lower()
    assert b"hidden" not in message.content


# Retries


def test_f1_a_temporary_error_each_time_ends_as_a_dead_letter(desk: Desk) -> None:  # claim-04, O24
    desk.server.on("EOD", close="before")
    record_id = desk.records.one()
    waits = []
    for _ in range(5):
        assert desk.deliver(record_id) == {"retry": 1}
        waits.append(seconds_ahead(desk.records, record_id))
    assert waits == [30, 60, 120, 240, 480]
    assert desk.deliver(record_id) == {"dead_letter": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.retry_count, row.uncertain) == (DEAD_LETTER, 5, True)
    [letter] = desk.records.dead_letters(record_id)
    assert (letter.payload["retry_count"], letter.payload["category"]) == (5, "TRANSIENT")
    # F20: a manual retry gives one attempt, not a new budget.
    retry_one(desk, record_id)
    assert desk.deliver(record_id) == {"dead_letter": 1}
    assert len(desk.records.dead_letters(record_id)) == 2
    assert len({t.raw for t in desk.server.transactions}) == 1  # the same bytes, the same Message-ID


def test_an_unknown_reply_is_retried_with_the_same_bytes(desk: Desk) -> None:  # S19, D6
    desk.server.on("EOD", close="before", times=1)
    record_id = desk.records.one()
    assert desk.deliver(record_id) == {"retry": 1}
    row = desk.records.row(record_id)
    assert (row.error_code, row.uncertain) == ("SMTP_NO_REPLY_AFTER_DATA", True)
    assert desk.deliver(record_id) == {"sent": 1}
    first, second = desk.server.transactions
    assert first.raw == second.raw


def test_f20_a_dead_letter_dies_again_at_once(desk: Desk) -> None:
    desk.server.refuse_rcpt("450 later")
    record_id = desk.records.one(retry_count=5)
    assert desk.deliver(record_id) == {"dead_letter": 1}
    retry_one(desk, record_id)
    assert desk.deliver(record_id) == {"dead_letter": 1}
    assert (desk.records.row(record_id).retry_count, len(desk.records.dead_letters(record_id))) == (6, 2)


def test_f18a_after_a_bounce_only_the_bounced_one_gets_it_again(desk: Desk) -> None:  # C9
    record_id = desk.records.one(to=(A, B))
    desk.deliver(record_id)
    assert desk.records.bounce(record_id, B) is Effect.RECORDED
    retry_one(desk, record_id)
    assert desk.deliver(record_id) == {"sent": 1}
    assert desk.server.copies() == {A: 1, B: 2}
    row = desk.records.row(record_id)
    assert (row.status, row.bounced, row.recipient_results[B]["result"]) == (SENT, False, "accepted")


# The claim


def test_c1_the_same_message_five_times_is_one_send(desk: Desk) -> None:
    record_id = desk.records.one()
    pair = [[record_id, 0]]
    desk.server.on("EOD", delay_seconds=0.1)
    results = [desk._pool.submit(desk.worker.deliver, pair) for _ in range(5)]
    counts = sorted(str(r.result(10)) for r in results)
    assert counts == ["{'not_mine': 1}"] * 4 + ["{'sent': 1}"]
    assert len(desk.server.messages) == 1
    assert desk.worker.deliver(pair) == {"not_mine": 1}


def test_claim_01_ten_workers_and_one_record(desk: Desk) -> None:
    record_id = desk.records.one()
    workers = [desk.new_worker(f"worker-{n}") for n in range(4)]
    desk.server.on("EOD", delay_seconds=0.2)
    results = [desk._pool.submit(w.deliver, [[record_id, 0]]) for w in workers * 2]
    assert sorted(next(iter(r.result(10))) for r in results) == ["not_mine"] * 7 + ["sent"]
    assert len(desk.server.transactions) == 1


@pytest.mark.parametrize("status", [SENT, FAILED, DEAD_LETTER])
def test_c3_what_is_missing_or_has_ended_ends_quietly(desk: Desk, status: SendStatus) -> None:
    record_id = desk.records.one(status=status)
    before = desk.records.row(record_id)
    assert desk.deliver(record_id, 404) == {"not_mine": 2}
    assert desk.records.row(record_id) == before
    assert desk.server.connections == 0


def test_c4_a_claim_that_is_lost_records_no_failure(desk: Desk) -> None:
    desk.run("DELETE FROM mail_send_server_config")
    record_id = desk.records.one()
    assert desk.worker.deliver([[record_id, 7]]) == {"not_mine": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.error_code, desk.records.attempts(record_id)) == (PENDING, None, [])


def test_c7_a_bounce_during_the_send_changes_nothing(desk: Desk) -> None:
    desk.server.on("EOD", hang=True)
    record_id = desk.records.one()
    sending = desk.begin(record_id)
    desk.server.wait_for_command("EOD", 5)
    assert desk.records.bounce(record_id) is Effect.OPEN
    desk.server.release()
    assert sending.result(5) == {"sent": 1}


def test_an_expired_record_is_not_sent(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    expired, good = desk.records.one(expires_at=text("now()")), desk.records.one()
    with caplog.at_level(logging.ERROR, "messaging"):
        assert desk.deliver(expired, good) == {"failed": 1, "sent": 1}
    assert [r.__dict__["record_id"] for r in caplog.records] == [expired]
    assert len(desk.server.messages) == 1


# Servers, S1 to S10


@pytest.fixture
def tenants() -> None:
    use_multi_tenancy(True)


@pytest.mark.usefixtures("tenants")
@pytest.mark.parametrize(
    ("scope", "owners", "used"),
    [
        ("TENANT", (7, -1), 7),  # S1
        ("TENANT", (8, -1), -1),  # S2, silently
        ("PLATFORM", (7, -1), -1),  # S3
        ("PLATFORM", (7,), None),  # S4
        ("TENANT", (8,), None),
    ],
)
def test_s1_to_s4_the_default_server_of_the_tier(
    make_desk: Callable[..., Desk], scope: str, owners: tuple[int, ...], used: int | None
) -> None:
    desk = make_desk(multi_tenancy=True)
    use_multi_tenancy(True)
    by_owner = {owner: desk.add_server(tenant_id=owner) for owner in owners}
    record_id = desk.records.one(tenant_id=7, scope=scope)
    result = desk.deliver(record_id)
    row = desk.records.row(record_id)
    if used is not None:
        assert (result, row.server_config_id) == ({"sent": 1}, by_owner[used])
        return
    assert (result, row.error_code, row.prepared_at) == ({"failed": 1}, "CONFIG_NOT_RESOLVABLE", None)
    assert desk.records.attempts(record_id)[0].category == "AUTH"
    # S4: after the gap is filled, Retry prepares afresh and sends.
    added = desk.add_server(tenant_id=-1)
    from messaging.tenancy import tenant

    with tenant(7):
        retry_one(desk, record_id)
    assert desk.deliver(record_id) == {"sent": 1}
    assert desk.records.row(record_id).server_config_id == added


def test_s5_of_two_defaults_the_lower_sequence(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    desk.add_server(sequence=5)
    low = desk.add_server(sequence=1)
    desk.add_server(sequence=1)
    desk.add_server(sequence=0, active=False)
    record_id = desk.records.one()
    desk.deliver(record_id)
    assert desk.records.row(record_id).server_config_id == low


@pytest.mark.usefixtures("tenants")
@pytest.mark.parametrize(
    ("owner", "scope", "sent"),
    [(7, "TENANT", True), (8, "TENANT", False), (-1, "TENANT", False), (-1, "PLATFORM", True)],
)
def test_s7_a_pinned_server_is_the_tiers_own(
    make_desk: Callable[..., Desk], owner: int, scope: str, sent: bool
) -> None:
    desk = make_desk(multi_tenancy=True)
    use_multi_tenancy(True)
    desk.add_server(tenant_id=7)
    pinned = desk.add_server(tenant_id=owner, is_default=False, active=False)
    record_id = desk.records.one(tenant_id=7, scope=scope, server_config_id=pinned)
    assert desk.deliver(record_id) == ({"sent": 1} if sent else {"failed": 1})
    assert desk.records.row(record_id).error_code == (None if sent else "CONFIG_NOT_RESOLVABLE")


def test_s8_a_disabled_server_still_takes_what_was_prepared_with_it(desk: Desk) -> None:  # O13
    desk.server.refuse_rcpt("450 later", times=1)
    record_id = desk.records.one()
    desk.deliver(record_id)
    desk.run("UPDATE mail_send_server_config SET active = false")
    assert desk.deliver(record_id) == {"sent": 1}


def test_s9_a_deleted_server_ends_what_was_prepared_with_it(desk: Desk) -> None:
    desk.server.refuse_rcpt("450 later", times=1)
    record_id = desk.records.one()
    desk.deliver(record_id)
    desk.run("DELETE FROM mail_send_server_config")
    desk.add_server()
    assert desk.deliver(record_id) == {"failed": 1}
    assert desk.records.row(record_id).error_code == "CONFIG_NOT_RESOLVABLE"


def test_s10_a_retry_uses_the_server_it_was_prepared_with(desk: Desk) -> None:
    desk.server.refuse_rcpt("450 later", times=1)
    record_id = desk.records.one()
    desk.deliver(record_id)
    first = desk.records.row(record_id).server_config_id
    desk.add_server(sequence=-1, from_address="other@example.org")
    assert desk.deliver(record_id) == {"sent": 1}
    row = desk.records.row(record_id)
    assert (row.server_config_id, row.from_address) == (first, "shop@example.org")


def test_a_secret_that_cannot_be_read_fails_the_record(desk: Desk) -> None:
    desk.run("UPDATE mail_send_server_config SET username = 'x', password = 'not a ciphertext'")
    record_id = desk.records.one()
    assert desk.deliver(record_id) == {"failed": 1}
    assert desk.records.row(record_id).error_code == "CREDENTIAL_UNREADABLE"


# S20


def test_s20_during_the_send_no_connection_to_the_database_is_in_use(desk: Desk) -> None:
    desk.server.on("EOD", hang=True)
    ids = desk.records.accept(count=2)
    sending = [desk.begin(i) for i in ids]
    desk.server.wait_for_command("EOD", 5, count=2)
    assert desk.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    assert {state for _, state, _ in sessions(desk.own)} <= {"idle"}
    desk.server.release()
    assert [s.result(5) for s in sending] == [{"sent": 1}] * 2


# Chunks: hold, SIGTERM, ages


def test_f16a_a_worker_that_stops_finishes_what_it_began_and_gives_back_the_rest(desk: Desk) -> None:
    desk.server.on("EOD", hang=True)
    ids = desk.records.accept(count=4)
    sending = desk.begin(*ids)
    desk.server.wait_for_command("EOD", 5)
    desk.worker.stop()
    desk.server.release()
    assert sending.result(5) == {"sent": 1, "released": 3}
    rows = desk.records.rows()
    assert [rows[i].status for i in ids] == [SENT, RETRY, RETRY, RETRY]
    assert {(rows[i].error_code, rows[i].retry_count, rows[i].ready) for i in ids[1:]} == {("CLAIM_RELEASED", 0, True)}
    assert {len(desk.records.attempts(i)) for i in ids[1:]} == {0}
    other = desk.new_worker("worker-2")
    assert desk.deliver(*ids[1:], worker=other) == {"sent": 3}
    assert len(desk.server.transactions) == 4


def test_f16a_a_chunk_that_outlives_its_hold_is_given_back(desk: Desk) -> None:  # C2
    ids = desk.records.accept(count=3)
    desk.server._on_transaction = lambda _: setattr(desk.ticker, "ahead", desk.ticker.ahead + 11)
    before = counted("messaging_released_total", channel="mail", reason="hold")
    assert desk.deliver(*ids) == {"sent": 1, "released": 2}
    assert counted("messaging_released_total", channel="mail", reason="hold") == before + 2
    assert desk.deliver(*ids[1:]) == {"sent": 1, "released": 1}  # the first of a chunk is begun whatever the hold says
    assert desk.deliver(ids[2]) == {"sent": 1}
    assert {row.retry_count for row in desk.records.rows().values()} == {0}


def test_a_claim_that_is_too_old_at_the_first_check_is_given_back(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(delivery={"chunk_hold_seconds": 100})
    desk.add_server()
    ids = desk.records.accept(count=2)
    desk.server.on("EOD", close="after")  # so that the second send has to connect
    desk.server.on("CONNECT", hang=True, nth=2)
    desk.server._on_transaction = lambda _: setattr(desk.ticker, "ahead", 95)
    sending = desk.begin(*ids)
    desk.server.wait_for_command("CONNECT", 5, count=2)
    desk.ticker.ahead = 95 + 30
    desk.server.release()
    assert sending.result(5) == {"sent": 1, "released": 1}
    row = desk.records.row(ids[1])
    assert (row.status, row.error_code, row.retry_count, row.uncertain) == (RETRY, "CLAIM_RELEASED", 0, False)
    assert len(desk.server.lines("MAIL")) == 1


def test_c5_a_claim_that_is_too_old_at_the_last_byte_is_given_back(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(delivery={"chunk_hold_seconds": 100}, smtp={"extensions": ()})
    desk.add_server()
    ids = desk.records.accept(count=2)
    desk.server.on("DATA", hang=True, nth=2)
    desk.server._on_transaction = lambda _: setattr(desk.ticker, "ahead", 95)
    sending = desk.begin(*ids)
    desk.server.wait_for_command("DATA", 5, count=2)
    desk.ticker.ahead = 95 + 90  # the send itself took 90 s of 120, the claim is older than 180
    desk.server.release()
    assert sending.result(5) == {"sent": 1, "released": 1}
    row = desk.records.row(ids[1])
    assert (row.status, row.error_code, row.retry_count, row.uncertain) == (RETRY, "CLAIM_RELEASED", 0, False)
    assert 5 <= seconds_ahead(desk.records, ids[1]) <= 30
    assert len(desk.server.transactions) == 1


def test_c16_a_send_that_hangs_is_noticed(desk: Desk) -> None:
    desk.server.on("EOD", hang=True)
    record_id = desk.records.one()
    sending = desk.begin(record_id)
    desk.server.wait_for_command("EOD", 5)
    assert not desk.worker.is_hung()
    desk.ticker.ahead = 301
    assert desk.worker.is_hung()
    desk.server.release()
    sending.result(5)
    assert not desk.worker.is_hung()


# C19: what one record does wrong touches no other


def test_c19_a_record_that_cannot_be_read_is_retried_and_the_others_are_sent(desk: Desk) -> None:  # O29
    ids = desk.records.accept(count=3)
    desk.records.put(ids[0], to_addresses=[5])  # nothing that acceptance could have written
    desk.records.put(ids[1], body_mode=None)
    result = desk.deliver(*ids)
    assert result == {"retry": 2, "sent": 1}
    rows = desk.records.rows()
    assert [rows[i].status for i in ids] == [RETRY, RETRY, SENT]
    assert [rows[i].error_code for i in ids] == ["UNEXPECTED", "PREPARE_FAILED", None]
    assert {desk.records.attempts(i)[0].category for i in ids[:2]} == {"UNKNOWN"}
    for record_id in ids[:2]:
        desk.records.put(record_id, retry_count=5)
    assert desk.deliver(*ids[:2]) == {"dead_letter": 2}


def test_c19_a_preparation_the_database_refuses_holds_up_no_other(desk: Desk) -> None:
    ids = desk.records.accept(count=3)
    desk.run(f"ALTER TABLE mail_send_record ADD CONSTRAINT refusing CHECK (prepared_at IS NULL OR id <> {ids[1]})")
    try:
        assert desk.deliver(*ids) == {"sent": 2, "retry": 1}
    finally:
        desk.run("ALTER TABLE mail_send_record DROP CONSTRAINT refusing")
    assert desk.records.row(ids[1]).error_code == "PREPARE_FAILED"


# Late and lost outcomes


def test_f17_an_outcome_that_comes_after_the_sweep_is_recorded_late(desk: Desk) -> None:  # O46, T14
    desk.server.on("EOD", hang=True)
    record_id = desk.records.one()
    sending = desk.begin(record_id)
    desk.server.wait_for_command("EOD", 5)
    assert desk.records.swept(record_id) == RETRY
    before = counted("messaging_late_outcomes_total", channel="mail", result="sent")
    desk.server.release()
    assert sending.result(5) == {"sent": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.uncertain, row.swept_at) == (SENT, True, None)
    assert counted("messaging_late_outcomes_total", channel="mail", result="sent") == before + 1
    assert [a.outcome for a in desk.records.attempts(record_id)] == ["SENT"]
    assert desk.deliver(record_id) == {"not_mine": 1}
    assert len(desk.server.transactions) == 1


def test_claim_02_the_outcome_of_a_slow_worker_does_not_overwrite_the_newer_one(desk: Desk) -> None:  # F17
    desk.server.on("EOD", hang=True, times=1)
    record_id = desk.records.one()
    slow = desk.begin(record_id)
    desk.server.wait_for_command("EOD", 5)
    desk.records.swept(record_id)
    desk.server.on("RCPT", "550 5.1.1 unknown")
    assert desk.deliver(record_id, worker=desk.new_worker("worker-2")) == {"failed": 1}
    before = counted("messaging_lost_updates_total", channel="mail", step="outcome")
    newer = desk.records.row(record_id)
    desk.server.release()
    assert slow.result(5) == {"not_mine": 1}
    assert desk.records.row(record_id) == newer
    assert counted("messaging_lost_updates_total", channel="mail", step="outcome") == before + 1
    assert desk.records.dead_letters(record_id) == []


def test_o25_a_lost_dead_letter_leaves_no_row(desk: Desk) -> None:
    desk.server.on("EOD", "451 later", hang=True, times=1)
    record_id = desk.records.one(retry_count=5)
    slow = desk.begin(record_id)
    desk.server.wait_for_command("EOD", 5)
    desk.run(f"UPDATE mail_send_record SET version = version + 5 WHERE id = {record_id}")
    desk.server.release()
    assert slow.result(5) == {"not_mine": 1}
    assert desk.records.dead_letters(record_id) == []
    assert desk.records.row(record_id).status == SENDING


# Operators and callers while a worker has the record


def test_f18_f18b_retry_and_cancel_of_a_record_that_is_being_sent(desk: Desk) -> None:
    desk.server.on("EOD", hang=True)
    record_id = desk.records.one()
    sending = desk.begin(record_id)
    desk.server.wait_for_command("EOD", 5)
    assert cancel_one(desk, record_id) == "in_progress"
    with pytest.raises(StateError, match="SENDING"):
        retry_one(desk, record_id)
    desk.server.release()
    assert sending.result(5) == {"sent": 1}
    assert cancel_one(desk, record_id) == "too_late"
    with pytest.raises(StateError, match="SENT"):
        retry_one(desk, record_id)


def test_f18b_what_was_cancelled_before_its_message_came_is_not_sent(desk: Desk) -> None:
    record_id = desk.records.one()
    [leased] = desk.records.lease()
    assert cancel_one(desk, record_id) == "cancelled"
    assert desk.worker.deliver([[leased.record_id, leased.version]]) == {"not_mine": 1}
    assert desk.server.connections == 0


def test_a_manual_retry_ends_older_messages(desk: Desk) -> None:
    record_id = desk.records.one()
    [leased] = desk.records.lease()
    retry_one(desk, record_id)
    assert desk.worker.deliver([[leased.record_id, leased.version]]) == {"not_mine": 1}
    [again] = desk.records.lease()
    assert desk.worker.deliver([[again.record_id, again.version]]) == {"sent": 1}


def test_a_config_change_is_used_by_the_next_attempt(desk: Desk) -> None:  # O61
    desk.server.refuse_rcpt("450 later", times=1)
    record_id = desk.records.one()
    desk.deliver(record_id)
    with desk.own.begin() as connection:
        connection.execute(update(CONFIG).values(port=1))
    assert desk.deliver(record_id) == {"retry": 1}
    assert desk.records.row(record_id).error_code == "SMTP_CONNECT"


def test_a_config_change_by_plain_sql_closes_the_kept_connection(desk: Desk) -> None:  # O61, whoever wrote it
    assert desk.deliver(desk.records.one()) == {"sent": 1}
    desk.run("UPDATE mail_send_server_config SET port = 1")
    assert desk.deliver(desk.records.one()) == {"retry": 1}
    assert len(desk.server.messages) == 1


def test_a_worker_works_in_the_records_tenant(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(multi_tenancy=True)
    use_multi_tenancy(True)
    ports: dict[int, Any] = {tenant: desk.add_server(tenant_id=tenant) for tenant in (1, 2)}
    ids = [desk.records.one(tenant_id=tenant) for tenant in (1, 2)]
    assert desk.deliver(*ids) == {"sent": 2}
    rows = desk.records.rows()
    assert [rows[i].server_config_id for i in ids] == [ports[1], ports[2]]


def test_o49_a_record_that_waits_in_the_queue_is_never_swept(desk: Desk) -> None:
    record_id = desk.records.one()
    [leased] = desk.records.lease(seconds=10_000)
    desk.records.shift(STALE + 100)
    assert desk.records.sweep() == {}
    started = time.monotonic()
    assert desk.worker.deliver([[record_id, leased.version]]) == {"sent": 1}
    assert time.monotonic() - started < 5
