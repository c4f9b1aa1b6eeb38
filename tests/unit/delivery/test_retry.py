"""The retry policy: send.md section 11, its table and F1, F7, F21; cases claim-04 and class-04."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.category import ErrorCategory
from messaging.delivery.retry import DeadLetter, Decision, Fail, Retry, decide
from messaging.settings import RetrySettings

DEFAULTS = RetrySettings()
DAY = 86_400
RETRYABLE = [c for c in ErrorCategory if c.is_retryable]
FINAL = [c for c in ErrorCategory if not c.is_retryable]


class Extreme(random.Random):
    """Chance that always falls on one end, so that the bounds themselves are seen."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self._end = end

    def random(self) -> float:
        return self._end


LOW, HIGH = Extreme(0.0), Extreme(1.0)


def delay(decision: Decision) -> int:
    assert isinstance(decision, Retry)
    return decision.delay_seconds


@pytest.mark.parametrize("category", FINAL)
@pytest.mark.parametrize("retry_count", [0, 4, 5, 99])
def test_what_no_attempt_can_cure_fails_at_once(category: ErrorCategory, retry_count: int) -> None:
    # Rule 1 goes before rule 2: no dead letter even with the budget used up.
    decision = decide(category, retry_count, settings=DEFAULTS, rng=random.Random(1), retry_after_seconds=60)
    assert decision == Fail()


def test_final_categories_are_these() -> None:
    assert set(FINAL) == {ErrorCategory.PERMANENT, ErrorCategory.INVALID_INPUT, ErrorCategory.AUTH}


@pytest.mark.parametrize("category", RETRYABLE)
@pytest.mark.parametrize("retry_count", [5, 6, 1000])
def test_a_used_up_budget_is_a_dead_letter(category: ErrorCategory, retry_count: int) -> None:  # F1, claim-04
    assert decide(category, retry_count, settings=DEFAULTS, rng=random.Random(1)) == DeadLetter()


@pytest.mark.parametrize("category", RETRYABLE)
def test_no_retries_allowed_means_the_first_failure_is_the_last(category: ErrorCategory) -> None:
    assert decide(category, 0, settings=RetrySettings(max_retries=0), rng=random.Random(1)) == DeadLetter()


@pytest.mark.parametrize("category", [ErrorCategory.TRANSIENT, ErrorCategory.UNKNOWN])
@pytest.mark.parametrize(
    ("retry_count", "low", "high"), [(0, 15, 45), (1, 30, 90), (2, 60, 180), (3, 120, 360), (4, 240, 720)]
)
def test_delays_double_and_spread_by_half(category: ErrorCategory, retry_count: int, low: int, high: int) -> None:  # F1
    assert delay(decide(category, retry_count, settings=DEFAULTS, rng=LOW)) == low
    assert delay(decide(category, retry_count, settings=DEFAULTS, rng=HIGH)) == high
    seen = [delay(decide(category, retry_count, settings=DEFAULTS, rng=random.Random(seed))) for seed in range(200)]
    assert low <= min(seen) < max(seen) <= high
    assert len(set(seen)) > 10


@pytest.mark.parametrize(
    ("retry_count", "low", "high"), [(0, 300, 300), (1, 300, 300), (2, 300, 300), (3, 300, 360), (4, 300, 720)]
)
def test_a_rate_limit_waits_at_least_the_floor(retry_count: int, low: int, high: int) -> None:  # F7
    assert delay(decide(ErrorCategory.QUOTA, retry_count, settings=DEFAULTS, rng=LOW)) == low
    assert delay(decide(ErrorCategory.QUOTA, retry_count, settings=DEFAULTS, rng=HIGH)) == high


@pytest.mark.parametrize(
    ("category", "low", "high"), [(ErrorCategory.TRANSIENT, 465, 1395), (ErrorCategory.QUOTA, 1500, 1980)]
)
def test_five_waits_then_the_end(category: ErrorCategory, low: int, high: int) -> None:  # F1, claim-04
    for rng, total in ((LOW, low), (HIGH, high)):
        waits = [delay(decide(category, n, settings=DEFAULTS, rng=rng)) for n in range(5)]
        assert sum(waits) == total
    assert decide(category, 5, settings=DEFAULTS, rng=HIGH) == DeadLetter()


@pytest.mark.parametrize(
    ("category", "retry_count", "max_seconds", "expected"),
    [
        (ErrorCategory.TRANSIENT, 0, 3600, 30),
        (ErrorCategory.TRANSIENT, 2, 3600, 120),
        (ErrorCategory.TRANSIENT, 4, 100, 100),
        (ErrorCategory.QUOTA, 0, 3600, 300),
    ],
)
def test_without_jitter_the_delay_is_the_nominal_one(
    category: ErrorCategory, retry_count: int, max_seconds: int, expected: int
) -> None:  # F21
    settings = RetrySettings(jitter=0, max_seconds=max_seconds)
    assert delay(decide(category, retry_count, settings=settings, rng=random.Random(7))) == expected


def test_the_cap_applies_before_the_spread() -> None:
    settings = RetrySettings(max_seconds=100)
    assert delay(decide(ErrorCategory.TRANSIENT, 4, settings=settings, rng=HIGH)) == 150
    assert delay(decide(ErrorCategory.TRANSIENT, 4, settings=settings, rng=LOW)) == 50


def test_a_delay_is_never_under_a_second() -> None:
    settings = RetrySettings(base_seconds=1, jitter=1)
    assert delay(decide(ErrorCategory.TRANSIENT, 0, settings=settings, rng=LOW)) == 1


def test_part_of_a_second_is_dropped() -> None:
    settings = RetrySettings(base_seconds=2.9, jitter=0)
    assert delay(decide(ErrorCategory.TRANSIENT, 0, settings=settings, rng=LOW)) == 2


@pytest.mark.parametrize("multiplier", [2.0, 1e300])
def test_a_large_count_stays_at_the_cap(multiplier: float) -> None:
    settings = RetrySettings(max_retries=10_000, jitter=0, multiplier=multiplier)
    assert delay(decide(ErrorCategory.TRANSIENT, 9_999, settings=settings, rng=LOW)) == 3600


def test_the_exponent_stops_at_thirty() -> None:
    settings = RetrySettings(max_retries=100, jitter=0, multiplier=1.1, base_seconds=10)
    at_thirty = delay(decide(ErrorCategory.TRANSIENT, 30, settings=settings, rng=LOW))
    assert delay(decide(ErrorCategory.TRANSIENT, 31, settings=settings, rng=LOW)) == at_thirty == int(10 * 1.1**30)


@pytest.mark.parametrize(
    ("category", "asked", "expected"),
    [
        (ErrorCategory.QUOTA, 600, 600),  # class-04
        (ErrorCategory.QUOTA, 10, 300),
        (ErrorCategory.TRANSIENT, 10, 30),
        (ErrorCategory.TRANSIENT, 31, 31),
        (ErrorCategory.TRANSIENT, 31.2, 32),
        (ErrorCategory.TRANSIENT, 0, 30),
        (ErrorCategory.TRANSIENT, -5, 30),
        (ErrorCategory.TRANSIENT, DAY, DAY),
        (ErrorCategory.TRANSIENT, DAY + 1, DAY),
        (ErrorCategory.TRANSIENT, float("inf"), DAY),
    ],
)
def test_a_wait_the_other_side_asks_for_is_a_lower_bound(category: ErrorCategory, asked: float, expected: int) -> None:
    settings = RetrySettings(jitter=0)
    decision = decide(category, 0, settings=settings, rng=random.Random(1), retry_after_seconds=asked)
    assert delay(decision) == expected


def test_a_long_back_off_may_exceed_the_longest_wait_asked_for() -> None:
    settings = RetrySettings(jitter=0, base_seconds=2 * DAY, max_seconds=2 * DAY)
    decision = decide(ErrorCategory.TRANSIENT, 0, settings=settings, rng=LOW, retry_after_seconds=5 * DAY)
    assert delay(decision) == 2 * DAY


@given(
    category=st.sampled_from(list(ErrorCategory)),
    retry_count=st.integers(0, 2000),
    max_retries=st.integers(0, 2000),
    seed=st.integers(0, 2**32),
    asked=st.none() | st.floats(0, 1e9),
)
def test_every_decision_keeps_the_rules(
    category: ErrorCategory, retry_count: int, max_retries: int, seed: int, asked: float | None
) -> None:
    settings = RetrySettings(max_retries=max_retries)
    decision = decide(category, retry_count, settings=settings, rng=random.Random(seed), retry_after_seconds=asked)
    match decision:
        case Fail():
            assert not category.is_retryable
        case DeadLetter():
            assert category.is_retryable
            assert retry_count >= max_retries
        case Retry(delay_seconds=seconds):
            assert retry_count < max_retries
            assert seconds >= max(15, min(asked or 0, DAY))
            assert seconds <= max(5400, DAY)
            assert category is not ErrorCategory.QUOTA or seconds >= 300
