"""Receipts on the real PostgreSQL: kept first, applied by configuration and id, never backwards, whatever the order."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, TextClause, func, insert, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from messaging import tenancy
from messaging.db.engine import create_engine
from messaging.sms.models import SMS_RECEIPT, SMS_SEND_RECORD, DeliveryStatus
from messaging.sms.providers.base import Receipt
from messaging.sms.receipt_statements import APPLY_STORED, APPLY_WAITING, RECORD
from messaging.sms.receipts import (
    Applied,
    apply_receipts,
    apply_waiting,
    record_delivery_status,
    store_receipts,
    take_receipts,
)
from tests.conftest import MakeSettings

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

#: Two configurations of the same provider: one of tenant 7, one of tenant 8.
CONFIG_A, TENANT_A = 11, 7
CONFIG_B, TENANT_B = 12, 8

UNKNOWN, DELIVERED, UNDELIVERED, FAILED = DeliveryStatus


@pytest.fixture(autouse=True)
def _tenants() -> Iterator[None]:
    tenancy.use_multi_tenancy(True)
    yield
    tenancy.use_multi_tenancy(False)


def minutes(count: float) -> datetime:
    return NOON + timedelta(minutes=count)


def told(message_id: str, status: DeliveryStatus, at: datetime | None = NOON) -> Receipt:
    return Receipt(provider_message_id=message_id, status=status, at=at, raw_status=status.lower())


class Records:
    """Sent records, and what became of them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def sent(self, message_id: str | None, *, config: int = CONFIG_A, tenant: int = TENANT_A, **columns: Any) -> int:
        values = {
            "tenant_id": tenant,
            "scope": "TENANT",
            "phone_number": "+4915112345678",
            "content": "Your code",
            "provider_config_id": config,
            "provider_message_id": message_id,
            "status": "SENT",
            "sent_at": func.now(),
            "version": 3,
            **columns,
        }
        with self.engine.begin() as connection:
            statement = insert(SMS_SEND_RECORD).values(**values).returning(SMS_SEND_RECORD.c.id)
            return int(connection.execute(statement).scalar_one())

    def row(self, record_id: int) -> Any:
        with self.engine.connect() as connection:
            return connection.execute(select(SMS_SEND_RECORD).where(SMS_SEND_RECORD.c.id == record_id)).one()

    def told_of(self, record_id: int) -> tuple[str, datetime | None]:
        row = self.row(record_id)
        return row.delivery_status, row.delivery_status_updated_at

    def receipts(self) -> Sequence[Any]:
        with self.engine.connect() as connection:
            return connection.execute(select(SMS_RECEIPT).order_by(SMS_RECEIPT.c.id)).all()

    def take(self, *receipts: Receipt, config: int = CONFIG_A, tenant: int = TENANT_A, raw: bytes = b"{}") -> Applied:
        return take_receipts(self.engine, provider_config_id=config, tenant_id=tenant, raw=raw, receipts=receipts)

    def age_receipts(self, hours: float) -> None:
        with self.engine.begin() as connection:
            older = SMS_RECEIPT.c.received_at - timedelta(hours=hours)
            connection.execute(update(SMS_RECEIPT).values(received_at=older))


@pytest.fixture
def records(engine: Engine) -> Records:
    return Records(engine)


@pytest.fixture
def record(engine: Engine) -> Callable[..., bool]:
    def call(message_id: str, status: DeliveryStatus | str, at: datetime | None = NOON, config: int = CONFIG_A) -> bool:
        return record_delivery_status(config, message_id, status, at, engine=engine)

    return call


# What a receipt changes


def test_a_receipt_sets_the_delivery_status_and_nothing_else(records: Records, record: Callable[..., bool]) -> None:
    # sms.md D6
    record_id = records.sent("m-1")
    before = records.row(record_id)._mapping
    assert record("m-1", DELIVERED)
    after = records.row(record_id)._mapping
    assert {name for name in after if after[name] != before[name]} == {
        "delivery_status",
        "delivery_status_updated_at",
        "version",
        "updated_at",
    }
    assert after["status"] == "SENT"
    assert after["version"] == before["version"] + 1
    assert records.told_of(record_id) == ("DELIVERED", NOON)


def test_an_unknown_id_is_told_and_logged_without_the_id(
    record: Callable[..., bool], caplog: pytest.LogCaptureFixture
) -> None:
    # sms.md D4
    caplog.set_level(logging.INFO, logger="messaging")
    assert not record("nobody-1", DELIVERED)
    [line] = caplog.records
    assert line.levelno == logging.INFO
    assert "nobody-1" not in caplog.text


@pytest.mark.parametrize("message_id", ["", "x" * 256, "nul\x00", "\ud800"])
def test_an_id_that_no_column_holds_is_unknown(record: Callable[..., bool], message_id: str) -> None:
    assert not record(message_id, DELIVERED)


def test_a_receipt_through_another_account_changes_nothing(records: Records, record: Callable[..., bool]) -> None:
    # sms.md D8: the same provider type, the same message id, tenant A's endpoint.
    record_id = records.sent("m-1", config=CONFIG_B, tenant=TENANT_B)
    assert not record("m-1", FAILED, config=CONFIG_A)
    assert records.take(told("m-1", FAILED), config=CONFIG_A, tenant=TENANT_A) == Applied(applied=0, looked_at=1)
    assert apply_waiting(records.engine).applied == 0
    assert records.told_of(record_id) == ("UNKNOWN", None)


def test_the_platforms_account_serves_the_records_of_all_its_tenants(records: Records) -> None:
    ids = [records.sent(f"m-{tenant}", config=1, tenant=tenant) for tenant in (TENANT_A, TENANT_B)]
    records.take(told(f"m-{TENANT_A}", DELIVERED), told(f"m-{TENANT_B}", FAILED), config=1, tenant=-1)
    assert [records.told_of(i)[0] for i in ids] == ["DELIVERED", "FAILED"]
    assert {row.tenant_id for row in records.receipts()} == {-1}


def test_a_record_that_is_not_sent_waits_with_its_receipt(records: Records) -> None:
    record_id = records.sent("m-1", status="RETRY", sent_at=None)
    assert records.take(told("m-1", DELIVERED)).applied == 0
    assert records.row(record_id).version == 3


def test_without_a_time_the_databases_counts(records: Records, record: Callable[..., bool]) -> None:
    record_id = records.sent("m-1")
    assert record("m-1", DELIVERED, None)
    at = records.told_of(record_id)[1]
    assert at is not None
    assert abs(datetime.now(UTC) - at) < timedelta(minutes=1)


def test_what_is_no_status_or_has_no_zone_is_refused(record: Callable[..., bool]) -> None:
    with pytest.raises(ValueError, match="BOUNCED"):
        record("m-1", "BOUNCED")
    with pytest.raises(ValueError, match="time zone"):
        record("m-1", DELIVERED, datetime(2026, 3, 1))  # noqa: DTZ001 - what is refused
    with pytest.raises(TypeError, match="engine or a session"):
        record_delivery_status(CONFIG_A, "m-1", DELIVERED, NOON)


def test_in_a_session_it_is_the_callers_transaction(records: Records) -> None:
    record_id = records.sent("m-1")
    with Session(records.engine) as session:
        assert record_delivery_status(CONFIG_A, "m-1", "DELIVERED", NOON, session=session)
        session.rollback()
    assert records.told_of(record_id) == ("UNKNOWN", None)


# Order

#: What comes one after the other, and what the record says in the end. Statuses with the minute they are of.
ORDERS = {
    "final, then intermediate": ([(DELIVERED, 1), (UNKNOWN, 2)], (DELIVERED, 1)),
    "intermediate, then a final one of before": ([(UNKNOWN, 2), (DELIVERED, 1)], (DELIVERED, 1)),
    "the later final": ([(UNDELIVERED, 1), (DELIVERED, 2)], (DELIVERED, 2)),
    "the later final comes first": ([(DELIVERED, 2), (FAILED, 1)], (DELIVERED, 2)),
    "two finals of one moment: the first that came": ([(DELIVERED, 1), (FAILED, 1)], (DELIVERED, 1)),
    "a final again, later, holds against one between": ([(DELIVERED, 1), (DELIVERED, 3), (FAILED, 2)], (DELIVERED, 3)),
    "intermediate ones": ([(UNKNOWN, 2), (UNKNOWN, 1)], (UNKNOWN, 2)),
    "all of it": ([(UNKNOWN, 0), (FAILED, 4), (UNKNOWN, 9), (DELIVERED, 5), (UNDELIVERED, 3)], (DELIVERED, 5)),
}


@pytest.mark.parametrize(("sequence", "expected"), ORDERS.values(), ids=ORDERS)
def test_a_status_never_moves_backwards(
    records: Records,
    record: Callable[..., bool],
    sequence: list[tuple[DeliveryStatus, int]],
    expected: tuple[DeliveryStatus, int],
) -> None:
    # sms.md D3, sms-05; one by one, as one batch, and by the tick
    one_by_one, batch, ticked = (records.sent(name) for name in ("one", "batch", "tick"))
    for status, at in sequence:
        assert record("one", status, minutes(at))
    records.take(*(told("batch", status, minutes(at)) for status, at in sequence))
    with records.engine.begin() as connection:
        receipts = [told("tick", status, minutes(at)) for status, at in sequence]
        store_receipts(connection, provider_config_id=CONFIG_A, tenant_id=TENANT_A, raw=b"{}", receipts=receipts)
    apply_waiting(records.engine)
    stood = (expected[0], minutes(expected[1]))
    assert records.told_of(one_by_one) == records.told_of(batch) == records.told_of(ticked) == stood


def test_the_same_receipt_twice_changes_nothing(records: Records, record: Callable[..., bool]) -> None:
    record_id = records.sent("m-1")
    assert record("m-1", DELIVERED)
    once = records.row(record_id)
    assert record("m-1", DELIVERED)
    assert records.take(told("m-1", DELIVERED), told("m-1", DELIVERED)) == Applied(applied=2, looked_at=2)
    assert records.row(record_id) == once


# Stored first


def test_a_receipt_is_kept_as_it_came_and_marked_when_it_was_applied(records: Records) -> None:
    records.sent("m-1")
    body = '{"id": "m-1", "text": "Grüße"}'.encode()
    assert records.take(told("m-1", DELIVERED), raw=body) == Applied(applied=1, looked_at=1)
    [row] = records.receipts()
    assert (row.tenant_id, row.provider_config_id, row.provider_message_id) == (TENANT_A, CONFIG_A, "m-1")
    assert (row.status, row.at, row.raw) == ("DELIVERED", NOON, body.decode())
    assert row.applied_at is not None


def test_a_batch_keeps_its_body_once_and_its_order(records: Records) -> None:
    ids = [records.sent(f"m-{number}") for number in range(3)]
    receipts = [told(f"m-{number}", DELIVERED, minutes(number)) for number in range(3)]
    assert records.take(*receipts, told("other", FAILED), raw=b"[...]") == Applied(applied=3, looked_at=4)
    rows = records.receipts()
    assert [row.raw for row in rows] == ["[...]", "", "", ""]
    assert [row.provider_message_id for row in rows] == ["m-0", "m-1", "m-2", "other"]
    assert len({row.received_at for row in rows}) == 1
    assert [records.told_of(i) for i in ids] == [("DELIVERED", minutes(number)) for number in range(3)]


def test_a_batch_of_many_thousands_is_stored_and_applied(records: Records) -> None:
    records.sent("m-4999")
    receipts = [told(f"m-{number}", DELIVERED) for number in range(5000)]
    assert records.take(*receipts) == Applied(applied=1, looked_at=5000)
    assert apply_waiting(records.engine) == Applied(applied=0, looked_at=4999)


def test_a_body_without_a_receipt_is_kept_and_waits_for_nothing(records: Records) -> None:
    assert records.take(raw=b"\xff\x00 no receipt") == Applied(applied=0, looked_at=0)
    [row] = records.receipts()
    assert row.raw == "\ufffd\ufffd no receipt"
    assert apply_waiting(records.engine) == Applied(applied=0, looked_at=0)


def test_an_id_that_no_column_holds_does_not_cost_the_others_of_its_batch(records: Records) -> None:
    record_id = records.sent("m-1")
    records.take(told("x" * 300, FAILED), told("nul\x00", FAILED), told("m-1", DELIVERED))
    assert [row.provider_message_id for row in records.receipts()] == [None, None, "m-1"]
    assert records.told_of(record_id)[0] == "DELIVERED"


def test_nothing_is_applied_that_is_not_stored(records: Records) -> None:
    record_id = records.sent("m-1")
    with records.engine.connect() as connection:
        store_receipts(
            connection, provider_config_id=CONFIG_A, tenant_id=TENANT_A, raw=b"{}", receipts=[told("m-1", FAILED)]
        )
        with pytest.raises(OperationalError):
            connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    assert records.receipts() == []
    assert records.told_of(record_id) == ("UNKNOWN", None)


def test_what_cannot_be_applied_now_is_left_to_the_tick(records: Records, make_settings: MakeSettings) -> None:
    record_id = records.sent("m-1")
    impatient = create_engine(make_settings(database={"lock_timeout_seconds": 0.02}))
    with records.engine.begin() as holder:
        holder.execute(text("SELECT FROM sms_send_record FOR UPDATE"))
        assert Records(impatient).take(told("m-1", FAILED)) == Applied(applied=0, looked_at=1)
    impatient.dispose()
    assert records.told_of(record_id) == ("UNKNOWN", None)
    assert apply_waiting(records.engine) == Applied(applied=1, looked_at=1)
    assert records.told_of(record_id)[0] == "FAILED"


# The tick


def test_a_receipt_before_our_own_write_is_applied_when_the_id_is_there(records: Records) -> None:
    # sms.md D7, sms-06
    record_id = records.sent(None, status="SENDING", claimed_at=func.now(), sent_at=None)
    assert records.take(told("m-1", DELIVERED)) == Applied(applied=0, looked_at=1)
    assert apply_waiting(records.engine) == Applied(applied=0, looked_at=1)
    with records.engine.begin() as connection:
        _write_sent(connection, record_id, "m-1")
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


def _write_sent(connection: Connection, record_id: int, message_id: str) -> None:
    """As the outcome of an attempt leaves the record."""
    connection.execute(
        update(SMS_SEND_RECORD)
        .where(SMS_SEND_RECORD.c.id == record_id)
        .values(status="SENT", claimed_at=None, sent_at=func.now(), provider_message_id=message_id, version=4)
    )


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
        _write_sent(writer, record_id, "m-1")
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
        assert endpoint.execute(APPLY_STORED, {"receipt_ids": ids}).one().applied == 1
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


# Plans


def _indexes(connection: Connection, statement: TextClause, parameters: dict[str, Any]) -> tuple[set[str], str]:
    """The indexes a statement used, and its plan."""
    plan = connection.execute(text("EXPLAIN (ANALYZE, FORMAT JSON) " + statement.text), parameters).scalar_one()
    found = plan if isinstance(plan, list) else json.loads(plan)
    nodes = list(_nodes(found[0]["Plan"]))
    scanned = [n for n in nodes if n["Node Type"] == "Seq Scan" and n["Actual Loops"]]
    shown = json.dumps(found, indent=1)
    assert not scanned, shown
    return {node["Index Name"] for node in nodes if "Index Name" in node and node["Actual Loops"]}, shown


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


@pytest.mark.postgres16
@pytest.mark.parametrize("analyzed", [True, False], ids=["statistics", "no statistics"])
def test_every_statement_finds_records_and_receipts_by_index(engine: Engine, analyzed: bool) -> None:
    with engine.connect() as connection:
        connection.execute(
            text("""
            INSERT INTO sms_send_record (tenant_id, scope, phone_number, status, sent_at, provider_config_id,
                provider_message_id)
            SELECT n % 50, 'TENANT', '+4915112345678', 'SENT', now(), n % 3, 'm-' || n FROM generate_series(1, 20000) n
            """)
        )
        connection.execute(
            text("""
            INSERT INTO sms_receipt (provider_config_id, provider_message_id, status, raw, received_at, applied_at)
            SELECT n % 3, 'm-' || n, 'DELIVERED', '{}', now() - n * interval '1 minute',
                CASE WHEN n % 10 > 0 THEN now() END FROM generate_series(1, 20000) n
            """)
        )
        if analyzed:
            connection.exec_driver_sql("ANALYZE sms_send_record, sms_receipt")
        by_id = {"config_id": 1, "message_id": "m-1", "status": "DELIVERED", "at": NOON}
        used, shown = _indexes(connection, RECORD, by_id)
        assert "ix_sms_send_provider_message" in used, shown
        used, shown = _indexes(connection, APPLY_STORED, {"receipt_ids": [10, 20, 30]})
        assert used >= {"ix_sms_send_provider_message", "pk_sms_receipt"}, shown
        used, shown = _indexes(connection, APPLY_WAITING, {"rows": 1000, "before": None, "before_id": None})
        assert used >= {"ix_sms_send_provider_message", "ix_sms_receipt_waiting"}, shown
        connection.rollback()
