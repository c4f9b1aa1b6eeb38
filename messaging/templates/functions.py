"""The functions that every template has, and what the objects they make can be asked to do."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from messaging.templates.errors import Refused
from messaging.templates.meter import MAX_ITEMS
from messaging.templates.objects import Box, Cycler, Function, Joiner, Loop
from messaging.templates.writing import MAX_BITS

if TYPE_CHECKING:
    from messaging.templates.values import Run


def _changed(run: "Run", loop: Loop, *values: Any) -> bool:
    run.compare("eq", values, loop.last_values())
    return loop.changed(*values)


def _cycle(run: "Run", loop: Loop, *values: Any) -> Any:
    return loop.cycle(*values)


def _range(run: "Run", *bounds: int) -> range:
    numbers = range(*bounds)
    if abs(numbers.start).bit_length() + abs(numbers.stop).bit_length() + abs(numbers.step).bit_length() > MAX_BITS:
        raise Refused("counts in numbers that are too large")
    if not numbers[:MAX_ITEMS] == numbers:
        raise Refused(f"counts further than {MAX_ITEMS:,} numbers")
    return numbers


def _dict(run: "Run", entries: Mapping[str, Any] | None = None, /, **more: Any) -> dict[str, Any]:
    if entries is not None and not isinstance(entries, Mapping):
        raise TypeError("dict() takes a mapping or named values")
    run.meter.allow_items(2 * (len(entries or ()) + len(more)))
    return {**(entries or {}), **more}


def _namespace(run: "Run", entries: Mapping[str, Any] | None = None, /, **more: Any) -> Box:
    return run.box(_dict(run, entries, **more))


LOOP_METHODS: Final[Mapping[str, Callable[..., Any]]] = {"changed": _changed, "cycle": _cycle}
CYCLER_METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    "next": lambda run, cycler: cycler.next(),
    "reset": lambda run, cycler: cycler.reset(),
}
#: Names that every template has.
GLOBALS: Final[Mapping[str, Function]] = {
    "range": Function(_range),
    "dict": Function(_dict),
    "namespace": Function(_namespace),
    "cycler": Function(lambda run, *values: Cycler(values)),
    "joiner": Function(lambda run, separator=", ": Joiner(separator)),
}
