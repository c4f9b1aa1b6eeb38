"""Which values a template wants from an input form, read from its source (`send.md` section 5.4).

The source is scanned, not compiled: what somebody is just typing has variables too. Takes time in proportion to it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class VariableKind(StrEnum):
    """What an input form asks for."""

    #: One text.
    VARIABLE = "VARIABLE"
    #: A JSON value; the template loops over it.
    COLLECTION = "COLLECTION"
    #: The operands come from raw JSON.
    EXPRESSION = "EXPRESSION"


@dataclass(frozen=True, slots=True)
class TemplateVariable:
    """One entry of the form."""

    #: A dotted name, or an expression as it stands in the source.
    name: str
    kind: VariableKind


class _Token(NamedTuple):
    """What stands between `{{` and `}}`, or `{%` and `%}`, without spaces and control marks."""

    is_statement: bool
    text: str


class _Word(NamedTuple):
    """A piece of a token's text: a name, or one other character; strings are left out."""

    text: str
    start: int
    #: Brackets around it.
    depth: int


_OPENING = re.compile(r"\{[{%#]")
_RAW = re.compile(r"\{%[-+]?\s*raw\s*[-+]?%\}")
_END_OF_RAW = re.compile(r"\{%[-+]?\s*endraw\s*[-+]?%\}")
#: What decides where a token ends. An opening within a token: that one was never closed.
_STRUCTURE = re.compile(r"""\{[{%#]|%\}|['"()\[\]{}]""")
_STRING = {
    "'": re.compile(r"'(?:[^'\\]++|\\.)*+'", re.DOTALL),
    '"': re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL),
}
#: All but spaces and the punctuation of ASCII: also the vowel signs of Indian scripts, which `\\w` leaves out.
_NAME = r"[^\s\x00-/:-@\[-^`{-\x7f]+"
_LEADING_NAME = re.compile(_NAME)
#: A name, or any other character that is not a space.
_WORD = re.compile(rf"{_NAME}|\S")

_BRACKETS, _CLOSING = frozenset("([{"), frozenset(")]}")

#: Constants of Jinja2, which look like names.
_CONSTANTS = frozenset({"true", "false", "none", "True", "False", "None"})
#: What Jinja2 binds by itself in a loop, and in a macro.
_LOOP_LOCALS = frozenset({"loop"})
_MACRO_LOCALS = frozenset({"caller", "varargs", "kwargs"})


def extract_variables(subject: str | None, body_html: str | None, body_text: str | None) -> list[TemplateVariable]:
    """What a form for this template asks for, each name once, in the order of first appearance.

    All columns count, whatever the mode. Names that the template binds itself (loops, `set`, `with`, macros) are no
    input: those bound in a body nowhere, those bound in the subject not in the subject.
    """
    heading, *bodies = [list(_tokens(source or "")) for source in (subject, body_html, body_text)]
    bound = frozenset().union(*(_locals(body) for body in bodies))
    found: dict[str, VariableKind] = {}
    for tokens, local, may_start_with_digit in (
        (heading, bound | _locals(heading), True),
        *((body, bound, False) for body in bodies),
    ):
        for token in tokens:
            variable = _variable(token, local, may_start_with_digit=may_start_with_digit)
            if variable is None:
                continue
            known = found.setdefault(variable.name, variable.kind)
            if known is VariableKind.VARIABLE and variable.kind is VariableKind.COLLECTION:
                found[variable.name] = VariableKind.COLLECTION
    return [TemplateVariable(name, kind) for name, kind in found.items()]


def _tokens(source: str) -> Iterator[_Token]:
    """The tokens in their order; comments, raw blocks and what is never closed are left out."""
    unclosed_quotes: set[str] = set()
    at = 0
    while (opening := _OPENING.search(source, at)) is not None:
        start = opening.start()
        if opening[0] == "{#":
            end_of_comment = source.find("#}", opening.end())
            if end_of_comment < 0:
                return
            at = end_of_comment + 2
        elif raw := _RAW.match(source, start):
            end_of_raw = _END_OF_RAW.search(source, raw.end())
            if end_of_raw is None:
                return
            at = end_of_raw.end()
        else:
            is_statement = opening[0] == "{%"
            end, at = _end(source, opening.end(), "%}" if is_statement else "}}", unclosed_quotes)
            if end is not None:
                yield _Token(is_statement, _without_marks(source[opening.end() : end]))


def _end(source: str, at: int, closing: str, unclosed_quotes: set[str]) -> tuple[int | None, int]:
    """Where the token's text ends (None: it is not closed), and where to go on: `}}` ends no bracket and no string."""
    depth = 0
    while (found := _STRUCTURE.search(source, at)) is not None:
        text, start = found[0], found.start()
        at = found.end()
        if len(text) == 2 and text[0] == "{":
            return None, start
        if text in _STRING:
            at = _after_string(source, start, unclosed_quotes)
        elif depth == 0 and source.startswith(closing, start):
            return start, start + 2
        elif text in _BRACKETS:
            depth += 1
        elif text in _CLOSING:
            depth = max(depth - 1, 0)
    return None, len(source)


def _after_string(source: str, start: int, unclosed_quotes: set[str]) -> int:
    """Where to go on after the quote at `start`: behind its string.

    A quote that nothing closes is an ordinary character, and so are all later ones of its kind: they are remembered, so
    that the end of none is searched for twice.
    """
    quote = source[start]
    string = None if quote in unclosed_quotes else _STRING[quote].match(source, start)
    if string is None:
        unclosed_quotes.add(quote)
        return start + 1
    return string.end()


def _without_marks(text: str) -> str:
    """Without the marks that trim white space around a token, and the spaces within it."""
    if text[:1] in ("-", "+"):
        text = text[1:]
    if text[-1:] in ("-", "+"):
        text = text[:-1]
    return text.strip()


def _words(text: str) -> Iterator[_Word]:
    unclosed_quotes: set[str] = set()
    depth = at = 0
    while (found := _WORD.search(text, at)) is not None:
        word, at = found[0], found.end()
        if word in _STRING:
            at = _after_string(text, found.start(), unclosed_quotes)
            continue
        if word in _CLOSING:
            depth = max(depth - 1, 0)
        yield _Word(word, found.start(), depth)
        if word in _BRACKETS:
            depth += 1


def _keyword(text: str) -> str:
    match = _LEADING_NAME.match(text)
    return "" if match is None else match[0]


def _locals(tokens: Iterable[_Token]) -> frozenset[str]:
    """Names that these tokens bind."""
    bound: set[str] = set()
    for token in tokens:
        if not token.is_statement:
            continue
        keyword = _keyword(token.text)
        if keyword in _BINDERS:
            words = list(_words(token.text[len(keyword) :]))
            bound.update(name for name in _BINDERS[keyword](words) if not name[0].isdigit())
            bound.update({"for": _LOOP_LOCALS, "macro": _MACRO_LOCALS}.get(keyword, ()))
    return frozenset(bound)


def _names(words: Iterable[_Word]) -> Iterator[str]:
    """The names among words, but for attributes (`ns.x` binds neither `x` nor anything new)."""
    before = ""
    for word in words:
        if before != "." and word.text.isidentifier():
            yield word.text
        before = word.text


def _up_to(words: Iterable[_Word], *ends: str) -> Iterator[_Word]:
    for word in words:
        if word.depth == 0 and word.text in ends:
            return
        yield word


def _bound_by_for(words: list[_Word]) -> Iterator[str]:
    """`for k, v in ...`: its targets."""
    return _names(_up_to(words, "in"))


def _bound_by_set(words: list[_Word]) -> Iterator[str]:
    """`set a, b = ...`, or the block form with its filters, `set a | upper`."""
    return _names(_up_to(words, "=", "|"))


def _bound_by_with(words: list[_Word]) -> Iterator[str]:
    """`with a = x, b = f(c=y)`: a and b."""
    for piece in _pieces(words, depth=0):
        yield from _names(_up_to(piece, "="))


def _bound_by_macro(words: list[_Word]) -> Iterator[str]:
    """`macro name(a, b=1)`: the name and its parameters."""
    yield from _names(words[:1])
    yield from _parameters(words[1:])


def _bound_by_call(words: list[_Word]) -> Iterator[str]:
    """`call(user) list_users()`: the parameters handed to its block; `call dialog()` hands none."""
    if words and words[0].text == "(":
        yield from _parameters(words)


def _parameters(words: list[_Word]) -> Iterator[str]:
    """The names that the first pair of brackets lists."""
    listed = []
    for word in words[1:]:
        if word.text == ")" and word.depth == 0:
            break
        listed.append(word)
    for piece in _pieces(listed, depth=1):
        yield from _names(piece[:1])


def _pieces(words: Iterable[_Word], *, depth: int) -> Iterator[list[_Word]]:
    """Cut at the commas of this depth."""
    piece: list[_Word] = []
    for word in words:
        if word.text == "," and word.depth == depth:
            yield piece
            piece = []
        else:
            piece.append(word)
    yield piece


_BINDERS = {
    "for": _bound_by_for,
    "set": _bound_by_set,
    "with": _bound_by_with,
    "macro": _bound_by_macro,
    "call": _bound_by_call,
}


def _variable(token: _Token, local: frozenset[str], *, may_start_with_digit: bool) -> TemplateVariable | None:
    """What a token asks for."""
    if not token.is_statement:
        return _asked(token.text, VariableKind.VARIABLE, local, may_start_with_digit=may_start_with_digit)
    keyword = _keyword(token.text)
    rest = token.text[len(keyword) :].strip()
    if keyword == "for":
        iterable = _iterable(rest)
        return _asked(iterable, VariableKind.COLLECTION, local, may_start_with_digit=may_start_with_digit)
    if keyword in ("if", "elif"):
        asked = _asked(rest, VariableKind.VARIABLE, local, may_start_with_digit=may_start_with_digit)
        return asked if asked is not None and asked.kind is VariableKind.VARIABLE else None
    return None


def _asked(
    text: str, kind_of_name: VariableKind, local: frozenset[str], *, may_start_with_digit: bool
) -> TemplateVariable | None:
    """A name is of the kind given, anything else an expression; what starts with a local is neither."""
    if not text or _keyword(text) in local:
        return None
    is_name = _is_name(text, may_start_with_digit=may_start_with_digit)
    return TemplateVariable(text, kind_of_name if is_name else VariableKind.EXPRESSION)


def _is_name(text: str, *, may_start_with_digit: bool) -> bool:
    """Whether the text is segments of letters, digits and underscores, joined by dots."""
    first, *others = text.split(".")
    if first in _CONSTANTS:
        return False
    starts_well = ("_" + first).isidentifier() and bool(first) if may_start_with_digit else first.isidentifier()
    return starts_well and all(other and ("_" + other).isidentifier() for other in others)


def _iterable(text: str) -> str:
    """Of `x in E if ... recursive`: E."""
    words = [word for word in _words(text) if word.depth == 0]
    start = next((word.start + 2 for word in words if word.text == "in"), None)
    if start is None:
        return ""
    end = next((word.start for word in words if word.start > start and word.text in ("if", "recursive")), len(text))
    return text[start:end].strip()
