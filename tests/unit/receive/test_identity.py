"""Which mails are the same, by what key they are stored, and when they were received: receive.md sections 6 and 10."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from messaging.receive.headers import parse_headers
from messaging.receive.identity import (
    content_sha256,
    envelope_sha256,
    keys_of,
    plausible_time,
    received_time,
    synthetic_key,
)
from messaging.receive.message_ids import MAX_CHARS

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
MAIL = b"Received: a\r\nFrom: a@example.org\r\nDate: x\r\nSubject: s\r\nTo: b@example.org\r\n\r\nText\r\n"


def content(octets: bytes) -> str:
    return content_sha256(parse_headers(octets), octets)


@pytest.mark.parametrize(
    "same",
    [
        MAIL.replace(b"Received: a", b"Received: b"),
        b"X-Spam: yes\r\n" + MAIL,
        MAIL.replace(b"\r\n", b"\n"),
        MAIL + b"\r\n\r\n",
        MAIL.replace(b"To: b@example.org\r\n", b""),
    ],
)
def test_trace_fields_and_line_ends_make_no_other_mail(same: bytes) -> None:
    assert content(same) == content(MAIL)


@pytest.mark.parametrize("part", [b"a@example.org", b"Date: x", b"Subject: s", b"Text"])
def test_sender_date_subject_and_body_do(part: bytes) -> None:
    assert content(MAIL.replace(part, part + b"2")) != content(MAIL)


def test_a_header_that_looks_like_the_body_is_no_other_mail_s() -> None:
    one = b"From: a\r\nDate: \r\nSubject: b\r\n\r\nc"
    assert content(one) != content(b"From: a\r\nDate: b\r\nSubject: \r\n\r\nc")
    assert content(b"From: a") != content(b"")
    assert envelope_sha256(parse_headers(one), 1) != envelope_sha256(parse_headers(one), 2)


def key(octets: bytes = MAIL, **changed: Any) -> str:
    given: dict[str, Any] = {"config_id": 1, "folder_name": "INBOX", "date": NOW, "content": "c", **changed}
    return synthetic_key(parse_headers(octets), **given)


def test_a_mail_without_an_id_has_a_key_that_is_always_the_same() -> None:  # receive.md R13
    assert key() == key(MAIL.replace(b"Received: a", b"Received: b"))
    assert key().startswith("synthetic:")
    assert len(key()) == len("synthetic:") + 32


@pytest.mark.parametrize(
    "changed",
    [{"config_id": 2}, {"folder_name": "Junk"}, {"date": None}, {"content": "d"}],
    ids=lambda one: next(iter(one)),
)
def test_a_key_is_of_one_mailbox_folder_date_and_content(changed: dict[str, Any]) -> None:  # receive.md R14
    assert key(**changed) != key()


@pytest.mark.parametrize("length", [10, 190, 191, 246, 247, 255])
def test_another_content_has_another_key_that_fits(length: int) -> None:
    first, second, third = keys_of("k" * length, "0123456789abcdef" * 4)
    assert first == "k" * length
    assert second.endswith("#01234567")
    assert third.endswith("#" + "0123456789abcdef" * 4)
    assert max(map(len, (first, second, third))) <= MAX_CHARS
    assert second.startswith("k" * length) == (length <= 246)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, None),
        (datetime(2026, 3, 2, 9), None),  # noqa: DTZ001 - without a zone on purpose
        (datetime(1989, 12, 31, tzinfo=UTC), None),
        (NOW + timedelta(hours=25), None),
        (NOW + timedelta(hours=23), NOW + timedelta(hours=23)),
        (NOW.astimezone(timezone(timedelta(hours=14))), NOW),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), None),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))), None),
    ],
)
def test_times_that_can_be(given: datetime | None, kept: datetime | None) -> None:
    assert plausible_time(given, NOW) == kept


@pytest.mark.parametrize(
    ("field", "time"),
    [
        (b"Received: from a by b; Mon, 2 Mar 2026 10:00:00 +0100", NOW),
        (b"Received: from a\r\n by b;\r\n Mon, 2 Mar 2026 10:00:00 +0100 (CET)\r\nReceived: x; y", NOW),
        (b"Received: from a by b", None),
        (b"Received: from a by b; 99 Foo 99999 99:99:99 +9999", None),
        (b"Subject: x", None),
    ],
)
def test_the_time_of_the_topmost_received_field(field: bytes, time: datetime | None) -> None:
    assert received_time(parse_headers(field + b"\r\n\r\n")) == time
