"""A warning when due records wait while the broker, the workers or beat are away. It asks the database, not the broker.

A thread in every worker process; the one that holds an advisory lock does the asking, so that a host full of workers
warns once.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine, Table, func, select
from sqlalchemy.exc import SQLAlchemyError

from messaging.delivery.gauges import has_handed_out, measure_line, oldest_due_seconds

logger = logging.getLogger(__name__)

#: Seconds between two looks.
LOOK_INTERVAL_SECONDS = 30.0

#: Seconds between two warnings about one channel.
WARN_INTERVAL_SECONDS = 300.0

#: Key of the advisory lock; any constant nobody else uses.
_LOCK_KEY = 7_272_740_002


@dataclass(slots=True)
class _Seen:
    """What this process remembers of one channel."""

    #: Since when records were handed out and no worker of the channel was there to take them; None while not so.
    untaken_since: float | None = None
    warned_at: float | None = None


@dataclass
class StrandedWatch:
    """Looks at every channel's line and warns; `run` is the thread's body."""

    engine: Engine
    #: Channel name -> the send record's table.
    tables: Mapping[str, Table]
    warn_seconds: float
    lease_seconds: float
    #: Answers for a channel what is away: `broker`, `workers`, `beat`, or None.
    find_absent: Callable[[str], str | None]
    ticker: Callable[[], float] = time.monotonic
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _connection: Connection | None = None

    def run(self, stopping: threading.Event) -> None:
        """Look until `stopping` is set."""
        interval = min(LOOK_INTERVAL_SECONDS, self.warn_seconds)
        while not stopping.wait(interval):
            self.look()
        self.let_go()

    def look(self) -> None:
        """One look, by the one process that holds the lock. A database that is away is no news for this warning."""
        try:
            if self._connection is None:
                self._connection = self._connect_with_lock()
            if self._connection is not None:
                for channel, table in self.tables.items():
                    self._look_at(self._connection, channel, table)
        except SQLAlchemyError as exc:
            logger.debug("no look at waiting records", extra={"error": type(exc).__name__})
            self.let_go()

    def let_go(self) -> None:
        """Leave the asking to another process."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            connection.execute(select(func.pg_advisory_unlock(_LOCK_KEY)))
        except SQLAlchemyError:
            # Not back into the pool with the lock: it ends with the session.
            connection.invalidate()
        connection.close()

    def _connect_with_lock(self) -> Connection | None:
        """A connection that holds the lock for as long as it lasts; None while another process has it."""
        connection = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            has_lock = connection.execute(select(func.pg_try_advisory_lock(_LOCK_KEY))).scalar_one()
        except SQLAlchemyError:
            connection.close()
            raise
        if has_lock:
            return connection
        connection.close()
        return None

    def _look_at(self, connection: Connection, channel: str, table: Table) -> None:
        line = measure_line(connection, table)
        age = max(oldest_due_seconds(connection, table), line.oldest_overdue_seconds)
        absent = self.find_absent(channel)
        seen = self._seen.setdefault(channel, _Seen())
        at = self.ticker()
        # A record that ticks hand out again and again is never due for long: then the absence itself is measured.
        if absent == "workers" and (line.due_count or has_handed_out(connection, table, self.lease_seconds)):
            seen.untaken_since = at if seen.untaken_since is None else seen.untaken_since
            age = max(age, at - seen.untaken_since)
        else:
            seen.untaken_since = None
        if age < self.warn_seconds or (seen.warned_at is not None and at - seen.warned_at < WARN_INTERVAL_SECONDS):
            return
        seen.warned_at = at
        logger.warning(
            "due records wait",
            extra={
                "channel": channel,
                "away": absent or "nobody: more is due than workers send",
                "oldest_seconds": round(age),
                "due": line.due_count,
                "overdue": line.overdue_count,
            },
        )
