"""Signals that end the demo: noted when they come and acted on between two steps, so that no step is cut in half."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(Exception):
    """A signal asked the demo to end before it was through."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class StopRequest:
    """Whether a signal came."""

    def __init__(self) -> None:
        self._number = 0
        self._came = threading.Event()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """SIGINT, SIGTERM and SIGHUP are noted from here on; a second one, during the stop, changes nothing."""
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, self._note) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._number = self._number or number
        self._came.set()

    def check(self) -> None:
        """Raises: Stopped, once a signal came."""
        self.sleep(0)

    def sleep(self, seconds: float) -> None:
        """Raises: Stopped, as soon as a signal comes."""
        if self._came.wait(seconds):
            raise Stopped(self._number)
