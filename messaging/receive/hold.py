"""A folder in one worker's hands, from the lease to its release, with the signs of life between (`receive.md` 3)."""

import logging
from types import TracebackType
from typing import Self

from sqlalchemy.exc import SQLAlchemyError

from messaging.receive.run import Run
from messaging.receive.watermark import Lease

logger = logging.getLogger(__name__)

#: Mails stored, or seconds passed, after which the holder of a folder says that it lives.
HEARTBEAT_MAILS, HEARTBEAT_SECONDS = 20, 30.0


class Superseded(Exception):
    """Another worker holds the folder now. What is stored stays."""


class Hold:
    """A context manager: let go at its end, or after a failure with the watermark at what is done. Of one thread."""

    def __init__(self, run: Run, folder_name: str, lease: Lease) -> None:
        self.folder_name = folder_name
        self.lease = lease
        #: The highest UID up to which everything is done; 0 before the first one, and for POP3.
        self.done_uid = 0
        self._run = run
        self._stored_since = 0
        self._heartbeat_at = run.ticker() + HEARTBEAT_SECONDS

    @classmethod
    def take(cls, run: Run, folder_name: str) -> Self | None:
        """None where another worker holds it."""
        mailbox = run.mailbox
        lease = run.watermarks.acquire(mailbox.config_id, folder_name, tenant_id=mailbox.tenant_id)
        return None if lease is None else cls(run, folder_name, lease)

    def stored(self) -> None:
        """One more mail is done."""
        self._stored_since += 1

    def keep_alive(self) -> None:
        """Between mails: say that the holder lives, where that is due. Raises: Superseded."""
        if self._stored_since < HEARTBEAT_MAILS and self._run.ticker() < self._heartbeat_at:
            return
        if not self.lease.heartbeat(self.done_uid):
            raise Superseded
        self._stored_since = 0
        self._heartbeat_at = self._run.ticker() + HEARTBEAT_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if exc is None:
            self.lease.release(self.done_uid)
        elif isinstance(exc, Superseded):
            config_id = self._run.mailbox.config_id
            logger.warning("a folder was taken over during its fetch", extra={"config_id": config_id})
            return True
        else:
            self._give_up()
        return False

    def _give_up(self) -> None:
        try:
            if self.done_uid <= self.lease.last_seen_uid or self.lease.heartbeat(self.done_uid):
                self.lease.release_failed()
        except SQLAlchemyError as exc:
            # The failure itself is raised; the lease runs out.
            logger.warning("a lease could not be given back", extra={"error": type(exc).__name__})
