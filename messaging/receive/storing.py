"""Stores a group of mails while the next one is read, in a thread of its own: one group at a time, in their order."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from types import TracebackType
from typing import Self

from messaging.receive.arrival import Arrival
from messaging.receive.hold import Hold
from messaging.receive.run import Run


def store(run: Run, hold: Hold, arrivals: Sequence[Arrival]) -> None:
    """Keep mails of a folder, each of which is done then. Raises: what the driver raises; those before it are done."""
    for kept in run.keep(arrivals):
        hold.done_uid = int(kept.arrival.incoming.server_uid)
        hold.stored()


class Storing:
    """A context manager for one folder; what was added is stored at its end, also after a failure of the server.

    Its user leaves `hold` alone between `begin` and what waits: `add`, `finish`.
    """

    def __init__(self, run: Run, hold: Hold) -> None:
        self._run = run
        self._hold = hold
        self._added: tuple[Sequence[Arrival], int] | None = None
        self._begun: Future[None] | None = None
        self._has_failed = False
        self._executor: ThreadPoolExecutor | None = None

    def add(self, arrivals: Sequence[Arrival], last_uid: int) -> None:
        """The next group, after which all up to that UID is done, once the one before it is stored.

        Raises: Superseded, or what the driver raises, of the one before it.
        """
        self.finish()
        self._added = (arrivals, last_uid)

    def begin(self) -> None:
        """Start to store what was added, and come back: the caller has something to do that is not waiting."""
        if self._added is not None:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, "storing")
            (arrivals, last_uid), self._added = self._added, None
            context = copy_context()
            self._begun = self._executor.submit(lambda: context.run(self._store, arrivals, last_uid))

    def finish(self) -> None:
        """Wait until all that was added is stored. Raises: as `add`."""
        try:
            if self._begun is not None:
                begun, self._begun = self._begun, None
                begun.result()
            if self._added is not None:
                added, self._added = self._added, None
                self._store(*added)
        except BaseException:
            self._has_failed = True
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if not self._has_failed:
                self.finish()
        finally:
            if self._executor is not None:
                self._executor.shutdown()

    def _store(self, arrivals: Sequence[Arrival], last_uid: int) -> None:
        store(self._run, self._hold, arrivals)
        self._hold.done_uid = last_uid
        self._hold.keep_alive()
