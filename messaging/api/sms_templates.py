"""Templates of text messages: kept by authors, previewed, and kept as files."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from sqlalchemy.orm import Session

from messaging.api.calls import in_session
from messaging.api.process import environment
from messaging.config_lists import Lines, ListFields
from messaging.sms import template_admin, template_tools
from messaging.sms.acceptance import MAX_CONTENT_CHARS
from messaging.sms.template_admin import SmsTemplateDetail, SmsTemplateFields, SmsTemplateLine, SmsTemplateSummary
from messaging.sms.template_files import SMS_TEMPLATES
from messaging.sms.template_tools import SmsTemplatePreview
from messaging.templates.folders import TemplateChange, export_templates, import_templates
from messaging.templates.render import Renderer
from messaging.templates.variables import TemplateVariable


def add_sms_template(*, session: Session | None = None, **fields: Unpack[SmsTemplateFields]) -> int:
    """Add a template of text messages of this tenant; answers its id. `code` and `name` are required.

    Raises:
        TemplateRejected: A field cannot be saved, or this tenant has a template of this code. Nothing was written.
    """
    environment()
    with in_session(session) as s:
        return template_admin.add_template(s, **fields)


def change_sms_template(
    template_id: int, *, session: Session | None = None, **fields: Unpack[SmsTemplateFields]
) -> None:
    """Change fields of a template; messages that are prepared from a second later on are made from it.

    Raises:
        TemplateRejected: A field cannot be saved; nothing was changed.
        RecordNotFound: No such template in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        template_admin.change_template(s, template_id, **fields)


def copy_sms_template(template_id: int, *, session: Session | None = None, **fields: Unpack[SmsTemplateFields]) -> int:
    """Add a template like another one of this tenant, but for the fields given; answers its id.

    `code` is needed, bindings are not copied; unless it is said otherwise the copy is disabled.

    Raises:
        TemplateRejected: A field cannot be saved. Nothing was written.
        RecordNotFound: No such template in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        return template_admin.copy_template(s, template_id, **fields)


def delete_sms_template(template_id: int, *, session: Session | None = None) -> None:
    """Delete a template with its bindings; messages that name it and are not prepared yet fail.

    Raises:
        RecordNotFound: No such template in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        template_admin.delete_template(s, template_id)


def get_sms_template(
    id: int | None = None,  # noqa: A002 - the field's name
    code: str | None = None,
    *,
    session: Session | None = None,
) -> SmsTemplateDetail:
    """All of a template of this tenant, disabled or not; by `id`, which wins, or `code`.

    Raises: MessageRejected, RecordNotFound, as `preview_sms_template`.
    """
    environment()
    with in_session(session) as s:
        return template_admin.detail(template_tools.get_template(s, id, code))


def list_sms_templates(*, session: Session | None = None, **asked: Unpack[ListFields]) -> Lines[SmsTemplateLine]:
    """This tenant's templates of text messages by code, without their texts.

    Raises: ValueError, TypeError, naming what was asked and what is allowed.
    """
    environment()
    with in_session(session) as s:
        return template_admin.list_templates(s, **asked)


def list_sms_template_summaries(*, session: Session | None = None) -> list[SmsTemplateSummary]:
    """This tenant's enabled templates by code, as a form offers them, with the beginnings of their texts."""
    environment()
    with in_session(session) as s:
        return template_admin.summaries(s)


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
