"""What a reply says beside its body: RFC 9110 section 10.2.3 and `send.md` section 11."""

from datetime import UTC, datetime

import pytest
from cryptography.fernet import Fernet

from messaging.category import ErrorCategory
from messaging.http.client import HttpFault, HttpLimits, HttpReply
from messaging.settings import load_settings

NOW = datetime(2026, 6, 6, 9, 22, 14, tzinfo=UTC)


def reply(body: bytes = b"", **headers: str) -> HttpReply:
    return HttpReply(429, {name.replace("_", "-"): value for name, value in headers.items()}, body, NOW)


@pytest.mark.parametrize(
    ("stated", "seconds"),
    [
        ("600", 600),
        (" 600 ", 600),
        ("0.5", 0.5),
        ("0", None),
        ("-5", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("", None),
        ("Sat, 06 Jun 2026 09:32:14 GMT", 600),
        ("Sat, 06 Jun 2026 09:12:14 GMT", None),
    ],
)
def test_the_wait_the_provider_asks_for(stated: str, seconds: float | None) -> None:  # class-04
    assert reply(retry_after=stated).retry_after_seconds == seconds


def test_a_date_is_by_the_providers_own_clock() -> None:
    later = reply(retry_after="Sat, 06 Jun 2026 12:10:00 GMT", date="Sat, 06 Jun 2026 12:00:00 GMT")
    odd = reply(retry_after="Sat, 06 Jun 2026 09:32:14 GMT", date="today")

    assert (later.retry_after_seconds, odd.retry_after_seconds) == (600, 600)


def test_no_wait_is_asked_for_by_default() -> None:
    assert reply().retry_after_seconds is None


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[" * 100_000, b"{"])
def test_what_is_no_json_says_nothing(body: bytes) -> None:
    assert reply(body).json() is None


def test_json_is_read_whatever_the_media_type() -> None:
    assert reply(b'{"a": 1}', content_type="text/html").json() == {"a": 1}
    assert reply(b"\xff\xfea").text.endswith("a")


def test_faults_and_what_they_say() -> None:  # sms.md section 6.2
    assert {fault: fault.category for fault in HttpFault} == {
        HttpFault.HTTP_TIMEOUT: ErrorCategory.TRANSIENT,
        HttpFault.HTTP_CONNECT: ErrorCategory.TRANSIENT,
        HttpFault.HTTP_NO_REPLY: ErrorCategory.TRANSIENT,
        HttpFault.HTTP_TLS: ErrorCategory.AUTH,
        HttpFault.HTTP_ADDRESS_REFUSED: ErrorCategory.AUTH,
    }


def test_the_defaults_are_those_of_the_specification() -> None:  # sms.md section 6.1
    settings = load_settings(
        database_url="postgresql://localhost/x",
        redis_url="redis://localhost",
        secrets_keys=(Fernet.generate_key().decode(),),
    )

    assert HttpLimits.of(settings) == HttpLimits(connect_seconds=5, read_seconds=30, reply_seconds=60)
