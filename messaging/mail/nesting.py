"""How deeply html nests, from above: what follows the nesting by recursion ends the process where it is too deep.

Reads tags as the HTML standard's tokenizer does (section 13.2.5). Where its tree is hard to foretell (misnested
formatting, foreign elements) the answer is too large rather than too small.
"""

import re

_MARKUP = re.compile(r"<(?:!--|/?[a-zA-Z]|[!?/])")
_END_OF_COMMENT = re.compile(r"--!?>")
_ATTRIBUTE = r"""[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])[^\s>]*+))?+"""
_TAG = re.compile(rf"</?([a-zA-Z][^\s/>]*+)(?:[\s/]++|{_ATTRIBUTE})*+>")
_START_TAG = re.compile("<[a-zA-Z]")
#: What changes how everything after it is read: no end tag is believed any more.
_CHANGES_RULES = re.compile(
    r"<(?:script|plaintext|svg|math|template|frameset|select|noscript|!\[cdata\[)", re.IGNORECASE
)

#: Elements that hold nothing.
_VOID = frozenset(
    {
        *("area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "input"),
        *("keygen", "link", "meta", "param", "source", "track", "wbr"),
    }
)
#: Elements whose content is text up to their end tag.
_TEXT_ONLY = frozenset({"iframe", "noembed", "noframes", "style", "textarea", "title", "xmp"})
#: Blocks, before which an open paragraph ends. Not so a table, in html without a document type.
_BLOCKS = frozenset(
    {
        *("address", "article", "aside", "blockquote", "center", "details", "dialog", "dir", "div", "dl", "fieldset"),
        *("figcaption", "figure", "footer", "header", "hgroup", "main", "menu", "nav", "ol", "p", "section"),
        *("summary", "ul"),
    }
)
#: Element -> those that it ends when it begins right within one.
_ENDED_BY_START = {
    **dict.fromkeys(_BLOCKS, frozenset({"p"})),
    "li": frozenset({"li"}),
    **dict.fromkeys(("dd", "dt"), frozenset({"dd", "dt"})),
    **dict.fromkeys(("td", "th"), frozenset({"td", "th"})),
    "tr": frozenset({"tr"}),
}


def nesting_bound(html: str, *, limit: int) -> int:
    """At least the levels of the html's elements as written; above `limit` it stops.

    A parser adds at most as many again (a table's body and row), and two around them. Takes time in proportion to the
    html.
    """
    if _CHANGES_RULES.search(html):
        return len(_START_TAG.findall(html))
    opened: list[str] = []
    deepest = lost = at = 0
    while deepest <= limit and (markup := _MARKUP.search(html, at)) is not None:
        tag = _TAG.match(html, markup.start())
        if tag is None:
            at = _after(html, markup)
            continue
        name, at = tag[1].lower(), tag.end()
        if tag[0][1] == "/":
            # Only what was opened last surely ends, and a form not even then; else too much is counted.
            if opened and opened[-1] == name != "form":
                opened.pop()
        elif name not in _VOID:
            if opened and opened[-1] in _ENDED_BY_START.get(name, ()):
                opened.pop()
            opened.append(name)
            if name in _TEXT_ONLY:
                # Where it is no text after all, what looks like a tag in there counts, once and for all.
                end = re.compile(rf"</{name}[\s/>]", re.IGNORECASE).search(html, at)
                after = len(html) if end is None else end.start()
                lost += len(_START_TAG.findall(html, at, after))
                at = after
            deepest = max(deepest, len(opened) + lost)
    return deepest


def _after(html: str, markup: re.Match[str]) -> int:
    """Where to go on after what is no tag; at the end of the html, when it never ends."""
    if markup[0] == "<!--":
        end = _END_OF_COMMENT.search(html, markup.start() + 2)
        while end is not None and end[0] == "--!>" and end.start() < markup.end():
            end = _END_OF_COMMENT.search(html, end.start() + 1)  # `<!--!>` opens a comment and does not end it
        return len(html) if end is None else end.end()
    if markup[0][-1] in "!?/":
        return html.find(">", markup.end()) + 1 or len(html)
    return len(html)
