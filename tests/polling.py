"""Waiting for what other threads and processes do: by looking until a deadline, never by sleeping."""

import time
from collections.abc import Callable
from typing import Any

POLL_SECONDS = 0.02


def eventually(is_met: Callable[[], Any], seconds: float = 30, what: str = "what the test waits for") -> Any:
    """Poll until the answer is true, and answer it. Raises: AssertionError naming what did not happen."""
    deadline = time.monotonic() + seconds
    while not (answer := is_met()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(POLL_SECONDS)
    return answer


def stays(is_met: Callable[[], Any], seconds: float, what: str) -> None:
    """Poll for the whole time. Raises: AssertionError when it is not true at any look."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert is_met(), f"{what}: ended within {seconds:g} s"
        time.sleep(POLL_SECONDS)
