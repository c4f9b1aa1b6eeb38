"""Files behind an fsspec URL: written and read whole, and never waited for longer than told.

A store may block for as long as its network likes: each operation runs in a thread of its own, which is left behind
when its time is up. What a store says may repeat the URL and its secrets: nothing of it is passed on but a type's name.
"""

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from messaging.errors import ConfigurationError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem  # type: ignore[import-untyped]

#: Octets read at once, and asked of the store at once.
SLICE_BYTES = 1_048_576
#: Operations under way in a process, those left behind among them: a store that hangs costs so many threads.
MAX_OPERATIONS = 16

_LOCAL = frozenset({"file", "local"})

T = TypeVar("T")


class StoreFailed(Exception):
    """The store refused, broke or did not answer in time. Says nothing of what it said."""


class NotStored(Exception):
    """The store answers, and has no such file."""


@dataclass(frozen=True, slots=True)
class _Root:
    """The URL as a file system object and a path in it."""

    fs: "AbstractFileSystem"
    path: str

    def at(self, location: str) -> str:
        return f"{self.path.rstrip('/')}/{location}"


class RemoteStore:
    """One URL. Threads may use it at once; each operation has a file system object of its own, kept for the next."""

    def __init__(self, url: str) -> None:
        """Connects to nothing. Raises: ConfigurationError, for a scheme that nothing installed here knows."""
        from fsspec import get_filesystem_class  # costs what a process without a store need not pay
        from fsspec.core import split_protocol  # type: ignore[import-untyped]

        self._url = url
        self._protocol = split_protocol(url)[0] or url.partition(":")[0]
        try:
            get_filesystem_class(self._protocol)
        except (ImportError, ValueError):
            raise ConfigurationError(
                f"MESSAGING_FILE_STORE_URL has the scheme {self._protocol[:20]!r}, for which no fsspec file system is"
                " installed here"
            ) from None
        self._places = threading.BoundedSemaphore(MAX_OPERATIONS)
        self._idle: list[_Root] = []
        self._process = os.getpid()

    def write(self, location: str, content: bytes, *, timeout_seconds: float) -> None:
        """Have `content` at `location`, a path within the store that follows from the content. Raises: StoreFailed."""
        self._within(timeout_seconds, lambda root, is_given_up: self._write(root.fs, root.at(location), content))

    def read(self, location: str, into: BinaryIO, *, max_bytes: int, timeout_seconds: float) -> None:
        """Append the file to `into`, but no more than just over `max_bytes`.

        Raises: NotStored, StoreFailed. `into` may be written to by a thread left behind after that: do not reuse it.
        """

        def work(root: _Root, is_given_up: Callable[[], bool]) -> None:
            left = max_bytes + 1
            try:
                with root.fs.open(root.at(location), "rb", block_size=SLICE_BYTES) as source:
                    while left > 0 and not is_given_up() and (octets := source.read(min(SLICE_BYTES, left))):
                        into.write(octets)
                        left -= len(octets)
            except FileNotFoundError:
                # A volume that is not mounted, or a bucket that is gone, is no reason to give a mail up.
                if root.fs.exists(root.path):
                    raise NotStored from None
                raise

        self._within(timeout_seconds, work)

    def delete(self, location: str, *, timeout_seconds: float) -> None:
        """Have nothing at `location`. Raises: StoreFailed."""

        def work(root: _Root, is_given_up: Callable[[], bool]) -> None:
            with contextlib.suppress(FileNotFoundError):
                root.fs.rm_file(root.at(location))

        self._within(timeout_seconds, work)

    def _write(self, fs: "AbstractFileSystem", path: str, content: bytes) -> None:
        try:
            if fs.info(path)["size"] == len(content):
                return
        except FileNotFoundError:
            pass
        if self._protocol in _LOCAL:
            _write_local(Path(path), content)
            return
        try:
            fs.pipe_file(path, content)
        except FileNotFoundError:
            fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            fs.pipe_file(path, content)

    def _within(self, timeout_seconds: float, work: Callable[[_Root, Callable[[], bool]], T]) -> T:
        """Run in a thread, for no longer than that; it is told when nobody waits any more."""
        until = time.monotonic() + timeout_seconds
        if not self._places.acquire(timeout=timeout_seconds):
            raise StoreFailed("the file store is busy: too many of its operations have not ended")
        future: Future[T] = Future()
        given_up = threading.Event()

        def run() -> None:
            try:
                root = self._take()
                future.set_result(work(root, given_up.is_set))
                self._idle.append(root)
            except BaseException as exc:  # noqa: BLE001 - every store has exceptions of its own; raised below
                future.set_exception(exc)
            finally:
                self._places.release()

        threading.Thread(target=run, name="file-store", daemon=True).start()
        try:
            failure = future.exception(max(0.0, until - time.monotonic()))
        except TimeoutError:
            given_up.set()
            raise StoreFailed(f"the file store did not answer within {timeout_seconds:g} s") from None
        if isinstance(failure, NotStored):
            raise NotStored
        if failure is not None:
            # Not raised from it: its words and its traceback's may hold the secrets of the URL.
            raise StoreFailed(f"the file store failed: {type(failure).__name__}")
        return future.result()

    def _take(self) -> _Root:
        from fsspec.core import url_to_fs

        if self._process != os.getpid():  # forked: the parent's connections are not ours
            self._idle, self._process = [], os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            # Some connect here already. Not one of fsspec's own cache: few of them are made for several threads.
            return _Root(*url_to_fs(self._url, skip_instance_cache=True))


def _write_local(path: Path, content: bytes) -> None:
    """All or nothing, and on the disk when it answers: written beside, synchronised, renamed.

    With the permissions that this process gives its files: who sends may be another user than who accepts.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with beside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
