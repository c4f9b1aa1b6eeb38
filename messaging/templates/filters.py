"""The filters and tests that templates have, and what is looked at before and after each."""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, cast

from jinja2 import pass_context

from messaging.templates.conditions import TESTS
from messaging.templates.errors import Refused
from messaging.templates.list_filters import LIST_FILTERS
from messaging.templates.meter import ITEM_OCTETS
from messaging.templates.text_filters import TEXT_FILTERS

if TYPE_CHECKING:
    from messaging.templates.sandbox import RunContext
    from messaging.templates.values import Run

_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {**TEXT_FILTERS, **LIST_FILTERS}


def apply_filter(run: "Run", name: Any, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A filter by name, as `map` is told one."""
    function = _FUNCTIONS.get(name) if isinstance(name, str) else None
    if function is None:
        raise Refused("there is no such filter")
    return _work(run, name, function, value, args, kwargs)


def apply_test(run: "Run", name: Any, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A test by name, as `select` is told one."""
    function = TESTS.get(name) if isinstance(name, str) else None
    if function is None:
        raise Refused("there is no such test")
    return function(run, value, *args, **kwargs)


def _work(
    run: "Run", name: str, function: Callable[..., Any], value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    meter = run.meter
    meter.check()
    try:
        result = function(run, value, *args, **kwargs)
    except Refused as exc:
        raise _within(exc, name) from None
    except (TypeError, ArithmeticError) as exc:  # Python's own words name kinds of values, never a value
        if not takes(function, run, value, *args, **kwargs):
            raise Refused(f"the filter {name!r} does not take these arguments", operation=name) from None
        raise Refused(f"the filter {name!r}: {exc}", operation=name) from None
    except (ValueError, LookupError, AttributeError):
        raise Refused(f"the filter {name!r} does not take this value", operation=name) from None
    if isinstance(result, str):
        meter.made(result)
    elif isinstance(result, list):
        meter.charge(ITEM_OCTETS + 8 * len(result))
    elif isinstance(result, int) and result.bit_length() > 63:
        run.number(result)
    return result


def takes(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> bool:
    """Whether a call has the arguments that a function needs, and no others."""
    try:
        signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _within(refused: Refused, name: str) -> Refused:
    if refused.operation is None:
        refused.operation = name
    return refused


def _filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def do(context: "RunContext", value: Any, /, *args: Any, **kwargs: Any) -> Any:
        return _work(context.run, name, function, value, args, kwargs)

    return cast("Callable[..., Any]", pass_context(do))


def _test(function: Callable[..., Any]) -> Callable[..., Any]:
    def do(context: "RunContext", value: Any, *args: Any, **kwargs: Any) -> Any:
        return function(context.run, value, *args, **kwargs)

    return cast("Callable[..., Any]", pass_context(do))


#: As Jinja2 calls them.
FILTERS: Final = {name: _filter(name, function) for name, function in _FUNCTIONS.items()}
CONDITIONS: Final = {name: _test(function) for name, function in TESTS.items()}
