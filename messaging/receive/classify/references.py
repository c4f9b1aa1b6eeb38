"""Which message a bounce or a receipt is about: candidates in the order of their worth (`receive.md` 12.4)."""

import re
from collections.abc import Iterable, Iterator

from messaging.errors import ConfigurationError
from messaging.mail import verp
from messaging.receive.charsets import decode
from messaging.receive.classify.originals import returned_headers
from messaging.receive.classify.report_fields import REPORT_TYPES
from messaging.receive.message_ids import all_spelled, spelled
from messaging.receive.parsed import ParsedMail

#: More than this in one mail are left out.
MAX_REFERENCES = 50
#: Of text that is searched for a Message-ID line.
MAX_TEXT_CHARS = 65_536

_ID_LINE = re.compile(
    r"^[ \t>|*]{0,8}(?:X-)?(?:Original-)?Message[- ]?ID[ \t]*:[ \t]*(?:\r?\n[ \t>]+)?"
    r"(<[^<>\r\n]{3,998}>|[^\s<>@]{1,400}@[^\s<>@]{1,400})",
    re.MULTILINE | re.IGNORECASE,
)
#: What a report tells of a message, in the words of its reader's language.
_ID_IN_TEXT = re.compile(
    r"(?:\bMessage[ -]?(?:ID|identifier)\b|\b(?:Nachrichten|Berichts?|Meddelande)-?ID\b|"
    r"\bID (?:du|de|del|do|van het) [^\s<:：]{1,12}|\bidentificativo messaggio|\bИдентификатор (?:сообщения|письма)|"
    r"メッセージ ?ID|[邮郵]件 ?ID|消息 ?ID|訊息 ?(?:ID|識別碼)|메시지 ?ID)[^<\r\n]{0,40}"
    r"(<[^<>@\s]{1,400}@[^<>\s]{1,400}>)",
    re.IGNORECASE,
)
#: Of a report's own header, where its server copies the message's name to.
_ORIGINAL_ID_FIELDS = ("Original-Message-ID", "X-Original-Message-ID", "X-Failed-Message-ID")
_RECIPIENT_FIELDS = ("Delivered-To", "X-Original-To", "Envelope-To", "To", "X-Envelope-To", "X-Delivered-To")


def bounce_references(message: ParsedMail) -> tuple[str, ...]:
    """Message-IDs that a bounce may be about, the likeliest first, without its own; at most 50."""
    return _distinct(message, _of_bounce(message))


def receipt_references(message: ParsedMail) -> tuple[str, ...]:
    """Message-IDs that a read receipt may be about, the likeliest first (RFC 8098, 3.2.5)."""
    return _distinct(message, _of_receipt(message))


def answer_references(message: ParsedMail) -> tuple[str, ...]:
    """Message-IDs of the mail that an answer is about, the likeliest first (RFC 5322, 3.6.4)."""
    return _distinct(message, _answered(message))


def verp_record_id(message: ParsedMail) -> int | None:
    """The send record that a genuine VERP address names, of those to which the mail went; None without one, and in a
    process that has no keys, for which none is genuine.
    """
    for name in _RECIPIENT_FIELDS:
        for value in message.headers.raw(name):
            if "-" not in value or "@" not in value:
                continue
            for one in value.split(",")[:MAX_REFERENCES]:
                try:
                    record_id = verp.read(one)
                except ConfigurationError:
                    return None
                if record_id is not None:
                    return record_id
    return None


def _of_bounce(message: ParsedMail) -> Iterator[str]:
    returned = [found for headers in returned_headers(message) for found in _first(headers.all("Message-ID"))]
    for part in message.walk():
        if part.depth:  # returned without the line that would make it a message within
            returned += _first(part.headers.all("Message-ID"))
        if part.content_type in REPORT_TYPES or part.content_type == "text/rfc822-headers":
            returned += _lines(part.text())
    yield from returned
    for name in _ORIGINAL_ID_FIELDS:
        yield from _first(message.headers.all(name))
    yield from _answered(message)
    if not returned:
        yield from _in_texts(message)


def _in_texts(message: ParsedMail) -> Iterator[str]:
    """Of what is quoted, and of what a report tells of the message."""
    for part in message.walk():
        if (
            not part.parts
            and part.content_type.startswith(("text/", "application/", "multipart/"))
            and b"message" in part.content[:MAX_TEXT_CHARS].lower()
        ):
            yield from _lines(decode(part.content[:MAX_TEXT_CHARS], part.parameters.get("charset")))
    yield from _lines(message.rule_text)
    yield from (spelled(found) or "" for found in _ID_IN_TEXT.findall(message.rule_text))


def _of_receipt(message: ParsedMail) -> Iterator[str]:
    for part in message.walk():
        if part.content_type in ("message/disposition-notification", "message/global-disposition-notification"):
            yield from _lines(part.text())
    for headers in returned_headers(message):
        yield from _first(headers.all("Message-ID"))
    yield from _answered(message)


def _answered(message: ParsedMail) -> Iterator[str]:
    for value in message.headers.all("In-Reply-To"):
        yield from all_spelled(value)
    for value in message.headers.all("References"):
        yield from reversed(all_spelled(value))


def _lines(text: str) -> Iterator[str]:
    for found in _ID_LINE.findall(text[:MAX_TEXT_CHARS]):
        # A server that describes a message may leave its brackets out.
        yield from _first([found if found.startswith("<") else f"<{found}>"])


def _first(values: list[str]) -> Iterator[str]:
    for value in values[:1]:
        if found := spelled(value):
            yield found


def _distinct(message: ParsedMail, found: Iterable[str]) -> tuple[str, ...]:
    own = spelled(message.message_id)
    return tuple(list(dict.fromkeys(one for one in found if one and one != own))[:MAX_REFERENCES])
