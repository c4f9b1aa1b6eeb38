"""What fetches mailboxes in a worker process: how many at once, and what becomes of one that fails."""

import logging
import threading
from collections.abc import Callable

from sqlalchemy import Engine

from messaging.errors import ReceiveError
from messaging.files import FileStore
from messaging.receive import polling
from messaging.receive.fetch import Receiver
from messaging.settings import Settings

logger = logging.getLogger(__name__)


class Fetching:
    """One per process; its tasks run side by side."""

    def __init__(self, engine: Engine, settings: Settings, *, slots: int, is_stopping: Callable[[], bool]) -> None:
        """`slots`: fetches at a time, each of which may keep a thread for its whole time budget."""
        self._engine = engine
        self._slots = threading.BoundedSemaphore(slots)
        self._receiver = Receiver(engine, settings, FileStore(engine, settings), is_stopping=is_stopping)

    def fetch(self, config_id: int) -> dict[str, int]:
        """Fetch a mailbox that is still polled; answers how many mails are new, and whether it failed or has to wait.

        The next tick is the retry of one that failed.
        """
        with self._engine.connect() as connection:
            protocol = polling.find_polled(connection, config_id)
        if protocol is None:
            return _counts()
        if not self._slots.acquire(blocking=False):
            polling.give_back(self._engine, [config_id])
            return _counts(postponed=1)
        try:
            return _counts(received=self._receiver.fetch_mailbox(config_id))
        except ReceiveError as exc:
            logger.warning(
                "a mailbox could not be fetched: %s", exc, extra={"config_id": config_id, "protocol": protocol}
            )
            return _counts(failed=1)
        finally:
            self._slots.release()


def _counts(*, received: int = 0, failed: int = 0, postponed: int = 0) -> dict[str, int]:
    """Flower shows every count, 0 too."""
    return {"received": received, "failed": failed, "postponed": postponed}


def slots_for(threads: int, *, is_alone: bool) -> int:
    """Fetches at a time in a worker of so many threads: half of them where it works on other queues as well.

    Else some slow mailboxes would keep mails and ticks waiting for the length of a time budget.
    """
    return threads if is_alone else max(1, threads // 2)
