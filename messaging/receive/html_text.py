"""Text of received html, without its markup, in linear time and little memory however hostile it is (`receive.md` 8).

Not `messaging.mail.derived_text`: that lays out a text that people get to read as the mail, at ten times the price.
"""

import html
import io
import re

#: Tags after which the rest is left out: a second's work.
MAX_TAGS = 1_000_000

#: Where a line ends; NUL, which is in no html that came through `storable`.
_BREAK = "\x00"
_LINES = frozenset(
    (
        *("address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "details", "div", "dl"),
        *("dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header"),
        *("hr", "legend", "li", "main", "nav", "ol", "option", "p", "pre", "section", "summary", "table", "tr", "ul"),
    )
)
_CELLS = frozenset(["td", "th"])
_DROPPED = {name: re.compile(rf"</{name}\b", re.IGNORECASE) for name in ("script", "style", "title")}
#: A tag's name, or what begins a comment, a declaration or an instruction; any other `<` is text.
_OPENING = re.compile(r"<(?:(/?)([A-Za-z][A-Za-z0-9]{0,20})|(!--)|[!?])")
#: A quoted value, whose `>` does not end a tag, or the end of the tag.
_VALUE_OR_END = re.compile(r"""=\s*+(?:"[^"]*+"|'[^']*+')|>""")
#: More digits than any character has: Python refuses to read thousands of them.
_LONG_NUMBER = re.compile(r"&#(?:[xX][0-9A-Fa-f]{9,}|[0-9]{9,});?")
_OTHER_SPACES = str.maketrans(dict.fromkeys("\t\n\r\f\v\xa0", " "))
_SPACES = re.compile(r"  +")
_BREAKS = re.compile(r" ?\x00[ \x00]*")


def text_of_html(source: str) -> str | None:
    """Its text with spaces collapsed and LF between blocks; None when nothing is left of it."""
    text = _without_tags(source)
    if "&" in text:
        text = html.unescape(_LONG_NUMBER.sub("\ufffd", text))
    text = _SPACES.sub(" ", text.translate(_OTHER_SPACES))
    return _BREAKS.sub("\n", text).strip() or None


def _without_tags(source: str) -> str:
    """The text between the tags, with a mark where a line ends."""
    text = io.StringIO()
    position, pre_depth = 0, 0
    for _ in range(MAX_TAGS):
        opening = _OPENING.search(source, position)
        piece = source[position : opening.start() if opening else None]
        text.write(piece.replace("\n", _BREAK) if pre_depth else piece)
        if opening is None:
            break
        slash, name, comment = opening.groups()
        if name is None:
            position = _after(source, "-->" if comment else ">", opening.start() + 2)
            continue
        position = _end_of_tag(source, opening.end())
        name = name.lower()
        if name in _LINES:
            text.write(_BREAK)
            if name == "pre":
                pre_depth = max(0, pre_depth + (-1 if slash else 1))
        elif name in _CELLS:
            text.write(" ")
        elif name in _DROPPED and not slash:
            closing = _DROPPED[name].search(source, position)
            position = closing.start() if closing else len(source)
    return text.getvalue()


def _end_of_tag(source: str, position: int) -> int:
    for found in _VALUE_OR_END.finditer(source, position):
        if found.group() == ">":
            return found.end()
    return len(source)


def _after(source: str, ending: str, position: int) -> int:
    found = source.find(ending, position)
    return found + len(ending) if found >= 0 else len(source)
