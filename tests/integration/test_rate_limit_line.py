"""Long lines behind small windows, simulated: time is the test's own, the windows are counted on a real Valkey.

20,000 mails are due at once and workers claim them in chunks, a few hundred a second; a refused one is claimed again a
little after its place. What is looked at: how often each was refused, what each window let out, how much of it.
"""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import redis

from messaging.rate_limit import Full
from tests.integration.windows import NOON, Clock, make_windows

#: Seconds from a record's place to the question: promote, lease, queue and claim, a slow tick among them.
MAX_LATE_SECONDS = 5.0
CHUNK = 50
#: Between two chunks of what is due at once.
CHUNK_SECONDS = 0.2


@dataclass
class Line:
    """Records that ask for a send, in the order of time."""

    client: redis.Redis
    daily: int | None = None
    per_minute: int | None = None
    seed: int = 1
    sent_in_minute: Counter[datetime] = field(default_factory=Counter)
    sent_on: Counter[datetime] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    sent: dict[str, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._clock = Clock(NOON)
        self._windows = make_windows(self.client, self._clock)
        self._rng = random.Random(self.seed)
        self._order = itertools.count()
        self._waiting: list[tuple[datetime, int, list[str], bool]] = []

    def add(self, at: datetime, names: Iterable[str], *, has_place: bool = False) -> None:
        heapq.heappush(self._waiting, (at, next(self._order), list(names), has_place))

    def burst(self, at: datetime, names: list[str]) -> None:
        """So many due at once, claimed chunk by chunk."""
        for n in range(0, len(names), CHUNK):
            self.add(at + timedelta(seconds=n // CHUNK * CHUNK_SECONDS), names[n : n + CHUNK])

    def run(self) -> None:
        """Until everybody is sent."""
        while self._waiting:
            at, _, names, has_place = heapq.heappop(self._waiting)
            self._clock.go_to(at)
            answers = self._windows.take_many(
                "mail", 7, 5, daily=self.daily, per_minute=self.per_minute, places=[has_place] * len(names)
            )
            for name, answer in zip(names, answers, strict=True):
                if isinstance(answer, Full):
                    self.refused[name] += 1
                    late = self._rng.random() * MAX_LATE_SECONDS
                    self.add(at + timedelta(seconds=answer.wait_seconds + late), [name], has_place=True)
                else:
                    self.sent[name] = at
                    self.sent_in_minute[at.replace(second=0, microsecond=0)] += 1
                    self.sent_on[at.replace(hour=0, minute=0, second=0, microsecond=0)] += 1


def names(count: int, kind: str = "mail") -> list[str]:
    return [f"{kind}{n}" for n in range(count)]


def test_20000_mails_behind_60_a_minute_are_refused_once_each(redis_client: redis.Redis) -> None:
    line = Line(redis_client, per_minute=60)  # PROTOCOL.md C13
    line.burst(NOON, names(20_000))
    line.run()
    assert len(line.sent) == 20_000
    assert max(line.refused.values()) == 1
    assert max(line.sent_in_minute.values()) == 60
    first_place = NOON + timedelta(minutes=6)
    in_line = [at for at in line.sent_in_minute if at >= first_place]
    used = sum(line.sent_in_minute[at] for at in in_line)
    assert used >= 0.95 * 60 * ((max(in_line) - first_place) // timedelta(minutes=1) + 1)


def test_20000_mails_behind_1000_a_day_spread_over_20_days(redis_client: redis.Redis) -> None:
    line = Line(redis_client, daily=1000)
    line.burst(NOON, names(20_000))
    line.run()
    assert max(line.refused.values()) == 1
    assert sorted(line.sent_on.values()) == [1000] * 20
    assert max(line.sent_in_minute.values(), default=0) <= 1000


def test_both_windows_hold_together(redis_client: redis.Redis) -> None:
    line = Line(redis_client, daily=500, per_minute=7)
    line.burst(NOON, names(3_000))
    line.run()
    assert max(line.refused.values()) == 1
    assert max(line.sent_in_minute.values()) == 7
    assert sorted(line.sent_on.values()) == [500] * 6


def test_a_steady_stream_above_the_limit_goes_out_in_the_order_it_came(redis_client: redis.Redis) -> None:
    line = Line(redis_client, per_minute=60)
    minutes = 30
    for n in range(minutes * 90):  # 90 a minute over 60
        line.add(NOON + timedelta(seconds=n * 60 / 90), [f"mail{n}"])
    line.run()
    assert max(line.refused.values()) == 1
    assert max(line.sent_in_minute.values()) == 60
    full = [count for at, count in sorted(line.sent_in_minute.items())][: minutes - 1]
    assert sum(full) >= 0.95 * 60 * len(full)


def test_newcomers_pass_in_windows_that_are_free_and_only_there(redis_client: redis.Redis) -> None:
    line = Line(redis_client, per_minute=60)
    line.burst(NOON, names(1_200))
    newcomers = names(30 * 20, "newcomer")
    for n, name in enumerate(newcomers):  # 20 a minute for half an hour, from :01
        line.add(NOON + timedelta(minutes=1, seconds=n * 3), [name])
    line.run()
    assert max(line.refused.values()) == 1
    assert max(line.sent_in_minute.values()) == 60
    refused = [n for n, name in enumerate(newcomers) if line.refused[name]]
    # Those of :01 to :04 find free windows; those whose minute belongs to the line wait behind it.
    assert min(refused) >= 4 * 20
    assert all(line.sent[newcomers[n]] - NOON < timedelta(minutes=5) for n in range(4 * 20))
