"""A run of pruning: every kind that has an age, batch by batch in turn, until all is done or the time is up.

One run at a time; what it did not come to, the next one goes on with. Between two batches it rests for as long as the
batch took, so that it never takes more than half of what one connection can do.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from messaging import metrics
from messaging.clock import Ticker
from messaging.db.engine import autocommitting
from messaging.db.trouble import sqlstate
from messaging.errors import StateError
from messaging.files import FileStore
from messaging.retention.kinds import PruneKind
from messaging.retention.models import PruneProgress
from messaging.retention.passes import PASSES
from messaging.retention.walk import Walk
from messaging.settings import Settings

logger = logging.getLogger(__name__)

#: Seconds of the longest rest: a batch that waited for a lock says nothing of the load.
MAX_REST_SECONDS = 1.0

#: Names the row that says when the last night's run began.
NIGHTLY = "nightly"

#: Says of a tick that it begins the night's run: the first one in the hour of the settings.
_BEGIN_NIGHT = text(f"""
    INSERT INTO prune_progress AS p (kind, started_at)
    SELECT '{NIGHTLY}', now() WHERE extract(hour FROM now() AT TIME ZONE 'UTC') = :hour
    ON CONFLICT (kind) DO UPDATE SET started_at = now() WHERE p.started_at < now() - interval '12 hours'
    RETURNING 1
""")  # noqa: S608 - a constant of the code

#: Held by the session of the run that is under way.
_TAKE_TURN = text("SELECT pg_try_advisory_lock(hashtextextended('messaging.prune', 0))")
_END_TURN = text("SELECT pg_advisory_unlock(hashtextextended('messaging.prune', 0))")


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a run came to in one pass."""

    kind: PruneKind
    #: The kind, or kind and channel.
    name: str
    #: Rows taken away or emptied; of a dry run, those that would be.
    rows: int
    #: Whether it came to its end; else the next run goes on.
    is_done: bool


@dataclass(frozen=True, slots=True)
class PruneLine:
    """How far a pass has come."""

    kind: PruneKind
    name: str
    #: The age of the settings; None: it is off.
    days: float | None
    #: Rows up to this id were looked at.
    last_id: int
    #: Rows that the run under way, or the last one, took away or emptied.
    pruned: int
    #: None: there was no run.
    started_at: datetime | None
    #: None: no run, or one that was broken off and that the next one goes on with.
    finished_at: datetime | None


class PruneBusy(StateError):
    """Another run is under way."""


def begins_night(engine: Engine, settings: Settings) -> bool:
    """Whether this tick is the one that begins the night's run; True once a night, and never without an age."""
    if all(kind.days(settings.retention) is None for kind in PruneKind):
        return False
    with autocommitting(engine).connect() as connection:
        return connection.execute(_BEGIN_NIGHT, {"hour": settings.retention.hour}).first() is not None


def prune(
    engine: Engine,
    settings: Settings,
    files: FileStore,
    *,
    kinds: Collection[PruneKind] | None = None,
    is_stopping: Callable[[], bool],
    rest: Callable[[float], object],
    ticker: Ticker,
    on_batch: Callable[[str, int], None] = lambda name, rows: None,
) -> list[Pruned]:
    """Prune these kinds (None: all), as far as they have an age; commits batch by batch.

    `rest` waits for some seconds, `on_batch` hears after each batch how many rows of its pass went so far.

    Raises: PruneBusy, when another run is under way; what the driver raises, once the other passes are through where
    one cannot go on.
    """
    walks = list(_walks(engine, settings, files, kinds))
    if not walks:
        return []
    until = ticker() + settings.retention.time_budget_seconds
    failures: list[SQLAlchemyError] = []
    with _turn(engine):
        open_walks, unfinished = list(walks), list(walks)
        while open_walks:
            for walk in list(open_walks):
                if is_stopping() or ticker() >= until:
                    return _told(walks, unfinished, failures)
                began, before = ticker(), walk.pruned
                try:
                    if not walk.step():
                        open_walks.remove(walk)
                        unfinished.remove(walk)
                except SQLAlchemyError as exc:
                    logger.error("pruning failed", extra={"kind": walk.name, "sqlstate": sqlstate(exc)})
                    failures.append(exc)
                    open_walks.remove(walk)
                metrics.pruned(walk.kind.lower(), walk.pruned - before)
                on_batch(walk.name, walk.pruned)
                rest(min(ticker() - began, MAX_REST_SECONDS))
    return _told(walks, unfinished, failures)


def count(
    engine: Engine, settings: Settings, files: FileStore, *, kinds: Collection[PruneKind] | None = None
) -> list[Pruned]:
    """What `prune` would take, as far as it can be told; reads as much as that would and changes nothing."""
    walks = _walks(autocommitting(engine), settings, files, kinds)
    return [Pruned(walk.kind, walk.name, walk.count(), is_done=True) for walk in walks]


def progress(session: Session, settings: Settings) -> list[PruneLine]:
    """Of every pass how far it has come."""
    known = {row.kind: row for row in session.scalars(select(PruneProgress))}
    lines = []
    for one in PASSES:
        row, days = known.get(one.name), one.kind.days(settings.retention)
        if row is None:
            lines.append(PruneLine(one.kind, one.name, days, 0, 0, None, None))
        else:
            lines.append(PruneLine(one.kind, one.name, days, row.last_id, row.pruned, row.started_at, row.finished_at))
    return lines


def _walks(engine: Engine, settings: Settings, files: FileStore, kinds: Collection[PruneKind] | None) -> Iterator[Walk]:
    for one in PASSES:
        days = one.kind.days(settings.retention)
        if days is not None and (kinds is None or one.kind in kinds):
            yield Walk(engine, files, one, days=days, rows=settings.retention.batch_limit)


def _told(walks: Collection[Walk], unfinished: Collection[Walk], failures: Sequence[SQLAlchemyError]) -> list[Pruned]:
    told = [Pruned(walk.kind, walk.name, walk.pruned, walk not in unfinished) for walk in walks]
    fields = {one.name: one.rows for one in told if one.rows}
    logger.info("pruned", extra={"rows": fields, "unfinished": [walk.name for walk in unfinished]})
    if failures:
        raise failures[0]
    return told


@contextmanager
def _turn(engine: Engine) -> Iterator[None]:
    with autocommitting(engine).connect() as connection:
        if not connection.execute(_TAKE_TURN).scalar_one():
            raise PruneBusy("another run of pruning is under way")
        try:
            yield
        finally:
            connection.execute(_END_TURN)
