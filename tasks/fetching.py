"""What fetches mailboxes in a worker process: how many at once, and what becomes of one that fails."""

import logging
import threading
from collections import Counter
from collections.abc import Callable

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from messaging.delivery.announcing import NOBODY, Announcer
from messaging.errors import ReceiveError
from messaging.files import FileStore
from messaging.receive import polling
from messaging.receive.fetch import Receiver
from messaging.settings import Settings

logger = logging.getLogger(__name__)

#: Flower shows every count, 0 too.
_NONE = {"received": 0, "failed": 0, "waiting": 0}


class Fetching:
    """One per process; its tasks run side by side."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        *,
        slots: int,
        is_stopping: Callable[[], bool],
        announcer: Announcer = NOBODY,
    ) -> None:
        """`slots`: fetches at a time, each of which may keep a thread for its whole time budget."""
        self._engine = engine
        self._is_stopping = is_stopping
        files = FileStore(engine, settings)
        self._receiver = Receiver(engine, settings, files, is_stopping=is_stopping, announcer=announcer)
        self._lock = threading.Lock()
        self._free_slots = slots
        #: Mailboxes that came while no slot was free, each once, in their order.
        self._waiting: dict[int, None] = {}

    def fetch(self, config_id: int) -> dict[str, int]:
        """Fetch a mailbox, and those that wait here for one to end; answers how many mails are new and what failed.

        Where no slot is free it waits without its thread. The next tick is the retry of one that failed.
        """
        with self._lock:
            if not self._free_slots:
                self._waiting[config_id] = None
                return {**_NONE, "waiting": 1}
            self._free_slots -= 1
        counts: Counter[str] = Counter()
        wanted: int | None = config_id
        try:
            while wanted is not None:
                counts.update(self._fetch(wanted))
                wanted = self._next()
        except BaseException:
            with self._lock:
                self._free_slots += 1
            raise
        return _NONE | dict(counts)

    def let_go(self) -> None:
        """The process ends, and some fetches do not: their mailboxes are not left locked until the lease runs out."""
        try:
            count = self._receiver.let_go()
        except SQLAlchemyError as exc:
            logger.error("folders stay locked until their lease runs out", extra={"error": type(exc).__name__})
        else:
            if count:
                logger.warning("fetches were broken off at the end", extra={"folders": count})

    def _fetch(self, config_id: int) -> dict[str, int]:
        with self._engine.connect() as connection:
            protocol = polling.find_polled(connection, config_id)
        if protocol is None:
            return {}
        try:
            return {"received": self._receiver.fetch_mailbox(config_id)}
        except ReceiveError as exc:
            logger.warning(
                "a mailbox could not be fetched: %s", exc, extra={"config_id": config_id, "protocol": protocol}
            )
            return {"failed": 1}

    def _next(self) -> int | None:
        """The one that has waited longest; None gives the slot up."""
        with self._lock:
            left, self._waiting = self._waiting, {}
            first = next(iter(left), None)
            if first is not None and not self._is_stopping():
                del left[first]
                self._waiting = left
                return first
            self._free_slots += 1
        # The next tick hands to another worker what this one does not begin any more.
        polling.give_back(self._engine, left)
        return None


def slots_for(threads: int, *, is_alone: bool) -> int:
    """Fetches at a time in a worker of so many threads: half of them where it works on other queues as well.

    Else some slow mailboxes would keep mails and ticks waiting for the length of a time budget.
    """
    return threads if is_alone else max(1, threads // 2)
