"""Plain text made from html (`send.md` section 4.4).

The html is hostile until proven otherwise. lxml parses it and inscriptis lays it out; before that everything that
costs more than linear time there is taken out: inline tags, tables (it pads their columns), styles, deep nesting.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from inscriptis.html_engine import Inscriptis
from inscriptis.html_properties import Display, WhiteSpace
from inscriptis.model.attribute import Attribute
from inscriptis.model.config import ParserConfig
from inscriptis.model.html_element import HtmlElement
from inscriptis.model.tag import CustomHtmlTagHandlerMapping
from lxml import etree, html  # type: ignore[import-untyped]

#: Blocks within blocks that are laid out; deeper ones become part of the line they are in. Real mails reach about 60.
MAX_BLOCK_DEPTH = 100
#: Pieces of a link's text that are compared with its target.
MAX_LINK_PIECES = 50

_DROPPED = ("script", "style", "head", "title", "template", "noscript")
#: Blocks with a blank line around them.
_PARAGRAPHS = ("p", "h1", "h2", "h3", "h4", "h5", "h6", "figure")
#: Blocks that start on a new line.
_LINES = (
    *("div", "ul", "ol", "table", "tr", "blockquote", "section", "article", "header", "footer", "hr"),
    *("address", "aside", "caption", "center", "dd", "details", "dl", "dt", "fieldset", "figcaption", "form"),
    *("hgroup", "legend", "main", "nav", "summary"),
)
_PREFORMATTED = ("pre", "xmp", "listing", "plaintext")
_BLOCKS = frozenset((*_PARAGRAPHS, *_LINES, *_PREFORMATTED, "li"))
_KEPT = _BLOCKS | {"html", "body", "br"}
_LINK = re.compile(r"(?:https?|mailto):\S", re.IGNORECASE)
_END_OF_DOCUMENT = re.compile(r"</(?:body|html)\s*>", re.IGNORECASE)
#: Spaces within a line; a control character is not text.
_SPACES = re.compile("[ \t\x00-\x08\x0b-\x1f\x7f\u00a0]+")
#: What html can hold (`&#1;`) and lxml will not have written into a tree.
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_BLANK_LINES = re.compile(r"\n{3,}")


def derive_text(body_html: str) -> str | None:
    """The html as plain text with LF line ends; None when nothing is left of it (blank, or images alone).

    Takes time and memory in proportion to the html.
    """
    tree = _parse(body_html)
    if tree is None:
        return None
    etree.strip_elements(tree, *_DROPPED, with_tail=False)
    for element in tree.iter("a"):
        _add_target(element)
    for cell in tree.iter("td", "th"):
        _append(cell, " ")
    _strip_inline(tree)
    _flatten(tree)
    for element in tree.iter():
        # inscriptis decodes entities once more: what was `&amp;lt;` would become `<`.
        if element.text and "&" in element.text:
            element.text = _writable(element.text.replace("&", "&amp;"))
        if element.tail and "&" in element.tail:
            element.tail = _writable(element.tail.replace("&", "&amp;"))
    text = Inscriptis(tree, _layout()).get_text()
    lines = (_SPACES.sub(" ", line).strip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip() or None


def _parse(body_html: str) -> html.HtmlElement | None:
    if not body_html.strip():
        return None
    # What a mailing tool appends after `</html>` is shown by browsers, and libxml2 drops it.
    body_html = _END_OF_DOCUMENT.sub("<div></div>", body_html)
    # Bytes in a stated encoding: what the html says about its own is not asked. `huge_tree` allows 2,048 levels
    # instead of 256, beyond which the parser drops the rest.
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        return html.document_fromstring(body_html.encode("utf-8", "replace"), parser=parser)
    except etree.ParserError:  # "Document is empty"
        return None


def _writable(text: str) -> str:
    return _UNWRITABLE.sub(" ", text)


def _append(element: html.HtmlElement, text: str) -> None:
    """Add text at the end of an element."""
    if len(element):
        element[-1].tail = _writable((element[-1].tail or "") + text)
    else:
        element.text = _writable((element.text or "") + text)


def _add_target(link: html.HtmlElement) -> None:
    """Put a link's target beside its text, unless they are the same."""
    target = "".join((link.get("href") or "").strip().splitlines()).replace("\t", "").replace(" ", "%20")
    if not _LINK.match(target):
        return
    shown = _start_of_text(link, len(target) + 1)
    same = {target, target.rstrip("/"), target.partition(":")[2] if target.lower().startswith("mailto:") else target}
    if shown not in same:
        _append(link, f" ({target})" if shown else target)


def _start_of_text(element: html.HtmlElement, max_chars: int) -> str:
    """An element's text with its spaces collapsed, at least as far as `max_chars`."""
    pieces: list[str] = []
    length = 0
    for piece in islice(_texts(element), MAX_LINK_PIECES):
        pieces.append(piece[: 2 * max_chars])
        length += len(piece.strip())
        if length > max_chars:
            break
    return " ".join("".join(pieces).split())


def _texts(element: html.HtmlElement) -> Iterator[str]:
    return (str(text) for text in element.itertext())


def _strip_inline(tree: html.HtmlElement) -> None:
    """Leave only what makes lines: then each line is one text, however many tags its words were in."""
    tags = {element.tag for element in tree.iter() if isinstance(element.tag, str)}
    etree.strip_tags(tree, *(tags - _KEPT))


def _flatten(tree: html.HtmlElement) -> None:
    """Bound the nesting, which inscriptis follows by recursion."""
    depth = 0
    deep: list[Any] = []
    for event, element in etree.iterwalk(tree, events=("start", "end")):
        if event == "end":
            depth -= 1
            continue
        depth += 1
        if depth == MAX_BLOCK_DEPTH:
            deep.append(element)
        elif depth > MAX_BLOCK_DEPTH:
            # What were two lines must not become one word.
            element.text = _writable(" " + (element.text or ""))
            element.tail = _writable(" " + (element.tail or ""))
    for element in deep:
        etree.strip_tags(element, "*")


class _NoAttributes(Attribute):  # type: ignore[misc]
    """No attribute has an effect: a style could ask for a million empty lines."""

    def apply_attributes(self, _attributes: Any, html_element: HtmlElement) -> HtmlElement:
        return html_element


def _dash(state: Any, _attributes: Any) -> None:
    state.tags[-1].list_bullet = "- "


_CSS = {
    **{tag: HtmlElement(display=Display.block, margin_before=1, margin_after=1) for tag in _PARAGRAPHS},
    **{tag: HtmlElement(display=Display.block) for tag in (*_LINES, "li")},
    **{tag: HtmlElement(display=Display.block, whitespace=WhiteSpace.pre) for tag in _PREFORMATTED},
}
_NO_HANDLER = dict.fromkeys(("table", "tr", "ul", "ol"))
_HANDLERS = CustomHtmlTagHandlerMapping(start_tag_mapping={**_NO_HANDLER, "li": _dash}, end_tag_mapping=_NO_HANDLER)


def _layout() -> ParserConfig:
    # One for each text: inscriptis ties the canvas to the "body" element of its configuration, so that two threads
    # with one configuration would write into each other's mail.
    config = ParserConfig(css={**_CSS, "body": HtmlElement()}, custom_html_tag_handler_mapping=_HANDLERS)
    config.attribute_handler = _NoAttributes()
    return config
