"""Sinch's receipts, signatures and inbound messages: sms.md section 7.5, test point D1."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from messaging.errors import ReceiptUnreadable
from messaging.sms.models import DeliveryStatus
from messaging.sms.providers.base import Inbound, ProviderConfig, Receipt
from messaging.sms.providers.sinch import Sinch

AT = datetime(2026, 6, 6, 9, 22, 14, 304000, tzinfo=UTC)
SIGNED = "x-sinch-webhook-signature"


def per_recipient(**fields: Any) -> bytes:
    said = {
        "type": "recipient_delivery_report_sms",
        "batch_id": "01FC66621XXXXX119Z8PMV1QPQ",
        "recipient": "+14155550199",
        "code": 0,
        "status": "Delivered",
        "at": "2026-06-06T09:22:14.304Z",
        "client_reference": "4711",
        **fields,
    }
    return json.dumps({key: value for key, value in said.items() if value is not None}).encode()


@pytest.mark.parametrize(
    ("word", "code", "status"),
    [
        ("Queued", 400, DeliveryStatus.UNKNOWN),
        ("Dispatched", 401, DeliveryStatus.UNKNOWN),
        ("Unknown", 499, DeliveryStatus.UNKNOWN),
        ("Delivered", 0, DeliveryStatus.DELIVERED),
        ("Failed", 404, DeliveryStatus.UNDELIVERED),
        ("Expired", 406, DeliveryStatus.UNDELIVERED),
        ("Deleted", 406, DeliveryStatus.UNDELIVERED),
        ("Aborted", 402, DeliveryStatus.FAILED),
        ("Cancelled", 407, DeliveryStatus.FAILED),
        ("Rejected", 403, DeliveryStatus.FAILED),
        ("delivered", 0, DeliveryStatus.DELIVERED),
    ],
)
def test_a_receipt_of_a_recipient_is_read(word: str, code: int, status: DeliveryStatus) -> None:  # D1
    found = Sinch().parse_receipts({}, per_recipient(status=word, code=code), {})

    assert found == [Receipt("01FC66621XXXXX119Z8PMV1QPQ", status, AT, word)]


@pytest.mark.parametrize(
    ("codes", "status"),
    [
        ((0,), DeliveryStatus.DELIVERED),
        ((400, 401), DeliveryStatus.UNKNOWN),
        ((402, 403, 405, 407, 408, *range(410, 419)), DeliveryStatus.FAILED),
        ((404, 406, 409, 499), DeliveryStatus.UNDELIVERED),
    ],
)
def test_without_a_known_word_the_code_decides(codes: tuple[int, ...], status: DeliveryStatus) -> None:
    for code in codes:
        (by_code,) = Sinch().parse_receipts({}, per_recipient(status=None, code=code), {})
        (by_new_word,) = Sinch().parse_receipts({}, per_recipient(status="Novel", code=code), {})
        assert (by_code.status, by_new_word.status) == (status, status)


def test_a_receipt_of_a_batch_is_read() -> None:
    said = {
        "type": "delivery_report_sms",
        "batch_id": "b-1",
        "statuses": [
            {"code": 401, "status": "Dispatched", "count": 0, "recipients": []},
            {"code": 0, "status": "Delivered", "count": 1, "recipients": ["+14155550199"]},
        ],
        "total_message_count": 1,
    }

    found = Sinch().parse_receipts({}, json.dumps(said).encode(), {})

    assert found == [Receipt("b-1", DeliveryStatus.DELIVERED, None, "Delivered")]


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        {},
        {"type": "mo_text", "batch_id": "b-1"},
        {"type": "recipient_delivery_report_sms"},
        {"type": "delivery_report_sms", "batch_id": "b-1"},
        {"type": 7, "batch_id": "b-1"},
    ],
)
def test_what_is_no_receipt_is_unreadable(said: Any) -> None:
    with pytest.raises(ReceiptUnreadable):
        Sinch().parse_receipts({}, json.dumps(said).encode(), {})


#: A signed request of Sinch's own collection of examples.
EXAMPLE = (
    b'{"app_id":"","accepted_time":"2021-10-18T17:49:13.813615Z","project_id":"e2df3a34-a71b-4448-9db5-a8d2baad28e4",'
    b'"contact_create_notification":{"contact":{"id":"01FJA8B466Y0R2GNXD78MD9SM1","channel_identities":[{"channel":"SMS"'
    b',"identity":"48123456789","app_id":""}],"display_name":"New Test Contact","email":"new.contact@email.com",'
    b'"external_id":"","metadata":"","language":"EN_US"}},"message_metadata":""}'
)
EXAMPLE_HEADERS = {
    f"{SIGNED}-nonce": "01FJA8B4A7BM43YGWSG9GBV067",
    f"{SIGNED}-timestamp": "1634579353",
    SIGNED: "6bpJoRmFoXVjfJIVglMoJzYXxnoxRujzR4k2GOXewOE=",
}


def test_a_known_signature_is_taken() -> None:
    config = ProviderConfig(1, 3, "SINCH", api_secret="foo_secret1234")

    assert Sinch().check_receipt(config, "https://x", EXAMPLE_HEADERS, EXAMPLE, {}) is True


@pytest.mark.parametrize("changed", [SIGNED, f"{SIGNED}-nonce", f"{SIGNED}-timestamp", "body", "secret", "algorithm"])
def test_any_other_signature_is_refused(changed: str) -> None:
    config = ProviderConfig(1, 3, "SINCH", api_secret="other" if changed == "secret" else "foo_secret1234")
    headers = dict(EXAMPLE_HEADERS)
    if changed == "algorithm":
        headers[f"{SIGNED}-algorithm"] = "none"
    elif changed in headers:
        headers[changed] = "é"
        missing = {name: value for name, value in headers.items() if name != changed}
        assert Sinch().check_receipt(config, "https://x", missing, EXAMPLE, {}) is False
    body = EXAMPLE + b" " if changed == "body" else EXAMPLE

    assert Sinch().check_receipt(config, "https://x", headers, body, {}) is False


@pytest.mark.parametrize(("name", "used"), [("HmacSHA256", hashlib.sha256), ("HmacSHA512", hashlib.sha512)])
def test_the_header_names_the_algorithm(name: str, used: Any) -> None:
    made = base64.b64encode(hmac.new(b"s", b"body.n.1", used).digest()).decode()
    headers = {SIGNED: made, f"{SIGNED}-nonce": "n", f"{SIGNED}-timestamp": "1", f"{SIGNED}-algorithm": name}

    assert Sinch().check_receipt(ProviderConfig(1, 3, "SINCH", api_secret="s"), "https://x", headers, b"body", {})


def test_without_a_secret_there_is_no_signature() -> None:
    assert Sinch().check_receipt(ProviderConfig(1, 3, "SINCH"), "https://x", EXAMPLE_HEADERS, EXAMPLE, {}) is None


def inbound(**fields: Any) -> bytes:
    said = {
        "id": "01FC66621XXXXX119Z8PMV1QPQ",
        "type": "mo_text",
        "from": "+14155550199",
        "to": "+14155550100",
        "body": "STOP",
        "received_at": "2026-06-06T09:22:14.304Z",
        **fields,
    }
    return json.dumps(said).encode()


def test_an_inbound_message_is_read() -> None:
    assert Sinch().parse_inbound({}, inbound(), {}) == [Inbound("+14155550199", "+14155550100", "STOP", AT)]
    assert Sinch().parse_inbound({}, inbound(**{"from": "14155550199"}), {})[0].from_number == "+14155550199"


@pytest.mark.parametrize(
    "fields", [{"type": "mo_binary", "body": "SGVsbG8="}, {"type": "mo_media", "body": {}}, {"from": "MTN"}]
)
def test_what_says_nothing_is_passed_over(fields: dict[str, Any]) -> None:
    assert Sinch().parse_inbound({}, inbound(**fields), {}) == []


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", per_recipient(), b"\xff"])
def test_what_is_no_inbound_message_is_unreadable(body: bytes) -> None:
    with pytest.raises(ReceiptUnreadable):
        Sinch().parse_inbound({}, body, {})
