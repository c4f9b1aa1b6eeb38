"""What an author of text messages works with: templates added, listed, previewed with their segments. Sends nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from messaging.db.active import with_disabled
from messaging.db.own_rows import created
from messaging.errors import TemplateRejected
from messaging.sms import segments
from messaging.sms.acceptance import MAX_CONTENT_CHARS
from messaging.sms.models import Encoding, SmsTemplate
from messaging.sms.template_checks import DEFAULTS, FIELDS, check_template
from messaging.templates import finding
from messaging.templates.given import as_kept
from messaging.templates.render import Renderer, Source
from messaging.templates.variables import TemplateVariable, extract_variables

#: Says in errors what was asked for.
WHAT = "SMS template"


@dataclass(frozen=True, slots=True)
class SmsTemplateLine:
    """A template as lists show it."""

    id: int
    tenant_id: int
    code: str
    name: str
    description: str | None
    strict: bool
    to_gsm: bool
    max_segments: int | None
    active: bool
    updated_at: datetime


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


def add_template(session: Session, fields: Mapping[str, Any]) -> int:
    """Add a template of this tenant; answers its id.

    Raises:
        TemplateRejected: A field cannot be saved, or the tenant has a template of this code; the transaction is usable.
        TypeError: There is no such field.
    """
    unknown = sorted(set(fields) - set(FIELDS))
    if unknown:
        raise TypeError(f"an SMS template has no field {unknown[0]!r}; it has {', '.join(FIELDS)}")
    whole = dict.fromkeys(FIELDS) | dict(DEFAULTS) | dict(fields)
    check_template(whole)
    row = SmsTemplate(**whole, **created())
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError as exc:
        raise TemplateRejected("code", whole["code"], "this tenant has a template of this code") from exc
    return row.id


def list_templates(session: Session, *, include_disabled: bool = False) -> list[SmsTemplateLine]:
    """This tenant's templates by code; disabled ones only when asked for."""
    columns = [getattr(SmsTemplate, name) for name in SmsTemplateLine.__dataclass_fields__]
    statement = select(*columns).order_by(SmsTemplate.code, SmsTemplate.tenant_id)
    rows = session.execute(with_disabled(statement) if include_disabled else statement)
    return [SmsTemplateLine(**row._mapping) for row in rows]


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
