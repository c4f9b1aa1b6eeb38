"""What tells one received mail from another: its key, its content, its time (`receive.md` 6, 10).

Touches no database.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from messaging.receive.headers import Headers
from messaging.receive.message_ids import MAX_CHARS

#: Hex digits of the content's hash that tell a second mail with the same Message-ID from the first.
SUFFIX_DIGITS = 8

_EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)
_LATEST_AHEAD = timedelta(days=1)


def body_of(octets: bytes) -> memoryview:
    """What follows the first blank line, not copied; empty without one."""
    return memoryview(octets)[_body_start(octets) :]


def _body_start(octets: bytes) -> int:
    at = octets.find(b"\r\n\r\n")
    start = at + 4 if at >= 0 else len(octets)
    # An empty line of the other kind that comes before it; what comes behind is not looked at.
    at = octets.find(b"\n\n", 0, start)
    return at + 2 if at >= 0 else start


def content_sha256(headers: Headers, octets: bytes) -> str:
    """Over From, Date, Subject and body: the same mail in another folder, with other trace fields, has the same.

    Kinds of line ends, and empty lines at the end, make no difference: a server's store may change them.
    """
    digest = _of_fields(headers)
    digest.update(octets[_body_start(octets) :].replace(b"\r\n", b"\n").rstrip(b"\n"))
    return digest.hexdigest()


def envelope_sha256(headers: Headers, size: int | None) -> str:
    """In place of `content_sha256` where the body was never transferred."""
    digest = _of_fields(headers)
    digest.update(f"size {size}".encode())
    return digest.hexdigest()


def _of_fields(headers: Headers) -> "hashlib._Hash":
    sender, date, subject = _first(headers, "From"), _first(headers, "Date"), _first(headers, "Subject")
    return hashlib.sha256(_octets(f"{sender.strip()}\n{date.strip()}\n{subject.strip()}\n"))


def synthetic_key(headers: Headers, *, config_id: int, folder_name: str, date: datetime | None, content: str) -> str:
    """The key of a mail without a Message-ID; `content` is the hash of all its octets, or its size as reported."""
    date_ms = "" if date is None else str(int(date.timestamp() * 1000))
    parts = (str(config_id), folder_name, _first(headers, "From"), _first(headers, "Subject"), date_ms, content)
    return f"synthetic:{hashlib.sha256(_octets(':'.join(parts))).digest()[:16].hex()}"


def keys_of(key: str, content: str) -> tuple[str, ...]:
    """Under which keys a mail may be stored, in order: where one is taken by another content, the next is for it."""
    return key, *(_with_suffix(key, suffix) for suffix in (content[:SUFFIX_DIGITS], content))


def _with_suffix(key: str, suffix: str) -> str:
    if len(key) + 1 + len(suffix) > MAX_CHARS:
        key = f"hashed:{hashlib.sha256(key.encode()).hexdigest()}"
    return f"{key}#{suffix}"


def plausible_time(time: datetime | None, now: datetime) -> datetime | None:
    """The time in UTC when it has a zone and lies between 1990 and a day ahead, else None."""
    try:
        if time is not None and time.utcoffset() is not None and _EARLIEST <= time <= now + _LATEST_AHEAD:
            return time.astimezone(UTC)
    except (ValueError, OverflowError):  # a zone of more than a day; the first and the last year there is
        pass
    return None


def received_time(headers: Headers) -> datetime | None:
    """Of the topmost Received field, which the mailbox's own server wrote (RFC 5321, 4.4); None when it has none."""
    try:
        return parsedate_to_datetime(_first(headers, "Received").rpartition(";")[2])
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _first(headers: Headers, name: str) -> str:
    """The first value as written, or empty."""
    return headers.first_raw(name) or ""


def _octets(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")
