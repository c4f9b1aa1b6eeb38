"""Which raw mails are kept, and as what file: receive.md section 9."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from messaging.receive.archive import eml_name, is_archived
from messaging.receive.arrival import Arrival, Incoming, Origin
from messaging.receive.classification import Classification
from messaging.receive.headers import Headers
from messaging.receive.parsed import ParsedMail
from messaging.receive.vocabulary import MailType, TruncationReason

ARRIVAL = Arrival(
    origin=Origin(1, 0, "INBOX"),
    incoming=Incoming("1", 3, b"abc"),
    mail=ParsedMail(headers=Headers([])),
    classification=Classification(MailType.NORMAL),
    key="k",
    content_sha256="c",
    received_at=None,
)


def clock() -> datetime:
    return datetime(2026, 3, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("message_id", "name"),
    [
        ("<a.b@example.org>", "a.b@example.org.eml"),
        ("<../../etc/passwd@x>", "....etcpasswd@x.eml"),
        ("a\r\nb", "ab.eml"),
        (" ", "mail_1772409600000.eml"),
        (None, "mail_1772409600000.eml"),
        ("<" + "x" * 400 + ">", "x" * 200 + ".eml"),
    ],
)
def test_a_file_is_called_by_its_message_id(message_id: str | None, name: str) -> None:
    arrival = replace(ARRIVAL, mail=replace(ARRIVAL.mail, message_id=message_id))
    assert eml_name(arrival, clock) == name


@pytest.mark.parametrize(
    ("reason", "is_kept", "is_kept_if_configured"),
    [
        (None, False, True),
        (TruncationReason.ATTACHMENT_TOO_LARGE, False, False),
        (TruncationReason.MIME_PARTS_EXCEEDED, False, False),
        (TruncationReason.PARSE_FAILED, True, True),
    ],
)
def test_which_mails_are_archived(reason: TruncationReason | None, is_kept: bool, is_kept_if_configured: bool) -> None:
    arrival = replace(ARRIVAL, mail=replace(ARRIVAL.mail, truncation_reason=reason))
    assert is_archived(arrival, archive_eml=False) == is_kept
    assert is_archived(arrival, archive_eml=True) == is_kept_if_configured


def test_a_header_alone_is_no_archive() -> None:
    incoming = Incoming("1", 10**9, b"abc", is_whole=False)
    assert not is_archived(replace(ARRIVAL, incoming=incoming), archive_eml=True)
