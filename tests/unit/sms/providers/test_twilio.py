"""Twilio's table, receipts, signatures and inbound messages: sms.md section 7.1, test points D1 and D5."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest

from messaging.category import ErrorCategory
from messaging.errors import ReceiptUnreadable
from messaging.sms.models import DeliveryStatus
from messaging.sms.providers.base import Inbound, ProviderConfig, Receipt
from messaging.sms.providers.twilio import Twilio

URL = "https://example.com/dlr"
#: The vector of sms.md section 7.1.
BODY = b"MessageSid=SM1&MessageStatus=delivered"
SIGNATURE = "Eh3OmFYieHGA9UL5MiALIuE9ElE="

# Section 7.1 written out a second time, by category, so that a slip in the product's table shows.
CODES = {
    ErrorCategory.AUTH: (20003, 20404, 10001, 20005, 21606, 21659, 21660, 21608, 21408),
    ErrorCategory.INVALID_INPUT: (21211, 21212, 21602, 21603, 21604, 21617),
    ErrorCategory.PERMANENT: (21610, 21612, 21614, 30003, 30004, 30005, 30006, 30007),
    ErrorCategory.QUOTA: (20429, 14107, 21611, 30001, 30022),
    ErrorCategory.TRANSIENT: (20500, 20503, 21730, 30008),
}


def config(**changes: Any) -> ProviderConfig:
    return ProviderConfig(
        **{"id": 1, "tenant_id": 3, "provider_type": "TWILIO", "api_key": "AC1", "api_secret": "12345", **changes}
    )


@pytest.mark.parametrize(("code", "category"), [(code, category) for category, row in CODES.items() for code in row])
def test_codes_row_by_row(code: int, category: ErrorCategory) -> None:  # section 7.1
    assert Twilio().classify(str(code), 400, "") is category


def test_the_table_has_no_other_rows() -> None:
    assert set(Twilio.codes) == {str(code) for row in CODES.values() for code in row}


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("queued", DeliveryStatus.UNKNOWN),
        ("accepted", DeliveryStatus.UNKNOWN),
        ("scheduled", DeliveryStatus.UNKNOWN),
        ("sending", DeliveryStatus.UNKNOWN),
        ("sent", DeliveryStatus.UNKNOWN),
        ("delivered", DeliveryStatus.DELIVERED),
        ("read", DeliveryStatus.DELIVERED),
        ("undelivered", DeliveryStatus.UNDELIVERED),
        ("failed", DeliveryStatus.FAILED),
        ("canceled", DeliveryStatus.FAILED),
        ("something_new", DeliveryStatus.UNKNOWN),
    ],
)
def test_a_receipt_is_read(word: str, status: DeliveryStatus) -> None:  # D1
    form = {
        "SmsSid": "SM0001",
        "SmsStatus": word,
        "MessageSid": "SM0001",
        "MessageStatus": word,
        "To": "+14155550199",
        "From": "+14155550100",
        "AccountSid": "AC1",
        "ApiVersion": "2010-04-01",
        "RawDlrDoneDate": "2606060922",
    }

    found = Twilio().parse_receipts({}, urlencode(form).encode(), {})

    assert found == [Receipt("SM0001", status, datetime(2026, 6, 6, 9, 22, tzinfo=UTC), word)]


@pytest.mark.parametrize("done", ["", "&RawDlrDoneDate=", "&RawDlrDoneDate=soon", "&RawDlrDoneDate=9999999999"])
def test_a_receipt_need_not_say_when(done: str) -> None:
    (receipt,) = Twilio().parse_receipts({}, BODY + done.encode(), {})

    assert receipt.at is None


def test_the_older_names_are_read() -> None:
    found = Twilio().parse_receipts({}, b"SmsSid=SM1&SmsStatus=sent", {})

    assert found == [Receipt("SM1", DeliveryStatus.UNKNOWN, None, "sent")]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"MessageSid=SM1", b"MessageStatus=sent", b"MessageSid=&MessageStatus=x", b"\xff\0"]
)
def test_what_is_no_receipt_is_unreadable(body: bytes) -> None:
    with pytest.raises(ReceiptUnreadable):
        Twilio().parse_receipts({}, body, {})


def test_a_signature_of_the_account_is_taken() -> None:  # D5
    assert Twilio().check_receipt(config(), URL, {"x-twilio-signature": SIGNATURE}, BODY, {}) is True
    assert Twilio().check_receipt(config(), URL, {"X-Twilio-Signature": SIGNATURE}, BODY, {}) is True


@pytest.mark.parametrize(
    ("url", "body", "headers", "token"),
    [
        pytest.param(URL, BODY.replace(b"deliv", b"x"), {"x-twilio-signature": SIGNATURE}, "12345", id="value"),
        pytest.param(URL, BODY + b"&To=x", {"x-twilio-signature": SIGNATURE}, "12345", id="more"),
        pytest.param(URL, b"", {"x-twilio-signature": SIGNATURE}, "12345", id="none"),
        pytest.param(URL + "/x", BODY, {"x-twilio-signature": SIGNATURE}, "12345", id="address"),
        pytest.param(URL, BODY, {"x-twilio-signature": SIGNATURE}, "54321", id="token"),
        pytest.param(URL, BODY, {"x-twilio-signature": "é"}, "12345", id="no-base64"),
        pytest.param(URL, BODY, {"x-twilio-signature": ""}, "12345", id="empty"),
        pytest.param(URL, BODY, {}, "12345", id="no-header"),
        pytest.param(
            URL,
            BODY,
            {"x-twilio-signature": SIGNATURE, "x-twilio-webhooks-signature-settings": "key=k,algorithm=NONE"},
            "12345",
            id="algorithm",
        ),
    ],
)
def test_any_other_signature_is_refused(url: str, body: bytes, headers: dict[str, str], token: str) -> None:  # D5
    assert Twilio().check_receipt(config(api_secret=token), url, headers, body, {}) is False


def signed(url: str, form: list[tuple[str, str]], token: str) -> dict[str, str]:
    """The documented signature, by its words: the address, then names and values in order of the names."""
    text = url + "".join(f"{name}{value}" for name, value in sorted(form))
    made = hmac.new(token.encode(), text.encode(), hashlib.sha1).digest()
    return {"x-twilio-signature": base64.b64encode(made).decode()}


def test_every_kind_of_value_is_signed() -> None:
    form = [("Body", "Grüße, 你好 & + %"), ("Empty", ""), ("MessageSid", "SM1"), ("A B", "c=d")]
    url = "https://example.com/hooks/sms/twilio/token?x=1"

    assert Twilio().check_receipt(config(), url, signed(url, form, "12345"), urlencode(form).encode(), {}) is True


def test_a_body_that_is_no_form_is_signed_by_its_hash() -> None:
    body = b'{"a": 1}'
    url = f"https://example.com/x?bodySHA256={hashlib.sha256(body).hexdigest()}"

    assert Twilio().check_receipt(config(), url, signed(url, [], "12345"), body, {}) is True
    assert Twilio().check_receipt(config(), url, signed(url, [], "12345"), b'{"a": 2}', {}) is False


def test_a_key_pair_signs_nothing_but_the_accounts_token_does() -> None:
    pair = {"account_id": "AC1", "api_key": "SK1", "api_secret": "of-the-key"}

    assert Twilio().check_receipt(config(**pair), URL, {}, BODY, {}) is None
    with_token = config(**pair, ext_config={"authToken": "12345"})
    assert Twilio().check_receipt(with_token, URL, {"x-twilio-signature": SIGNATURE}, BODY, {}) is True
    assert Twilio().check_receipt(with_token, URL, {}, BODY, {}) is False


def test_an_inbound_message_is_read() -> None:
    form = {"MessageSid": "SM1", "From": "+14155550199", "To": "+14155550100", "Body": " Stop ", "NumMedia": "0"}

    found = Twilio().parse_inbound({}, urlencode(form).encode(), {})

    assert found == [Inbound("+14155550199", "+14155550100", " Stop ", None)]


def test_an_inbound_message_of_another_channel_stops_no_number() -> None:
    form = {"From": "whatsapp:+14155550199", "To": "whatsapp:+14155550100", "Body": "STOP"}

    assert Twilio().parse_inbound({}, urlencode(form).encode(), {}) == []


@pytest.mark.parametrize("body", [b"", b"From=%2B1", b"Body=STOP", b"\xff"])
def test_what_is_no_inbound_message_is_unreadable(body: bytes) -> None:
    with pytest.raises(ReceiptUnreadable):
        Twilio().parse_inbound({}, body, {})
