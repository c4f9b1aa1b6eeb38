"""Keeps child processes running: started again with a growing pause when they end, stopped in order, never left behind.

Each leads a process group of its own and is killed by the kernel when this process dies. Servers (PostgreSQL, Valkey)
are started by `messaging.embedded` and only watched here.
"""

import os
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Protocol

from messaging.child_process import spawn
from messaging.errors import ConfigurationError

#: Seconds before the first restart, doubling with each that follows soon, up to the longest.
RESTART_SECONDS, LONGEST_RESTART_SECONDS = 0.5, 30.0
#: Seconds a program must have run for its earlier ends to be forgotten.
STEADY_SECONDS = 30.0
#: Ends in a row after which a program counts as not startable.
HOPELESS_ENDS = 4
POLL_SECONDS = 0.05
#: How much of a log an error repeats.
LOG_TAIL_CHARS = 1500


class Server(Protocol):
    """An embedded server, as far as it is watched."""

    name: str

    @property
    def pid(self) -> int | None: ...
    def restart(self) -> object: ...


@dataclass(frozen=True, slots=True)
class Program:
    """What to run, and how long its end may take."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    #: Seconds from SIGTERM to SIGKILL.
    stop_seconds: float = 5.0


@dataclass(slots=True)
class _Child:
    program: Program
    process: "subprocess.Popen[bytes] | None" = None
    started_at: float = 0.0
    #: Ends in a row, none of them asked for.
    ends: int = 0
    #: When it is started again; meaningful while it does not run.
    restart_at: float = 0.0


class Supervisor:
    """Programs by name. Any thread may call; a thread of its own restarts what ended."""

    def __init__(self, log_folder: Path, cwd: Path) -> None:
        self._log_folder = log_folder
        self._cwd = cwd
        self._children: dict[str, _Child] = {}
        self._servers: list[Server] = []
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        #: What was restarted, oldest first: for those who watch.
        self.restarts: list[str] = []

    def watch(self, *servers: Server) -> None:
        """Restart these servers, too, when they end."""
        with self._lock:
            self._servers += servers

    def start(self, *programs: Program) -> None:
        """Start programs, and keep them running from now on."""
        with self._lock:
            for program in programs:
                child = self._children[program.name] = _Child(program)
                self._spawn(child)
            if not self._thread.is_alive() and not self._stopping.is_set():
                self._thread.start()

    def pid(self, name: str) -> int | None:
        """Of a program that runs; None while it does not."""
        with self._lock:
            process = self._children[name].process
            return process.pid if process is not None and process.poll() is None else None

    def kill(self, name: str) -> None:
        """SIGKILL, as a crash would. It is started again like after one."""
        pid = self.pid(name)
        if pid is not None:
            os.kill(pid, SIGKILL)

    def require_hope(self) -> None:
        """Raises: ConfigurationError for a program that ends again and again, with the end of its log."""
        with self._lock:
            for child in self._children.values():
                if child.ends >= HOPELESS_ENDS:
                    raise ConfigurationError(
                        f"{child.program.name} does not stay up; its log ends with: {self.log_tail(child.program.name)}"
                    )

    def log_path(self, name: str) -> Path:
        """Where a program's output goes."""
        return self._log_folder / f"{name}.log"

    def log_tail(self, name: str) -> str:
        """The end of its log."""
        return self.log_path(name).read_text(errors="replace")[-LOG_TAIL_CHARS:].strip()

    def halt_restarts(self) -> None:
        """What ends from now on stays ended."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def stop(self, groups: Iterable[Sequence[str]]) -> None:
        """End programs for good: one group after the other, the members of one together; then whatever is left."""
        self.halt_restarts()
        with self._lock:
            rest = tuple(self._children)
            for names in (*groups, rest):
                self._stop_group([self._children.pop(name) for name in names if name in self._children])

    def _stop_group(self, children: Sequence[_Child]) -> None:
        running = [(child, child.process) for child in children if child.process is not None]
        for _, process in running:
            with suppress(ProcessLookupError):
                process.send_signal(SIGTERM)
        until = time.monotonic()
        for child, process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until + child.program.stop_seconds - time.monotonic()))
            _kill_group(process)

    def _run(self) -> None:
        while not self._stopping.wait(POLL_SECONDS):
            with self._lock:
                for child in self._children.values():
                    self._look_at(child)
                for server in self._servers:
                    self._look_at_server(server)

    def _look_at(self, child: _Child) -> None:
        at = time.monotonic()
        if child.process is not None and child.process.poll() is not None:
            _kill_group(child.process)
            child.process = None
            child.ends = 1 if at - child.started_at > STEADY_SECONDS else child.ends + 1
            child.restart_at = at + min(LONGEST_RESTART_SECONDS, RESTART_SECONDS * 2 ** (child.ends - 1))
        elif child.process is None and at >= child.restart_at:
            self._spawn(child)
            self.restarts.append(child.program.name)

    def _look_at_server(self, server: Server) -> None:
        if server.pid is not None:
            return
        # One that does not start is tried again at the next look; what needs it waits as in any outage.
        with suppress(ConfigurationError):
            server.restart()
            self.restarts.append(server.name)

    def _spawn(self, child: _Child) -> None:
        child.started_at = time.monotonic()
        with self.log_path(child.program.name).open("ab") as log:
            child.process = spawn(
                child.program.argv, death_signal=SIGKILL, env=child.program.env, cwd=self._cwd, stdout=log.fileno()
            )


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    """Whatever the program left behind in its group, and itself, at once."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, SIGKILL)
    process.wait()
