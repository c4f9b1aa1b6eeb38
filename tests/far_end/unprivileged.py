"""Servers of Debian's packages that `make farends` has unpacked, run without root in folders of their own.

As root they run as `nobody`. A server never outlives the test process, and gets only the environment it is given:
what its libraries need would break Python.
"""

import grp
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from messaging.child_process import spawn
from messaging.embedded.programs import is_open_to_others, nobody, shared_folder
from messaging.embedded.server import free_port
from tests.far_end import packages

START_SECONDS = 30.0
STOP_SECONDS = 5.0
POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Identity:
    """Who the servers run as."""

    uid: int
    gid: int
    user: str
    group: str

    @classmethod
    def find(cls) -> "Identity":
        user = nobody() if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        return cls(user.pw_uid, user.pw_gid, user.pw_name, grp.getgrgid(user.pw_gid).gr_name)


def require_readable_tree(group: str) -> Path:
    """`packages.require_tree`, where the servers' user can read it: a checkout may lie in a home of root's own."""
    root = packages.require_tree(group)
    if os.geteuid() != 0 or is_open_to_others(root):
        return root
    copy = shared_folder() / f"farends-{group}-{(root.parent / 'stamp').read_text().strip()}"
    if not copy.exists():
        new = copy.with_name(f"{copy.name}.{os.getpid()}")
        shutil.copytree(root, new, symlinks=True)
        with suppress(OSError):  # somebody else was faster
            new.rename(copy)
    return copy


def library_path(*folders: Path) -> str:
    return ":".join(map(str, folders))


class Unprivileged:
    """One server: its folder, a port, the process. A context manager."""

    def __init__(self, folder: Path) -> None:
        self.identity = Identity.find()
        #: Short, as sockets lie below it; new for each start, as servers look for one that is still running.
        self.folder = folder
        self.port = free_port()
        self.log_path = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def make_folders(self, *names: str) -> None:
        for name in ("", *names):
            folder = self.folder / name
            folder.mkdir(parents=True, exist_ok=True)
            self.own(folder)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        self.own(path)
        return path

    def own(self, path: Path) -> None:
        """Give it to the server's user."""
        if os.geteuid() == 0:
            os.chown(path, self.identity.uid, self.identity.gid)

    def run(self, arguments: Sequence[str | Path], environment: Mapping[str, str], *, cwd: Path | None = None) -> None:
        """Start the program with nothing but this environment."""
        assignments = [f"{name}={value}" for name, value in environment.items()]
        with (self.folder / "output").open("ab") as output:
            self._process = spawn(
                ["/usr/bin/env", "-i", "PATH=/usr/bin:/bin", *assignments, *arguments],
                uid=self.identity.uid if os.geteuid() == 0 else 0,
                gid=self.identity.gid,
                cwd=cwd or self.folder,
                stdout=output.fileno(),
            )

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Raises: RuntimeError, with what the server said, when it ended or took too long."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                break
            with suppress(OSError):
                if is_ready():
                    return
            time.sleep(POLL_SECONDS)
        said = "\n".join(
            path.read_text(errors="replace")[-3000:]
            for path in (self.folder / "output", self.log_path)
            if path.exists()
        )
        self.stop()
        raise RuntimeError(f"{type(self).__name__} did not start: {said}")

    def greets(self, port: int, greeting: bytes) -> bool:
        """Whether something on this port begins a connection so."""
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            return connection.recv(200).startswith(greeting)

    def stop(self) -> None:
        """End the process and what it started."""
        process, self._process = self._process, None
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
