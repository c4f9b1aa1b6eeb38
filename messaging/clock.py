"""The clocks that entry points hand in: wall time for what people read, boot time for how old a claim is."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

#: Answers the current time, timezone-aware, in UTC.
Clock = Callable[[], datetime]

#: Answers seconds that only ever grow.
Ticker = Callable[[], float]


def utc_now() -> datetime:
    """The wall clock, timezone-aware, in UTC."""
    return datetime.now(UTC)


def boot_seconds() -> float:
    """Seconds since boot, suspension included.

    The monotonic clock stops while a host is suspended, and a claim ages meanwhile; where the system has no boot clock
    (macOS) the monotonic clock is all there is.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
