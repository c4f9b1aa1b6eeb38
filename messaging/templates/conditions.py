"""What may follow `is`."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Undefined
from markupsafe import Markup

from messaging.templates.undefined import Missing

if TYPE_CHECKING:
    from messaging.templates.values import Run


def _of(kinds: Any, *but: Any) -> Any:
    return lambda run, value: isinstance(_noted(value), kinds) and not isinstance(value, but)


def _same(other: Any) -> Any:
    return lambda run, value: _noted(value) is other


def _comparing(sign: str) -> Any:
    return lambda run, value, other: run.compare(sign, value, other)


def _remainder(run: "Run", value: Any, number: Any) -> Any:
    return run.calculate("%", value, number, (None, None))


def _noted(value: Any) -> Any:
    if isinstance(value, Missing):
        value.note()
    return value


TESTS: Final[Mapping[str, Callable[..., Any]]] = {
    "defined": lambda run, value: not isinstance(value, Undefined),
    "undefined": lambda run, value: isinstance(value, Undefined),
    "none": _same(None),
    "true": _same(True),
    "false": _same(False),
    "boolean": _of(bool),
    "integer": _of(int, bool),
    "float": _of(float),
    "number": _of((int, float)),
    "string": _of(str),
    "mapping": _of(Mapping),
    "sequence": _of((str, list, tuple, range, Mapping)),
    "iterable": _of((str, list, tuple, range, Mapping, Undefined)),
    "escaped": _of(Markup),
    "lower": lambda run, value: run.text(value).islower(),
    "upper": lambda run, value: run.text(value).isupper(),
    "odd": lambda run, value: _remainder(run, value, 2) == 1,
    "even": lambda run, value: _remainder(run, value, 2) == 0,
    "divisibleby": lambda run, value, num: _remainder(run, value, num) == 0,
    "sameas": lambda run, value, other: _noted(value) is other,
    "in": _comparing("in"),
    **dict.fromkeys(("==", "eq", "equalto"), _comparing("eq")),
    **dict.fromkeys(("!=", "ne"), _comparing("ne")),
    **dict.fromkeys((">", "gt", "greaterthan"), _comparing("gt")),
    **dict.fromkeys((">=", "ge"), _comparing("gteq")),
    **dict.fromkeys(("<", "lt", "lessthan"), _comparing("lt")),
    **dict.fromkeys(("<=", "le"), _comparing("lteq")),
}
