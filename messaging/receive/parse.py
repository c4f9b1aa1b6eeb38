"""Octets to a `ParsedMail`, within bounds of size, depth and number of parts; nothing raises (`receive.md` 7 to 9).

The standard parser is not used: it recurses, takes quadratic time for several shapes of input, and differs between the
versions of Python that we run on.
"""

import logging
import re
from dataclasses import dataclass
from typing import Any

from messaging.receive.attachments import read_attachments
from messaging.receive.bodies import body_candidates, read_bodies
from messaging.receive.dates import parse_date
from messaging.receive.headers import Headers, header_block
from messaging.receive.parsed import ParsedMail
from messaging.receive.structure import StructureExceeded, read_parts
from messaging.receive.vocabulary import TruncationReason

_log = logging.getLogger(__name__)

#: As long as the columns.
_MAX_SUBJECT_CHARS = 500
_MAX_CHARS = 255
#: Empty lines before the first field, which some programs leave.
_LEADING_BLANKS = re.compile(rb"[\r\n]{1,20}(?=[A-Za-z][A-Za-z0-9-]*:)")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """What a message may hold; see `MailFetchSettings`."""

    max_message_bytes: int = 104_857_600
    max_attachment_bytes: int = 20_971_520
    max_mime_depth: int = 10
    max_mime_parts: int = 100


def parse(raw: bytes, limits: ParseLimits) -> ParsedMail:
    """A whole message; never raises.

    `truncation_reason` says what is missing: everything but the envelope for a message too large, with too many or too
    deep parts, or one that cannot be parsed; attachments alone where those are too large.
    """
    if len(raw) > limits.max_message_bytes:
        return parse_envelope(raw, limits)
    try:
        return _parse(raw, limits)
    except StructureExceeded as exceeded:
        return _envelope(raw, exceeded.reason)
    except RecursionError:
        return _envelope(raw, TruncationReason.MIME_DEPTH_EXCEEDED)
    except Exception:  # noqa: BLE001 - whatever it is, the message did it, and those after it have to be read
        _log.exception("mail cannot be parsed", extra={"size": len(raw)})
        return _envelope(raw, TruncationReason.PARSE_FAILED)


def parse_envelope(header_block: bytes, limits: ParseLimits) -> ParsedMail:
    """What the header fields say of a message whose body is too large to be fetched; never raises."""
    return _envelope(header_block[: limits.max_message_bytes], TruncationReason.BODY_TOO_LARGE)


def _parse(raw: bytes, limits: ParseLimits) -> ParsedMail:
    headers, body_start = _message_headers(raw)
    root = read_parts(raw, headers, body_start, max_depth=limits.max_mime_depth, max_parts=limits.max_mime_parts)
    candidates = body_candidates(root)
    bodies = read_bodies(root, candidates)
    attachments, is_one_too_large = read_attachments(root, candidates, limits.max_attachment_bytes)
    return _mail(
        headers,
        root=root,
        body_text=bodies.text,
        body_html=bodies.html,
        body_mode=bodies.mode,
        rule_text=bodies.rule_text,
        attachments=attachments,
        truncation_reason=TruncationReason.ATTACHMENT_TOO_LARGE if is_one_too_large else None,
    )


def _envelope(raw: bytes, reason: TruncationReason) -> ParsedMail:
    try:
        return _mail(_message_headers(raw)[0], truncation_reason=reason)
    except Exception:  # noqa: BLE001 - as above
        _log.exception("the header fields of a mail cannot be read", extra={"size": len(raw)})
        return ParsedMail(headers=Headers(()), truncation_reason=TruncationReason.PARSE_FAILED)


def _message_headers(raw: bytes) -> tuple[Headers, int]:
    blanks = _LEADING_BLANKS.match(raw)
    return header_block(raw, blanks.end() if blanks else 0, len(raw))


def _mail(headers: Headers, **content: Any) -> ParsedMail:
    """With what its fields say."""
    senders = headers.mailboxes("From")
    sender = senders[0] if senders else None
    date = headers.first("Date")
    return ParsedMail(
        headers=headers,
        message_id=headers.first("Message-ID") or None,
        from_address=sender and (sender.address[:_MAX_CHARS] or None),
        from_name=sender and (_one_line(sender.name)[:_MAX_CHARS] or None),
        to_addresses=_addresses(headers, "To"),
        cc_addresses=_addresses(headers, "Cc"),
        subject=_one_line(headers.first("Subject") or "")[:_MAX_SUBJECT_CHARS] or None,
        date_header=date[:_MAX_CHARS] or None if date else None,
        date=parse_date(date),
        **content,
    )


def _addresses(headers: Headers, name: str) -> tuple[str, ...]:
    return tuple([mailbox.address for mailbox in headers.mailboxes(name) if mailbox.address])


def _one_line(text: str) -> str:
    # A fold may begin with a tab, and an encoded word may hold anything.
    return text if text.isprintable() else _CONTROLS.sub(" ", text).strip()
