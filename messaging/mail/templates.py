"""What a mail's template gives it: which template that is, and subject and bodies as they will be sent.

How templates are compiled and bounded: `messaging.templates`. Reads nothing but the cache it is given.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from messaging.category import MarkerCode
from messaging.errors import PreparationError
from messaging.mail.bodies import resolve_direct
from messaging.mail.headers import clean_text
from messaging.mail.servers import tiers
from messaging.requests import BodyMode
from messaging.templates.filling import fail, fill
from messaging.templates.render import Renderer, Source

logger = logging.getLogger(__name__)

#: The record's column.
MAX_SUBJECT_CHARS = 500

#: How each column is rendered: only html has entities, only a header is one line.
SOURCES = {
    "subject": {"escape": False, "one_line": True},
    "body_html": {"escape": True, "one_line": False},
    "body_text": {"escape": False, "one_line": False},
}
#: The bodies of a template that a mode uses.
_BODIES = {
    BodyMode.HTML: ("body_html",),
    BodyMode.PLAIN: ("body_text",),
    BodyMode.HTML_WITH_DERIVED_PLAIN: ("body_html",),
    BodyMode.HTML_WITH_AUTHORED_PLAIN: ("body_html", "body_text"),
}


@dataclass(frozen=True, slots=True)
class RenderedMail:
    """What will be sent of what was requested and what the template gave."""

    #: On one line; None without one.
    subject: str | None
    body_mode: BodyMode
    body_html: str | None
    body_text: str | None
    #: Names that the template asked for and did not get, as it wrote them.
    missing: tuple[str, ...]


class Templates(Protocol):
    """Where templates are looked up; see `messaging.templates.lookup`."""

    def by_id(self, template_id: int, /) -> Mapping[str, Any] | None: ...

    def by_code(self, tenant_id: int, code: str, /) -> Mapping[str, Any] | None: ...


def find_template(record: Mapping[str, Any], cache: Templates) -> Mapping[str, Any]:
    """The template of a record: by id that very row, active or not; else the active one of its code.

    It belongs to the record's tenant, or with scope PLATFORM to the platform: no tier falls back to another.

    Raises: PreparationError, `TEMPLATE_NOT_FOUND`.
    """
    tier = tiers(record["scope"], record["tenant_id"])[0]
    template_id, code = record["template_id"], record["template_code"]
    if template_id is not None:
        row = cache.by_id(template_id)
        if row is None or row["tenant_id"] != tier:
            raise PreparationError(
                MarkerCode.TEMPLATE_NOT_FOUND, f"no mail template {template_id} for this tenant and scope"
            )
        return row
    row = cache.by_code(tier, code) if code else None
    if row is None:
        raise PreparationError(
            MarkerCode.TEMPLATE_NOT_FOUND, f"no active mail template {code!r} for this tenant and scope"
        )
    return row


def render_template(
    row: Mapping[str, Any], record: Mapping[str, Any], renderer: Renderer, *, max_body_chars: int
) -> RenderedMail:
    """Subject and bodies of an unprepared record with this template.

    A body of the request replaces the template's bodies altogether, a subject that is not blank the template's.

    Raises: PreparationError, `RENDER_FAILED`, `RENDER_EMPTY`, `BODY_TOO_LARGE`, `SUBJECT_TOO_LONG`; says where, and
        never a variable's value.
    """
    subject = clean_text(record["subject"] or "")
    has_bodies = bool(_given(record["body_html"]) or _given(record["body_text"]))
    mode = BodyMode(row["body_mode"] or BodyMode.HTML)
    columns = (*(() if subject else ("subject",)), *(() if has_bodies else _BODIES[mode]))
    texts, missing = _rendered(row, record, columns, renderer)
    if not subject:
        subject = clean_text(texts.get("subject", ""))
        if len(subject) > MAX_SUBJECT_CHARS:
            _fail(row, MarkerCode.SUBJECT_TOO_LONG, f"the subject has {len(subject)} characters; at most 500 fit")
    if has_bodies:
        declared = None if record["body_mode"] is None else BodyMode(record["body_mode"])
        mode, body_html, body_text = resolve_direct(declared, record["body_html"], record["body_text"])
    else:
        body_html, body_text = _checked_bodies(row, mode, texts, max_body_chars)
        if mode is BodyMode.HTML_WITH_AUTHORED_PLAIN and body_text is None:
            mode = BodyMode.HTML_WITH_DERIVED_PLAIN
            logger.warning(
                "the template's plain text is blank, so it is derived from the html",
                extra={"record_id": record["id"], "template_id": row["id"]},
            )
    mode, body_text = with_derived_text(mode, body_html, body_text, max_body_chars=max_body_chars)
    if not has_bodies and body_html is not None and row["inline_css"]:
        body_html = _with_inlined_css(row, body_html, max_body_chars)
    return RenderedMail(subject or None, mode, body_html, body_text, missing)


def with_derived_text(
    mode: BodyMode, body_html: str | None, body_text: str | None, *, max_body_chars: int
) -> tuple[BodyMode, str | None]:
    """Mode and plain text of a mail, the text derived where the mode says so and none is there.

    Where nothing is left to derive (images alone), the mail is html alone.

    Raises: PreparationError, `BODY_TOO_LARGE`.
    """
    if mode is not BodyMode.HTML_WITH_DERIVED_PLAIN or body_text is not None:
        return mode, body_text
    # Loads lxml, which most workers never need.
    from messaging.mail.derived_text import derive_text

    text = derive_text(body_html or "")
    if text is None:
        return BodyMode.HTML, None
    if len(text) > max_body_chars:
        raise PreparationError(
            MarkerCode.BODY_TOO_LARGE, f"derived text has {len(text)} characters; allowed: {max_body_chars}"
        )
    return mode, text


def template_name(row: Mapping[str, Any]) -> str:
    """A template as errors name it."""
    return f"mail template {row['id']} ({row['code']})"


def source_of(column: str, text: str) -> Source:
    """A column's template as the renderer takes it."""
    return Source(text, **SOURCES[column])


def inlined(body_html: str) -> str:
    """The html with its style sheets written into the elements. Raises: CssError."""
    # Loads the inliner, which most workers never need.
    from messaging.mail.css_inlining import inline_css

    return inline_css(body_html)


def _given(text: str | None) -> str | None:
    """A body, where it is not blank."""
    return text if text is not None and text.strip() else None


def _fail(row: Mapping[str, Any], marker: MarkerCode, reason: str, cause: Exception | None = None) -> NoReturn:
    fail(template_name(row), marker, reason, cause)


def _rendered(
    row: Mapping[str, Any], record: Mapping[str, Any], columns: tuple[str, ...], renderer: Renderer
) -> tuple[dict[str, str], tuple[str, ...]]:
    sources = {column: source_of(column, row[column]) for column in columns if row[column] is not None}
    rendered = fill(
        template_name(row),
        sources,
        record["template_variables"] or {},
        renderer,
        is_strict=row["strict"],
        too_long=lambda column: MarkerCode.SUBJECT_TOO_LONG if column == "subject" else MarkerCode.BODY_TOO_LARGE,
    )
    return rendered.texts, rendered.missing


def _checked_bodies(
    row: Mapping[str, Any], mode: BodyMode, texts: Mapping[str, str], max_body_chars: int
) -> tuple[str | None, str | None]:
    """The bodies that were rendered, a blank one None."""
    body_html, body_text = (_given(texts.get(column)) for column in ("body_html", "body_text"))
    needed = "body_text" if mode is BodyMode.PLAIN else "body_html"
    if (body_text if mode is BodyMode.PLAIN else body_html) is None:
        _fail(row, MarkerCode.RENDER_EMPTY, f"{needed} is blank once rendered, and mode {mode} needs it")
    for column, text in (("body_html", body_html), ("body_text", body_text)):
        if text is not None and len(text) > max_body_chars:
            _fail(row, MarkerCode.BODY_TOO_LARGE, f"{column} has {len(text)} characters; allowed: {max_body_chars}")
    return body_html, body_text


def _with_inlined_css(row: Mapping[str, Any], body_html: str, max_body_chars: int) -> str:
    # A CssError is a ValueError, and the inliner is loaded only where a template asks for it.
    try:
        result = inlined(body_html)
    except ValueError as exc:
        _fail(row, MarkerCode.RENDER_FAILED, f"body_html: {exc}", exc)
    if len(result) > max_body_chars:
        _fail(
            row,
            MarkerCode.BODY_TOO_LARGE,
            f"body_html has {len(result)} characters with its CSS inlined; allowed: {max_body_chars}",
        )
    return result
