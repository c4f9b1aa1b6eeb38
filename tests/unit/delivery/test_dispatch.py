"""How much a tick hands out, in which messages and from which tenant on: pure (C12, fairness)."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.delivery.dispatch import (
    LOOK_SECONDS,
    MAX_LOOK_SECONDS,
    chunk_size,
    chunked,
    going_ahead,
    look_seconds,
    queue_target,
)
from messaging.delivery.due import FIRST_CURSOR, Leased, next_cursor
from messaging.delivery.hints import Load
from messaging.settings import DispatchSettings


def row(record_id: int, tenant_id: int = 0, *, is_alone: bool = False) -> Leased:
    return Leased(record_id, 1, tenant_id, is_alone, 0.0)


# C12: the target counts records


@pytest.mark.parametrize(
    ("rate", "threads", "target"),
    [
        (0, 8, 16),  # nothing known yet: two a thread
        (0, 1, 2),
        (10, 10, 20),  # 1000 x 50 records at 10 a second were 5000 s of work; now 2 s
        (100, 8, 200),
        (10_000, 8, 1000),  # at most QUEUE_TARGET
        (0, 4000, 1000),
        (7.3, 1, 15),
    ],
)
def test_c12_the_queue_holds_two_seconds_of_work(rate: float, threads: int, target: int) -> None:
    assert queue_target(Load(0, threads, rate), DispatchSettings()) == target


@pytest.mark.parametrize(
    ("due", "threads", "target", "size"),
    [
        (1, 8, 16, 1),  # idle: one record, one message
        (8, 8, 16, 1),
        (9, 8, 1000, 2),
        (500, 8, 1000, 50),
        (500, 8, 200, 13),
        (500, 8, 16, 1),  # a slow server: nobody waits behind another's chunk
        (500, 1, 2, 1),
    ],
)
def test_a_message_holds_one_record_when_idle_and_more_in_a_backlog(
    due: int, threads: int, target: int, size: int
) -> None:
    assert chunk_size(due, threads, target, 50) == size


@given(st.integers(1, 10_000), st.integers(1, 500), st.integers(1, 10_000), st.integers(1, 50))
def test_a_message_is_within_its_bounds(due: int, threads: int, target: int, chunk_max: int) -> None:
    size = chunk_size(due, threads, target, chunk_max)
    assert 1 <= size <= chunk_max
    assert (size - 1) * threads < due  # no thread goes without while another has several


@pytest.mark.parametrize(
    ("queued", "rate", "seconds"),
    [
        (1000, 1000, 0.1),  # there will be room in a quarter of a second: the longest wait
        (850, 1000, 0.05),
        (760, 1000, LOOK_SECONDS),
        (16, 0, LOOK_SECONDS),  # nothing is known of the workers
        (16, 2, MAX_LOOK_SECONDS),  # a slow server
    ],
)
def test_a_full_queue_is_looked_at_when_there_may_be_room(queued: int, rate: float, seconds: float) -> None:
    target = max(16, rate)
    assert look_seconds(Load(queued, 8, rate), int(target)) == pytest.approx(seconds)


# Messages


def test_a_swept_record_travels_alone() -> None:  # C4
    rows = [row(1), row(2, is_alone=True), row(3), row(4, is_alone=True)]
    chunks = chunked(rows, 50)
    assert [[r.record_id for r in chunk] for chunk in chunks] == [[1, 3], [2], [4]]


def test_a_tenants_single_mail_is_at_the_head_in_a_message_of_its_own() -> None:
    rows = [row(n, 1) for n in range(100)] + [row(100, 2)]
    chunks = chunked(rows, 25)
    assert [r.record_id for r in chunks[0]] == [100]
    assert all(r.tenant_id == 1 for chunk in chunks[1:] for r in chunk)


def test_a_burst_of_many_tenants_fills_its_messages() -> None:
    rows = [row(n, n % 100) for n in range(300)]
    assert [len(chunk) for chunk in chunked(rows, 25)] == [25] * 12


def test_tenants_take_turns_within_messages() -> None:
    rows = [row(n, 1) for n in range(20)] + [row(100 + n, 2) for n in range(20)]
    for chunk in chunked(rows, 10):
        assert Counter(r.tenant_id for r in chunk) == {1: 5, 2: 5}


def test_one_tenants_rows_keep_their_order() -> None:
    rows = [row(n) for n in (5, 3, 9, 1)]
    assert [r.record_id for chunk in chunked(rows, 2) for r in chunk] == [5, 3, 9, 1]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=80),
    st.integers(1, 50),
)
def test_every_row_is_in_one_message(drawn: list[tuple[int, bool]], size: int) -> None:
    rows = [row(n, tenant, is_alone=alone) for n, (tenant, alone) in enumerate(drawn)]
    chunks = chunked(rows, size)
    assert sorted(r.record_id for chunk in chunks for r in chunk) == list(range(len(rows)))
    assert all(1 <= len(chunk) <= size for chunk in chunks)
    assert all(len(chunk) == 1 for chunk in chunks if any(r.is_alone for r in chunk))
    for tenant in range(5):
        mine = [r.record_id for chunk in chunks for r in chunk if r.tenant_id == tenant and not r.is_alone]
        assert mine == sorted(mine)


# The cursor


@pytest.mark.parametrize(
    ("tenants", "count", "cursor", "following"),
    [
        ([9, 8, 7], 3, FIRST_CURSOR, 7),  # a full round of different tenants: go on below the lowest
        ([5, 4, 9], 3, 6, 9),  # wrapped: the lowest of those at or above the old cursor
        ([5, 4], 3, 6, 4),  # everybody in line was served: any of them
        ([1, 1, 1], 3, 2, 1),
        ([], 3, 6, 6),
    ],
)
def test_the_next_lease_begins_where_this_one_ended(
    tenants: list[int], count: int, cursor: int, following: int
) -> None:
    assert next_cursor([row(n, t) for n, t in enumerate(tenants)], count, cursor) == following


def test_a_single_mail_among_anothers_many_goes_ahead_of_the_queue() -> None:
    rows = [row(n, 1) for n in range(99)] + [row(99, 2)]
    assert going_ahead(rows, 25) == 1
    assert [r.record_id for r in chunked(rows, 25)[0]] == [99]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([row(n, 1) for n in range(100)], id="one tenant"),
        pytest.param([row(n, n) for n in range(100)], id="all have few: what lies in the queue has its turn"),
        pytest.param([row(n, 1) for n in range(70)] + [row(n, n) for n in range(70, 100)], id="over a quarter"),
        pytest.param([row(n, 1) for n in range(99)] + [row(99, 2, is_alone=True)], id="a swept one is never ahead"),
    ],
)
def test_nobody_goes_ahead(rows: list[Leased]) -> None:
    assert going_ahead(rows, 25) == 0
