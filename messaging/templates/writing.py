"""Plain values as text. Lists within lists are cheap to make and long to write, so the walk stops as soon as it is too
much.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jinja2 import Undefined

from messaging.templates.errors import Refused
from messaging.templates.meter import Meter

#: Bits of a whole number: about 600 digits.
MAX_BITS = 2048
#: Lists and mappings within each other.
MAX_DEPTH = 30
#: Values written between two looks at the clock.
_BETWEEN_CHECKS = 256


def kind_of(value: Any) -> str:
    """What a value is, in words that fit a template's author."""
    match value:
        case None:
            return "none"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case Mapping():
            return "a mapping"
        case list() | tuple() | range():
            return "a list"
        case Undefined():
            return "a variable that was not given"
        case _:
            return "something that is no plain value"


def written(meter: Meter, value: Any) -> str:
    """A value as text; a list or mapping as Python would show it.

    Raises: Refused, for what is no plain value, nested too deeply or too long.
    """
    if not isinstance(value, list | tuple | Mapping):
        return _scalar(value)
    meter.check()
    pieces: list[str] = []
    chars = 0
    for count, piece in enumerate(_pieces(meter, value, 0), 1):
        chars += len(piece)
        meter.allow_chars(chars)
        if count % _BETWEEN_CHECKS == 0:
            meter.check()
            meter.charge(_BETWEEN_CHECKS * 64)
        pieces.append(piece)
    return "".join(pieces)


def _scalar(value: Any) -> str:
    match value:
        case bool() | float() | None | range():
            return str(value)
        case int():
            if value.bit_length() > MAX_BITS:
                raise Refused("a number is too large to be written")
            return str(value)
        case _:
            raise Refused(f"{kind_of(value)} cannot be written")


def _pieces(meter: Meter, value: Any, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        raise Refused(f"lists are nested more than {MAX_DEPTH} deep")
    match value:
        case str():
            meter.allow_chars(len(value))
            yield repr(str(value))
        case Undefined():
            yield repr(str(value))
        case Mapping():
            separator = "{"
            for key, item in value.items():
                yield separator
                yield from _pieces(meter, key, depth + 1)
                yield ": "
                yield from _pieces(meter, item, depth + 1)
                separator = ", "
            yield "}" if separator == ", " else "{}"
        case list() | tuple():
            first, last = ("[", "]") if isinstance(value, list) else ("(", ")")
            separator = first
            for item in value:
                yield separator
                yield from _pieces(meter, item, depth + 1)
                separator = ", "
            if separator is first:
                yield first
            yield ",)" if last == ")" and len(value) == 1 else last
        case _:
            yield _scalar(value)
