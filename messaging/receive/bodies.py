"""Which parts of a message are its bodies, and the text that rules read (`receive.md` 8)."""

from collections.abc import Sequence
from typing import NamedTuple

from messaging.receive.html_text import text_of_html
from messaging.receive.parameters import parse_content_type
from messaging.receive.parsed import Part
from messaging.requests import BodyMode

#: Characters of text that rules look at.
MAX_RULE_TEXT_CHARS = 65_536


class Bodies(NamedTuple):
    """What a reader is shown."""

    text: str | None
    html: str | None
    mode: BodyMode | None
    #: See `ParsedMail.rule_text`.
    rule_text: str


def body_candidates(root: Part) -> list[Part]:
    """The plain and html texts that may be bodies, depth first: no attachments, and no named files.

    Where each has a name, as some programs give them all, those count that say nothing of being attached.
    """
    texts = [part for part in root.walk() if part.content_type in ("text/plain", "text/html")]
    nameless = [part for part in texts if part.file_name is None and part.disposition in (None, "inline")]
    return nameless or [part for part in texts if part.disposition is None and has_known_type(part)]


def has_known_type(part: Part) -> bool:
    """Whether its type is the one that was declared: what names no type is read as text/plain (RFC 2045, 5.2)."""
    declared = part.headers.first("Content-Type")
    return not declared or parse_content_type(declared)[0] is not None


def read_bodies(root: Part, candidates: Sequence[Part]) -> Bodies:
    """The first plain and the first html text among the candidates that are not blank, wherever each stands.

    Text derived from html stands for a plain one where there is none.
    """
    plain: str | None = None
    html: str | None = None
    derived: str | None = None
    for_rules: list[str] = []
    wanted = MAX_RULE_TEXT_CHARS
    twins = _with_plain_twin(root, candidates)
    for part in candidates:
        has_plain_twin = part.content_type == "text/html" and id(part) in twins
        is_plain = part.content_type == "text/plain"
        is_first = (plain if is_plain else html) is None
        is_for_rules = wanted > 0 and not has_plain_twin
        text = part.text() if is_first or is_for_rules else ""
        if not text or text.isspace():
            continue
        if is_plain:
            plain = text if is_first else plain
        else:
            readable = (text_of_html(text) or "") if not has_plain_twin else ""
            html, derived = (text, readable or None) if is_first else (html, derived)
            text = readable
        if is_for_rules and text:
            for_rules.append(text[:wanted])
            wanted -= len(text) + 1
    if plain is None and html is not None and derived is None:
        derived = text_of_html(html)
    return Bodies(plain if plain is not None else derived, html, _mode(plain, html), "\n".join(for_rules))


def _mode(plain: str | None, html: str | None) -> BodyMode | None:
    if html is not None:
        return BodyMode.HTML if plain is None else BodyMode.HTML_WITH_AUTHORED_PLAIN
    return None if plain is None else BodyMode.PLAIN


def _with_plain_twin(root: Part, candidates: Sequence[Part]) -> set[int]:
    """By identity, what stands in a `multipart/alternative` that also says it in plain text."""
    twins: set[int] = set()
    if len(candidates) < 2:
        return twins
    plain = {id(part) for part in candidates if part.content_type == "text/plain" and part.content.strip()}
    for parent in root.walk():
        if parent.content_type == "multipart/alternative":
            within = {id(part) for part in parent.walk()}
            twins |= within if within & plain else set()
    return twins
