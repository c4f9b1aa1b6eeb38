"""How old a claim may be when a send starts and ends (C1, C5 of the protocol), and how long each step may take."""

import pytest

from messaging.delivery.gate import ClaimTooOld, SendGate, SendLimits
from messaging.settings import DeliverySettings

BUDGET, MAX, REPLY = 240, 120, 60
LIMITS = SendLimits(BUDGET, MAX, REPLY)


class Hand:
    """A clock that is moved by hand."""

    def __init__(self, now: float = 1000) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("age", "may"), [(0, True), (119.9, True), (120, True), (120.1, False), (10_000, False)])
def test_the_first_check_leaves_a_whole_send(age: float, may: bool) -> None:
    clock = Hand()
    gate = SendGate(clock.now, LIMITS, clock)
    clock.now += age
    if may:
        gate.check_start()
    else:
        with pytest.raises(ClaimTooOld):
            gate.check_start()


@pytest.mark.parametrize(("age", "may"), [(0, True), (180, True), (180.1, False), (10_000, False)])
def test_the_second_check_leaves_the_reply(age: float, may: bool) -> None:
    clock = Hand()
    gate = SendGate(clock.now, LIMITS, clock)
    clock.now += age
    if may:
        gate.check_last_byte()
    else:
        with pytest.raises(ClaimTooOld):
            gate.check_last_byte()


def test_the_age_counts_from_the_claim_not_from_the_send() -> None:
    # A chunk's last record is begun long after its claim.
    clock = Hand()
    gate = SendGate(clock.now - 121, LIMITS, clock)
    with pytest.raises(ClaimTooOld):
        gate.check_start()


def test_a_send_that_passes_both_checks_at_the_last_moment_ends_within_the_budget() -> None:  # C1
    clock = Hand()
    claimed_at = clock.now
    clock.now += BUDGET - MAX
    gate = SendGate(claimed_at, LIMITS, clock)
    gate.check_start()
    clock.now = claimed_at + BUDGET - REPLY
    gate.check_last_byte()
    assert clock.now + gate.reply_timeout() - claimed_at <= BUDGET


def test_each_step_gets_its_own_time_or_what_is_left() -> None:
    clock = Hand()
    gate = SendGate(clock.now, LIMITS, clock)
    assert gate.timeout(30) == 30
    clock.now += 100
    assert (gate.timeout(30), gate.timeout(5)) == (20, 5)
    clock.now += 20
    with pytest.raises(TimeoutError, match="SEND_MAX"):
        gate.timeout(5)


def test_the_reply_to_the_last_byte_always_gets_a_moment() -> None:
    clock = Hand()
    gate = SendGate(clock.now, LIMITS, clock)
    assert gate.reply_timeout() == REPLY
    clock.now += 100
    assert gate.reply_timeout() == 20
    clock.now += 1000
    assert gate.reply_timeout() == 1


def test_the_defaults_leave_a_chunks_first_record_its_whole_send() -> None:  # I2
    d = DeliverySettings()
    clock = Hand(0)
    gate = SendGate(0, SendLimits(d.send_budget_seconds, d.send_max_seconds, d.reply_wait_seconds), clock)
    clock.now = d.chunk_hold_seconds + d.prepare_max_seconds
    gate.check_start()
