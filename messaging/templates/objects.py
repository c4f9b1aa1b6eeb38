"""The objects a template can get hold of beside plain data. Their attributes are those listed here and no others."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from jinja2.runtime import LoopContext

from messaging.templates.errors import Refused


class Method:
    """A method of a text or list, bound: called with the run and its value first."""

    __slots__ = ("function", "value")

    def __init__(self, function: Callable[..., Any], value: Any) -> None:
        self.function = function
        self.value = value


class Function:
    """A function that templates may call; it gets the run first."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


class Box:
    """What `namespace()` makes: a place whose entries a loop may set."""

    __slots__ = ("entries",)

    def __init__(self, entries: dict[str, Any]) -> None:
        self.entries = entries

    def __setitem__(self, name: str, value: Any) -> None:
        self.entries[name] = value


class Cycler:
    """What `cycler()` makes: each call of `next()` gives the next value, from the first again after the last."""

    __slots__ = ("position", "values")

    def __init__(self, values: tuple[Any, ...]) -> None:
        if not values:
            raise Refused("cycler() needs a value")
        self.values = values
        self.position = 0

    @property
    def current(self) -> Any:
        return self.values[self.position]

    def next(self) -> Any:
        current = self.current
        self.position = (self.position + 1) % len(self.values)
        return current

    def reset(self) -> None:
        self.position = 0


class Joiner:
    """What `joiner()` makes: nothing when first called, the separator from then on."""

    __slots__ = ("separator", "used")

    def __init__(self, separator: Any) -> None:
        self.separator = separator
        self.used = False

    def next(self) -> Any:
        if self.used:
            return self.separator
        self.used = True
        return ""


class Group(NamedTuple):
    """One group of `groupby`."""

    grouper: Any
    list: list[Any]


class Loop(LoopContext):
    """The `loop` of a template."""

    #: Attributes a template may read.
    NAMES = frozenset(
        {"index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0"}
        | {"previtem", "nextitem"}
    )

    def recurse(self, iterable: Iterable[Any]) -> Any:
        """The loop's body over other items, in its place."""
        return self(iterable)

    def last_values(self) -> Any:
        """What `changed` was called with before."""
        return self._last_changed_value
