"""Receipts that come before our own write, and those that meet another writer: by the tick, and by two connections."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, func, select, text, update
from sqlalchemy.orm import Session

from messaging import tenancy
from messaging.sms.models import SMS_SEND_RECORD, DeliveryStatus
from messaging.sms.receipt_statements import apply_stored
from messaging.sms.receipts import (
    Applied,
    apply_receipts,
    apply_waiting,
    record_delivery_status,
    store_receipts,
)
from tests.integration.sms.receipt_records import (
    CONFIG_A,
    DELIVERED,
    FAILED,
    NOON,
    TENANT_A,
    UNKNOWN,
    Records,
    minutes,
    told,
    write_sent,
)


@pytest.fixture(autouse=True)
def _tenants_and_none_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process of the HTTP application: rows belong to tenants, and a receipt comes with none."""
    monkeypatch.setattr(tenancy, "_multi_tenancy", True)


@pytest.fixture
def records(engine: Engine) -> Records:
    return Records(engine)


# The tick


def test_a_receipt_before_our_own_write_is_applied_when_the_id_is_there(records: Records) -> None:
    # sms.md D7, sms-06
    record_id = records.sent(None, status="SENDING", claimed_at=func.now(), sent_at=None)
    assert records.take(told("m-1", DELIVERED)) == Applied(applied=0, looked_at=1)
    assert apply_waiting(records.engine) == Applied(applied=0, looked_at=1)
    with records.engine.begin() as connection:
        write_sent(connection, record_id, "m-1")
    assert apply_waiting(records.engine) == Applied(applied=1, looked_at=1)
    assert records.told_of(record_id) == ("DELIVERED", NOON)
    assert apply_waiting(records.engine) == Applied(applied=0, looked_at=0)
    [receipt] = records.receipts()
    assert receipt.applied_at is not None


@pytest.mark.parametrize(("hours", "applied"), [(23.9, 1), (24.1, 0)])
def test_the_tick_waits_for_a_day(records: Records, hours: float, applied: int) -> None:
    records.take(told("m-1", DELIVERED))
    records.age_receipts(hours)
    records.sent("m-1")
    assert apply_waiting(records.engine).applied == applied


def test_a_waiting_receipt_without_a_time_counts_from_when_it_came(records: Records) -> None:
    records.take(told("m-1", FAILED, None))
    records.age_receipts(1)
    record_id = records.sent("m-1")
    apply_waiting(records.engine)
    assert records.told_of(record_id)[1] == records.receipts()[0].received_at


def test_receipts_that_wait_in_vain_hold_none_up(records: Records) -> None:
    """As when others send over the same account."""
    records.take(told("mine-old", DELIVERED))
    records.age_receipts(1)
    records.take(*(told(f"strange-{number}", DELIVERED) for number in range(25)))
    records.take(told("mine-new", DELIVERED))
    old, new = records.sent("mine-old"), records.sent("mine-new")
    assert apply_waiting(records.engine, page_rows=10, max_pages=1) == Applied(applied=1, looked_at=10)
    assert records.told_of(new)[0] == "DELIVERED"
    assert apply_waiting(records.engine, page_rows=10) == Applied(applied=1, looked_at=26)
    assert records.told_of(old)[0] == "DELIVERED"


def test_pages_end_where_receipts_of_one_batch_share_their_moment(records: Records) -> None:
    records.take(*(told(f"m-{number}", DELIVERED) for number in range(30)))
    ids = [records.sent(f"m-{number}") for number in range(30)]
    assert apply_waiting(records.engine, page_rows=10) == Applied(applied=30, looked_at=30)
    assert {records.told_of(i)[0] for i in ids} == {"DELIVERED"}


# Races


class Meanwhile:
    """A call in a thread of its own that is known to wait for a lock before the test goes on."""

    def __init__(self, engine: Engine, call: Callable[[], Any]) -> None:
        self.answer: Any = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()
        waiting = text(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        deadline = time.monotonic() + 10
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            while not connection.execute(waiting).scalar_one():
                assert time.monotonic() < deadline, "it never waited"
                time.sleep(0.005)

    def _run(self, call: Callable[[], Any]) -> None:
        self.answer = call()

    def ended(self) -> Any:
        self._thread.join(10)
        assert not self._thread.is_alive()
        return self.answer


@pytest.mark.parametrize(
    ("first", "second", "stood"),
    [
        ((DELIVERED, 2), (FAILED, 1), (DELIVERED, 2)),
        ((FAILED, 1), (DELIVERED, 2), (DELIVERED, 2)),
        ((DELIVERED, 1), (UNKNOWN, 2), (DELIVERED, 1)),
        ((UNKNOWN, 2), (DELIVERED, 1), (DELIVERED, 1)),
    ],
)
def test_two_receipts_at_once_leave_what_one_after_the_other_leaves(
    records: Records,
    first: tuple[DeliveryStatus, int],
    second: tuple[DeliveryStatus, int],
    stood: tuple[DeliveryStatus, int],
) -> None:
    """The second was read while the first was not committed: it must not write over what it has not seen."""
    record_id = records.sent("m-1")
    with Session(records.engine) as session:
        record_delivery_status(CONFIG_A, "m-1", first[0], minutes(first[1]), session=session)
        meanwhile = Meanwhile(
            records.engine,
            lambda: record_delivery_status(CONFIG_A, "m-1", second[0], minutes(second[1]), engine=records.engine),
        )
        session.commit()
    assert meanwhile.ended() is True
    assert records.told_of(record_id) == (stood[0], minutes(stood[1]))


def test_a_receipt_that_comes_while_our_write_is_not_committed_is_not_lost(records: Records) -> None:
    record_id = records.sent(None, status="SENDING", claimed_at=func.now(), sent_at=None)
    with records.engine.begin() as writer:
        write_sent(writer, record_id, "m-1")
        # It neither waits for the writer nor fails: the provider is answered at once.
        assert records.take(told("m-1", DELIVERED)) == Applied(applied=0, looked_at=1)
    assert apply_waiting(records.engine).applied == 1
    assert records.told_of(record_id)[0] == "DELIVERED"


def test_a_write_that_wins_meanwhile_is_not_undone(records: Records) -> None:
    """Whoever moved the row first stands, whichever version the receipt had read."""
    record_id = records.sent("m-1")
    with records.engine.begin() as other:
        other.execute(update(SMS_SEND_RECORD).values(version=SMS_SEND_RECORD.c.version + 1, segments=3))
        meanwhile = Meanwhile(records.engine, lambda: records.take(told("m-1", DELIVERED)))
    assert meanwhile.ended() == Applied(applied=1, looked_at=1)
    row = records.row(record_id)
    assert (row.version, row.segments, row.delivery_status) == (5, 3, "DELIVERED")


def test_the_endpoint_and_the_tick_apply_a_receipt_once(records: Records) -> None:
    record_id = records.sent("m-1")
    with records.engine.begin() as connection:
        ids = store_receipts(
            connection, provider_config_id=CONFIG_A, tenant_id=TENANT_A, raw=b"{}", receipts=[told("m-1", DELIVERED)]
        )
    with records.engine.begin() as endpoint:
        assert endpoint.execute(apply_stored(), {"receipt_ids": ids}).one().applied == 1
        tick = Meanwhile(records.engine, lambda: apply_waiting(records.engine))
    assert tick.ended().applied == 1
    assert records.row(record_id).version == 4
    assert apply_receipts(records.engine, ids) == Applied(applied=0, looked_at=0)


def test_two_batches_in_opposite_order_do_not_block_each_other_for_good(records: Records) -> None:
    ids = [records.sent(f"m-{number}") for number in range(2)]
    with records.engine.begin() as first:
        first.execute(select(SMS_SEND_RECORD.c.id).where(SMS_SEND_RECORD.c.id == ids[0]).with_for_update())
        meanwhile = Meanwhile(
            records.engine, lambda: records.take(told("m-1", DELIVERED, minutes(1)), told("m-0", DELIVERED, minutes(1)))
        )
        # It waits for the first record and holds nothing yet that the first batch is going to need.
        first.execute(select(SMS_SEND_RECORD.c.id).where(SMS_SEND_RECORD.c.id == ids[1]).with_for_update(nowait=True))
    assert meanwhile.ended().applied == 2
