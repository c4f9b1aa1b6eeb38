"""What an author of text messages works with: previews with their segments, the values of a form. Sends nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from messaging.sms import segments
from messaging.sms.acceptance import MAX_CONTENT_CHARS
from messaging.sms.models import Encoding, SmsTemplate
from messaging.sms.template_admin import WHAT
from messaging.templates import finding
from messaging.templates.given import as_kept
from messaging.templates.render import Renderer, Source
from messaging.templates.variables import TemplateVariable, extract_variables


@dataclass(frozen=True, slots=True)
class SmsTemplatePreview:
    """A template rendered, and what the text comes to on the air."""

    content: str
    encoding: Encoding
    #: Messages that are charged.
    segments: int
    #: Septets in GSM7, UTF-16 code units in UCS2.
    units: int
    #: Why a send would not take it: blank, too long, more segments than the template allows; None when it would.
    refused: str | None
    #: Names that it asked for and did not get.
    missing_variables: list[str]


def get_template(session: Session, template_id: int | None = None, code: str | None = None) -> SmsTemplate:
    """The template with this id, which wins, or with this code in the caller's own tier; active or not.

    Raises: as `messaging.templates.finding.get_template`.
    """
    return finding.get_template(session, SmsTemplate, WHAT, template_id, code)


def preview(row: SmsTemplate, renderer: Renderer, variables: Mapping[str, Any] | None) -> SmsTemplatePreview:
    """A template rendered, as a send would; of a strict one too, whatever is missing.

    Raises:
        MessageRejected: The variables cannot be kept as JSON.
        RenderError: The template fails; names line and variable.
    """
    source = Source(row.content or "", escape=False, one_line=False)
    rendered = renderer.render({"content": source}, as_kept(variables, WHAT))
    content = rendered.texts["content"]
    if row.to_gsm:
        content = segments.to_gsm(content)
    size = segments.count(content)
    refused = _refusal(content, size.segments, row.max_segments)
    return SmsTemplatePreview(content, size.encoding, size.segments, size.units, refused, list(rendered.missing))


def variables_of(row: SmsTemplate) -> list[TemplateVariable]:
    """The values a form for this template asks for."""
    return extract_variables(None, None, row.content)


def _refusal(content: str, count: int, cap: int | None) -> str | None:
    if not content.strip():
        return "it is blank"
    if len(content) > MAX_CONTENT_CHARS:
        return f"it has {len(content)} characters; at most {MAX_CONTENT_CHARS} fit"
    if cap is not None and count > cap:
        return f"it comes to {count} segments, and max_segments is {cap}"
    return None
