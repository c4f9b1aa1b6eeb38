"""Waiting for a record's outcome by looking again and again: at once, soon, then every second.

A change of state tells nobody, as that would cost every send something for the few that are waited for. A look is a row
by its key and holds no transaction afterwards, so that a thousand waiters cost a thousand short reads a second.
"""

from collections.abc import Iterator

from messaging.clock import Ticker

#: Seconds between the first two looks, what each pause is longer than the one before, and the longest.
FIRST_PAUSE_SECONDS, PAUSE_GROWTH, MAX_PAUSE_SECONDS = 0.02, 1.5, 1.0

#: Longest wait: who waits holds a thread or a request.
MAX_WAIT_SECONDS = 300.0


def pauses(timeout_seconds: float, ticker: Ticker) -> Iterator[float]:
    """Seconds to let pass before each further look; ends when the time is up, the last look at its very end."""
    end = ticker() + timeout_seconds
    pause = FIRST_PAUSE_SECONDS
    while (left := end - ticker()) > 0:
        yield min(pause, left)
        pause = min(pause * PAUSE_GROWTH, MAX_PAUSE_SECONDS)
