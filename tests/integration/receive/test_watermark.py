"""The lease on a folder: receive.md section 3, one row of its table a test."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, text

from messaging.receive.watermark import Lease, Watermarks

HOUR = 3600.0


@pytest.fixture
def watermarks(engine: Engine) -> Watermarks:
    return Watermarks(engine, lease_timeout_seconds=HOUR)


@pytest.fixture
def row(engine: Engine) -> Callable[[], dict[str, Any]]:
    def read() -> dict[str, Any]:
        with engine.connect() as connection:
            return dict(connection.execute(text("SELECT * FROM mail_fetch_imap_watermark")).mappings().one())

    return read


def acquired(watermarks: Watermarks) -> Lease:
    lease = watermarks.acquire(1, "INBOX", tenant_id=5)
    assert lease is not None
    return lease


def age(engine: Engine, minutes: int) -> None:
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE mail_fetch_imap_watermark SET in_progress_since = now() - make_interval(mins => :minutes)"),
            {"minutes": minutes},
        )


def test_the_first_fetch_makes_the_row_and_holds_it(watermarks: Watermarks, row: Callable[[], dict[str, Any]]) -> None:
    lease = acquired(watermarks)
    made = row()
    assert (made["tenant_id"], made["server_config_id"], made["folder_name"]) == (5, 1, "INBOX")
    assert (made["version"], made["last_seen_uid"], made["uid_validity"]) == (0, 0, None)
    assert made["in_progress_since"] is not None
    assert (lease.last_seen_uid, lease.uid_validity) == (0, None)


def test_a_folder_that_is_held_is_skipped_with_no_write(
    watermarks: Watermarks, engine: Engine, row: Callable[[], dict[str, Any]]
) -> None:  # receive.md R20
    acquired(watermarks)
    age(engine, minutes=10)
    before = row()
    assert watermarks.acquire(1, "INBOX", tenant_id=5) is None
    assert row() == before


def test_a_lease_whose_holder_is_presumed_dead_is_taken(
    watermarks: Watermarks, engine: Engine, row: Callable[[], dict[str, Any]]
) -> None:  # receive.md R20
    dead = acquired(watermarks)
    age(engine, minutes=120)
    lease = acquired(watermarks)
    assert row()["version"] == 1
    assert not dead.heartbeat(7)
    assert lease.heartbeat(8)
    assert (row()["version"], row()["last_seen_uid"]) == (2, 8)


def test_of_two_who_want_an_idle_folder_one_gets_it(watermarks: Watermarks, engine: Engine) -> None:  # receive.md R21
    assert acquired(watermarks).release()
    with engine.begin() as other:
        # The other worker's write is under way when ours reads the row as free.
        other.execute(text("SELECT version FROM mail_fetch_imap_watermark")).one()
        first = acquired(watermarks)
    late = Lease(first._engine, first._id, first._version - 1)
    assert not late.heartbeat()
    assert first.heartbeat()
    assert watermarks.acquire(1, "INBOX", tenant_id=5) is None


def test_a_worker_that_was_superseded_releases_nothing(
    watermarks: Watermarks, engine: Engine, row: Callable[[], dict[str, Any]]
) -> None:  # receive.md R22
    superseded = acquired(watermarks)
    age(engine, minutes=61)
    acquired(watermarks)
    before = row()
    assert not superseded.release(200)
    assert not superseded.release_failed()
    assert row() == before


@pytest.mark.parametrize("done_uid", [0, 104, 105])
def test_a_release_without_a_higher_uid_leaves_it(
    watermarks: Watermarks, row: Callable[[], dict[str, Any]], done_uid: int
) -> None:  # receive.md R23 R26
    lease = acquired(watermarks)
    lease.release(105)
    lease = acquired(watermarks)
    assert lease.last_seen_uid == 105
    assert lease.release(done_uid)
    assert (row()["last_seen_uid"], row()["in_progress_since"]) == (105, None)
    assert row()["last_fetched_at"] is not None


def test_a_failed_fetch_lets_go_and_touches_nothing_else(
    watermarks: Watermarks, row: Callable[[], dict[str, Any]]
) -> None:  # receive.md R24
    acquired(watermarks).release(9)
    fetched_at = row()["last_fetched_at"]
    lease = acquired(watermarks)
    assert lease.release_failed()
    assert (row()["in_progress_since"], row()["last_seen_uid"], row()["last_fetched_at"]) == (None, 9, fetched_at)


def test_a_new_numbering_begins_at_uid_one(
    watermarks: Watermarks, row: Callable[[], dict[str, Any]]
) -> None:  # receive.md R25
    lease = acquired(watermarks)
    assert lease.adopt(100)
    lease.release(500)
    lease = acquired(watermarks)
    assert (lease.uid_validity, lease.last_seen_uid) == (100, 500)
    assert lease.reset(101)
    assert (row()["uid_validity"], row()["last_seen_uid"]) == (101, 0)
    assert lease.release(2)
    assert row()["last_seen_uid"] == 2


def test_one_lease_for_each_folder_of_each_mailbox(watermarks: Watermarks) -> None:
    assert watermarks.acquire(1, "INBOX", tenant_id=5)
    assert watermarks.acquire(1, "Junk", tenant_id=5)
    assert watermarks.acquire(2, "INBOX", tenant_id=-1)


def test_a_process_that_ends_frees_what_it_holds_and_nothing_else(engine: Engine) -> None:
    mine, others = (Watermarks(engine, lease_timeout_seconds=3600) for _ in range(2))
    leases = [mine.acquire(1, folder, tenant_id=0) for folder in ("INBOX", "Junk", "Done", "Lost")]
    held, second, done, lost = (lease for lease in leases if lease is not None)
    foreign = others.acquire(2, "INBOX", tenant_id=0)
    assert foreign is not None
    assert done.release()
    with engine.begin() as connection:
        connection.execute(text("UPDATE mail_fetch_imap_watermark SET version = 9 WHERE folder_name = 'Lost'"))
    assert mine.release_all() == 2
    assert mine.release_all() == 0
    assert not any(lease.heartbeat() for lease in (held, second, lost))
    assert foreign.heartbeat()
