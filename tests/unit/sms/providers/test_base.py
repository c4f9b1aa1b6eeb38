"""What providers share: sms.md sections 6.1 and 6.2."""

import logging
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from messaging.category import ErrorCategory, MarkerCode
from messaging.errors import PreparationError
from messaging.sms.providers.base import (
    OutgoingSms,
    Provider,
    ProviderConfig,
    Rejected,
    base_url,
    classify,
    e164_of,
    entry,
    header_of,
    json_of,
    refusal,
    refusal_text,
    time_of,
)

CODES = {"exact": ErrorCategory.PERMANENT}
PREFIXES = (("exact", ErrorCategory.AUTH), ("Throttling", ErrorCategory.QUOTA))
MESSAGE = OutgoingSms(7, "+4915112345678", "Your code is 123456")


def config(**changes: Any) -> ProviderConfig:
    return ProviderConfig(**{"id": 1, "tenant_id": 3, "provider_type": "SINCH", **changes})


@pytest.mark.parametrize(
    ("code", "status", "text", "category"),
    [
        pytest.param("exact", 500, "quota", ErrorCategory.PERMANENT, id="table-before-all"),
        pytest.param("exact.not", 500, "quota", ErrorCategory.AUTH, id="prefix-before-status"),
        pytest.param("Throttling.User", 400, "", ErrorCategory.QUOTA, id="prefix"),
        pytest.param("QUOTA", 401, "timeout", ErrorCategory.AUTH, id="status-before-words-of-the-code"),
        pytest.param("LIMIT", 200, "forbidden", ErrorCategory.QUOTA, id="code-before-text"),
        pytest.param("strange", 200, "Forbidden", ErrorCategory.AUTH, id="text"),
        pytest.param("strange", 200, "", ErrorCategory.UNKNOWN, id="nothing"),
        pytest.param("strange", None, "Service unavailable", ErrorCategory.TRANSIENT, id="no-status"),
        pytest.param("strange", 418, "", ErrorCategory.UNKNOWN, id="status-of-no-table"),
        pytest.param("HTTP_599", 599, "", ErrorCategory.TRANSIENT, id="any-5xx"),
        pytest.param("HTTP_304", 304, "", ErrorCategory.AUTH, id="any-3xx"),
    ],
)
def test_the_order_of_classification(code: str, status: int | None, text: str, category: ErrorCategory) -> None:  # 6.2
    assert classify(code, status, text, CODES, PREFIXES) is category


@pytest.mark.parametrize(
    ("code", "category"),
    [
        ("SignatureDoesNotMatch", ErrorCategory.AUTH),
        ("SIGNATURE_X_DOES_NOT_MATCH", ErrorCategory.AUTH),
        ("AuthFailure", ErrorCategory.AUTH),
        ("FORBIDDEN", ErrorCategory.AUTH),
        ("no.permission", ErrorCategory.AUTH),
        ("BAD_SECRET", ErrorCategory.AUTH),
        ("isv.BALANCE_LOW", ErrorCategory.AUTH),
        ("ARREARS", ErrorCategory.AUTH),
        ("isv.BLACK_KEY_CONTROL_LIMIT", ErrorCategory.PERMANENT),
        ("BLOCKED", ErrorCategory.PERMANENT),
        ("OPT_OUT", ErrorCategory.PERMANENT),
        ("INVALID_NUMBER", ErrorCategory.INVALID_INPUT),
        ("ILLEGAL", ErrorCategory.INVALID_INPUT),
        ("MALFORMED", ErrorCategory.INVALID_INPUT),
        ("MISSING_TO", ErrorCategory.INVALID_INPUT),
        ("isv.PARAM_LENGTH_LIMIT", ErrorCategory.INVALID_INPUT),
        ("LENGTH_EXCEEDED", ErrorCategory.INVALID_INPUT),
        ("Throttled", ErrorCategory.QUOTA),
        ("RATE_LIMIT", ErrorCategory.QUOTA),
        ("DAY_LIMIT", ErrorCategory.QUOTA),
        ("OVER_QUOTA", ErrorCategory.QUOTA),
        ("FREQUENCY", ErrorCategory.QUOTA),
        ("TIMEOUT", ErrorCategory.TRANSIENT),
        ("ServiceUnavailable", ErrorCategory.TRANSIENT),
        ("InternalError", ErrorCategory.TRANSIENT),
        ("SYSTEM_ERROR", ErrorCategory.TRANSIENT),
        ("W99", ErrorCategory.UNKNOWN),
    ],
)
def test_words_in_a_code_no_table_knows(code: str, category: ErrorCategory) -> None:  # 6.2
    assert classify(code, 200, "", {}) is category


def test_a_refusal_without_a_category_is_classified() -> None:
    class Own(Provider):
        type = "OWN"
        label = "own"
        codes = {"X1": ErrorCategory.PERMANENT}

    error = refusal(Own(), Rejected("X1", "no"))  # type: ignore[arg-type]
    kept = refusal(Own(), Rejected("X1", "no", ErrorCategory.QUOTA, 600))  # type: ignore[arg-type]

    assert (error.category, error.code, error.text) == (ErrorCategory.PERMANENT, "X1", "no")
    assert (kept.category, kept.retry_after_seconds, kept.is_uncertain) == (ErrorCategory.QUOTA, 600, False)


def test_a_providers_words_repeat_nothing_of_ours() -> None:
    words = "key-1 and secret-1\r\n\0 for +4915112345678 or 4915112345678: 'Your code is 123456'"

    shown = refusal_text(words, config(api_key="key-1", api_secret="secret-1"), MESSAGE)

    assert shown == "*** and *** for +(number) or (number): '(text)'"


@pytest.mark.parametrize("written", ["151 1234 5678", "0151-12345678", "(0049) 151.1234.56 78", "4915112345678"])
def test_the_number_is_not_repeated_however_it_is_grouped(written: str) -> None:
    assert refusal_text(f"to {written}; 30 days", config(), MESSAGE).replace("(", "") == "to number); 30 days"


def test_a_code_alone_is_not_repeated() -> None:
    assert refusal_text("bad text 482913", config(), OutgoingSms(1, "+4915112345678", "482913")) == "bad text (text)"


def test_many_digits_cost_no_time() -> None:
    began = time.monotonic()
    refusal_text("1 " * 200_000, config(), MESSAGE)
    assert time.monotonic() - began < 2


def test_a_short_text_does_not_eat_a_providers_words() -> None:
    assert refusal_text("not allowed", config(), OutgoingSms(1, "+4915112345678", "no")) == "not allowed"


def test_a_providers_words_are_cut() -> None:
    assert len(refusal_text("x" * 5000, config(), MESSAGE)) == 1000


@pytest.mark.parametrize(
    ("number", "name", "sender"),
    [
        ("+1", "Site", "+1"),
        (None, "Site", "Site"),
        ("", "Site", "Site"),
        (" ", " Site ", "Site"),
        (None, None, None),
        ("", " ", None),
    ],
)
def test_the_number_is_the_sender_else_the_name(number: str | None, name: str | None, sender: str | None) -> None:
    assert config(sender_number=number, sender_id=name).sender == sender


@pytest.mark.parametrize(
    ("held", "found"),
    [
        (None, None),
        ({}, None),
        ({"region": "eu"}, "eu"),
        ({"region": " eu "}, "eu"),
        ({"region": " "}, None),
        ({"region": None}, None),
        ({"region": 7}, "7"),
        ({"region": True}, None),
        ({"region": ["eu"]}, None),
        ({"region": {"eu": 1}}, None),
        ([], None),
        ("region", None),
    ],
)
def test_a_text_of_ext_config(held: Any, found: str | None) -> None:
    assert config(ext_config=held).ext("region") == found


def test_an_ext_config_that_is_no_object_is_warned_of_without_its_content(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config(ext_config="not-an-object").ext("region")

    assert "not-an-object" not in caplog.text
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize(
    "shown", [repr(config(api_key="k-1", api_secret="s-1", ext_config={"t": "e-1"})), repr(MESSAGE)]
)
def test_neither_secrets_nor_texts_are_shown(shown: str) -> None:
    assert not any(word in shown for word in ("k-1", "s-1", "e-1", "123456\x00", "Your code"))


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        (None, "https://default"),
        ("", "https://default"),
        (" ", "https://default"),
        ("https://a.example", "https://a.example"),
        (" https://a.example/x// ", "https://a.example/x"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://[::1]:8080/x", "http://[::1]:8080/x"),
    ],
)
def test_the_endpoint_replaces_the_default(endpoint: str | None, url: str) -> None:  # 6.1
    assert base_url(config(api_endpoint=endpoint), "sinch", "https://default") == url


@pytest.mark.parametrize(
    "endpoint",
    [
        "a.example",
        "//a.example",
        "https:/a",
        "file:///etc/passwd",
        "https://user:pw@a.example",
        "https://a.example?x=1",
        "https://a.example#x",
        "https://a.example/ü",
        "https://a.example/x y",
        "https://a.example\r\nX: y",
        "https://a.example:0",
        "https://a.example:x",
        "https://[::1",
    ],
)
def test_an_endpoint_that_is_no_address_is_refused_and_not_shown(endpoint: str) -> None:
    with pytest.raises(PreparationError) as raised:
        base_url(config(api_endpoint=endpoint), "sinch")

    assert raised.value.marker is MarkerCode.PROVIDER_CONFIG_INVALID
    assert "pw" not in str(raised.value)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("+4915112345678", "+4915112345678"),
        ("4915112345678", "+4915112345678"),
        ("004915112345678", "+4915112345678"),
        (4915112345678, "+4915112345678"),
        (" 49151 ", "+49151"),
        ("MTN", None),
        ("", None),
        ("+", None),
        (None, None),
        (1.5, None),
        ("٤٩", None),
    ],
)
def test_numbers_as_providers_write_them(value: object, number: str | None) -> None:
    assert e164_of(value) == number


@pytest.mark.parametrize(
    ("stated", "at"),
    [
        ("2026-06-06T09:22:14.304Z", datetime(2026, 6, 6, 9, 22, 14, 304000, tzinfo=UTC)),
        ("2026-06-06T11:22:14+02:00", datetime(2026, 6, 6, 9, 22, 14, tzinfo=UTC)),
        ("2026-06-06T09:22:14.304+0000", datetime(2026, 6, 6, 9, 22, 14, 304000, tzinfo=UTC)),
        ("2026-06-06 09:22:14", datetime(2026, 6, 6, 9, 22, 14, tzinfo=UTC)),
        ("0001-01-01T00:00:00+14:00", None),
        ("yesterday", None),
        ("", None),
        (None, None),
        (7, None),
    ],
)
def test_times_as_providers_write_them(stated: object, at: datetime | None) -> None:
    assert time_of(stated) == at


def test_a_header_is_found_whatever_its_case() -> None:
    assert header_of({"x-signature": "a"}, "X-Signature") == "a"
    assert header_of({"X-SIGNATURE": "a"}, "X-Signature") == "a"
    assert header_of({}, "X-Signature") is None


def test_a_path_into_json_may_lead_nowhere() -> None:
    said = json_of(b'{"a": [{"b": 1}]}')

    assert entry(said, "a", 0, "b") == 1
    assert entry(said, "a", 1, "b") is None
    assert entry(said, 0) is None
    assert entry(said, "a", "b") is None
    assert json_of(b"[" * 100_000) is None
    assert json_of(b"\xff") is None
