"""Connections kept between sends: how many, and which go first."""

from collections.abc import Iterator

import pytest

from messaging.mail.smtp_pool import MAX_IDLE_CONNECTIONS, ConnectionPool


class Kept:
    """Something that can be kept."""

    is_ended = False

    def is_quiet(self) -> bool:
        return True

    def end(self) -> None:
        self.is_ended = True


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pool(clock: Clock) -> Iterator[ConnectionPool[Kept]]:
    pool: ConnectionPool[Kept] = ConnectionPool(30, clock)
    yield pool
    pool.close_all()


def used(pool: ConnectionPool[Kept], config_id: int, revision: object = 1) -> Kept:
    """One send over a connection of this config."""
    connection = pool.take(config_id, revision) or Kept()
    pool.give_back(config_id, revision, connection)
    return connection


def test_no_more_are_kept_than_a_process_has_files_for_and_the_longest_idle_ends_first(
    pool: ConnectionPool[Kept],
) -> None:
    often, *rest = [used(pool, config_id) for config_id in range(MAX_IDLE_CONNECTIONS)]
    assert used(pool, 0) is often
    beyond = [used(pool, 1000 + n) for n in range(3)]
    assert [connection.is_ended for connection in rest[:4]] == [True, True, True, False]
    assert not any(connection.is_ended for connection in [often, *beyond])
    assert used(pool, 0) is often
    assert used(pool, 1) is not rest[0]


def test_what_a_change_or_time_ended_is_counted_no_more(pool: ConnectionPool[Kept], clock: Clock) -> None:
    kept = [used(pool, config_id) for config_id in range(MAX_IDLE_CONNECTIONS)]
    changed = used(pool, 0, revision=2)
    assert (kept[0].is_ended, changed.is_ended) == (True, False)
    clock.now += 31
    pool.close_idle()
    assert all(connection.is_ended for connection in [*kept, changed])
    again = [used(pool, config_id) for config_id in range(MAX_IDLE_CONNECTIONS)]
    assert not any(connection.is_ended for connection in again)


def test_several_of_one_config_end_oldest_first(pool: ConnectionPool[Kept]) -> None:
    pool.take(1, 1)
    kept = [Kept() for _ in range(MAX_IDLE_CONNECTIONS + 2)]
    for connection in kept:
        pool.give_back(1, 1, connection)
    assert [connection.is_ended for connection in kept] == [True, True] + [False] * MAX_IDLE_CONNECTIONS
    assert pool.take(1, 1) is kept[-1]
