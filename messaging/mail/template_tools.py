"""What a template's author works with: a preview, the values it wants, and a switch of its body mode. Sends nothing."""

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from messaging.mail.models import MailTemplate
from messaging.mail.template_admin import WHAT
from messaging.mail.templates import SOURCES, inlined, source_of
from messaging.requests import BodyMode
from messaging.templates import finding
from messaging.templates.errors import RenderError
from messaging.templates.given import as_kept
from messaging.templates.render import Renderer
from messaging.templates.variables import TemplateVariable, extract_variables

_LINE_END = re.compile(r"\r\n?|\n")
_BLOCK_END = re.compile(r"(?>\r\n?|\n)(?:[ \t]*(?>\r\n?|\n))+")
#: What Jinja2 reads; it is neither text nor html. None reaches beyond the next opening, which keeps this linear.
_JINJA = re.compile(r"\{\{(?:(?!\{\{|\}\}).)*\}\}|\{%(?:(?!\{%|%\}).)*%\}|\{#(?:(?!\{#|#\}).)*#\}", re.DOTALL)
#: Stands for one of these while the text around it changes; html and its parsers leave such characters alone.
_PLACEHOLDER = re.compile("\ue000([0-9]+)\ue001")


@dataclass(frozen=True, slots=True)
class TemplatePreview:
    """A template rendered; a column that is null in the template is None."""

    rendered_subject: str | None
    rendered_body_html: str | None
    rendered_body_text: str | None
    #: Names that it asked for and did not get.
    missing_variables: list[str]


def get_template(session: Session, template_id: int | None = None, code: str | None = None) -> MailTemplate:
    """The template with this id, which wins, or with this code in the caller's own tier; active or not.

    Raises: as `messaging.templates.finding.get_template`.
    """
    return finding.get_template(session, MailTemplate, WHAT, template_id, code)


def preview(row: MailTemplate, renderer: Renderer, variables: Mapping[str, Any] | None) -> TemplatePreview:
    """All columns of a template rendered, as a send would; of a strict one too, whatever is missing.

    Raises:
        MessageRejected: The variables cannot be kept as JSON.
        RenderError: The template fails; names column, line and variable.
    """
    given = as_kept(variables, WHAT)
    columns = {column: getattr(row, column) for column in SOURCES}
    rendered = renderer.render(
        {name: source_of(name, text) for name, text in columns.items() if text is not None}, given
    )
    body_html = rendered.texts.get("body_html")
    if row.inline_css and body_html is not None:
        try:
            body_html = inlined(body_html)
        except ValueError as exc:
            raise RenderError("body_html", None, None, str(exc)) from exc
    return TemplatePreview(
        rendered.texts.get("subject"), body_html, rendered.texts.get("body_text"), list(rendered.missing)
    )


def variables_of(row: MailTemplate) -> list[TemplateVariable]:
    """The values a form for this template asks for."""
    return extract_variables(row.subject, row.body_html, row.body_text)


def switch_body_mode(
    new_mode: BodyMode | str | None, body_html: str | None, body_text: str | None
) -> dict[str, str | None] | None:
    """The bodies to change in a form when a template's mode does; None when nothing changes or the mode is unknown.

    What the new mode needs and is empty is drafted from the other body, what it does not use is cleared. A body that
    has content is never overwritten. Nothing is saved.
    """
    has_html, has_text = bool((body_html or "").strip()), bool((body_text or "").strip())
    changes: dict[str, str | None] = {}
    match new_mode:
        case BodyMode.PLAIN:
            if has_html and not has_text:
                changes |= _drafted_text(body_html or "")
            if has_html:
                changes["body_html"] = None
        case BodyMode.HTML | BodyMode.HTML_WITH_DERIVED_PLAIN:
            if has_text and not has_html:
                changes["body_html"] = _around_jinja(body_text or "", _as_html)
            if has_text:
                changes["body_text"] = None
        case BodyMode.HTML_WITH_AUTHORED_PLAIN:
            if has_html and not has_text:
                changes |= _drafted_text(body_html or "")
            elif has_text and not has_html:
                changes["body_html"] = _around_jinja(body_text or "", _as_html)
    return changes or None


def _drafted_text(body_html: str) -> dict[str, str | None]:
    """The change that drafts the plain text; none when nothing is left of the html."""
    # Loads lxml, which most processes never need.
    from messaging.mail.derived_text import derive_text

    draft = _around_jinja(body_html, derive_text)
    return {} if draft is None else {"body_text": draft}


def _as_html(text: str) -> str:
    """Plain text as html: a paragraph for each block, a break for each line end within one."""
    blocks = (block.strip() for block in _BLOCK_END.split(text))
    escaped = (html.escape(block, quote=False) for block in blocks if block)
    return "".join(f"<p>{_LINE_END.sub('<br>', block)}</p>" for block in escaped)


def _around_jinja(text: str, convert: Callable[[str], str | None]) -> str | None:
    """The text converted, with what Jinja2 reads in it left as it is: `{% if n > 1 %}` is not html."""
    kept: list[str] = []

    def hide(match: re.Match[str]) -> str:
        kept.append(match[0])
        return f"\ue000{len(kept) - 1}\ue001"

    converted = convert(_JINJA.sub(hide, _PLACEHOLDER.sub("", text)))
    if converted is None:
        return None
    return _PLACEHOLDER.sub(lambda match: kept[int(match[1])], converted)
