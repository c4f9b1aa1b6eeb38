"""Which received mails keep their raw source as a file, and what the file is called (`receive.md` 9)."""

import re

from messaging.clock import Clock
from messaging.receive.arrival import Arrival
from messaging.receive.vocabulary import TruncationReason

#: RFC 2046, 5.2.1; what mail programs open.
EML_TYPE = "message/rfc822"

_UNSAFE = re.compile(r"[<>/\\\x00-\x1f]")


def is_archived(arrival: Arrival, *, archive_eml: bool) -> bool:
    """Every whole mail where that is configured; one that cannot be read in any case, as nothing else holds its text.

    `archive_eml` is `MAIL__FETCH__ARCHIVE_EML`.
    """
    if not arrival.incoming.is_whole:
        return False
    if arrival.truncation_reason is None:
        return archive_eml
    return arrival.truncation_reason is TruncationReason.PARSE_FAILED


def eml_name(arrival: Arrival, clock: Clock) -> str:
    """The Message-ID without its brackets, as a file."""
    name = _UNSAFE.sub("", arrival.mail.message_id or "").strip()[:200]
    return f"{name or f'mail_{int(clock().timestamp() * 1000)}'}.eml"
