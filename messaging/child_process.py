"""Child processes that never outlive their owner, and how to tell one from a later process of the same number."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from signal import SIGTERM, Signals

# Becomes the program: takes the user's identity, asks the kernel for a signal when the owner dies, and replaces itself.
# A program of its own, as code between fork and exec may hang in a process that has threads.
_LAUNCHER = """
import ctypes, os, signal, sys
death_signal, owner, uid, gid = map(int, sys.argv[1:5])
if uid:
    os.setgroups([]); os.setgid(gid); os.setuid(uid)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, death_signal, 0, 0, 0)
    if os.getppid() != owner:
        os._exit(1)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.execv(sys.argv[5], sys.argv[5:])
"""


_spawners: dict[int, ThreadPoolExecutor] = {}


def spawn(
    argv: Sequence[str | Path],
    *,
    death_signal: Signals = SIGTERM,
    uid: int = 0,
    gid: int = 0,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
) -> "subprocess.Popen[bytes]":
    """Starts a program that gets `death_signal` when this process dies, even by SIGKILL (Linux; elsewhere it stays).

    It leads its own process group, so Ctrl-C in the terminal does not reach it. `uid` 0 keeps the caller's identity.
    May be called from any thread, also one that ends: the kernel ties the signal to the thread that forks, so one that
    lives as long as the process does that.
    """
    launcher = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        _LAUNCHER,
        str(int(death_signal)),
        str(os.getpid()),
        str(uid),
        str(gid),
    ]

    def start() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [*launcher, *map(str, argv)],
            env=env,
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.STDOUT if stdout is not None else None,
            process_group=0,
        )

    spawner = _spawners.get(os.getpid())
    if spawner is None:
        spawner = _spawners.setdefault(os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="spawn"))
    return spawner.submit(start).result()


def birth(pid: int) -> str:
    """When the process began, in a form to compare; empty if it is not running. A number alone may be reused."""
    if Path("/proc/self/stat").exists():
        try:
            # The name, in brackets, may hold blanks; behind it the state is the first field, the start the twentieth.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return ""
        return "" if fields[0] in "ZX" else fields[19]
    found = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, began = found.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else began.strip()
