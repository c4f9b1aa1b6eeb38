"""What servers answer to SEARCH and FETCH: as they write it, and as imaplib hands it over. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple

from imapclient.datetime_util import parse_to_datetime  # type: ignore[import-untyped]
from imapclient.response_parser import parse_fetch_response  # type: ignore[import-untyped]

#: Most digits of a UID (RFC 9051, 9: below 2 ** 32).
_UID_DIGITS = 10
#: How nearly every server begins its answer to each of our FETCHes: one literal, the rest in any order before it.
_USUAL = re.compile(
    rb"\* \d{1,10} FETCH \("
    rb"((?:(?:UID \d{1,10}|RFC822\.SIZE \d{1,15}|INTERNALDATE \"[^\"\\]{1,40}\"|FLAGS \([^()]*\)) )+)"
    rb"(BODY\[(?:HEADER)?\])(?:<0>)? \{(\d{1,15})\}\r\n"
)
_ITEM = re.compile(rb"(UID|RFC822\.SIZE|INTERNALDATE) (?:(\d+)|\"([^\"]*)\")")
#: RFC 9051, 9: date-time.
_DATE_TIME = re.compile(rb"[ \d]?(\d)-([A-Z][a-z]{2})-(\d{4}) (\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)")
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_MONTH = {name: number for number, name in enumerate(_MONTHS, start=1)}
#: What ends the answer for one message behind its literal.
USUAL_END = b")\r\n"


class Usual(NamedTuple):
    """The beginning of an answer of the usual shape."""

    uid: int
    #: Those before the literal.
    items: dict[bytes, Any]
    #: What the literal is: `BODY[]` or `BODY[HEADER]`.
    name: bytes
    #: Octets of the literal.
    size: int


def usual_answer(line: bytes) -> Usual | None:
    """A line that begins the answer for one message; None for any other line, which may be as good."""
    found = _USUAL.fullmatch(line)
    if found is None:
        return None
    items: dict[bytes, Any] = {}
    for item in _ITEM.finditer(found[1]):
        items[item[1]] = int(item[2]) if item[3] is None else _date(item[3])
    uid = items.pop(b"UID", None)
    return None if uid is None else Usual(uid, items, found[2], int(found[3]))


def numbers(answer: Sequence[Any]) -> Iterator[int]:
    """The numbers of all lines of a SEARCH; what stands behind them, as MODSEQ does, is left (RFC 7162, 3.1.5)."""
    for line in answer:
        for word in line.split() if isinstance(line, bytes) else ():
            if not (word.isdigit() and len(word) <= _UID_DIGITS):
                break
            yield int(word)


def fetched(answer: Sequence[Any]) -> Mapping[int, Mapping[bytes, Any]]:
    """The items of a UID FETCH by UID, of whatever shape: those asked for, and what else the server told meanwhile.

    imapclient reads answers octet by octet: `usual_answer` comes first.

    Raises: what imapclient raises at an answer that is none.
    """
    if answer == [None]:
        return {}
    return parse_fetch_response(list(answer), normalise_times=False, uid_is_key=True)  # type: ignore[no-any-return]


def _date(written: bytes) -> Any:
    try:
        found = _DATE_TIME.fullmatch(written)
        if found is None or found[2] not in _MONTH:
            return parse_to_datetime(written, normalise=False)
        year, hour, minute, second = int(found[3]), int(found[4]), int(found[5]), int(found[6])
        offset = timedelta(hours=int(found[8]), minutes=int(found[9]))
        zone = timezone(-offset if found[7] == b"-" else offset) if offset else UTC
        return datetime(year, _MONTH[found[2]], int(written[:2]), hour, minute, second, tzinfo=zone)
    except ValueError:
        return None
