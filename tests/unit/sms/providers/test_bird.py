"""Bird's receipts, signatures and inbound messages: sms.md section 7.6, test point D1.

Tokens are made by PyJWT, which the product does not use: an independent opinion of RFC 7519.
"""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode

import jwt
import pytest

from messaging.errors import ReceiptUnreadable
from messaging.sms.models import DeliveryStatus
from messaging.sms.providers.base import Inbound, ProviderConfig, Receipt
from messaging.sms.providers.bird import Bird

NOW = datetime(2026, 6, 6, 9, 22, 14, tzinfo=UTC)
SECONDS = int(NOW.timestamp())
KEY = "PlLrKaqvZNRR5zAjm42ZT6q1SQxgbbGdPlLrKaqvZNRR5zAjm42ZT6q1SQxgbbGd"
QUERY = {
    "id": "eef0ab57a9e049be946f3821568c2b2e",
    "reference": "4711",
    "recipient": "14155550199",
    "status": "delivered",
    "statusDatetime": "2026-06-06T09:22:14+00:00",
    "mccmnc": "310260",
    "ported": "0",
}
URL = f"https://example.com/hooks/sms/bird/token?{urlencode(QUERY)}"


def bird() -> Bird:
    return Bird(lambda: NOW)


def config(key: str | None = KEY) -> ProviderConfig:
    return ProviderConfig(1, 3, "BIRD", api_key="access", api_secret=key)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def signed(algorithm: str = "HS256", key: str = KEY, **changes: Any) -> dict[str, str]:
    claims = {
        "iss": "MessageBird",
        "nbf": SECONDS - 10,
        "exp": SECONDS + 60,
        "jti": "e92cf079-362d-4813-ab40-bbdd938bdc6d",
        "url_hash": sha256(URL.encode()),
        **changes,
    }
    kept = {name: value for name, value in claims.items() if value is not None}
    return {"messagebird-signature-jwt": jwt.encode(kept, key, algorithm=algorithm)}


def test_a_zone_whose_plus_is_not_escaped_is_one() -> None:
    [found] = bird().parse_receipts(
        {}, b"", dict(parse_qsl("id=b&status=sent&statusDatetime=2026-06-06T11:22:14+02:00"))
    )
    assert found.at == NOW


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("scheduled", DeliveryStatus.UNKNOWN),
        ("sent", DeliveryStatus.UNKNOWN),
        ("buffered", DeliveryStatus.UNKNOWN),
        ("delivered", DeliveryStatus.DELIVERED),
        ("expired", DeliveryStatus.UNDELIVERED),
        ("delivery_failed", DeliveryStatus.FAILED),
        ("something_new", DeliveryStatus.UNKNOWN),
    ],
)
def test_a_receipt_is_read_from_the_query(word: str, status: DeliveryStatus) -> None:  # D1
    found = bird().parse_receipts({}, b"", {**QUERY, "status": word})

    assert found == [Receipt(QUERY["id"], status, NOW, word)]


def test_a_receipt_may_come_as_a_form_or_as_json() -> None:
    expected = bird().parse_receipts({}, b"", QUERY)

    assert bird().parse_receipts({}, urlencode(QUERY).encode(), {}) == expected
    assert bird().parse_receipts({}, json.dumps(QUERY).encode(), {}) == expected


@pytest.mark.parametrize("query", [{}, {"id": "x"}, {"status": "sent"}, {"id": "", "status": "sent"}])
def test_what_is_no_receipt_is_unreadable(query: dict[str, str]) -> None:
    with pytest.raises(ReceiptUnreadable):
        bird().parse_receipts({}, b"", query)


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_signature_of_the_account_is_taken(algorithm: str) -> None:
    assert bird().check_receipt(config(), URL, signed(algorithm), b"", QUERY) is True
    upper = {name.title(): value for name, value in signed(algorithm).items()}
    assert bird().check_receipt(config(), URL, upper, b"", QUERY) is True


def test_a_body_is_signed_by_its_hash() -> None:
    body = b"originator=14155550199&body=STOP"

    assert bird().check_receipt(config(), URL, signed(payload_hash=sha256(body)), body, {}) is True
    assert bird().check_receipt(config(), URL, signed(payload_hash=sha256(body)), body + b"!", {}) is False
    assert bird().check_receipt(config(), URL, signed(payload_hash=sha256(body)), b"", {}) is False
    assert bird().check_receipt(config(), URL, signed(), body, {}) is False
    assert bird().check_receipt(config(), URL, signed(payload_hash=""), b"", {}) is True


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "Somebody"},
        {"iss": None},
        {"url_hash": sha256(b"https://example.com/")},
        {"url_hash": None},
        {"url_hash": 7},
        {"exp": SECONDS - 60},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": SECONDS + 60},
        {"key": KEY[::-1]},
    ],
    ids=str,
)
def test_any_other_signature_is_refused(changes: dict[str, Any]) -> None:
    if changes.get("exp") == "soon":
        token = unsigned({"alg": "HS256"}, {"exp": "soon"}, key=KEY)
        assert bird().check_receipt(config(), URL, {"messagebird-signature-jwt": token}, b"", QUERY) is False
        return
    assert bird().check_receipt(config(), URL, signed(**changes), b"", QUERY) is False


@pytest.mark.parametrize("seconds", [4, -4])
def test_clocks_may_differ_a_little(seconds: int) -> None:
    headers = signed(nbf=SECONDS + seconds, exp=SECONDS + seconds)

    assert bird().check_receipt(config(), URL, headers, b"", QUERY) is True


def test_another_address_is_refused() -> None:
    assert bird().check_receipt(config(), URL.replace("delivered", "expired"), signed(), b"", QUERY) is False


def unsigned(header: dict[str, Any], claims: dict[str, Any], *, key: str | None = None) -> str:
    def part(said: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(said).encode()).rstrip(b"=").decode()

    text = f"{part(header)}.{part(claims)}"
    if key is None:
        return f"{text}."
    made = hmac.new(key.encode(), text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "a.b.c",
        "é.é.é",
        signed()["messagebird-signature-jwt"] + "=",
        signed()["messagebird-signature-jwt"][:-4],
        signed()["messagebird-signature-jwt"].rpartition(".")[0] + ".",
        unsigned({"alg": "none"}, {"iss": "MessageBird", "exp": SECONDS + 60, "url_hash": sha256(URL.encode())}),
        unsigned({"alg": ["HS256"]}, {}),
        unsigned({}, {}),
    ],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    assert bird().check_receipt(config(), URL, {"messagebird-signature-jwt": token}, b"", QUERY) is False


def test_a_missing_token_is_refused() -> None:
    assert bird().check_receipt(config(), URL, {}, b"", QUERY) is False


def test_without_a_signing_key_there_is_no_signature() -> None:
    assert bird().check_receipt(config(None), URL, {}, b"", QUERY) is None


@pytest.mark.parametrize(
    "said",
    [
        {
            "id": "b-1",
            "originator": "14155550199",
            "recipient": "14155550100",
            "body": "Stop",
            "createdDatetime": "2026-06-06T09:22:14+00:00",
        },
        {
            "id": "b-1",
            "sender": "14155550199",
            "receiver": "14155550100",
            "message": "Stop",
            "receive_datetime": "20260606092214",
        },
    ],
)
def test_an_inbound_message_is_read_from_query_form_and_json(said: dict[str, str]) -> None:
    expected = [Inbound("+14155550199", "14155550100", "Stop", NOW)]

    assert bird().parse_inbound({}, b"", said) == expected
    assert bird().parse_inbound({}, urlencode(said).encode(), {}) == expected
    assert bird().parse_inbound({}, json.dumps(said).encode(), {}) == expected


def test_a_picture_says_nothing() -> None:
    assert bird().parse_inbound({}, b"", {"originator": "14155550199", "mediaURLs": "https://x/y.jpg"}) == []


@pytest.mark.parametrize("query", [{}, {"body": "STOP"}, {"originator": "MTN", "body": "STOP"}])
def test_what_is_no_inbound_message_is_unreadable(query: dict[str, str]) -> None:
    with pytest.raises(ReceiptUnreadable):
        bird().parse_inbound({}, b"", query)
