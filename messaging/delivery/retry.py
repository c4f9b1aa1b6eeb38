"""What becomes of a record after a failed attempt: another one and when, or its end. Pure; source: send.md section 11.

Not for what is no attempt: a claim given back keeps its `retry_count` and never comes here.
"""

import math
import random
from dataclasses import dataclass

from messaging.category import ErrorCategory
from messaging.settings import RetrySettings

#: The longest wait the other side can ask for, in seconds: a day, so that a wrong header does not park a record.
MAX_RETRY_AFTER_SECONDS = 86_400

#: Beyond this many retries the delay no longer grows; keeps the power small where a setting allows hundreds.
MAX_EXPONENT = 30


@dataclass(frozen=True, slots=True)
class Retry:
    """Another attempt: the record goes to RETRY and its `retry_count` up by one."""

    #: Whole seconds from now, at least 1.
    delay_seconds: int


@dataclass(frozen=True, slots=True)
class Fail:
    """No other attempt can help: FAILED, without a dead-letter row."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The budget is used up: DEAD_LETTER, with a dead-letter row."""


Decision = Retry | Fail | DeadLetter


def decide(
    category: ErrorCategory,
    retry_count: int,
    *,
    settings: RetrySettings,
    rng: random.Random,
    retry_after_seconds: float | None = None,
) -> Decision:
    """What follows a failure of this category; `retry_count` is the one before it, 0 after the first attempt.

    `retry_after_seconds` is the wait the other side asked for: a lower bound, itself at most a day.
    """
    if not category.is_retryable:
        return Fail()
    if retry_count >= settings.max_retries:
        return DeadLetter()
    spread = rng.uniform(1 - settings.jitter, 1 + settings.jitter)
    # The cap goes before the spread: a capped delay may reach 1.5 times the cap, and records that fail together part.
    delay = max(1.0, _nominal_seconds(retry_count, settings) * spread)
    if category is ErrorCategory.QUOTA:
        delay = max(delay, settings.quota_floor_seconds)
    whole = math.floor(delay)
    if retry_after_seconds is not None:
        whole = max(whole, math.ceil(min(MAX_RETRY_AFTER_SECONDS, retry_after_seconds)))
    return Retry(whole)


def _nominal_seconds(retry_count: int, settings: RetrySettings) -> float:
    try:
        growth = settings.multiplier ** min(retry_count, MAX_EXPONENT)
    except OverflowError:
        return settings.max_seconds
    return min(settings.base_seconds * growth, settings.max_seconds)
