"""What the code of a compiled template does with values: write, look up, calculate, compare, call.

The code that `messaging.templates.sandbox` generates calls these instead of Python's own operators. Each looks before
it works: at the size of what it would make or go through, so that no single operation can run for long or take much.
"""

import operator
from collections.abc import Callable, Mapping
from sys import getsizeof
from types import GeneratorType
from typing import Any, Final

from jinja2 import Undefined
from jinja2.runtime import Macro
from markupsafe import Markup, escape

from messaging.templates.errors import Refused
from messaging.templates.filters import apply_filter, apply_test, takes
from messaging.templates.formatting import percent
from messaging.templates.functions import CYCLER_METHODS, LOOP_METHODS
from messaging.templates.meter import CALL_OCTETS, ITEM_OCTETS, Meter
from messaging.templates.methods import LIST_METHODS, TEXT_METHODS
from messaging.templates.objects import Box, Cycler, Function, Group, Joiner, Loop, Method
from messaging.templates.undefined import COMPUTED, Missing
from messaging.templates.writing import MAX_BITS, kind_of, written

#: Values and characters (counted by 64) that one comparison of lists may walk through.
MAX_COMPARED = 20_000
#: Steps of a search through a list, each a comparison of up to 64 characters.
MAX_LIST_SEARCH = 2_000_000

_TEXTS: Final = (str, Markup)
_SCALARS: Final = frozenset({str, Markup, int, float, bool, type(None)})
_NUMBERS: Final = (int, float)
_LISTS: Final = (list, tuple, range)
_ITERABLE: Final = (list, dict, str, tuple, range, Undefined, Mapping)
_COMPARE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
}
_CALCULATE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}
#: Texts up to this length are compared without a look at the clock.
_SHORT: Final = 10_000


class Run:
    """One column's rendering: the operations of its code, and what it has used up and missed so far."""

    __slots__ = ("_circular", "charge", "escapes", "meter", "noted", "own_texts", "step")

    def __init__(self, meter: Meter, noted: dict[str, None], *, escapes: bool) -> None:
        #: What may refer to itself.
        self._circular: list[Macro | Box] = []
        self.meter = meter
        self.step = meter.step
        self.charge = meter.charge
        #: Names asked for and not given, in order of first use.
        self.noted = noted
        #: Texts that stand in the template itself.
        self.own_texts: frozenset[str] = frozenset()
        #: Whether texts are escaped for html unless marked safe.
        self.escapes = escapes

    # What is not given

    def undefined(self, hint: str | None = None, *, name: str | None = None) -> Missing:
        """A variable that is not given; one with a hint is a macro's parameter or the like, which no caller gives."""
        return Missing(name, self.noted if hint is None else None)

    def nothing(self, *_: object) -> Missing:
        """The value of an inline `if` without an `else`."""
        return Missing()

    def shown(self, path: str, text: str) -> str:
        """What stands for a path that is given in a text: itself, unless the text may be a variable's value."""
        return path if text in self.own_texts else COMPUTED

    # Texts

    def text(self, value: Any) -> str:
        """A value as it is written; None is empty."""
        if isinstance(value, str):
            return value
        if value is None:
            return ""
        if isinstance(value, Undefined):
            return str(value)
        return self.meter.made(written(self.meter, value))

    def html(self, value: Any) -> str:
        """A value as it is written into html; only what is marked safe is taken as it is."""
        kind = type(value)
        if kind is str:
            if len(value) > self.meter.max_text_chars:
                self.meter.allow_written(len(value))
            return escape(value)
        if kind is Markup:
            return value  # type: ignore[no-any-return]
        if kind is int and -(1 << 63) < value < 1 << 63:
            return str(value)
        return escape(self.text(value))

    def join(self, values: tuple[Any, ...]) -> str:
        """The operator `~`."""
        texts = [self.text(value) for value in values]
        self.meter.check()
        self.meter.allow_chars(sum(map(len, texts)))
        if self.escapes and any(isinstance(text, Markup) for text in texts):
            return self.meter.made(Markup("").join(texts))
        return self.meter.made("".join(texts))

    def buffer(self) -> "Buffer":
        """Where a macro or a block collects what it writes."""
        return Buffer(self.meter)

    # Look-ups

    def attr(self, value: Any, name: str, path: str) -> Any:
        """`value.name`: of a mapping the entry of that name and nothing else. `path` is what the template wrote."""
        if type(value) is dict:
            try:
                return value[name]
            except KeyError:
                return Missing(path, self.noted)
        return self._attr(value, name, path)

    def _attr(self, value: Any, name: str, path: str) -> Any:
        if isinstance(value, Missing):
            return Missing(path, value._noted)
        if isinstance(value, Loop) and name in Loop.NAMES:
            return getattr(value, name)
        if isinstance(value, Mapping):
            return value[name] if name in value else Missing(path, self.noted)
        if isinstance(value, Box):
            return value.entries[name] if name in value.entries else Missing(path, self.noted)
        if name.startswith("_"):
            raise Refused("security: an attribute that starts with an underscore is out of reach", variable=path)
        match value:
            case str() if name in TEXT_METHODS:
                return Method(TEXT_METHODS[name], value)
            case Group() if name in ("grouper", "list"):
                return value.grouper if name == "grouper" else value.list
            case list() | tuple() | range() if name in LIST_METHODS:
                return Method(LIST_METHODS[name], value)
            case Loop() if name in LOOP_METHODS:
                return Method(LOOP_METHODS[name], value)
            case Cycler() if name == "current":
                return value.current
            case Cycler() if name in CYCLER_METHODS:
                return Method(CYCLER_METHODS[name], value)
            case Macro() if name == "name":
                return value.name
            case _:
                return Missing(path, self.noted)

    def item(self, value: Any, key: Any, path: str) -> Any:
        """`value[key]`: the entry, else of a text key the attribute."""
        if isinstance(value, Missing):
            return Missing(path, value._noted)
        if isinstance(key, Missing):
            key.note()
            return Missing(path, self.noted)
        if isinstance(value, Mapping):
            return value[key] if self.key(key) in value else Missing(path, self.noted)
        if isinstance(value, (str, *_LISTS)) and isinstance(key, int):
            try:
                return value[key]
            except IndexError:
                return Missing(path, self.noted)
        if isinstance(key, str):
            return self._attr(value, key, path)
        return Missing(path, self.noted)

    def slice(self, value: Any, start: Any, stop: Any, step: Any) -> Any:
        """`value[start:stop:step]`."""
        if isinstance(value, Missing):
            value.note()
            return value
        if not isinstance(value, (str, *_LISTS)):
            raise TypeError(f"{kind_of(value)} has no parts")
        self.meter.check()
        if isinstance(value, list | tuple):
            self.meter.charge(getsizeof(value))
        part = value[start:stop:step]
        return self.meter.made(part) if isinstance(part, str) else part

    def key(self, key: Any) -> Any:
        """A key that may stand in a mapping: what is hashed and compared at no cost."""
        if type(key) not in _SCALARS:
            if isinstance(key, Missing):
                key.refuse()
            raise TypeError(f"{kind_of(key)} cannot be a key")
        return key

    def literal(self, value: Any) -> Any:
        """A list, tuple or mapping that the template has just written out."""
        self.meter.charge(ITEM_OCTETS * (1 + len(value)))
        return value

    def iterate(self, value: Any) -> Any:
        """What a `for` may go through."""
        if isinstance(value, _ITERABLE):
            return value
        raise TypeError(f"{kind_of(value)} cannot be looped over")

    # Operators

    def calculate(self, sign: str, left: Any, right: Any, names: tuple[str | None, str | None]) -> Any:
        """An arithmetical operator; `names` is what the template wrote on its two sides, where that is a variable."""
        self.meter.check()
        try:
            result = self._calculate(sign, left, right)
        except (TypeError, ArithmeticError, ValueError, LookupError) as exc:
            reason = f"the operator {sign!r} does not fit its values"
            if isinstance(exc, TypeError | ArithmeticError):
                reason = str(exc)
            raise Refused(reason, variable=_to_blame(names, left, right)) from None
        if isinstance(result, int):
            if result.bit_length() > 63:
                self.number(result)
            return result
        if isinstance(result, complex):
            raise Refused("makes a number that is not real", variable=_to_blame(names, left, right))
        return result

    def _calculate(self, sign: str, left: Any, right: Any) -> Any:
        if isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS):
            whole = isinstance(left, int) and isinstance(right, int)
            if sign == "**" and whole and left.bit_length() * right > MAX_BITS:  # type: ignore[union-attr]
                raise OverflowError("makes a number that is too large")
            return _CALCULATE[sign](left, right)
        for value in (left, right):
            if isinstance(value, Missing):
                value.refuse()
        if sign == "%" and isinstance(left, str):
            return self.meter.made(percent(self, left, right))
        if sign == "+" and isinstance(left, str) and isinstance(right, str):
            self.meter.allow_chars(len(left) + len(right))
            return self.meter.made(left + right)
        if sign == "+" and isinstance(left, list | tuple) and isinstance(right, list | tuple):
            self.meter.allow_items(len(left) + len(right))
            return left + right  # type: ignore[operator]
        if sign == "*" and isinstance(right, str | list | tuple):
            left, right = right, left
        if sign == "*" and isinstance(left, str) and isinstance(right, int):
            self.meter.allow_chars(len(left) * right)
            return self.meter.made(left * right)
        if sign == "*" and isinstance(left, list | tuple) and isinstance(right, int):
            self.meter.allow_items(len(left) * max(right, 0))
            return left * right
        raise TypeError(f"unsupported operand types for {sign}: {kind_of(left)} and {kind_of(right)}")

    def number(self, value: int) -> int:
        """A whole number that was made, no larger than can be written."""
        if value.bit_length() > MAX_BITS:
            raise Refused("makes a number that is too large")
        self.meter.charge(CALL_OCTETS)
        return value

    def compare(self, sign: str, left: Any, right: Any) -> Any:
        """A comparison, or a look whether something is in something."""
        if sign == "in":
            return self.contains(right, left)
        if sign == "notin":
            return not self.contains(right, left)
        if type(left) in _SCALARS and type(right) in _SCALARS:
            if type(left) in _TEXTS and len(left) > _SHORT:
                self.meter.check()
            return _COMPARE[sign](left, right)
        self.meter.check()
        for value in (left, right):
            if isinstance(value, Missing):
                value.note()
        self._weigh(left)
        self._weigh(right)
        return _COMPARE[sign](left, right)

    def contains(self, container: Any, value: Any) -> bool:
        """Whether a list or text holds the value, or a mapping has it as a key."""
        self.meter.check()
        match container:
            case Missing():
                container.note()
                return False
            case str():
                if isinstance(value, Missing):
                    value.note()
                    return False
                if not isinstance(value, str):
                    raise TypeError(f"a text cannot hold {kind_of(value)}")
                self.meter.allow_search(len(container), len(value))
                return value in container
            case Mapping():
                return self.key(value) in container
            case list() | tuple():
                self.allow_list_search(container, value)
                return value in container
            case range():
                return isinstance(value, _NUMBERS) and value in container
            case _:
                raise TypeError(f"{kind_of(container)} cannot hold anything")

    def allow_list_search(self, values: Any, sought: Any) -> None:
        """Before a list is searched for a value."""
        if type(sought) in _SCALARS:
            length = len(sought) if isinstance(sought, str) else 1
            if len(values) * (1 + length // 64) > MAX_LIST_SEARCH:
                raise Refused("searches a long list for a long text")
            return
        if isinstance(sought, Missing):
            sought.note()
        self._weigh(sought)
        self._weigh(values)

    def _weigh(self, value: Any) -> None:
        """Walk through a value as a comparison would, and refuse what is too much."""
        if type(value) in _SCALARS:
            return
        left = MAX_COMPARED
        pending = [value]
        while pending:
            value = pending.pop()
            left -= 1
            if isinstance(value, str):
                left -= len(value) // 64
            elif isinstance(value, list | tuple):
                left -= len(value)
                if left >= 0:
                    pending.extend(value)
            elif isinstance(value, Mapping):
                left -= len(value)
                if left >= 0:
                    pending.extend(value.values())
            if left < 0:
                raise Refused("compares more than can be compared at once")

    # Calls

    def call(self, callee: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A call; only of what templates may call."""
        self.meter.check()
        self.meter.charge(ITEM_OCTETS * (len(args) + 2 * len(kwargs)))
        match callee:
            case Method():
                return _called(callee.function, self, callee.value, *args, **kwargs)
            case Function():
                return _called(callee.function, self, *args, **kwargs)
            case Macro() | Loop():
                self.meter.enter()
                try:
                    return callee(*args, **kwargs)
                finally:
                    self.meter.leave()
            case Joiner():
                return callee.next()
            case Missing():
                return callee.refuse()
            case _:
                raise TypeError(f"{kind_of(callee)} cannot be called")

    def macro(self, *args: Any) -> Macro:
        """A macro, where the template defines it."""
        self.meter.charge(2 * CALL_OCTETS)
        macro = Macro(*args)
        self._circular.append(macro)
        return macro

    def box(self, entries: dict[str, Any]) -> Box:
        """A namespace."""
        self.meter.charge(CALL_OCTETS)
        box = Box(entries)
        self._circular.append(box)
        return box

    def release(self) -> None:
        """Take apart what may refer to itself, so that its memory is free at once."""
        for thing in self._circular:
            if isinstance(thing, Box):
                thing.entries.clear()
            else:
                thing._func = str
        self._circular.clear()

    def loop(self, iterable: Any, *args: Any) -> Loop:
        """The `loop` of a `for` that uses it."""
        self.meter.charge(CALL_OCTETS)
        # A generator is what chooses items by the `if` of a `for`; the template itself has none.
        return Loop(iterable if isinstance(iterable, GeneratorType) else self.iterate(iterable), *args)

    def filter(self, name: Any, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A filter whose name a filter was told."""
        return apply_filter(self, name, value, args, kwargs)

    def test(self, name: Any, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A test whose name a filter was told."""
        return apply_test(self, name, value, args, kwargs)

    def own_name(self, context: Any) -> Any:
        """`self`, which names blocks elsewhere and is an ordinary variable here."""
        value = context.get("self", self)
        return self.undefined(name="self") if value is self else value


class Buffer(list[str]):
    """What a macro or a block has written so far, counted as it grows."""

    __slots__ = ("_chars", "_meter")

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self._meter = meter
        self._chars = 0

    def append(self, piece: str) -> None:
        self._chars += len(piece)
        self._meter.allow_written(self._chars)
        self._meter.charge(2 * getsizeof(piece))
        super().append(piece)

    def extend(self, pieces: Any) -> None:
        for piece in pieces:
            self.append(piece)


def _called(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except TypeError:
        if not takes(function, *args, **kwargs):
            raise Refused("what is called does not take these arguments") from None
        raise


def _to_blame(names: tuple[str | None, str | None], left: Any, right: Any) -> str | None:
    """The variable of an operation that failed: the one that is no number, else the first."""
    for name, value in zip(names, (left, right), strict=True):
        if name is not None and not isinstance(value, _NUMBERS):
            return name
    return names[0] or names[1]
