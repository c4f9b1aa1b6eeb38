"""Infobip's receipts and inbound messages: sms.md section 7.2, test points D1 and D2."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from messaging.category import ErrorCategory
from messaging.errors import ReceiptUnreadable
from messaging.sms.models import DeliveryStatus
from messaging.sms.providers.base import Inbound, ProviderConfig, Receipt
from messaging.sms.providers.infobip import Infobip

DONE = "2026-06-06T09:22:14.304+0000"
DONE_AT = datetime(2026, 6, 6, 9, 22, 14, 304000, tzinfo=UTC)


def report(message_id: str = "m-1", **status: Any) -> dict[str, Any]:
    """One result as the documentation shows it."""
    return {
        "bulkId": "b-1",
        "messageId": message_id,
        "to": "14155550199",
        "sender": "MySite",
        "sentAt": "2026-06-06T09:22:10.000+0000",
        "doneAt": DONE,
        "messageCount": 1,
        "mccMnc": "310260",
        "callbackData": "4711",
        "price": {"pricePerMessage": 0.01, "currency": "EUR"},
        "status": status,
        "error": {"groupId": 0, "groupName": "OK", "id": 0, "name": "NO_ERROR", "permanent": False},
    }


def body_of(*results: Any) -> bytes:
    return json.dumps({"results": results}).encode()


@pytest.mark.parametrize(
    ("group_id", "group", "status_id", "name", "status"),
    [
        (1, "PENDING", 3, "PENDING_WAITING_DELIVERY", DeliveryStatus.UNKNOWN),
        (3, "DELIVERED", 2, "DELIVERED_TO_OPERATOR", DeliveryStatus.UNKNOWN),  # D2
        (3, "DELIVERED", 5, "DELIVERED_TO_HANDSET", DeliveryStatus.DELIVERED),  # D2
        (2, "UNDELIVERABLE", 4, "UNDELIVERABLE_REJECTED_OPERATOR", DeliveryStatus.UNDELIVERED),
        (4, "EXPIRED", 15, "EXPIRED_EXPIRED", DeliveryStatus.UNDELIVERED),
        (5, "REJECTED", 6, "REJECTED_NETWORK", DeliveryStatus.FAILED),
        (0, "OK", 0, "OK", DeliveryStatus.UNKNOWN),
    ],
)
def test_a_receipt_is_read(group_id: int, group: str, status_id: int, name: str, status: DeliveryStatus) -> None:  # D1
    result = report(groupId=group_id, groupName=group, id=status_id, name=name, description="words")
    del result["status"]["groupId"]
    by_name = Infobip().parse_receipts({}, body_of(result), {})
    result["status"]["groupId"] = group_id

    assert Infobip().parse_receipts({}, body_of(result), {}) == [Receipt("m-1", status, DONE_AT, name)] == by_name


def test_all_receipts_of_a_batch_are_read() -> None:
    results = [report(f"m-{number}", groupId=3, id=5, name="DELIVERED_TO_HANDSET") for number in range(100)]

    found = Infobip().parse_receipts({}, body_of(*results), {})

    assert [receipt.provider_message_id for receipt in found] == [f"m-{number}" for number in range(100)]


def test_one_strange_result_does_not_cost_the_others() -> None:
    found = Infobip().parse_receipts({}, body_of({"messageId": "m-0"}, None, report("m-1", groupId=1)), {})

    assert [receipt.provider_message_id for receipt in found] == ["m-1"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"results": 7}', b'{"results": [{}]}', b"\xff", b"[" * 5000])
def test_what_is_no_receipt_is_unreadable(body: bytes) -> None:
    with pytest.raises(ReceiptUnreadable):
        Infobip().parse_receipts({}, body, {})


def test_a_receipt_without_results_is_none() -> None:
    assert Infobip().parse_receipts({}, body_of(), {}) == []


def test_nothing_is_signed() -> None:
    assert Infobip().check_receipt(ProviderConfig(1, 3, "INFOBIP"), "https://x", {}, b"", {}) is None


def test_an_inbound_message_is_read() -> None:
    result = {
        "messageId": "817790313235066447",
        "from": "14155550199",
        "to": "14155550100",
        "text": "Stop",
        "cleanText": "",
        "keyword": "STOP",
        "receivedAt": DONE,
        "smsCount": 1,
    }

    found = Infobip().parse_inbound({}, body_of(result, {"from": "Alpha", "text": "x"}), {})

    assert found == [Inbound("+14155550199", "14155550100", "Stop", DONE_AT)]


def test_names_of_statuses_are_classified_by_their_group() -> None:
    assert Infobip().classify("REJECTED_SENDER", None, "") is ErrorCategory.AUTH
    assert Infobip().classify("REJECTED_DND", None, "") is ErrorCategory.PERMANENT
    assert Infobip().classify("UNDELIVERABLE_NOT_DELIVERED", None, "") is ErrorCategory.PERMANENT
    assert Infobip().classify("EXPIRED_UNKNOWN", None, "") is ErrorCategory.TRANSIENT
    assert Infobip().classify("E400", 400, "") is ErrorCategory.INVALID_INPUT
