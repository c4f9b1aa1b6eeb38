"""What servers answer to SEARCH and FETCH, as imaplib hands it over: lines, and lines with a literal each. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from imapclient.datetime_util import parse_to_datetime  # type: ignore[import-untyped]
from imapclient.response_parser import parse_fetch_response  # type: ignore[import-untyped]

#: Most digits of a UID (RFC 9051, 9: below 2 ** 32).
_UID_DIGITS = 10
#: What nearly every server says to each of our FETCHes: one literal, at the end, the rest in any order before it.
_PLAIN = re.compile(
    rb"\d+ \("
    rb"((?:(?:UID \d{1,10}|RFC822\.SIZE \d{1,15}|INTERNALDATE \"[^\"\\]{1,40}\"|FLAGS \([^()]*\)) )+)"
    rb"(BODY\[(?:HEADER)?\])(?:<0>)? \{\d+\}"
)
_PLAIN_ITEM = re.compile(rb"(UID|RFC822\.SIZE|INTERNALDATE) (?:(\d+)|\"([^\"]*)\")")


def numbers(answer: Sequence[Any]) -> Iterator[int]:
    """The numbers of all lines of a SEARCH; what stands behind them, as MODSEQ does, is left (RFC 7162, 3.1.5)."""
    for line in answer:
        for word in line.split() if isinstance(line, bytes) else ():
            if not (word.isdigit() and len(word) <= _UID_DIGITS):
                break
            yield int(word)


def fetched(answer: Sequence[Any]) -> Mapping[int, Mapping[bytes, Any]]:
    """The items of a UID FETCH by UID: those asked for, and of whatever else the server told meanwhile.

    imapclient reads answers octet by octet: it is left to those that are not of the usual shape.

    Raises: what imapclient raises at an answer that is none.
    """
    if answer == [None]:
        return {}
    usual = _usual(answer)
    if usual is not None:
        return usual
    return parse_fetch_response(list(answer), normalise_times=False, uid_is_key=True)  # type: ignore[no-any-return]


def _usual(answer: Sequence[Any]) -> dict[int, dict[bytes, Any]] | None:
    found: dict[int, dict[bytes, Any]] = {}
    if len(answer) % 2:
        return None
    for pair, end in zip(answer[::2], answer[1::2], strict=True):
        if not isinstance(pair, tuple) or end != b")" or (line := _PLAIN.fullmatch(pair[0])) is None:
            return None
        items: dict[bytes, Any] = {line[2]: pair[1]}
        for item in _PLAIN_ITEM.finditer(line[1]):
            items[item[1]] = int(item[2]) if item[3] is None else _date(item[3])
        uid = items.pop(b"UID", None)
        if uid is None:
            return None
        found[uid] = items
    return found


def _date(written: bytes) -> Any:
    try:
        return parse_to_datetime(written, normalise=False)
    except ValueError:
        return None
