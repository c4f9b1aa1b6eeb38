"""Which parts of a message are its bodies, and the text that rules read (`receive.md` 8)."""

from collections.abc import Iterator
from dataclasses import dataclass

from messaging.receive.html_text import text_of_html
from messaging.receive.parsed import Part
from messaging.requests import BodyMode

#: Characters of text that rules look at.
MAX_RULE_TEXT_CHARS = 65_536


@dataclass(frozen=True, slots=True)
class Bodies:
    """What a reader is shown."""

    text: str | None
    html: str | None
    mode: BodyMode | None
    #: See `ParsedMail.rule_text`.
    rule_text: str


def read_bodies(root: Part) -> Bodies:
    """The first plain and the first html text that are not blank, wherever each stands.

    Text derived from html stands for a plain one where there is none.
    """
    plain: str | None = None
    html: str | None = None
    derived: str | None = None
    for_rules: list[str] = []
    wanted = MAX_RULE_TEXT_CHARS
    for part, has_plain_twin in _candidates(root):
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


def _candidates(part: Part) -> Iterator[tuple[Part, bool]]:
    """The parts that may be bodies, depth first, and whether each is html beside a plain text that says the same."""
    plain_within: dict[int, bool] = {}
    for parent in part.walk():
        if parent.content_type == "multipart/alternative":
            has_plain = any(
                p.content_type == "text/plain" and is_body_candidate(p) and p.content.strip() for p in parent.walk()
            )
            plain_within |= {id(one): has_plain for one in parent.walk()}
    for one in part.walk():
        if is_body_candidate(one):
            yield one, one.content_type == "text/html" and plain_within.get(id(one), False)


def is_body_candidate(part: Part) -> bool:
    """Whether a part may be a body: text that is neither an attachment nor a named file, unless it is all there is."""
    if part.content_type not in ("text/plain", "text/html"):
        return False
    if part.disposition is None:
        return part.file_name is None or part.depth == 0
    return part.disposition == "inline" and part.file_name is None
