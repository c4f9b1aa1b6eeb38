"""Ticks on the real PostgreSQL and Valkey: fair shares, back-pressure (C12), overlaps, failed publishes (C18)."""

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from messaging.clock import boot_seconds
from messaging.delivery.dispatch import PublishFailed, Tick
from messaging.delivery.due import FIRST_CURSOR, next_cursor
from messaging.delivery.hints import ASSUMED_THREADS, DispatchHints, WorkerHints, live_workers
from messaging.delivery.status import SendStatus
from messaging.mail.models import MAIL_SEND_RECORD as T
from messaging.settings import DispatchSettings
from tests.integration.delivery.records import Records

pytestmark = pytest.mark.postgres16

Pairs = list[list[int]]


class Broker:
    """A queue of messages; what it does not take, it raises."""

    def __init__(self) -> None:
        self.messages: list[Pairs] = []
        self.refuses_from: int | None = None

    def publish(self, pairs: Pairs) -> None:
        if self.refuses_from is not None and len(self.messages) >= self.refuses_from:
            raise ConnectionError("no broker")
        self.messages.append(pairs)

    @property
    def ids(self) -> list[int]:
        return [record_id for pairs in self.messages for record_id, _ in pairs]


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def make_tick(records: Records, redis_client: redis.Redis, broker: Broker) -> Callable[..., Tick]:
    def make(**settings: Any) -> Tick:
        hints = DispatchHints(redis_client, "mail", chunk_max=50, queue_length=lambda: len(broker.messages))
        return Tick(
            records.engine, T, "mail", hints, broker.publish, DispatchSettings(**settings), boot_seconds, lambda _: None
        )

    return make


@pytest.fixture
def now() -> float:
    """Later than any tick that has begun."""
    return 4e9


# One tick


def test_a_tick_hands_out_what_is_due(
    records: Records, make_tick: Callable[..., Tick], broker: Broker, now: float
) -> None:
    due, later = records.one(), records.one(due_in=60)
    overdue = records.one(due_in=5)
    records.shift(6, overdue)
    counts = make_tick().run(now)
    assert (counts.promoted, counts.leased, counts.published) == (1, 2, 2)
    assert sorted(broker.ids) == [due, overdue]
    rows = records.rows()
    assert {i: rows[i].version for i in (due, later, overdue)} == {due: 1, later: 0, overdue: 2}
    assert sorted(tuple(p) for m in broker.messages for p in m) == [(due, 1), (overdue, 2)]


def test_an_idle_tick_does_nothing(make_tick: Callable[..., Tick], now: float) -> None:
    assert make_tick().run(now).as_dict() == {"promoted": 0, "leased": 0, "published": 0}


def test_a_tick_that_is_switched_off_does_nothing(
    records: Records, make_tick: Callable[..., Tick], broker: Broker, now: float
) -> None:
    records.one()
    assert make_tick(enabled=False).run(now).leased == 0
    assert broker.messages == []


def test_a_message_names_the_version_that_the_lease_wrote(
    records: Records, make_tick: Callable[..., Tick], broker: Broker, now: float
) -> None:
    ids = records.accept(count=5)
    make_tick().run(now)
    pairs = [tuple(pair) for message in broker.messages for pair in message]
    assert [c.record_id for c in records.claim(sorted(pairs))] == ids


# C18


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_c18_what_could_not_be_published_is_due_again_in_5_seconds(
    records: Records, make_tick: Callable[..., Tick], broker: Broker, now: float, taken: int
) -> None:
    ids = records.accept(count=6)
    broker.refuses_from = taken
    with pytest.raises(PublishFailed, match=str(6 - taken)):
        make_tick().run(now)
    rows = records.rows()
    left = set(ids) - set(broker.ids)
    assert len(left) == 6 - taken
    for record_id in left:
        row = rows[record_id]
        assert (row.version, row.ready) == (2, False)  # the failed message may have arrived: it is dead
        assert (row.next_attempt_at - row.updated_at).total_seconds() == 5
    broker.refuses_from = None
    records.shift(5)
    make_tick().run(now)
    assert sorted(set(broker.ids)) == ids


def test_c18_redis_going_away_after_the_lease_strands_nobody(
    records: Records, make_tick: Callable[..., Tick], now: float
) -> None:
    record_id = records.one()
    tick = make_tick()
    real = tick.hints.move_cursor

    class Gone(DispatchHints):
        def move_cursor(self, cursor: int) -> None:
            raise redis.ConnectionError("gone")

    assert real
    hints = Gone(tick.hints._client, "mail", chunk_max=50, queue_length=lambda: 0)
    broken = Tick(tick.engine, T, "mail", hints, tick.publish, tick.settings, boot_seconds)
    with pytest.raises(redis.ConnectionError):
        broken.run(now)
    row = records.row(record_id)
    assert (row.next_attempt_at - row.updated_at).total_seconds() == 5


# C12, back-pressure


def test_c12_the_backlog_stays_in_the_table(
    records: Records, make_tick: Callable[..., Tick], broker: Broker, now: float, redis_client: redis.Redis
) -> None:
    records.accept(count=60)
    tick = make_tick()
    tick.run(now)
    # No worker was heard of: eight threads are assumed, two records each.
    assert len(broker.ids) == 2 * ASSUMED_THREADS
    tick.run(now)
    assert len(broker.ids) == 2 * ASSUMED_THREADS
    # A worker with three threads is heard of, and the queue is empty: two a thread.
    WorkerHints(redis_client, "mail", worker_name="w", threads=3).alive()
    broker.messages.clear()
    tick.run(now)
    assert len(broker.ids) == 2 * 3


def test_c12_the_target_follows_what_was_taken(
    make_tick: Callable[..., Tick], broker: Broker, redis_client: redis.Redis
) -> None:
    clock = [1000.0]
    hints = DispatchHints(
        redis_client, "mail", chunk_max=50, queue_length=lambda: len(broker.messages), wall=lambda: clock[0]
    )
    worker = WorkerHints(redis_client, "mail", worker_name="w", threads=4)
    hints.load()
    rates = []
    for _ in range(10):
        clock[0] += 1
        worker.taken(20)
        rates.append(hints.load().rate)
    assert rates[-1] == pytest.approx(20)
    clock[0] += 11
    assert hints.load().rate == 0


def test_c12_counts_that_drifted_neither_stop_dispatch_nor_let_it_run_wild(
    records: Records, make_tick: Callable[..., Tick], broker: Broker, now: float, redis_client: redis.Redis
) -> None:
    records.accept(count=40)
    hints = make_tick().hints
    hints.published(10_000)  # messages that the broker lost
    assert hints.load().queued == 0
    make_tick().run(now)
    first = len(broker.ids)
    assert first > 0
    redis_client.flushall()  # counts gone, messages still queued
    assert hints.load().queued >= len(broker.messages)
    make_tick().run(now)
    assert len(broker.ids) == first


def test_workers_that_are_gone_are_not_counted(redis_client: redis.Redis) -> None:
    one = WorkerHints(redis_client, "mail", worker_name="one", threads=8)
    two = WorkerHints(redis_client, "mail", worker_name="two", threads=4)
    one.alive()
    two.taken(1)
    assert live_workers(redis_client, "mail") == {"one": 8, "two": 4}
    one.gone()
    hints = DispatchHints(redis_client, "mail", chunk_max=50, queue_length=lambda: 0)
    assert hints.load().threads == 4


def test_a_workers_hints_never_stop_it(redis_client: redis.Redis) -> None:
    nowhere = redis.Redis(port=1, retry=Retry(NoBackoff(), 0))
    worker = WorkerHints(nowhere, "mail", worker_name="w", threads=1)
    worker.taken(1)
    worker.alive()
    worker.gone()
    nowhere.close()


@pytest.mark.parametrize(
    ("key", "field", "value"),
    [
        *(("msg:dispatch:mail", field, "x") for field in ("begun", "cursor", "published", "taken", "samples")),
        ("msg:dispatch:mail", "cursor", str(2**80)),
        ("msg:dispatch:mail", "published", str(2**63 - 1)),
        ("msg:dispatch:mail", "samples", '{"a": 1}'),
        ("msg:dispatch:mail", "samples", "[1, null]"),
        ("msg:workers:mail", "w", "{"),
        ("msg:workers:mail", "w", "[]"),
        ("msg:workers:mail", "w", '{"threads": "x", "at": null}'),
        ("msg:workers:mail", "w", '{"threads": -5, "at": 9e12}'),
        ("msg:dispatch:mail", None, "no hash"),
        ("msg:workers:mail", None, "no hash"),
    ],
)
def test_a_hint_that_cannot_be_read_counts_as_lost(
    make_tick: Callable[..., Tick],
    records: Records,
    broker: Broker,
    redis_client: redis.Redis,
    now: float,
    key: str,
    field: str | None,
    value: str,
) -> None:
    if field is None:
        redis_client.set(key, value)
    else:
        redis_client.hset(key, field, value)
    records.one()
    assert make_tick().run(now).published == 1
    tick = make_tick()
    assert tick.hints.load().threads == ASSUMED_THREADS
    WorkerHints(redis_client, "mail", worker_name="one", threads=4).taken(1)
    assert live_workers(redis_client, "mail") == {"one": 4}


def test_a_clock_that_was_set_back_does_not_stop_ticks(
    records: Records, make_tick: Callable[..., Tick], redis_client: redis.Redis
) -> None:
    redis_client.hset("msg:dispatch:mail", "begun", repr(time.time() + 3600))
    records.one()
    assert make_tick().run(time.time()).published == 1


# Several ticks


def test_many_ticks_at_once_hand_out_each_record_once(
    records: Records, make_tick: Callable[..., Tick], broker: Broker, now: float
) -> None:  # O50, send.md C2
    ids = records.accept(count=60)
    ticks = [make_tick(queue_target=1000, batch_limit=7) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda tick: tick.run(now), ticks))
    while make_tick().run(now).leased:
        pass
    assert max(Counter(broker.ids).values()) == 1
    assert set(broker.ids) <= set(ids)
    rows = records.rows()
    assert all(rows[i].version == 1 for i in broker.ids)


def test_c15_a_tick_from_before_another_one_began_ends_at_once(
    records: Records, make_tick: Callable[..., Tick], broker: Broker
) -> None:
    records.one()
    tick = make_tick()
    assert tick.hints.begin(4e9)
    assert tick.run(1.0).leased == 0
    assert broker.messages == []


# Fair shares


def test_a_tenant_with_a_backlog_delays_nobody(records: Records) -> None:
    big = records.accept(count=200, tenant_id=1)
    small = records.one(tenant_id=2)
    leased = [row.record_id for row in records.lease(10)]
    assert small in leased
    assert len(set(leased) & set(big)) == 9


def test_shares_are_even_and_what_one_leaves_the_others_get(records: Records) -> None:
    for tenant, count in ((1, 50), (2, 50), (3, 2)):
        records.accept(count=count, tenant_id=tenant)
    assert Counter(row.tenant_id for row in records.lease(30)) == {1: 14, 2: 14, 3: 2}


def test_within_a_tenant_high_priority_goes_first_then_the_oldest(records: Records) -> None:
    ids = {lane: records.accept(count=2, lane=lane) for lane in (3, 2, 1)}
    for age, record_id in enumerate(itertools.chain.from_iterable(ids.values())):
        records.shift(10 * (age + 1), record_id)
    order = [row.record_id for row in records.lease()]
    assert order == [*reversed(ids[1]), *reversed(ids[2]), *reversed(ids[3])]


def test_a_lease_that_ran_out_queues_behind_what_never_left(records: Records) -> None:  # C12: oldest = next_attempt_at
    old = records.one()
    records.lease(seconds=30)
    fresh = records.one()
    records.shift(10, fresh)
    records.shift(31, old)
    records.promote()
    assert [row.record_id for row in records.lease(1)] == [fresh]


def test_every_tenant_is_served_once_a_round(records: Records) -> None:
    tenants = range(1, 24)
    for tenant in tenants:
        records.accept(count=3, tenant_id=tenant)
    cursor, served = FIRST_CURSOR, []
    for _ in range(14):
        leased = records.lease(5, cursor=cursor)
        cursor = next_cursor(leased, 5, cursor)
        served += [row.tenant_id for row in leased]
    for round_ in (served[:23], served[23:46], served[46:69]):
        assert sorted(round_) == list(tenants)


@pytest.mark.parametrize("seed", range(4))
def test_leases_of_any_queue_hand_out_each_record_once_and_in_turn(records: Records, seed: int) -> None:
    rng = random.Random(seed)
    waiting: Counter[int] = Counter()
    for tenant in rng.sample(range(-1, 40), rng.randint(1, 12)):
        waiting[tenant] = rng.randint(1, 15)
        records.accept(count=waiting[tenant], tenant_id=tenant, lane=rng.randint(1, 3))
    cursor, seen = FIRST_CURSOR, []
    while True:
        count = rng.randint(1, 20)
        leased = records.lease(count, cursor=cursor)
        if not leased:
            break
        cursor = next_cursor(leased, count, cursor)
        got = Counter(row.tenant_id for row in leased)
        in_line = [t for t in waiting if waiting[t]]
        share = count // len(in_line)
        assert len(leased) <= count
        assert all(got[t] >= min(share, waiting[t]) for t in in_line)
        waiting.subtract(got)
        seen += [row.record_id for row in leased]
    assert len(seen) == len(set(seen)) == len(records.rows())
    assert {row.status for row in records.rows().values()} == {SendStatus.PENDING}
