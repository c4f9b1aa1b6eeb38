"""Style sheets written into the elements of a rendered mail, for mail programs that ignore `<style>`.

Nothing is fetched and no file is read. The `<style>` elements stay as they are: media queries, `:hover` and fonts
cannot be inlined. What the parser would lose of a mail is put back: the document type and Outlook's conditions.
"""

import re

import css_inline

from messaging.mail.nesting import nesting_bound

#: Levels of elements: css-inline follows them by recursion, and from 8,000 on (8 MB of stack) a crash ends the process.
#: A parser may double them. Real mails reach about 60.
MAX_NESTING = 150
#: Elements times characters of style sheets. At the limit the worst selectors take 3 s and the longest values 200 MB;
#: a mail of 2,000 elements and 20,000 characters of styles is at 40 million and takes a twentieth of a second.
MAX_COST = 100_000_000
#: Steps of merging declarations, as if every rule met every element; 2 ns each, 8 ns with styles of the elements' own.
MAX_MERGES = 300_000_000

_ELEMENT = re.compile("<[a-zA-Z]")
_STYLE = re.compile("<style", re.IGNORECASE)
_END_OF_STYLE = re.compile("</style", re.IGNORECASE)
#: What may stand before a property's name.
_BEFORE_NAME = re.compile(r"[\s;{}/]")
#: Characters of a name that tell it from others.
_NAME_CHARS = 40
_DOCTYPE = re.compile(r"\s*(<!doctype[^>]*>)", re.IGNORECASE)
_SHORT_DOCTYPE = "<!DOCTYPE html>"
#: Outlook's conditions around html that others show; the parser takes them for comments.
_CONDITION = re.compile(r"<!(\[if [^\]>]*\]|\[endif\])>", re.IGNORECASE)

_INLINER = css_inline.CSSInliner(keep_style_tags=True, keep_link_tags=True, load_remote_stylesheets=False)


class CssError(ValueError):
    """The html cannot be inlined. Says nothing of its content."""


def inline_css(body_html: str) -> str:
    """The html with its style sheets in the elements; the same html gives the same result.

    Raises: CssError, where it nests too deeply or is too much to inline.
    """
    sheets = _style_sheets(body_html)
    if not sheets:
        return body_html
    _check_cost(body_html, sheets)
    if nesting_bound(body_html, limit=MAX_NESTING) > MAX_NESTING:
        raise CssError(f"its elements nest more than {MAX_NESTING} levels deep, too deep to inline CSS")
    try:
        inlined = _INLINER.inline(body_html)
    except css_inline.InlineError as exc:
        raise CssError("its CSS cannot be inlined") from exc
    return _with_conditions(body_html, _with_doctype(body_html, inlined))


def _style_sheets(body_html: str) -> list[str]:
    """The contents of its style elements, with their tags."""
    sheets = []
    at = 0
    while (start := _STYLE.search(body_html, at)) is not None:
        end = _END_OF_STYLE.search(body_html, start.end())
        at = len(body_html) if end is None else end.end()
        sheets.append(body_html[start.start() : at])
    return sheets


def _check_cost(body_html: str, sheets: list[str]) -> None:
    elements = len(_ELEMENT.findall(body_html))
    properties = [
        _BEFORE_NAME.split(before.rstrip()[-_NAME_CHARS:])[-1] for sheet in sheets for before in sheet.split(":")[:-1]
    ]
    cost = elements * sum(map(len, sheets))
    merges = (elements * len(set(properties)) + body_html.count(":")) * len(properties)
    if cost > MAX_COST or merges > MAX_MERGES:
        raise CssError(f"its {elements} elements and style sheets are too much to inline CSS")


def _with_doctype(source: str, inlined: str) -> str:
    given = _DOCTYPE.match(source)
    if given is None or not inlined.startswith(_SHORT_DOCTYPE):
        return inlined
    return given[1] + inlined[len(_SHORT_DOCTYPE) :]


def _with_conditions(source: str, inlined: str) -> str:
    for condition in dict.fromkeys(_CONDITION.findall(source)):
        comment = f"<!--{condition}-->"
        if comment not in source:
            inlined = inlined.replace(comment, f"<!{condition}>")
    return inlined
