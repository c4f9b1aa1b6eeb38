"""Child processes: each with a log, paused while others are measured, never left behind; and what they cost."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from messaging.child_process import spawn

#: Kernel ticks a second in `/proc/<pid>/stat`.
_TICKS = os.sysconf("SC_CLK_TCK")
ROOT = Path(__file__).resolve().parents[2]


class Child:
    """One process, in a group of its own, killed with whoever started it."""

    def __init__(self, name: str, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as out:
            self.process = spawn(
                list(argv),
                death_signal=signal.SIGKILL,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
                cwd=ROOT,
                stdout=out.fileno(),
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_for(self, text: str, *, timeout: float = 60) -> "Child":
        """Wait until the log holds the text."""
        deadline = time.monotonic() + timeout
        while text.encode() not in self.log.read_bytes():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not get ready:\n{self.log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.05)
        return self

    def stop(self, *, grace: float = 20) -> None:
        """SIGTERM, then SIGKILL for the whole group."""
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(grace)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)
                self.process.wait()


class Group:
    """Children that are paused, resumed and stopped together."""

    def __init__(self, children: Sequence[Child]) -> None:
        self.children = list(children)

    def pause(self) -> None:
        """Hold them with SIGSTOP, so that they cost nothing while somebody else is measured."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Resume them for the block."""
        self.resume()
        try:
            yield
        finally:
            self.pause()

    def stop(self) -> None:
        for child in self.children:
            child.stop()

    def _signal(self, number: int) -> None:
        for child in self.children:
            if child.process.poll() is not None:
                raise RuntimeError(f"{child.name} died:\n{child.log.read_text(errors='replace')[-3000:]}")
            os.killpg(child.pid, number)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its living children, and of the children it has reaped."""
    fields = _stat(pid)
    return sum(int(fields[n]) for n in (11, 12, 13, 14)) / _TICKS + sum(cpu_seconds(child) for child in _children(pid))


def rss_mb(pid: int) -> float:
    """Resident memory in MB (10**6 bytes), shared pages included."""
    return _memory(f"/proc/{pid}/status", "VmRSS:")


def pss_mb(pid: int) -> float:
    """Resident memory in MB, each shared page divided by the number of its users."""
    return _memory(f"/proc/{pid}/smaps_rollup", "Pss:")


def _memory(path: str, label: str) -> float:
    with open(path) as lines:
        return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(label))


def _stat(pid: int) -> list[str]:
    """The fields after the name, which may hold spaces: state, ppid, ..., utime (11), stime, cutime, cstime."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["0"] * 15


def _children(pid: int) -> list[int]:
    try:
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
