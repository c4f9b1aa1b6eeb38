"""A report that a gateway handed on as an attachment: what the inner one says counts (RFC 6522, 1)."""

from collections.abc import Iterator

from messaging.receive.parse import ParseLimits, parse
from messaging.receive.parsed import ParsedMail

#: Octets of an inner message that is read: a report, not what it returns.
MAX_OCTETS = 262_144


def inner_mails(message: ParsedMail) -> Iterator[ParsedMail]:
    """The messages within a message, each parsed, with the header of its own."""
    for part in message.walk():
        if part.content_type in ("message/rfc822", "message/global") and part.content:
            yield parse(part.content[:MAX_OCTETS], ParseLimits())
