"""The far ends: Postfix's `smtp-sink`, an SMTP server of our own that can be slow and tells times, an SMS provider.

`smtp-sink -c` prints its counters after every message; with a file as its output the last line is the exact count,
for one `write` a mail. What would make a count lie: reading it before the sink has seen everything; every run waits.
"""

import socket
import sys
import time
from pathlib import Path
from typing import Protocol

from benchmarks.harness.process import Child
from messaging.embedded import free_port
from tests.far_end import packages


class SmtpSink:
    """Postfix's `smtp-sink`, which takes everything and keeps nothing."""

    def __init__(self, root: Path) -> None:
        self.port = free_port()
        self._counters = root / "smtp-sink.out"
        try:
            program = packages.find("smtp-sink")
        except packages.FarEndMissing as exc:
            raise SystemExit(f"benchmarks: {exc}") from exc
        command = program.command("-c", f"127.0.0.1:{self.port}", "200")
        self.child = Child("smtp-sink", command, self._counters, program.environment())
        _wait_for_port(self.port)

    def count(self) -> int:
        """How many messages it has taken so far."""
        with self._counters.open("rb") as counters:
            counters.seek(max(0, self._counters.stat().st_size - 120))
            words = counters.read().split()
        taken = [word for word in words if word.startswith(b"mesg=")]
        return int(taken[-1].removeprefix(b"mesg=")) if taken else 0

    def wait_for(self, count: int, *, timeout: float) -> None:
        """Wait until it has taken so many."""
        deadline = time.monotonic() + timeout
        while self.count() < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the sink took {self.count()} of {count} messages")
            time.sleep(0.01)

    def stop(self) -> None:
        self.child.stop()


class MessageCount(Protocol):
    """A far end that counts what it has taken."""

    def count(self) -> int: ...
    def wait_for(self, count: int, *, timeout: float) -> None: ...


class TimingServer:
    """`benchmarks.harness.timing_server` as a process: answers late on demand, and says when each message began."""

    def __init__(self, root: Path, *, delay_seconds: float) -> None:
        self.port = free_port()
        self._log = root / f"timing-server-{self.port}.out"
        argv = [sys.executable, "-m", "benchmarks.harness.timing_server", str(self.port), str(delay_seconds)]
        self.child = Child("timing server", argv, self._log)
        _wait_for_port(self.port)

    def first_bytes(self) -> list[float]:
        """For each message taken, when the first byte of its dialogue came in; seconds of the monotonic clock."""
        return [float(line) for line in self._log.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def count(self) -> int:
        """How many messages it has taken so far."""
        return self._log.read_bytes().count(b"\n")

    def wait_for(self, count: int, *, timeout: float) -> None:
        """Wait until it has taken so many."""
        deadline = time.monotonic() + timeout
        while self.count() < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the server took {self.count()} of {count} messages")
            time.sleep(0.01)

    def stop(self) -> None:
        self.child.stop()


class SmsProvider:
    """`benchmarks.harness.sms_provider` as a process: takes every message and answers after a delay."""

    def __init__(self, root: Path, *, delay_seconds: float) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        #: Where messages are posted to.
        self.messages_url = f"{self.url}/sms/3/messages"
        self._log = root / f"sms-provider-{port}.out"
        argv = [sys.executable, "-m", "benchmarks.harness.sms_provider", str(port), str(delay_seconds)]
        self.child = Child("SMS provider", argv, self._log)
        _wait_for_port(port)

    def count(self) -> int:
        """How many messages it has taken so far."""
        return self._log.stat().st_size

    def wait_for(self, count: int, *, timeout: float) -> None:
        """Wait until it has taken so many."""
        deadline = time.monotonic() + timeout
        while self.count() < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the provider took {self.count()} of {count} messages")
            time.sleep(0.01)

    def stop(self) -> None:
        self.child.stop()


def _wait_for_port(port: int, *, timeout: float = 15) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
