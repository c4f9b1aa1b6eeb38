"""What ticks and workers tell each other over Redis: records queued and taken, threads, cursor, last tick begun.

Hints only: losing them is harmless, and no error here stops a delivery. One hash a channel, `msg:dispatch:{channel}`,
and one of its workers, `msg:workers:{channel}`.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import redis

from messaging.delivery.due import FIRST_CURSOR

logger = logging.getLogger(__name__)

#: Seconds over which the rate of work is measured.
RATE_WINDOW_SECONDS = 10.0

#: Seconds after which a worker that was not heard of is no longer counted.
WORKER_TTL_SECONDS = 90.0

#: Worker threads assumed while none has been heard of (after a flush).
ASSUMED_THREADS = 8


@dataclass(frozen=True, slots=True)
class Load:
    """What a tick sees of a channel's queue and workers."""

    #: Records in messages that no worker has taken; a guess, see `DispatchHints.load`.
    queued: int
    #: Worker threads that take them.
    threads: int
    #: Records taken per second over the last ten seconds.
    rate: float


class DispatchHints:
    """The hints of one channel; `queue_length` answers how many messages lie in its queue."""

    def __init__(
        self,
        client: redis.Redis,
        channel: str,
        *,
        chunk_max: int,
        queue_length: Callable[[], int],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._key = f"msg:dispatch:{channel}"
        self._workers_key = f"msg:workers:{channel}"
        self._chunk_max = chunk_max
        self._queue_length = queue_length
        self._wall = wall

    def begin(self, created_at: float) -> bool:
        """Note that a tick begins; False when one has begun after `created_at` (C15), and this one is to end."""
        begun = self._client.hget(self._key, "begun")
        if begun is not None and float(begun) > created_at:
            return False
        self._client.hset(self._key, "begun", repr(self._wall()))
        return True

    def cursor(self) -> int:
        """The tenant below which the next lease begins."""
        stored = self._client.hget(self._key, "cursor")
        return FIRST_CURSOR if stored is None else int(stored)

    def move_cursor(self, cursor: int) -> None:
        """Where the next lease begins."""
        self._client.hset(self._key, "cursor", cursor)

    def published(self, records: int) -> None:
        """A tick put so many records into the queue."""
        self._client.hincrby(self._key, "published", records)

    def load(self) -> Load:
        """The queue now.

        Published minus taken drifts when the broker loses messages, or a flush loses the counts: the queue's length
        bounds it on both sides, so that neither stops dispatch nor lets it run wild.
        """
        length = self._queue_length()
        published, taken, samples = self._client.hmget(self._key, "published", "taken", "samples")
        workers = self._client.hgetall(self._workers_key)
        taken_now = int(taken or 0)
        counted = int(published or 0) - taken_now
        queued = min(max(counted, length), length * self._chunk_max)
        if counted != queued and length == 0:
            # Nothing is queued whatever the counts say: begin to count afresh.
            self._client.hset(self._key, "published", taken_now)
        return Load(queued, self._threads(workers), self._rate(taken_now, samples))

    def _threads(self, workers: Mapping[Any, Any]) -> int:
        now = self._wall()
        live = [json.loads(value) for value in workers.values()]
        return sum(w["threads"] for w in live if now - w["at"] < WORKER_TTL_SECONDS) or ASSUMED_THREADS

    def _rate(self, taken: int, stored: Any) -> float:
        """Records per second: the better of the last second and the last ten, so that a burst is seen at once."""
        now = self._wall()
        samples = [s for s in (json.loads(stored) if stored else []) if 0 <= now - s[0] <= RATE_WINDOW_SECONDS]
        if not samples or now - samples[-1][0] >= 0.25:
            self._client.hset(self._key, "samples", json.dumps([*samples, [now, taken]]))
        rates = [(taken - count) / (now - at) for at, count in samples if now - at >= 0.25]
        return max([r for r in rates if r > 0], default=0.0)


class WorkerHints:
    """What a worker process tells of itself; each call swallows the loss of Redis, which costs precision only."""

    def __init__(self, client: redis.Redis, channel: str, *, worker_name: str, threads: int) -> None:
        self._client = client
        self._key = f"msg:dispatch:{channel}"
        self._workers_key = f"msg:workers:{channel}"
        self._name = worker_name
        self._threads = threads

    def taken(self, records: int) -> None:
        """This worker took a message with so many records; also says that it lives."""
        try:
            pipeline = self._client.pipeline(transaction=False)
            pipeline.hincrby(self._key, "taken", records)
            pipeline.hset(self._workers_key, self._name, self._alive())
            pipeline.execute()
        except redis.RedisError as exc:
            logger.debug("dispatch hint not given", extra={"error": type(exc).__name__})

    def alive(self) -> None:
        """This worker lives."""
        try:
            self._client.hset(self._workers_key, self._name, self._alive())
        except redis.RedisError as exc:
            logger.debug("worker not registered", extra={"error": type(exc).__name__})

    def gone(self) -> None:
        """This worker ends."""
        try:
            self._client.hdel(self._workers_key, self._name)
        except redis.RedisError as exc:
            logger.debug("worker not unregistered", extra={"error": type(exc).__name__})

    def _alive(self) -> str:
        return json.dumps({"threads": self._threads, "at": time.time()})


def live_workers(client: redis.Redis, channel: str) -> dict[str, int]:
    """Workers of a channel that were heard of lately, with their threads; forgets the others."""
    key = f"msg:workers:{channel}"
    now = time.time()
    live = {}
    for name, value in client.hgetall(key).items():
        worker = json.loads(value)
        if now - worker["at"] < WORKER_TTL_SECONDS:
            live[_text(name)] = int(worker["threads"])
        else:
            client.hdel(key, name)
    return live


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()
