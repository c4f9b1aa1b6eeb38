"""One tick of a channel: promote, then lease and publish until nothing is due, the queue is full or the time is over.

Back-pressure: the queue holds about `DISPATCH__QUEUE_SECONDS` of work, what lies in it delays every newcomer (C12).
Several ticks at once do no harm. Nothing is written after a publish; a publish that fails ends the tick (C18).
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, Table

from messaging import metrics
from messaging.clock import Ticker
from messaging.delivery.due import Leased, lease, next_cursor, promote, unlease
from messaging.delivery.hints import DispatchHints, Load
from messaging.settings import DispatchSettings

#: Seconds between two looks at a full queue, at least and at most.
LOOK_SECONDS, MAX_LOOK_SECONDS = 0.02, 0.1

#: Publishes one chunk of (record id, version); raises what the broker's client raises.
Publish = Callable[[list[list[int]]], None]


class PublishFailed(Exception):
    """The broker took no message; what was leased is due again in 5 s."""


@dataclass(frozen=True, slots=True)
class TickCounts:
    """What a tick did; records."""

    promoted: int = 0
    leased: int = 0
    published: int = 0

    def as_dict(self) -> dict[str, int]:
        """For the task's result."""
        return {"promoted": self.promoted, "leased": self.leased, "published": self.published}


@dataclass(frozen=True, slots=True)
class Tick:
    """The parts that every tick of a channel uses."""

    engine: Engine  #: autocommit
    table: Table
    channel: str
    hints: DispatchHints
    publish: Publish
    settings: DispatchSettings
    ticker: Ticker
    sleep: Callable[[float], None] = time.sleep
    #: Publishes ahead of all that `publish` has put into the queue; None: in turn with it.
    publish_ahead: Publish | None = None

    def run(self, created_at: float) -> TickCounts:
        """Run one tick that was asked for at `created_at` (wall seconds).

        Raises: PublishFailed; the driver's error when database or Redis is away.
        """
        settings = self.settings
        if not settings.enabled:
            return TickCounts()
        if not self.hints.begin(created_at, recent_seconds=2 * settings.interval_seconds):
            return TickCounts()
        started = self.ticker()
        promoted = promote(self.engine, self.table, settings.promote_limit, self.ticker)
        if promoted:
            metrics.promoted(self.channel, promoted)
        leased = published = 0
        while True:
            load = self.hints.load()
            target = queue_target(load, settings)
            lacking = target - load.queued
            if lacking >= max(1, target // 4):
                rows = self._lease(min(lacking, settings.batch_limit))
                if not rows:
                    break
                leased += len(rows)
                published += self._publish(rows, load, target)
            else:
                left = settings.interval_seconds - (self.ticker() - started)
                if left > LOOK_SECONDS:
                    self.sleep(min(left, look_seconds(load, target)))
            if self.ticker() - started + LOOK_SECONDS >= settings.interval_seconds:
                break
        return TickCounts(promoted, leased, published)

    def _lease(self, count: int) -> list[Leased]:
        cursor = self.hints.cursor()
        rows = lease(self.engine, self.table, count=count, lease_seconds=self.settings.lease_seconds, cursor=cursor)
        if rows:
            try:
                self.hints.move_cursor(next_cursor(rows, count, cursor))
            except Exception:
                unlease(self.engine, self.table, rows)  # Redis went away after the lease: C18, like a failed publish
                raise
            for row in rows:
                metrics.dispatch_lag(self.channel, row.waited_seconds)
        return rows

    def _publish(self, rows: list[Leased], load: Load, target: int) -> int:
        size = chunk_size(load.queued + len(rows), load.threads, target, self.settings.chunk_max)
        chunks = chunked(rows, size)
        ahead = going_ahead(rows, size) if self.publish_ahead else 0
        published = 0
        for position, chunk in enumerate(chunks):
            publish = self.publish_ahead if self.publish_ahead and position < ahead else self.publish
            try:
                publish([[row.record_id, row.version] for row in chunk])
            except Exception as exc:
                left = [row for rest in chunks[position:] for row in rest]
                # The failed message may have arrived all the same: by its version it is dead from here on.
                unlease(self.engine, self.table, left)
                raise PublishFailed(f"{len(left)} records of {self.channel} are due again in 5 s") from exc
            published += len(chunk)
        self.hints.published(published)
        return published


def queue_target(load: Load, settings: DispatchSettings) -> int:
    """Records to keep in the queue: what was taken per second lately times `QUEUE_SECONDS`, at least 2 a thread."""
    return min(settings.queue_target, max(2 * load.threads, math.ceil(load.rate * settings.queue_seconds)))


def look_seconds(load: Load, target: int) -> float:
    """Seconds until the next look at a full queue: half of the time in which, by the rate, there will be room.

    Each look costs as much as publishing a task.
    """
    lacking_too_few = target // 4 - (target - load.queued)
    return min(MAX_LOOK_SECONDS, max(LOOK_SECONDS, lacking_too_few / (2 * load.rate))) if load.rate else LOOK_SECONDS


def chunk_size(due: int, threads: int, target: int, chunk_max: int) -> int:
    """Records in one task: one while few are due; in a backlog half of what a thread works off in the queue's time.

    `due` are those that no worker has taken, with those that lie in the queue already: what is handed out now tops up
    a queue that keeps the threads busy.

    Never so large that a thread goes without while another has several.
    """
    return max(1, min(chunk_max, math.ceil(due / threads), math.ceil(target / (2 * threads))))


def _with_few(counts: Counter[int], size: int) -> list[int]:
    """Tenants beside others whose rows are too few to share a message, those with the fewest first.

    None when theirs are more than a quarter of all: a message a row would cost a burst of many tenants most of its
    speed, and none of them waits behind another's thousands then.
    """
    few = [t for t in sorted(counts, key=counts.__getitem__) if len(counts) > 1 and counts[t] <= max(1, size // 4)]
    return few if 4 * sum(counts[t] for t in few) <= counts.total() else []


def going_ahead(rows: Sequence[Leased], size: int) -> int:
    """How many of the first messages go ahead of what lies in the queue: those of tenants with few rows.

    None when they are more than a quarter of what is handed out: what lies in the queue would never have its turn.
    """
    counts = Counter(row.tenant_id for row in rows if not row.is_alone)
    return sum(counts[tenant] for tenant in _with_few(counts, size))


def chunked(rows: Sequence[Leased], size: int) -> list[list[Leased]]:
    """Spread leased rows over messages: swept ones alone, then tenants in turn, those with the fewest rows first.

    A tenant's single mail among another's thousands gets a message of its own at the head, so that it waits for nothing
    that was handed out with it.
    """
    alone = [[row] for row in rows if row.is_alone]
    together = [row for row in rows if not row.is_alone]
    counts = Counter(row.tenant_id for row in together)
    queues = {
        tenant: deque(r for r in together if r.tenant_id == tenant) for tenant in sorted(counts, key=counts.__getitem__)
    }
    chunks = [[row] for tenant in _with_few(counts, size) for row in queues.pop(tenant)]
    in_turn: list[Leased] = []
    while queues:
        for tenant in list(queues):
            in_turn.append(queues[tenant].popleft())
            if not queues[tenant]:
                del queues[tenant]
    chunks += [in_turn[n : n + size] for n in range(0, len(in_turn), size)]
    return chunks + alone
