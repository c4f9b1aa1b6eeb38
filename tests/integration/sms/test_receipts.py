"""Receipts on the real PostgreSQL: kept first, applied by configuration and id, never backwards, whatever the order."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from messaging import tenancy
from messaging.db.engine import create_engine
from messaging.sms.models import DeliveryStatus
from messaging.sms.providers import registry
from messaging.sms.providers.base import ProviderConfig, Receipt
from messaging.sms.receipts import (
    Applied,
    apply_waiting,
    record_delivery_status,
    store_receipts,
)
from tests.conftest import MakeSettings
from tests.integration.sms.receipt_records import (
    CONFIG_A,
    CONFIG_B,
    DELIVERED,
    FAILED,
    NOON,
    TENANT_A,
    TENANT_B,
    UNDELIVERED,
    UNKNOWN,
    Records,
    minutes,
    told,
)


@pytest.fixture(autouse=True)
def _tenants_and_none_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process of the HTTP application: rows belong to tenants, and a receipt comes with none."""
    monkeypatch.setattr(tenancy, "_multi_tenancy", True)


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


# From the wire to the record

#: One receipt of each provider as it comes: headers' media type aside, its body or query; the id and what it says.
SAMPLES: dict[str, tuple[bytes | dict[str, str], str, DeliveryStatus]] = {
    "TWILIO": (b"MessageSid=SM1&MessageStatus=undelivered&ErrorCode=30003&To=%2B14155550199", "SM1", UNDELIVERED),
    "INFOBIP": (
        b'{"results":[{"messageId":"i-1","to":"14155550199","doneAt":"2026-03-01T12:00:00.000+0000",'
        b'"status":{"groupId":3,"groupName":"DELIVERED","id":5,"name":"DELIVERED_TO_HANDSET","description":"x"}}]}',
        "i-1",
        DELIVERED,
    ),
    "ALIYUN": (
        b'[{"phone_number":"13800138000","send_time":"2026-03-01 19:59:00","report_time":"2026-03-01 20:00:00",'
        b'"success":true,"err_code":"DELIVERED","err_msg":"ok","sms_size":"1","biz_id":"b1","out_id":"17"}]',
        "b1",
        DELIVERED,
    ),
    "TENCENT": (
        b'[{"user_receive_time":"2026-03-01 20:00:00","nationcode":"86","mobile":"13800138000",'
        b'"report_status":"FAIL","errmsg":"MK:0001","description":"no such number","sid":"t-1"}]',
        "t-1",
        UNDELIVERED,
    ),
    "SINCH": (
        b'{"type":"recipient_delivery_report_sms","batch_id":"s-1","recipient":"+14155550199","code":402,'
        b'"status":"Aborted","at":"2026-03-01T12:00:00.000Z"}',
        "s-1",
        FAILED,
    ),
    "BIRD": (
        {"id": "bird-1", "reference": "17", "recipient": "14155550199", "status": "delivered"}
        | {"statusDatetime": "2026-03-01T12:00:00+00:00"},
        "bird-1",
        DELIVERED,
    ),
    "CM": (
        b'{"messages":{"msg":{"received":"2026-03-01T12:00:00","to":"00447911123456","reference":"17",'
        b'"status":{"code":"1","errorCode":"8","errorDescription":"Rejected"},"operator":"23430"}}}',
        "17",
        FAILED,
    ),
}


def receipts_of(type_: str, told_: bytes | dict[str, str]) -> list[Receipt]:
    body, query = (told_, {}) if isinstance(told_, bytes) else (b"", told_)
    kind = "application/x-www-form-urlencoded" if type_ == "TWILIO" else "application/json"
    return registry.provider(type_).parse_receipts({"content-type": kind}, body, query)


@pytest.mark.parametrize("type_", registry.BUILT_IN)
def test_a_receipt_of_each_provider_reaches_its_record(records: Records, type_: str) -> None:
    # sms.md D1
    sample, message_id, status = SAMPLES[type_]
    record_id = records.sent(message_id, provider_type=type_)
    receipts = receipts_of(type_, sample)
    assert records.take(*receipts).applied == 1
    stood, at = records.told_of(record_id)
    assert stood == status
    # Twilio tells no time.
    assert at == NOON or type_ == "TWILIO"


def test_what_the_operator_took_is_delivered_only_when_the_handset_has_it(records: Records) -> None:
    # sms.md D2
    record_id = records.sent("i-1")
    sample = SAMPLES["INFOBIP"][0]
    assert isinstance(sample, bytes)
    to_operator = sample.replace(b'"id":5', b'"id":2').replace(b"_TO_HANDSET", b"_TO_OPERATOR")
    records.take(*receipts_of("INFOBIP", to_operator))
    assert records.told_of(record_id)[0] == "UNKNOWN"
    records.take(*receipts_of("INFOBIP", sample))
    assert records.told_of(record_id)[0] == "DELIVERED"


def test_a_changed_parameter_breaks_the_signature() -> None:
    # sms.md D5, the vector of section 7.1
    config = ProviderConfig(1, 7, "TWILIO", api_key="AC1", api_secret="12345")
    headers = {
        "x-twilio-signature": "Eh3OmFYieHGA9UL5MiALIuE9ElE=",
        "content-type": "application/x-www-form-urlencoded",
    }
    check = registry.provider("TWILIO").check_receipt
    url = "https://example.com/dlr"
    assert check(config, url, headers, b"MessageSid=SM1&MessageStatus=delivered", {}) is True
    assert check(config, url, headers, b"MessageSid=SM1&MessageStatus=failed", {}) is False
    assert check(config, url + "?x=1", headers, b"MessageSid=SM1&MessageStatus=delivered", {"x": "1"}) is False


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
