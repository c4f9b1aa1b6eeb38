"""Filters that make or change texts. What they do with small texts is what Jinja2's own do."""

import re
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from jinja2.utils import htmlsafe_json_dumps, urlize
from markupsafe import Markup, escape

from messaging.templates import methods
from messaging.templates.errors import Refused
from messaging.templates.formatting import percent
from messaging.templates.methods import changing
from messaging.templates.undefined import Missing
from messaging.templates.writing import MAX_DEPTH, kind_of

if TYPE_CHECKING:
    from messaging.templates.values import Run

#: Characters of a text that is taken apart by regular expressions.
MAX_PARSED_CHARS = 100_000
#: Longest word that may become a link: what trims brackets off its end takes the square of its length.
MAX_LINK_CHARS = 1000
#: Longest line that is wrapped: breaking it into single characters takes the square of its length.
MAX_WRAPPED_CHARS = 10_000
MAX_INDENT = 16

_WORD_START: Final = re.compile(r"([-\s({\[<]+)")
_WORD: Final = re.compile(r"\w+")
_PREFIXES: Final = "kMGTPEZY"
_SPACES: Final = re.compile(r"(\s+)")
#: What ends an attribute's name (https://html.spec.whatwg.org/#attribute-name-state).
_NO_ATTRIBUTE_NAME: Final = re.compile(r"[\s/>=\"'<]")


def _parsed(run: "Run", value: Any) -> str:
    text = run.text(value)
    if len(text) > MAX_PARSED_CHARS:
        raise Refused(f"works on texts of up to {MAX_PARSED_CHARS:,} characters")
    return text


def title(run: "Run", value: Any) -> str:
    """Each word with a capital."""
    words = _WORD_START.split(_parsed(run, value))
    run.charge(64 * len(words))
    return "".join([word[0].upper() + word[1:].lower() for word in words if word])


def center(run: "Run", value: Any, width: int = 80) -> Any:
    """The text in the middle of a width."""
    return methods.TEXT_METHODS["center"](run, run.text(value), width)


def trim(run: "Run", value: Any, chars: str | None = None) -> Any:
    """Without spaces, or the given characters, at its ends."""
    return methods.TEXT_METHODS["strip"](run, run.text(value), chars)


def replace(run: "Run", value: Any, old: Any, new: Any, count: int | None = None) -> str:
    """With another text for one that stands in it."""
    text, old, new = run.text(value), run.text(old), run.text(new)
    if run.escapes:
        if isinstance(old, Markup) or (isinstance(new, Markup) and not isinstance(text, Markup)):
            run.meter.allow_chars(len(text))
            text = escape(text)
    else:
        text, old, new = str(text), str(old), str(new)
    return methods.replace(run, text, old, new, -1 if count is None else count)


def truncate(
    run: "Run", value: Any, length: int = 255, killwords: bool = False, end: str = "...", leeway: int = 5
) -> str:
    """No longer than `length`, with `end` where something was cut."""
    text = run.text(value)
    if length < len(end) or leeway < 0:
        raise ValueError("is shorter than its end")
    if len(text) <= length + leeway:
        return text
    run.meter.allow_chars(length)
    cut = text[: length - len(end)]
    return (cut if killwords else cut.rsplit(" ", 1)[0]) + end


def indent(run: "Run", value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """Each line but the first moved to the right."""
    text = run.text(value)
    space = width if isinstance(width, str) else methods.TEXT_METHODS["ljust"](run, "", width)
    ends = sum(map(text.count, ("\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")))
    run.meter.allow_items(ends + 1)
    run.meter.allow_chars(len(text) + (ends + 1) * len(space))
    lines = (text + "\n").splitlines()
    indented = [space + line if line or blank else line for line in lines]
    if not first:
        indented[0] = lines[0]
    return _like(text, "\n".join(indented))


def wordwrap(
    run: "Run",
    value: Any,
    width: int = 79,
    break_long_words: bool = True,
    wrapstring: str = "\n",
    break_on_hyphens: bool = True,
) -> str:
    """With line ends so that no line is wider; those it has are kept."""
    wrapped: list[str] = []
    chars = 0
    for line in methods.splitlines(run, str(_parsed(run, value))):
        run.meter.check()
        if len(line) > MAX_WRAPPED_CHARS:
            raise Refused(f"wraps lines of up to {MAX_WRAPPED_CHARS:,} characters")
        lines = textwrap.wrap(
            line,
            width=width,
            expand_tabs=False,
            replace_whitespace=False,
            break_long_words=break_long_words,
            break_on_hyphens=break_on_hyphens,
        )
        run.meter.allow_items(len(lines))
        chars += len(line) + len(wrapstring) * (len(lines) + 1)
        run.meter.allow_chars(chars)
        wrapped.append(wrapstring.join(lines))
    return wrapstring.join(wrapped)


def wordcount(run: "Run", value: Any) -> int:
    """How many words it has."""
    return sum(1 for _ in _WORD.finditer(_parsed(run, value)))


def string_format(run: "Run", value: Any, /, *args: Any, **kwargs: Any) -> str:
    """A `%` format filled in."""
    if args and kwargs:
        raise TypeError("takes values by place or by name, not both")
    return percent(run, run.text(value), kwargs or args)


def striptags(run: "Run", value: Any) -> str:
    """Without tags, its runs of spaces made one."""
    return str(Markup(str(_parsed(run, value))).striptags())  # noqa: S704 - only to take the tags out


def urlencode(run: "Run", value: Any) -> str:
    """Quoted for a path, or a mapping for a query."""
    if isinstance(value, Mapping):
        value = list(value.items())
    if not isinstance(value, list | tuple):
        return _quoted(run, value, safe="/")
    run.meter.allow_items(len(value))
    pairs: list[str] = []
    chars = 0
    for key, item in value:
        run.meter.check()
        pair = "=".join(_quoted(run, part, safe="").replace("%20", "+") for part in (key, item))
        chars += len(pair)
        run.meter.allow_chars(chars)
        pairs.append(pair)
    return "&".join(pairs)


def _quoted(run: "Run", value: Any, *, safe: str) -> str:
    return quote(_parsed(run, value).encode("utf-8", "replace"), safe=safe)


def links(
    run: "Run",
    value: Any,
    trim_url_limit: int | None = None,
    nofollow: bool = False,
    target: str | None = None,
    rel: str | None = None,
) -> str:
    """With what looks like an address made a link; words of more than 1,000 characters are left as they are."""
    rels = sorted({*(rel or "").split(), *(["nofollow"] if nofollow else []), "noopener"})
    made: list[str] = []
    chars = 0
    for word in _SPACES.split(_parsed(run, value)):
        run.meter.check()
        # The marks that Jinja2 looks for.
        if len(word) <= MAX_LINK_CHARS and ("." in word or "@" in word or "://" in word):
            word = urlize(word, trim_url_limit=trim_url_limit, rel=" ".join(rels), target=target)
        else:
            word = str(escape(word))
        chars += len(word) + 1
        run.meter.allow_chars(chars)
        run.charge(64)
        made.append(word)
    text = "".join(made)
    return Markup(text) if run.escapes else text  # noqa: S704 - its words are escaped


def attributes(run: "Run", value: Any, autospace: bool = True) -> str:
    """A mapping as attributes of a tag; those without a value are left out."""
    if not isinstance(value, Mapping):
        raise TypeError(f"needs a mapping, not {kind_of(value)}")
    pairs: list[str] = []
    chars = 0
    for name, item in value.items():
        run.meter.check()
        if item is None or isinstance(item, Missing):
            continue
        if not isinstance(name, str) or _NO_ATTRIBUTE_NAME.search(name):
            raise ValueError("is no name of an attribute")
        pair = f'{escape(name)}="{escape(run.text(item))}"'
        chars += len(pair) + 1
        run.meter.allow_chars(chars)
        pairs.append(pair)
    text = " ".join(pairs)
    if autospace and text:
        text = " " + text
    return Markup(text) if run.escapes else text  # noqa: S704 - its parts are escaped


def tojson(run: "Run", value: Any, indent: Any = None) -> Markup:
    """As JSON that may stand in html; what was not given is null."""
    if indent is not None and not (isinstance(indent, int) and 0 <= indent <= MAX_INDENT):
        raise ValueError("is no indent")
    return htmlsafe_json_dumps(_json_value(run, value, [0], (indent or 0), 0), sort_keys=True, indent=indent)


def _json_value(run: "Run", value: Any, chars: list[int], indent: int, depth: int) -> Any:
    """A copy of plain values, its size as JSON counted on the way."""
    if depth > MAX_DEPTH:
        raise Refused(f"lists are nested more than {MAX_DEPTH} deep")
    chars[0] += 4 + indent * depth
    run.meter.allow_chars(chars[0])
    match value:
        case Missing():
            value.note()
            return None
        case None | bool() | float():
            return value
        case int():
            return run.number(value) if value.bit_length() > 63 else value
        case str():
            # At worst each character becomes `\u1234`.
            run.charge(6 * len(value))
            chars[0] += len(value)
            run.meter.allow_chars(chars[0])
            return str(value)
        case Mapping():
            run.meter.check()
            run.meter.allow_items(2 * len(value))
            return {
                _json_value(run, run.key(key), chars, indent, depth + 1): _json_value(
                    run, item, chars, indent, depth + 1
                )
                for key, item in value.items()
            }
        case list() | tuple() | range():
            run.meter.check()
            run.meter.allow_items(len(value))
            return [_json_value(run, item, chars, indent, depth + 1) for item in value]
        case _:
            raise TypeError(f"{kind_of(value)} cannot be written as JSON")


def filesizeformat(run: "Run", value: Any, binary: bool = False) -> str:
    """A number of bytes as people read it."""
    size = float(run.text(value))
    base = 1024 if binary else 1000
    if size == 1:
        return "1 Byte"
    if size < base:
        return f"{int(size)} Bytes"
    power = 1
    while size >= base ** (power + 1) and power < len(_PREFIXES):
        power += 1
    prefix = _PREFIXES[power - 1]
    return f"{size / base**power:.1f} {prefix.upper() + 'i' if binary else prefix}B"


def escaped(run: "Run", value: Any) -> Markup:
    """Escaped for html, unless it is marked safe."""
    text = run.text(value)
    run.meter.allow_chars(len(text))
    return escape(text)


def forceescape(run: "Run", value: Any) -> Markup:
    """Escaped for html, even if it is marked safe."""
    return escaped(run, str(run.text(value)))


def safe(run: "Run", value: Any) -> Markup:
    """Marked as html that is written as it is."""
    text = run.text(value)
    run.meter.allow_chars(len(text))
    return Markup(text)  # noqa: S704 - the author asks for it, who writes the rest of the html too


def string(run: "Run", value: Any) -> str:
    """As a text."""
    return run.text(value)


def _like(model: str, text: str) -> str:
    return Markup(text) if isinstance(model, Markup) else text  # noqa: S704 - made of a safe text and spaces


def _changed(name: str) -> Any:
    change = changing(name)
    return lambda run, value: change(run, run.text(value))


TEXT_FILTERS: Final[Mapping[str, Any]] = {
    **{name: _changed(name) for name in ("lower", "upper", "capitalize")},
    "title": title,
    "center": center,
    "trim": trim,
    "replace": replace,
    "truncate": truncate,
    "indent": indent,
    "wordwrap": wordwrap,
    "wordcount": wordcount,
    "format": string_format,
    "striptags": striptags,
    "urlencode": urlencode,
    "urlize": links,
    "xmlattr": attributes,
    "tojson": tojson,
    "filesizeformat": filesizeformat,
    "e": escaped,
    "escape": escaped,
    "forceescape": forceescape,
    "safe": safe,
    "string": string,
}
