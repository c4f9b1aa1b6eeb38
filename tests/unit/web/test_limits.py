"""Token buckets: what a caller may do at once and in the long run, and that callers cost bounded memory."""

from ipaddress import ip_address

import pytest

from messaging.web.limits import Buckets, Rate, Slots, caller_of, retry_after


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


def buckets(clock: Seconds, max_callers: int = 10) -> Buckets:
    return Buckets(Rate(per_second=2, burst=3), max_callers=max_callers, ticker=clock)


def test_a_burst_then_the_rate(clock: Seconds) -> None:
    made = buckets(clock)
    assert [made.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    clock.now = 0.25
    assert made.take("a") == pytest.approx(0.25)  # a refused request costs nothing
    clock.now = 0.5
    assert [made.take("a") for _ in range(2)] == [0, 0.5]
    clock.now = 1000
    assert [bool(made.take("a")) for _ in range(4)] == [False, False, False, True]


def test_callers_do_not_share(clock: Seconds) -> None:
    made = buckets(clock)
    for _ in range(4):
        made.take("a")
    assert made.take("b") == 0


def test_the_least_recently_seen_caller_is_forgotten(clock: Seconds) -> None:
    made = buckets(clock, max_callers=2)
    for caller in ("a", "a", "a", "b", "a"):
        made.take(caller)
    made.take("c")
    assert made.take("a") > 0  # remembered: b was not seen for longer
    for other in range(1000):
        made.take(other)
    assert len(made._left) == 2
    assert made.take("a") == 0


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        (None, None, True),
        ("a socket", "192.0.2.1", False),
    ],
)
def test_a_caller_is_an_address_or_a_network(one: str | None, other: str | None, is_same: bool) -> None:
    assert (caller_of(one) == caller_of(other)) is is_same


def test_whole_seconds_are_told() -> None:
    assert retry_after(0.01) == {"retry-after": "1"}
    assert retry_after(2.5) == {"retry-after": "3"}
    assert caller_of("192.0.2.1") == ip_address("192.0.2.1")


def test_slots_are_so_many_in_all_and_fewer_of_one() -> None:
    slots = Slots(3, of_one=2)
    assert [slots.take(caller) for caller in ("a", "a", "a", "b", "c")] == [True, True, False, True, False]
    slots.give_back("a")
    assert [slots.take(caller) for caller in ("c", "a")] == [True, False]
