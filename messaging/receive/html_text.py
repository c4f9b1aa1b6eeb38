"""Text of received html, without its markup, in linear time and little memory however hostile it is (`receive.md` 8).

Not `messaging.mail.derived_text`: that lays out a text that people get to read as the mail, at twenty times the price.
"""

import html
import io
import re

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
_DROPPED = frozenset(["script", "style", "title"])
_END_OF_DROPPED = {name: re.compile(rf"</{name}\b", re.IGNORECASE) for name in _DROPPED}
_TAG_NAME = re.compile(r"/?([A-Za-z][A-Za-z0-9]{0,20})")
#: The rest of a tag; a `>` in a quoted value does not end it.
_END_OF_TAG = re.compile(r"""[^>=]*+(?:=\s*+(?:"[^"]*+"|'[^']*+')?[^>=]*+)*+>""")
#: A number with more digits than any character has: Python would refuse to read thousands of them.
_LONG_NUMBER = re.compile(r"&#(?:[xX][0-9A-Fa-f]{9,}|[0-9]{9,});?")
_SPACES = re.compile(r"\s+")
_BREAKS = re.compile(r" ?\x00[ \x00]*")


def text_of_html(source: str) -> str | None:
    """Its text with spaces collapsed and LF between blocks; None when nothing is left of it."""
    text = html.unescape(_LONG_NUMBER.sub("\ufffd", _without_tags(source)))
    return _BREAKS.sub("\n", _SPACES.sub(" ", text)).strip() or None


def _without_tags(source: str) -> str:
    text = io.StringIO()
    position, pre_depth, is_quoting = 0, 0, True
    while (opening := source.find("<", position)) >= 0:
        _write(text, source[position:opening], is_pre=pre_depth > 0)
        position = opening + 1
        name = _TAG_NAME.match(source, position)
        if name is None:
            end = _end_of_declaration(source, position)
            if end is None:
                text.write("<")
                continue
            position = end
            continue
        end_of_tag = _END_OF_TAG.match(source, name.end()) if is_quoting else None
        if end_of_tag is None:
            # A quoted value that does not end would be searched for again at each tag.
            is_quoting = False
            end = source.find(">", name.end())
            if end < 0:
                return text.getvalue()
            position = end + 1
        else:
            position = end_of_tag.end()
        tag, is_end = name.group(1).lower(), name.group().startswith("/")
        if tag in _LINES:
            text.write(_BREAK)
            if tag == "pre":
                pre_depth = max(0, pre_depth + (-1 if is_end else 1))
        elif tag in _CELLS:
            text.write(" ")
        elif tag in _DROPPED and not is_end:
            closing = _END_OF_DROPPED[tag].search(source, position)
            if closing is None:
                return text.getvalue()
            position = closing.start()
    _write(text, source[position:], is_pre=pre_depth > 0)
    return text.getvalue()


def _write(text: io.StringIO, piece: str, *, is_pre: bool) -> None:
    text.write(piece.replace("\n", _BREAK) if is_pre else piece)


def _end_of_declaration(source: str, position: int) -> int | None:
    """Where a comment, a declaration or an instruction ends whose `<` is before `position`; None for a mere `<`."""
    if source.startswith("!--", position):
        end = source.find("-->", position + 1)
        return end + 3 if end >= 0 else len(source)
    if source[position : position + 1] in ("!", "?"):
        end = source.find(">", position)
        return end + 1 if end >= 0 else len(source)
    return None
