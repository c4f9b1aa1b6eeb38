"""What ticks and workers tell each other over Redis: records queued and taken, threads, cursor, last tick begun.

Hints only: losing them is harmless, and no error here stops a delivery; what cannot be read counts as lost. One hash a
channel, `msg:dispatch:{channel}`, and one of its workers, `msg:workers:{channel}`.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import redis

from messaging.delivery.due import FIRST_CURSOR
from messaging.settings import CLOCK_SKEW_SECONDS

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Written by the heartbeat task, by the wall clock: beat's ticks reach a worker. Gone when none has for two minutes.
BEAT_ALIVE_KEY = "msg:beat:alive"

#: Broker priority of what waits its turn in a channel's queue. Over Redis 0 is the first: what goes ahead of it.
BACKLOG_PRIORITY = 3

#: What kombu appends to a queue's key for the messages of that priority.
BACKLOG_KEY_SUFFIX = f"\x06\x16{BACKLOG_PRIORITY}"

#: Seconds over which the rate of work is measured.
RATE_WINDOW_SECONDS = 10.0

#: Seconds after which a worker that was not heard of is no longer counted.
WORKER_TTL_SECONDS = 90.0

#: Worker threads assumed while none has been heard of (after a flush).
ASSUMED_THREADS = 8

#: Seconds for which a tick that has begun answers for those that were asked for before it: two intervals of beat.
RECENT_SECONDS = 1.0

#: How Redis' refusals begin that are about what lies under a key: no hint of ours, and nobody would repair it.
_UNUSABLE = ("WRONGTYPE", "hash value is not an integer", "increment or decrement would overflow")

#: No count and no cursor of ours is larger: a bigint.
_MAX_NUMBER = 2**63 - 1


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

    def begin(self, created_at: float, *, recent_seconds: float = RECENT_SECONDS) -> bool:
        """Note that a tick begins; False when one has begun after `created_at` (C15), and this one is to end.

        Only a beginning of the last `recent_seconds` counts. `created_at` is by another host's clock: were this one
        ahead, each tick would seem to begin after those that follow, and dispatch would wait for what it is ahead. The
        same goes for a beginning that is still to come, noted before a clock was set back.
        """
        begun = _seconds(self._asked(lambda: self._client.hget(self._key, "begun")))
        now = self._wall()
        if begun is not None and begun > created_at and -CLOCK_SKEW_SECONDS <= now - begun <= recent_seconds:
            return False
        self._client.hset(self._key, "begun", repr(now))
        return True

    def cursor(self) -> int:
        """The tenant below which the next lease begins."""
        stored = _number(self._asked(lambda: self._client.hget(self._key, "cursor")))
        return FIRST_CURSOR if stored is None else stored

    def move_cursor(self, cursor: int) -> None:
        """Where the next lease begins."""
        self._asked(lambda: self._client.hset(self._key, "cursor", cursor))

    def published(self, records: int) -> None:
        """A tick put so many records into the queue."""
        self._asked(lambda: self._client.hincrby(self._key, "published", records))

    def load(self) -> Load:
        """The queue now.

        Published minus taken drifts when the broker loses messages, or a flush loses the counts: the queue's length
        bounds it on both sides, so that neither stops dispatch nor lets it run wild.
        """
        length = self._queue_length()
        (published, taken, samples), workers = self._asked(self._counts)
        taken_now = _number(taken) or 0
        if taken is not None and _number(taken) is None:
            self._forget()  # workers, which count there, do not look
        counted = (_number(published) or 0) - taken_now
        queued = min(max(counted, length), length * self._chunk_max)
        if counted != queued and length == 0:
            # Nothing is queued whatever the counts say: begin to count afresh.
            self._client.hset(self._key, "published", taken_now)
        return Load(queued, self._threads(workers), self._rate(taken_now, samples))

    def _counts(self) -> Any:
        """Counts and samples of the channel, and its workers: one round trip."""
        pipeline = self._client.pipeline(transaction=False)
        pipeline.hmget(self._key, "published", "taken", "samples")
        pipeline.hgetall(self._workers_key)
        answers = pipeline.execute(raise_on_error=False)
        for answer in answers:
            if isinstance(answer, redis.ResponseError):
                raise answer
        return answers

    def _threads(self, workers: Mapping[Any, Any]) -> int:
        live = (_live_threads(value, self._wall()) for value in workers.values())
        return sum(threads for threads in live if threads is not None) or ASSUMED_THREADS

    def _rate(self, taken: int, stored: Any) -> float:
        """Records per second: the better of the last second and the last ten, so that a burst is seen at once."""
        now = self._wall()
        samples = [s for s in _samples(stored) if 0 <= now - s[0] <= RATE_WINDOW_SECONDS]
        if not samples or now - samples[-1][0] >= 0.25:
            self._client.hset(self._key, "samples", json.dumps([*samples, [now, taken]]))
        rates = [(taken - count) / (now - at) for at, count in samples if now - at >= 0.25]
        return max([r for r in rates if r > 0], default=0.0)

    def _asked(self, ask: Callable[[], T]) -> T:
        """The answer of Redis; where what lies under the keys is no hint, they are emptied and it is asked again."""
        try:
            return ask()
        except redis.ResponseError as exc:
            if not str(exc).startswith(_UNUSABLE):
                raise
            self._forget()
            return ask()

    def _forget(self) -> None:
        logger.warning("dispatch hints cannot be read and begin anew", extra={"keys": [self._key, self._workers_key]})
        self._client.delete(self._key, self._workers_key)


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
        threads = _live_threads(value, now)
        if threads is not None:
            live[_text(name)] = threads
        else:
            client.hdel(key, name)
    return live


def _live_threads(stored: bytes | str, now: float) -> int | None:
    """A worker's threads; None when it was not heard of lately, or what it says cannot be read."""
    match _parsed(stored):
        case {"threads": int(threads), "at": int() | float() as at} if threads > 0 and now - at < WORKER_TTL_SECONDS:
            return threads
        case _:
            return None


def _samples(stored: bytes | str | None) -> list[tuple[float, int]]:
    """Moments with the records taken until then."""
    parsed = _parsed(stored)
    samples = []
    for sample in parsed if isinstance(parsed, list) else []:
        match sample:
            case [int() | float() as at, int(taken)]:
                samples.append((float(at), taken))
    return samples


def _parsed(stored: bytes | str | None) -> Any:
    try:
        return None if stored is None else json.loads(stored)
    except (ValueError, RecursionError):
        return None


def _number(stored: bytes | str | None) -> int | None:
    try:
        number = None if stored is None else int(stored)
    except ValueError:
        return None
    return number if number is not None and abs(number) <= _MAX_NUMBER else None


def _seconds(stored: bytes | str | None) -> float | None:
    try:
        return None if stored is None else float(stored)
    except ValueError:
        return None


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")
