"""Methods of texts and lists that templates may call, each looked at before it works."""

from collections.abc import Callable, Mapping
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup, escape

from messaging.templates.errors import Refused
from messaging.templates.formatting import braces
from messaging.templates.meter import MAX_ITEMS

if TYPE_CHECKING:
    from messaging.templates.values import Run

_LINE_ENDS: Final = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"

Method = Callable[..., Any]


def changing(name: str) -> Method:
    """A method without arguments that gives a text."""

    def method(run: "Run", text: str) -> str:
        run.meter.allow_chars(len(text))
        return run.meter.made(getattr(text, name)())

    return method


def asking(name: str) -> Method:
    """A method without arguments that gives yes or no."""

    def method(run: "Run", text: str) -> bool:
        run.meter.allow_chars(len(text))
        return bool(getattr(text, name)())

    return method


def searching(name: str) -> Method:
    """A method that looks for a text within a text."""

    def method(run: "Run", text: str, sought: str, *bounds: int) -> Any:
        run.meter.allow_search(len(text), len(sought))
        return getattr(text, name)(sought, *bounds)

    return method


def parting(name: str) -> Method:
    """A method that parts a text at the first or last place of another one."""

    def method(run: "Run", text: str, sought: str) -> Any:
        run.meter.allow_search(len(text), len(sought))
        run.meter.charge(getsizeof(text))
        return getattr(text, name)(sought)

    return method


def stripping(name: str) -> Method:
    """A method that takes characters, or one text, from an end."""

    def method(run: "Run", text: str, chars: str | None = None) -> str:
        run.meter.allow_search(len(text), len(chars or " "))
        return run.meter.made(getattr(text, name)(chars))

    return method


def cutting(name: str) -> Method:
    """A method that takes one text from an end."""

    def method(run: "Run", text: str, affix: str) -> str:
        return run.meter.made(getattr(text, name)(affix))

    return method


def filling(name: str) -> Method:
    """A method that fills a text up to a width."""

    def method(run: "Run", text: str, width: int, *fill: str) -> str:
        run.meter.allow_chars(max(len(text), width))
        return run.meter.made(getattr(text, name)(width, *fill))

    return method


def splitting(name: str) -> Method:
    """A method that splits a text into a list."""

    def method(run: "Run", text: str, sep: str | None = None, maxsplit: int = -1) -> list[str]:
        run.meter.allow_search(len(text), len(sep or " "))
        run.meter.charge(getsizeof(text))
        parts: list[str] = getattr(text, name)(sep, maxsplit if 0 <= maxsplit < MAX_ITEMS else MAX_ITEMS)
        run.meter.allow_items(len(parts))
        return parts

    return method


def splitlines(run: "Run", text: str, keepends: bool = False) -> list[str]:
    """The lines of a text."""
    run.meter.check()
    run.meter.charge(getsizeof(text))
    run.meter.allow_items(1 + sum(map(text.count, _LINE_ENDS)))
    return text.splitlines(bool(keepends))


def replace(run: "Run", text: str, old: str, new: str, count: int = -1) -> str:
    """The text with another for one that stands in it."""
    run.meter.allow_search(len(text), len(old))
    places = text.count(old)
    if 0 <= count < places:
        places = count
    if isinstance(text, Markup):
        run.meter.allow_chars(len(new))
        new = escape(new)
    run.meter.allow_chars(len(text) + places * max(len(new) - len(old), 0))
    return run.meter.made(text.replace(old, new, count))


def join(run: "Run", separator: str, values: Any) -> str:
    """The values as one text, the separator between them."""
    values = run.iterate(values)
    run.meter.allow_items(len(values))
    texts = [run.text(value) for value in values]
    run.meter.check()
    run.meter.allow_chars(sum(map(len, texts)) + len(separator) * len(texts))
    return run.meter.made(separator.join(texts))


def expandtabs(run: "Run", text: str, tabsize: int = 8) -> str:
    """The text with spaces for its tabs."""
    run.meter.allow_chars(len(text) + text.count("\t") * max(tabsize, 0))
    return run.meter.made(text.expandtabs(tabsize))


def affixed(name: str) -> Method:
    """Whether a text starts or ends with one of some texts."""

    def method(run: "Run", text: str, affix: str | tuple[str, ...], *bounds: int) -> bool:
        if isinstance(affix, tuple):
            run.meter.charge(8 * len(affix))
            if len(affix) > 1000:
                raise Refused("looks for too many texts at once")
        return bool(getattr(text, name)(affix, *bounds))

    return method


def _index(run: "Run", values: Any, sought: Any) -> Any:
    run.allow_list_search(values, sought)
    return values.index(sought)


def _count(run: "Run", values: Any, sought: Any) -> Any:
    run.allow_list_search(values, sought)
    return values.count(sought)


TEXT_METHODS: Final[Mapping[str, Method]] = {
    **{name: changing(name) for name in ("lower", "upper", "title", "capitalize", "swapcase", "casefold")},
    **{name: asking(name) for name in ("isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier")},
    **{name: asking(name) for name in ("islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper")},
    **{name: searching(name) for name in ("find", "rfind", "index", "rindex", "count")},
    **{name: parting(name) for name in ("partition", "rpartition")},
    **{name: affixed(name) for name in ("startswith", "endswith")},
    **{name: stripping(name) for name in ("strip", "lstrip", "rstrip")},
    **{name: cutting(name) for name in ("removeprefix", "removesuffix")},
    **{name: filling(name) for name in ("center", "ljust", "rjust", "zfill")},
    **{name: splitting(name) for name in ("split", "rsplit")},
    "splitlines": splitlines,
    "replace": replace,
    "join": join,
    "expandtabs": expandtabs,
    "format": lambda run, text, /, *args, **kwargs: braces(run, text, args, kwargs),
}
LIST_METHODS: Final[Mapping[str, Method]] = {"index": _index, "count": _count}
