"""Filters that take or give lists, numbers and mappings. All lists are made at once, none is worked out later."""

import math
from collections.abc import Callable, Mapping
from itertools import groupby as group_neighbours
from typing import TYPE_CHECKING, Any, Final

from messaging.templates import methods
from messaging.templates.errors import Refused
from messaging.templates.meter import MAX_ITEMS
from messaging.templates.objects import Group
from messaging.templates.undefined import COMPUTED, Missing
from messaging.templates.writing import kind_of

if TYPE_CHECKING:
    from messaging.templates.values import Run

#: Comparisons of a sort, each of up to 64 characters: about 100 ms that nothing interrupts.
MAX_SORTING = 2_000_000
#: Digits of a number in a text.
MAX_NUMBER_CHARS = 600
MAX_PRECISION = 100

Key = Callable[[Any], Any]


# Paths and keys


def _getter(run: "Run", attribute: str | int | None, *, within: str | None = None) -> Key:
    """What looks up `attribute`, which may be dotted, in each item; None is the item itself.

    `within`: the text of the template that the attribute was taken from.
    """
    if attribute is None:
        return lambda item: item
    if not isinstance(attribute, str):
        return lambda item: run.item(item, attribute, COMPUTED)
    path = run.shown(attribute, within or attribute)
    parts = [int(part) if part.isdecimal() and len(part) < 10 else part for part in attribute.split(".", 20)]

    def get(item: Any) -> Any:
        for part in parts:
            item = run.item(item, part, path)
        return item

    return get


def _sort_keys(
    run: "Run", values: list[Any], getters: list[Key], *, case_sensitive: bool, default: Any = None
) -> list[tuple[Any, ...]]:
    """A key for each value, of texts and numbers only; refuses what would take too long to sort."""
    keys: list[tuple[Any, ...]] = []
    longest = 0
    run.meter.allow_items(2 * len(values))
    for value in values:
        run.step()
        key: list[Any] = []
        for get in getters:
            part = get(value)
            if isinstance(part, Missing):
                if default is None:
                    part.note()
                part = "" if default is None else default
            if isinstance(part, str):
                longest = max(longest, len(part))
                part = part if case_sensitive else run.meter.made(part.lower())
            elif not isinstance(part, int | float | None):
                raise TypeError(f"cannot be sorted by {kind_of(part)}")
            key.append(part)
        keys.append(tuple(key))
    if len(keys) * len(keys).bit_length() * len(getters) * (1 + longest // 64) > MAX_SORTING:
        raise Refused("sorts too much at once")
    return keys


def listed(run: "Run", value: Any) -> list[Any]:
    """The items of a list, the keys of a mapping, the characters of a text."""
    value = run.iterate(value)
    run.meter.allow_items(len(value))
    return list(value)


# One of many


def first(run: "Run", value: Any) -> Any:
    """The first item."""
    return next(iter(run.iterate(value)), run.nothing())


def last(run: "Run", value: Any) -> Any:
    """The last item."""
    return next(iter(reversed(run.iterate(value) or ())), run.nothing())


def _extreme(choose: Callable[..., Any]) -> Any:
    def do(run: "Run", value: Any, case_sensitive: bool = False, attribute: str | int | None = None) -> Any:
        values = listed(run, value)
        if not values:
            return run.nothing()
        keys = _sort_keys(run, values, [_getter(run, attribute)], case_sensitive=case_sensitive)
        return values[choose(range(len(keys)), key=keys.__getitem__)]

    return do


# Lists


def sort(
    run: "Run", value: Any, reverse: bool = False, case_sensitive: bool = False, attribute: str | int | None = None
) -> list[Any]:
    """In order; by several attributes when their names stand with commas between."""
    values = listed(run, value)
    if isinstance(attribute, str):
        getters = [_getter(run, name, within=attribute) for name in attribute.split(",", 10)]
    else:
        getters = [_getter(run, attribute)]
    keys = _sort_keys(run, values, getters, case_sensitive=case_sensitive)
    return [values[n] for n in sorted(range(len(keys)), key=keys.__getitem__, reverse=bool(reverse))]


def dictsort(
    run: "Run", value: Any, case_sensitive: bool = False, by: str = "key", reverse: bool = False
) -> list[tuple[Any, Any]]:
    """The pairs of a mapping in order of their keys or values."""
    if by not in ("key", "value"):
        raise ValueError("sorts by key or by value")
    pairs = items(run, value)
    keys = _sort_keys(run, pairs, [_getter(run, ("key", "value").index(by))], case_sensitive=case_sensitive)
    return [pairs[n] for n in sorted(range(len(keys)), key=keys.__getitem__, reverse=bool(reverse))]


def groupby(
    run: "Run", value: Any, attribute: str | int, default: Any = None, case_sensitive: bool = False
) -> list[Group]:
    """Items with the same attribute together, in order of it: pairs of `grouper` and `list`."""
    values = listed(run, value)
    keys = _sort_keys(run, values, [_getter(run, attribute)], case_sensitive=case_sensitive, default=default)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    get = _getter(run, attribute)
    groups: list[Group] = []
    for _, numbers in group_neighbours(order, key=keys.__getitem__):
        run.step()
        run.charge(128)
        members = [values[n] for n in numbers]
        grouper = get(members[0])
        groups.append(Group(default if isinstance(grouper, Missing) else grouper, members))
    return groups


def unique(run: "Run", value: Any, case_sensitive: bool = False, attribute: str | int | None = None) -> list[Any]:
    """Each item once, where it stands first."""
    get = _getter(run, attribute)
    seen: set[Any] = set()
    found: list[Any] = []
    for item in listed(run, value):
        run.step()
        key = run.key(get(item))
        if isinstance(key, str) and not case_sensitive:
            key = run.meter.made(key.lower())
        if key not in seen:
            seen.add(key)
            found.append(item)
    return found


def items(run: "Run", value: Any) -> list[tuple[Any, Any]]:
    """The pairs of a mapping."""
    if isinstance(value, Missing):
        value.note()
        return []
    if not isinstance(value, Mapping):
        raise TypeError(f"needs a mapping, not {kind_of(value)}")
    run.meter.allow_items(2 * len(value))
    return list(value.items())


def reverse(run: "Run", value: Any) -> Any:
    """The other way round."""
    if isinstance(value, str):
        return run.slice(value, None, None, -1)
    return listed(run, value)[::-1]


def batch(run: "Run", value: Any, linecount: int, fill_with: Any = None) -> list[list[Any]]:
    """Rows of so many items; `fill_with` fills the last one up."""
    if linecount < 1:
        raise ValueError("is no number of items")
    values = listed(run, value)
    rows = [values[start : start + linecount] for start in range(0, len(values), linecount)]
    run.meter.allow_items(2 * len(rows) + len(values))
    if rows and fill_with is not None:
        missing = linecount - len(rows[-1])
        run.meter.allow_items(missing)
        rows[-1] += [fill_with] * missing
    return rows


def slices(run: "Run", value: Any, number: int, fill_with: Any = None) -> list[list[Any]]:
    """So many columns, as equal as can be; `fill_with` makes them equal."""
    if number < 1:
        raise ValueError("is no number of lists")
    values = listed(run, value)
    run.meter.allow_items(2 * number + len(values))
    length, longer = divmod(len(values), number)
    columns: list[list[Any]] = []
    start = 0
    for n in range(number):
        run.step()
        end = start + length + (n < longer)
        column = values[start:end]
        if fill_with is not None and n >= longer:
            column.append(fill_with)
        columns.append(column)
        start = end
    return columns


def join(run: "Run", value: Any, d: Any = "", attribute: str | int | None = None) -> str:
    """One text of all, `d` between them; escaped as a whole when one of them is marked safe."""
    get = _getter(run, attribute)
    values = [get(item) for item in listed(run, value)]
    separator = run.text(d)
    if run.escapes and not hasattr(separator, "__html__") and any(hasattr(x, "__html__") for x in values):
        run.meter.allow_chars(len(separator) * 6)
        separator = run.html(separator)
    elif not run.escapes:
        separator = str(separator)
    return methods.join(run, separator, values)


# Each and some


def each(run: "Run", value: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """A filter applied to each item, or an attribute of each."""
    values = listed(run, value)
    if not args and "attribute" in kwargs:
        attribute, default = kwargs.pop("attribute"), kwargs.pop("default", None)
        if kwargs:
            raise TypeError("takes an attribute and a default")
        get = _getter(run, attribute)
        found = [get(item) for item in values if run.step()]
        return [default if default is not None and isinstance(item, Missing) else item for item in found]
    if not args:
        raise TypeError("needs the name of a filter")
    return [run.filter(args[0], item, args[1:], kwargs) for item in values if run.step()]


def _choosing(*, wanted: bool, by_attribute: bool) -> Any:
    def do(run: "Run", value: Any, *args: Any, **kwargs: Any) -> list[Any]:
        get: Key = lambda item: item  # noqa: E731 - what is looked at is the item itself
        if by_attribute:
            get, args = _getter(run, args[0]), args[1:]
        chosen = []
        for item in listed(run, value):
            run.step()
            asked = get(item)
            holds = run.test(args[0], asked, args[1:], kwargs) if args else asked
            if bool(holds) is wanted:
                chosen.append(item)
        return chosen

    return do


# Numbers


def length(run: "Run", value: Any) -> int:
    """How many items, entries or characters."""
    return len(run.iterate(value))


def total(run: "Run", value: Any, attribute: str | int | None = None, start: Any = 0) -> Any:
    """The sum of numbers."""
    get = _getter(run, attribute)
    name = run.shown(attribute, attribute) if isinstance(attribute, str) else None
    result = start
    for item in listed(run, value):
        result = run.calculate("+", result, get(item), (None, name))
    return result


def rounded(run: "Run", value: Any, precision: int = 0, method: str = "common") -> Any:
    """To so many places."""
    if method not in ("common", "ceil", "floor"):
        raise ValueError("rounds common, ceil or floor")
    if not isinstance(value, int | float) or not isinstance(precision, int):
        raise TypeError(f"needs a number, not {kind_of(value)}")
    if abs(precision) > MAX_PRECISION:
        raise ValueError("is too precise")
    if method == "common":
        return round(value, precision)
    factor = 10**precision
    return getattr(math, method)(value * factor) / factor


def whole(run: "Run", value: Any, default: Any = 0, base: int = 10) -> Any:
    """As a whole number, or the default."""
    try:
        if isinstance(value, str):
            if len(value) > MAX_NUMBER_CHARS:
                return default
            try:
                return int(value, base)
            except ValueError:
                return int(float(value))
        return int(_given(value))
    except (TypeError, ValueError, OverflowError):
        return default


def real(run: "Run", value: Any, default: Any = 0.0) -> Any:
    """As a number with a fraction, or the default."""
    if isinstance(value, str) and len(value) > MAX_NUMBER_CHARS:
        return default
    try:
        return float(_given(value))
    except (TypeError, ValueError, OverflowError):
        return default


def _given(value: Any) -> Any:
    if isinstance(value, Missing):
        value.note()
        raise ValueError("was not given")
    return value


def absolute(run: "Run", value: Any) -> Any:
    """Without its sign."""
    return abs(value)


def default(run: "Run", value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    """Another value when it was not given, or with `boolean` when it is empty."""
    if isinstance(value, Missing) or (boolean and not value):
        return default_value
    return value


assert MAX_ITEMS * MAX_ITEMS.bit_length() < MAX_SORTING  # a list of short texts can be sorted, however long

LIST_FILTERS: Final[Mapping[str, Any]] = {
    "abs": absolute,
    "batch": batch,
    "count": length,
    "d": default,
    "default": default,
    "dictsort": dictsort,
    "first": first,
    "float": real,
    "groupby": groupby,
    "int": whole,
    "items": items,
    "join": join,
    "last": last,
    "length": length,
    "list": listed,
    "map": each,
    "max": _extreme(max),
    "min": _extreme(min),
    "reject": _choosing(wanted=False, by_attribute=False),
    "rejectattr": _choosing(wanted=False, by_attribute=True),
    "reverse": reverse,
    "round": rounded,
    "select": _choosing(wanted=True, by_attribute=False),
    "selectattr": _choosing(wanted=True, by_attribute=True),
    "slice": slices,
    "sort": sort,
    "sum": total,
    "unique": unique,
}
