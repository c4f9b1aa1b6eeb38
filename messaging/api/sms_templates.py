"""Templates of text messages: added, listed, previewed, and kept as files."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from messaging.api.calls import in_session
from messaging.api.process import environment
from messaging.sms import template_tools
from messaging.sms.acceptance import MAX_CONTENT_CHARS
from messaging.sms.template_files import SMS_TEMPLATES
from messaging.sms.template_tools import SmsTemplateLine, SmsTemplatePreview
from messaging.templates.folders import TemplateChange, export_templates, import_templates
from messaging.templates.render import Renderer
from messaging.templates.variables import TemplateVariable


def add_sms_template(*, session: Session | None = None, **fields: Any) -> int:
    """Add a template of text messages; answers its id. Its fields: code, name, description, content and switches.

    Raises:
        TemplateRejected: A field cannot be saved, or this tenant has a template of this code. Nothing was written.
    """
    environment()
    with in_session(session) as s:
        return template_tools.add_template(s, fields)


def list_sms_templates(*, with_disabled: bool = False, session: Session | None = None) -> list[SmsTemplateLine]:
    """This tenant's templates of text messages by code."""
    environment()
    with in_session(session) as s:
        return template_tools.list_templates(s, include_disabled=with_disabled)


def preview_sms_template(
    id: int | None = None,  # noqa: A002 - the field's name
    code: str | None = None,
    variables: Mapping[str, Any] | None = None,
    *,
    session: Session | None = None,
) -> SmsTemplatePreview:
    """Render a template of this tenant, disabled or not, as a send would, and count its segments; charges nothing.

    By `id`, which wins, or `code`.

    Raises:
        MessageRejected: Neither is given, or the variables are no JSON.
        RecordNotFound: This tenant has no such template.
        RenderError: The template fails; names line and variable.
    """
    environment()
    renderer = Renderer(max_chars=MAX_CONTENT_CHARS, ticker=time.monotonic)
    with in_session(session) as s:
        return template_tools.preview(template_tools.get_template(s, id, code), renderer, variables)


def list_sms_template_variables(
    id: int | None = None,  # noqa: A002 - the field's name
    code: str | None = None,
    *,
    session: Session | None = None,
) -> list[TemplateVariable]:
    """The values that an input form for a template of this tenant asks for; by `id`, which wins, or `code`.

    Raises: MessageRejected, RecordNotFound, as `preview_sms_template`.
    """
    environment()
    with in_session(session) as s:
        return template_tools.variables_of(template_tools.get_template(s, id, code))


def import_sms_templates(
    folder: Path, *, dry_run: bool = False, session: Session | None = None
) -> list[TemplateChange]:
    """Create or update this tenant's templates of text messages by their codes from a folder; says what it did.

    Raises:
        FileRejected: Names file, field and value; nothing was written.
    """
    environment()
    with in_session(session) as s:
        return import_templates(s, SMS_TEMPLATES, folder, dry_run=dry_run)


def export_sms_templates(
    folder: Path, codes: Sequence[str] | None = None, *, session: Session | None = None
) -> list[Path]:
    """Write this tenant's templates as folders that `import_sms_templates` reads; None is all of them.

    Raises:
        FileRejected: A code has no template, or a file cannot be written.
    """
    environment()
    with in_session(session) as s:
        return export_templates(s, SMS_TEMPLATES, folder, codes)
