"""CM.com without a network: its table, what its receipts and replies say."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from messaging.category import ErrorCategory, MarkerCode
from messaging.errors import PreparationError, ReceiptUnreadable
from messaging.sms.models import DeliveryStatus
from messaging.sms.providers.base import OutgoingSms, ProviderConfig, Receipt
from messaging.sms.providers.cm import ERROR_CATEGORY, Cm

MESSAGE = OutgoingSms(17, "+447911123456", "Hello")

#: `sms.md` section 7.7, row by row.
CATEGORIES = {
    "101": ErrorCategory.AUTH,
    "102": ErrorCategory.AUTH,
    "103": ErrorCategory.AUTH,
    "202": ErrorCategory.INVALID_INPUT,
    "203": ErrorCategory.INVALID_INPUT,
    "301": ErrorCategory.INVALID_INPUT,
    "302": ErrorCategory.INVALID_INPUT,
    "303": ErrorCategory.INVALID_INPUT,
    "304": ErrorCategory.INVALID_INPUT,
    "305": ErrorCategory.INVALID_INPUT,
    "401": ErrorCategory.PERMANENT,
    "402": ErrorCategory.PERMANENT,
    "403": ErrorCategory.PERMANENT,
    "500": ErrorCategory.TRANSIENT,
    "999": ErrorCategory.UNKNOWN,
}


def test_a_code_says_whether_to_try_again() -> None:
    assert CATEGORIES == ERROR_CATEGORY
    assert {code: Cm().classify(code, 200, "") for code in CATEGORIES} == CATEGORIES


def test_a_code_no_table_knows_goes_by_the_status() -> None:
    assert Cm().classify("777", 200, "") is ErrorCategory.UNKNOWN
    assert Cm().classify("777", 503, "") is ErrorCategory.TRANSIENT


@pytest.mark.parametrize(
    ("config", "marker"),
    [
        ({"api_key": None}, MarkerCode.PROVIDER_CONFIG_INVALID),
        ({"sender_id": None}, MarkerCode.SENDER_REQUIRED),
        ({"sender_id": " "}, MarkerCode.SENDER_REQUIRED),
    ],
)
def test_what_it_cannot_work_without_is_told_before_a_call(config: dict[str, Any], marker: MarkerCode) -> None:
    complete = ProviderConfig(1, 7, "CM", api_key="token", sender_id="Shop")
    Cm().check(complete, MESSAGE)
    with pytest.raises(PreparationError) as caught:
        Cm().check(replace(complete, **config), MESSAGE)
    assert caught.value.marker is marker


def report(code: Any = "2", **changed: Any) -> dict[str, Any]:
    """As in https://developers.cm.com/messaging/docs/incoming-status-report, values as texts."""
    return {
        "received": "2026-01-01T08:00:00",
        "to": "00447911123456",
        "reference": "17",
        "status": {"code": code, "errorCode": "", "errorDescription": ""},
        "operator": "23430",
    } | changed


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("0", DeliveryStatus.UNKNOWN),
        ("1", DeliveryStatus.FAILED),
        ("2", DeliveryStatus.DELIVERED),
        (2, DeliveryStatus.DELIVERED),
        ("3", DeliveryStatus.UNDELIVERED),
        ("4", DeliveryStatus.DELIVERED),
        ("9", DeliveryStatus.UNKNOWN),
    ],
)
def test_a_receipt_is_known_by_our_reference(code: Any, status: DeliveryStatus) -> None:
    # sms.md D1
    body = json.dumps({"messages": {"msg": report(code)}}).encode()
    assert Cm().parse_receipts({}, body, {}) == [
        Receipt("17", status, datetime(2026, 1, 1, 8, tzinfo=UTC), str(code)),
    ]


def test_an_array_of_receipts_is_read_too() -> None:
    body = json.dumps({"messages": {"msg": [report(), {}, report(reference="18", received="x")]}}).encode()
    assert [(r.provider_message_id, r.at is None) for r in Cm().parse_receipts({}, body, {})] == [
        ("17", False),
        ("18", True),
    ]


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"{}", b'{"messages":{"msg":{"reference":"1"}}}', b"[" * 9999])
def test_a_body_of_another_shape_is_unreadable(body: bytes) -> None:
    with pytest.raises(ReceiptUnreadable):
        Cm().parse_receipts({}, body, {})
    with pytest.raises(ReceiptUnreadable):
        Cm().parse_inbound({}, body, {})


def test_any_2xx_is_taken_as_received() -> None:
    assert Cm().receipt_reply()[0] == 200


#: As in https://developers.cm.com/messaging/docs/incoming-messages, and the shape before it.
REPLIES: list[dict[str, Any]] = [
    {
        "reference": "17",
        "from": {"number": "+447911123456", "name": ""},
        "to": {"number": "00447700900000"},
        "message": {"text": "STOP", "media": {"mediaUri": ""}},
        "groupings": ["", "", ""],
        "timeUtc": "2026-01-01T08:00:00",
        "channel": "SMS",
    },
    {"reference": "17", "from": "00447911123456", "to": "00447700900000", "body": "STOP", "groupings": ["", "", ""]},
]


@pytest.mark.parametrize("told", REPLIES)
def test_a_reply_is_read(told: dict[str, Any]) -> None:
    [inbound] = Cm().parse_inbound({}, json.dumps(told).encode(), {})
    assert (inbound.from_number, inbound.to, inbound.text) == ("+447911123456", "00447700900000", "STOP")
    assert inbound.at == (datetime(2026, 1, 1, 8, tzinfo=UTC) if "timeUtc" in told else None)


def test_messages_of_other_channels_are_left_out() -> None:
    assert Cm().parse_inbound({}, json.dumps({**REPLIES[0], "channel": "WhatsApp"}).encode(), {}) == []


def test_it_signs_no_receipts() -> None:
    assert Cm().check_receipt(ProviderConfig(1, 7, "CM"), "https://example.com/hook", {}, b"{}", {}) is None
