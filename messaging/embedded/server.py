"""What the embedded servers have in common: a folder with one owner, a child process, a log, a port, a password."""

import fcntl
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from messaging.child_process import birth
from messaging.errors import ConfigurationError

#: Ports are taken from here: below the range outgoing connections use, so that a server finds its own again.
PORTS = range(20000, 32000)

START_SECONDS = 30.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.02

#: How often a server that ends as it starts is started again.
START_ATTEMPTS = 5

#: How much of a server's log an error repeats.
LOG_TAIL_CHARS = 2000


class NotYet(Exception):
    """The server does not answer so far."""


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody listens on now; somebody may take it before you do."""
    for _ in range(100):
        with suppress(OSError):
            return _bind(secrets.choice(PORTS))
    return _bind(0)


def _bind(port: int) -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", port))
        taken: int = probe.getsockname()[1]
        return taken


class Server(ABC):
    """What both have in common: a folder with one owner at a time, a child process, a log, and a way to ask it."""

    name: str
    stop_signals: Sequence[signal.Signals]

    def __init__(self, home: Path, port: int | None) -> None:
        #: The server's folder: password, log, pid, and its data unless that must lie elsewhere.
        self.home = home
        self.log_path = home / f"{self.name}.log"
        self._port_is_given = port is not None
        self.port = port or free_port()
        self.password = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    @property
    def pid(self) -> int | None:
        """Of the running server; None when it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> Self:
        """Starts the server and waits until it answers. Does nothing if it runs.

        Raises: ConfigurationError, with the end of the server's log, or what stands in the way.
        """
        if self.pid is not None:
            return self
        self.home.mkdir(parents=True, exist_ok=True)
        self._own()
        try:
            self._stop_orphan()
            self.password = self._read_password()
            self._prepare()
            self._start_process()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends the server, gently at first, and lets go of its folder. Does nothing if it is not running."""
        process, self._process = self._process, None
        if process is not None:
            for number in (*self.stop_signals, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    process.send_signal(number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_SECONDS)
                    break
        if self._lock is not None:
            with suppress(FileNotFoundError):
                self._pid_path.unlink()
            os.close(self._lock)
            self._lock = None

    def kill(self) -> None:
        """SIGKILL, as a crash would: for tests of what survives one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_SECONDS)

    def restart(self) -> Self:
        """Stops the server and starts it again on the same port, with the same data."""
        self.stop()
        self._port_is_given = True
        return self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _prepare(self) -> None:  # noqa: B027 - a server may need nothing
        """Whatever must lie in the folder before the first start."""

    @abstractmethod
    def _spawn(self, log: int) -> "subprocess.Popen[bytes]":
        """Start the child process; its output goes to `log`."""

    @abstractmethod
    def _ask(self) -> None:
        """Raises NotYet while the server does not answer."""

    @property
    def _pid_path(self) -> Path:
        return self.home / f"{self.name}.pid"

    def _own(self) -> None:
        if self._lock is not None:  # the server died, its owner did not
            return
        self._lock = os.open(self.home, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            self._lock = None
            raise ConfigurationError(f"{self.home}: another process already runs {self.name} here") from None

    def _stop_orphan(self) -> None:
        """Ends the server of an owner that was killed, where the kernel did not, or has not quite."""
        try:
            pid, born = self._pid_path.read_text().split(maxsplit=1)
        except (FileNotFoundError, ValueError):
            return
        for number in (*self.stop_signals, signal.SIGKILL):
            if birth(int(pid)) != born:
                return
            with suppress(ProcessLookupError):
                os.kill(int(pid), number)
            wait_until(lambda: birth(int(pid)) != born, STOP_SECONDS)

    def _read_password(self) -> str:
        path = self.home / "password"
        if not path.exists():
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_urlsafe(24))
        return path.read_text()

    def _start_process(self) -> None:
        for _ in range(START_ATTEMPTS):
            with self.log_path.open("ab") as log:
                self._process = self._spawn(log.fileno())
            self._pid_path.write_text(f"{self._process.pid} {birth(self._process.pid)}")
            if self._answers():
                return
            # It ended: another program may have been quicker to take the port.
            time.sleep(POLL_SECONDS)
            if not self._port_is_given:
                self.port = free_port()
        raise ConfigurationError(f"{self.name} does not start; its log, {self.log_path}, ends with:\n{self.log()}")

    def _answers(self) -> bool:
        """Waits for the first answer; False when the process ended instead."""
        deadline = time.monotonic() + START_SECONDS
        assert self._process is not None
        while self._process.poll() is None:
            try:
                self._ask()
                return True
            except NotYet as exc:
                if time.monotonic() > deadline:
                    raise ConfigurationError(
                        f"{self.name} does not answer on 127.0.0.1:{self.port} within {START_SECONDS:g} s: {exc}; "
                        f"its log, {self.log_path}, ends with:\n{self.log()}"
                    ) from exc
                time.sleep(POLL_SECONDS)
        return False

    def log(self) -> str:
        """The end of the server's log."""
        return self.log_path.read_text(errors="replace")[-LOG_TAIL_CHARS:].strip()


def environment() -> dict[str, str]:
    """What a server sees of ours: none of the variables by which PostgreSQL or a loader would be led elsewhere."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8" if sys.platform == "linux" else "C"}


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Waits for the condition, but no longer than that."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
