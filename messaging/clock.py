"""The clocks that entry points hand in: wall time for what people read, boot time for how old a claim is."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

#: Answers the current time, timezone-aware, in UTC.
Clock = Callable[[], datetime]

#: Answers seconds that only ever grow.
Ticker = Callable[[], float]


def utc_now() -> datetime:
    """The wall clock, timezone-aware, in UTC."""
    return datetime.now(UTC)


#: Seconds since boot, suspension included; a partial, as it is asked some twenty times a mail.
#:
#: The monotonic clock stops while a host is suspended, and a claim ages meanwhile; where the system has no boot clock
#: (macOS) the monotonic clock is all there is.
boot_seconds: Ticker = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
