"""The one thread of a worker process that writes outcomes and releases, in groups, and never gives one up.

It commits at once when it is free and gathers while a commit runs. When the database is away, or its schema or rights
are not as needed, it tries again each second until the row answers; when a group fails for any other reason each
outcome is written by itself, and one that the database will not take with code and category only (C11).
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from messaging import metrics
from messaging.category import MarkerCode
from messaging.clock import Ticker
from messaging.db.trouble import is_away, is_passing, is_unfit, sqlstate
from messaging.delivery import statements
from messaging.delivery.announcing import NOBODY, Announcer
from messaging.delivery.channel import Channel, Claim
from messaging.delivery.outcome import Outcome, OutcomeWriter
from messaging.settings import COMMIT_RETRY_SECONDS

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Most outcomes of one statement.
MAX_GROUP = 500


@dataclass(frozen=True, slots=True)
class Release:
    """A claim given back unsent (T11), or held back by a window (T10)."""

    claim: Claim
    delay_seconds: float
    #: For the metric: hold, stopping, dependency or old; None for T10, which the windows count.
    reason: str | None
    code: str = MarkerCode.CLAIM_RELEASED
    message: str = ""


@dataclass(frozen=True, slots=True)
class Unclear:
    """Claims of one token whose version is not known, since a reply was lost: given back by the token (T11)."""

    ids: Sequence[int]
    token: int
    delay_seconds: float


class Tally:
    """What became of the records of one delivery task; its thread waits for the committer here."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._counts: dict[str, int] = {}
        self._expected = 0
        self._seen = 0

    def expect(self) -> None:
        """One more result will come."""
        self._expected += 1

    def add(self, keys: Sequence[str]) -> None:
        """Results came; the thread that waits for all of them is woken once."""
        with self._condition:
            for key in keys:
                self._counts[key] = self._counts.get(key, 0) + 1
            self._seen += len(keys)
            if self._seen >= self._expected:
                self._condition.notify_all()

    def count_now(self, key: str, count: int) -> None:
        """Results known without the committer."""
        with self._condition:
            self._counts[key] = self._counts.get(key, 0) + count

    def wait(self) -> dict[str, int]:
        """Block until every expected result came; answers the counts."""
        with self._condition:
            self._condition.wait_for(lambda: self._seen >= self._expected)
            return dict(self._counts)


@dataclass(frozen=True, slots=True)
class _Item:
    work: Outcome | Release
    tally: Tally
    #: By the committer's ticker.
    submitted_at: float


#: Share of the group window for which a busy committer gathers at most before it commits.
_GATHER_SHARE = 0.6

#: What a commit may take is the slowest of late, which falls by the first factor with each that took less, times the
#: second. Quick and even commits cost no more for it; of uneven ones half as many outcomes wait for too long.
_FALL, _MARGIN = 0.9, 1.5


class Pace:
    """For how long a busy committer gathers, so that each outcome is committed within the window; all in seconds."""

    def __init__(self, window_seconds: float) -> None:
        self._window_seconds = window_seconds
        #: The slowest commit of late.
        self._commit_seconds = 0.0

    def committed(self, seconds: float) -> None:
        """A commit took so long."""
        self._commit_seconds = min(self._window_seconds, max(seconds, self._commit_seconds * _FALL))

    def gather_seconds(self, waited_seconds: float) -> float:
        """How long to wait for others where the oldest outcome has waited so long, during the last commit."""
        left = self._window_seconds - waited_seconds - self._commit_seconds * _MARGIN
        return max(0.0, min(left, self._window_seconds * _GATHER_SHARE))


class Committer:
    """Takes outcomes and releases from all threads of a process and writes them.

    `engine` is its own: one autocommitted connection whose statement time-out is `DELIVERY__COMMIT_TIMEOUT_SECONDS`.
    """

    def __init__(
        self,
        engine: Engine,
        channel: Channel,
        *,
        worker_name: str,
        window_seconds: float,
        ticker: Ticker,
        announcer: Announcer = NOBODY,
    ) -> None:
        self._engine = engine
        self._channel = channel
        self._writer = OutcomeWriter(channel, worker_name, ticker, announcer)
        self._pace = Pace(window_seconds)
        self._ticker = ticker
        self._queue: list[_Item] = []
        self._unclear: list[Unclear] = []
        self._is_hurried = False
        #: Whether the thread waits for the first one of a group.
        self._is_idle = False
        self._condition = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name=f"committer-{channel.name}", daemon=True)
        self._thread.start()

    def submit(self, work: Outcome | Release, tally: Tally) -> None:
        """Hand over; returns at once. The tally hears what stands."""
        tally.expect()
        with self._condition:
            self._queue.append(_Item(work, tally, self._ticker()))
            if self._is_idle:
                self._is_idle = False
                self._condition.notify()

    def release_unclear(self, unclear: Unclear) -> None:
        """Give back, once the database answers, what was claimed under a token."""
        with self._condition:
            self._unclear.append(unclear)
            self._condition.notify()

    def hurry(self) -> None:
        """Somebody waits for a tally: do not gather."""
        with self._condition:
            self._is_hurried = True
            self._condition.notify()

    def close(self, timeout_seconds: float) -> bool:
        """Write what is queued and end the thread; answers whether everything was written in time."""
        with self._condition:
            self._is_closing = True
            self._condition.notify()
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        is_busy = False
        while True:
            with self._condition:
                if is_busy and not self._is_hurried and not self._is_closing:
                    # A commit has just ended: what comes in now shares the next one.
                    waited = self._ticker() - self._queue[0].submitted_at if self._queue else 0.0
                    self._condition.wait_for(
                        lambda: self._is_hurried or self._is_closing, self._pace.gather_seconds(waited)
                    )
                is_busy = bool(self._queue)
                while not self._queue and not self._unclear and not self._is_closing:
                    self._is_idle = True
                    self._condition.wait()
                self._is_idle = False
                group, self._queue = self._queue[:MAX_GROUP], self._queue[MAX_GROUP:]
                unclear, self._unclear = self._unclear, []
                self._is_hurried = False
            if not group and not unclear:
                return
            started = self._ticker()
            self._commit(group)
            self._pace.committed(self._ticker() - started)
            for each in unclear:
                self._give_back(each)

    def _commit(self, group: Sequence[_Item]) -> None:
        outcomes = [item for item in group if isinstance(item.work, Outcome)]
        releases = [item for item in group if isinstance(item.work, Release)]
        if outcomes:
            self._settle(outcomes)
        if releases:
            self._settle(releases)

    def _settle(self, items: Sequence[_Item]) -> None:
        """Write these items, whatever it takes, and tell their tallies."""
        applied = self._try_until_answered(items)
        if applied is None:
            applied = {}
            for item in items:
                applied |= self._settle_alone(item)
        told: dict[Tally, list[str]] = {}
        for item in items:
            told.setdefault(item.tally, []).append(applied.get(item.work.claim.key, "not_mine"))
        for tally, keys in told.items():
            tally.add(keys)

    def _settle_alone(self, item: _Item) -> dict[tuple[int, int], str]:
        # A repeat: of a group that was refused a part may stand, as its statements commit one by one.
        applied = self._try_until_answered([item], is_repeat=True)
        if applied is None and isinstance(item.work, Outcome):
            logger.error(
                "outcome refused by the database, written without its text",
                extra={"record_id": item.work.claim.record_id},
            )
            applied = self._try_until_answered([replace(item, work=item.work.without_text())], is_repeat=True)
        if applied is None:
            # A bug: what is left in SENDING is swept and counted.
            logger.critical("outcome refused by the database", extra={"record_id": item.work.claim.record_id})
            return {}
        return applied

    def _give_back(self, unclear: Unclear) -> None:
        parameters = {
            "ids": list(unclear.ids),
            "token": unclear.token,
            "delay": unclear.delay_seconds,
            "code": str(MarkerCode.CLAIM_RELEASED),
            "message": "given back: the database went away during its claim or preparation",
        }
        moved = self._until_answered(
            lambda connection, _: len(
                connection.execute(statements.release_unclear(self._channel.table), parameters).fetchall()
            )
        )
        if moved:
            metrics.released(self._channel.name, "dependency", moved)

    def _try_until_answered(
        self, items: Sequence[_Item], *, is_repeat: bool = False
    ) -> dict[tuple[int, int], str] | None:
        """Write in one statement; None when the database refuses it for good."""
        return self._until_answered(
            lambda connection, was_away: self._write(connection, items, is_repeat=is_repeat or was_away)
        )

    def _until_answered(self, write: Callable[[Connection, bool], T]) -> T | None:
        """Run `write(connection, was_away)` until the database answers; None when it refuses."""
        was_away = False
        waits = 0
        while True:
            try:
                with self._engine.connect() as connection:
                    return write(connection, was_away)
            except SQLAlchemyError as exc:
                if is_passing(exc):
                    continue
                if not (is_away(exc) or is_unfit(exc)):
                    logger.error("outcomes were refused by the database", extra={"sqlstate": sqlstate(exc)})
                    return None
                state = sqlstate(exc)
            except Exception as exc:  # noqa: BLE001 - must not end the thread that writes all other groups
                logger.critical("outcomes could not be written", extra={"error": type(exc).__qualname__})
                return None
            was_away = True
            waits += 1
            if waits == 1 or waits % 60 == 0:
                logger.warning("database away, outcomes wait", extra={"seconds": waits, "sqlstate": state})
            time.sleep(COMMIT_RETRY_SECONDS)

    def _write(self, connection: Connection, items: Sequence[_Item], *, is_repeat: bool) -> dict[tuple[int, int], str]:
        works = [item.work for item in items]
        outcomes = [w for w in works if isinstance(w, Outcome)]
        if outcomes:
            return self._writer.write(connection, outcomes, is_repeat=is_repeat)
        return self._write_releases(connection, [w for w in works if isinstance(w, Release)])

    def _write_releases(self, connection: Connection, releases: Sequence[Release]) -> dict[tuple[int, int], str]:
        releases = sorted(releases, key=lambda r: r.claim.record_id)
        rows = connection.execute(
            statements.releases(self._channel.table),
            {
                "ids": [r.claim.record_id for r in releases],
                "versions": [r.claim.version for r in releases],
                "tokens": [r.claim.token for r in releases],
                "delays": [r.delay_seconds for r in releases],
                "codes": [str(r.code) for r in releases],
                "messages": [r.message for r in releases],
            },
        ).fetchall()
        moved = {(row.id, row.token) for row in rows}
        for release in releases:
            if release.claim.key in moved:
                if release.reason is not None:
                    metrics.released(self._channel.name, release.reason)
            else:
                metrics.lost_updates(self._channel.name, "release")
                logger.debug("release lost", extra={"record_id": release.claim.record_id})
        return dict.fromkeys(moved, "released")
