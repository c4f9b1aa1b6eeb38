"""The two ways of formatting a text, `%` and `format`, with widths that are looked at before they are used."""

import re
import string
from _string import formatter_field_name_split  # type: ignore[import-not-found]
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup, escape

from messaging.templates.meter import Meter
from messaging.templates.writing import MAX_BITS

if TYPE_CHECKING:
    from messaging.templates.values import Run

#: Width or precision of one field.
MAX_WIDTH = 1000
#: Characters that a number takes beside its precision: `'%f' % 1e308`, or a whole number of MAX_BITS in base 2.
_NUMBER_CHARS: Final = MAX_BITS + 100
#: Formats up to this length are remembered.
_SHORT: Final = 64

#: One field of a `%` format; a width or precision of `*` is not among them.
_FIELD = re.compile(r"%(?:\(([^()]*)\))?[#0\- +]*(\d{0,5})(?:\.(\d{0,5}))?([diouxXeEfFgGcrsa%])", re.DOTALL)
#: A format specification of Python's (`format(value, spec)`).
_SPECIFICATION = re.compile(r"(?:.?[<>=^])?[ +\-]?z?#?0?(\d{0,5})[_,]?(?:\.(\d{1,5}))?[bcdeEfFgGnosxX%]?", re.DOTALL)


def percent(run: "Run", text: str, values: Any) -> str:
    """`text % values`, where None, lists and mappings are written as they are elsewhere."""
    meter = run.meter
    meter.allow_chars(len(text))
    fields = _short_fields(text) if len(text) <= _SHORT else list(_fields(text, meter))
    chars = len(text) + sum(width for _, width in fields)
    keys = [key for key, _ in fields if key is not None]
    if isinstance(values, Mapping) and (keys or not fields):  # else it is the one value, as in `'%s' % values`
        entries = {key: _plain(run, values[key]) for key in set(keys)}
        chars += sum(_chars(entries[key]) for key in keys)
        meter.allow_chars(chars)
        return text % entries
    given = tuple(_plain(run, value) for value in (values if isinstance(values, tuple) else (values,)))
    meter.allow_chars(chars + sum(map(_chars, given)))
    return text % given


@lru_cache(maxsize=256)
def _short_fields(text: str) -> list[tuple[str | None, int]]:
    return list(_fields(text, None))


def _fields(text: str, meter: Meter | None) -> Iterator[tuple[str | None, int]]:
    """The key and the width of each field."""
    position = text.find("%")
    while position >= 0:
        match = _FIELD.match(text, position)
        if match is None:
            raise ValueError("is not a format")
        if match[4] != "%":  # which is a sign and takes no value
            yield match[1], _width(match[2]) + _width(match[3])
        if meter is not None:
            meter.step()
            meter.charge(128)
        position = text.find("%", match.end())


def _width(digits: str | None) -> int:
    width = int(digits or 0)
    if width > MAX_WIDTH:
        raise OverflowError(f"a width is larger than {MAX_WIDTH}")
    return width


def _plain(run: "Run", value: Any) -> Any:
    if isinstance(value, (float, str)):
        return value
    if isinstance(value, int):
        return run.number(value) if value.bit_length() > 63 else value
    return run.text(value)


def _chars(value: Any) -> int:
    return len(value) if isinstance(value, str) else _NUMBER_CHARS


def braces(run: "Run", text: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """`text.format(*args, **kwargs)`; escapes what it fills into a text that is marked safe."""
    run.meter.allow_chars(len(text))
    run.meter.charge(64 * text.count("{"))
    filled = _Formatter(run, text, escapes=isinstance(text, Markup)).vformat(str(text), args, kwargs)
    return run.meter.made(Markup(filled) if isinstance(text, Markup) else filled)  # noqa: S704 - its parts are escaped


class _Formatter(string.Formatter):
    """Looks up and formats by the rules of the run."""

    def __init__(self, run: "Run", text: str, *, escapes: bool) -> None:
        self._run = run
        self._text = text
        self._escapes = escapes
        self._chars = 0

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self._run.meter.check()
        first, rest = formatter_field_name_split(field_name)
        value = self.get_value(first, args, kwargs)
        path = self._run.shown(field_name, self._text)
        for is_attribute, name in rest:
            value = (self._run.attr if is_attribute else self._run.item)(value, name, path)
        return value, first

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        match conversion:
            case None:
                return value
            case "s":
                return self._run.text(value)
            case "r" | "a":
                text = self._run.text(value)
                self._run.meter.allow_chars(len(text))
                return repr(str(text)) if isinstance(value, str) else text
            case _:
                raise ValueError("is not a conversion")

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec:
            match = _SPECIFICATION.fullmatch(format_spec)
            if match is None:
                raise ValueError("is not a format")
            _width(match[1])
            _width(match[2])
            value = _plain(self._run, value)
            self._run.meter.allow_chars(self._chars + _chars(value))
            text = format(str(value) if isinstance(value, str) else value, format_spec)
        else:
            text = self._run.text(value)
        self._chars += len(text)
        self._run.meter.allow_chars(self._chars)
        return escape(text) if self._escapes else text
