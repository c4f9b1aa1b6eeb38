"""The message that a report is about, as far as it comes back: as a part, or behind a line within the text."""

import re
from functools import cache, lru_cache

from messaging.receive.classify.phrases import table
from messaging.receive.headers import Headers, parse_headers
from messaging.receive.parsed import ParsedMail, Part

RETURNED_TYPES = frozenset(
    {
        "message/rfc822",
        "message/global",
        "message/global-headers",
        "message/partial",
        "message/rfc822-headers",
        "text/rfc822-headers",
        "text/rfc822-header",
        "text/rfc822",
        "message/news",
    }
)
#: Octets of a returned message that are looked at: its header block.
MAX_HEADER_OCTETS = 65_536

#: The first lines of a header block that a server wrote on its way: no text begins a line with one of them.
_TRACE = re.compile(
    r"^[ \t>]{0,4}(?:Received:[ \t]+(?:from|by|\(|via|with)|Return-Path:[ \t]*<|DKIM-Signature:|ARC-Seal:|X-Mailer:|"
    r"MIME-Version:|DomainKey-Signature:)",
    re.MULTILINE | re.IGNORECASE,
)
_HEADER_LINE = re.compile(r"^[ \t>]{0,4}([A-Za-z][A-Za-z0-9-]{1,60}):", re.MULTILINE)


def returned_headers(message: ParsedMail) -> list[Headers]:
    """The header blocks of what the parts of a report return, in their order."""
    parts = [part for part in message.walk() if part.content_type in RETURNED_TYPES and part.content]
    return [parse_headers(_block(part)) for part in parts]


def own_text(text: str) -> str:
    """A report's text before the line behind which it repeats the message; all of it where nothing stands before."""
    at = _cut(text)
    return text[:at] if at is not None and text[:at].strip() else text


def quoted_text(text: str) -> str:
    """What `own_text` leaves out; empty without such a line."""
    at = _cut(text)
    return "" if at is None or not text[:at].strip() else text[at:]


@lru_cache(maxsize=4)  # a rule asks for both halves of one text, several times
def _cut(text: str) -> int | None:
    places = [found.start() for pattern in (_announced(), _TRACE) if (found := pattern.search(text))]
    return min(places, default=None)


def _block(part: Part) -> bytes:
    content = part.content[:MAX_HEADER_OCTETS].lstrip(b"\r\n \t")
    # Some quote it, or begin with mbox's line.
    if content.startswith((b">From ", b"From ")):
        content = content.partition(b"\n")[2]
    return content


@cache
def _announced() -> re.Pattern[str]:
    """A line that announces the original: behind dashes and the like, or one that ends in a colon or says no more.

    One alternation, longest first. Prose that begins so is none: `The original message was received at …`.
    """
    wordings = sorted((wording.lower() for wording in table("originals")["originals"]), key=len, reverse=True)
    choices = "|".join(r"[ \t]{1,3}".join(map(re.escape, wording.split())) for wording in wordings)
    article = r"(?:(?:the|a|an|your|der|die|das|den|le|la|les|el|los|il|lo|o|os|de|het)[ \t])?"
    return re.compile(
        rf"^[ \t>]{{0,9}}(?:[*_=|#+~.–—-]{{2,80}}[ \t|>*]{{0,9}}{article}(?:{choices})"
        rf"|{article}(?:{choices})(?:[^\n:：]{{0,60}}[:：]|[ \t.…]{{0,5}})[ \t]{{0,9}}\r?$)",
        re.MULTILINE | re.IGNORECASE,
    )
