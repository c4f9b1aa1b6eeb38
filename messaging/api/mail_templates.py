"""Templates of mails: kept by authors, previewed, and kept as files."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from sqlalchemy.orm import Session

from messaging.api.calls import in_session
from messaging.api.process import environment
from messaging.config_lists import Lines, ListFields
from messaging.mail import template_admin, template_tools
from messaging.mail.template_admin import MailTemplateFields, TemplateDetail, TemplateLine, TemplateSummary
from messaging.mail.template_files import MAIL_TEMPLATES
from messaging.mail.template_tools import TemplatePreview
from messaging.templates.folders import TemplateChange, export_templates, import_templates
from messaging.templates.render import Renderer
from messaging.templates.variables import TemplateVariable


def add_mail_template(*, session: Session | None = None, **fields: Unpack[MailTemplateFields]) -> int:
    """Add a mail template of this tenant; answers its id. `code` and `name` are required.

    Raises:
        TemplateRejected: A field cannot be saved, or this tenant has a template of this code. Nothing was written.
    """
    environment()
    with in_session(session) as s:
        return template_admin.add_template(s, **fields)


def change_mail_template(
    template_id: int, *, session: Session | None = None, **fields: Unpack[MailTemplateFields]
) -> None:
    """Change fields of a mail template; mails that are prepared from a second later on are made from it.

    Raises:
        TemplateRejected: A field cannot be saved; nothing was changed.
        RecordNotFound: No such template in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        template_admin.change_template(s, template_id, **fields)


def copy_mail_template(
    template_id: int, *, session: Session | None = None, **fields: Unpack[MailTemplateFields]
) -> int:
    """Add a mail template like another one of this tenant, but for the fields given; answers its id.

    `code` is needed; unless it is said otherwise the copy is disabled.

    Raises:
        TemplateRejected: A field cannot be saved. Nothing was written.
        RecordNotFound: No such template in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        return template_admin.copy_template(s, template_id, **fields)


def delete_mail_template(template_id: int, *, session: Session | None = None) -> None:
    """Delete a mail template; mails that name it and are not prepared yet fail, what is prepared goes out.

    Raises:
        RecordNotFound: No such template in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        template_admin.delete_template(s, template_id)


def get_mail_template(
    id: int | None = None,  # noqa: A002 - the field's name
    code: str | None = None,
    *,
    session: Session | None = None,
) -> TemplateDetail:
    """All of a template of this tenant, disabled or not; by `id`, which wins, or `code`.

    Raises: MessageRejected, RecordNotFound, as `preview_mail_template`.
    """
    environment()
    with in_session(session) as s:
        return template_admin.detail(template_tools.get_template(s, id, code))


def list_mail_templates(*, session: Session | None = None, **asked: Unpack[ListFields]) -> Lines[TemplateLine]:
    """This tenant's mail templates by code, without their bodies.

    Raises: ValueError, TypeError, naming what was asked and what is allowed.
    """
    environment()
    with in_session(session) as s:
        return template_admin.list_templates(s, **asked)


def list_mail_template_summaries(*, session: Session | None = None) -> list[TemplateSummary]:
    """This tenant's enabled mail templates by code, as a form offers them."""
    environment()
    with in_session(session) as s:
        return template_admin.summaries(s)


def preview_mail_template(
    id: int | None = None,  # noqa: A002 - the field's name
    code: str | None = None,
    variables: Mapping[str, Any] | None = None,
    *,
    session: Session | None = None,
) -> TemplatePreview:
    """Render a template of this tenant, disabled or not, as a send would; sends nothing, charges nothing.

    By `id`, which wins, or `code`. A test send is an ordinary `send_mail` with `template_id`.

    Raises:
        MessageRejected: Neither is given, or the variables are no JSON.
        RecordNotFound: This tenant has no such template.
        RenderError: The template fails; names column, line and variable.
    """
    settings = environment().settings
    renderer = Renderer(max_chars=settings.mail.max_body_chars, ticker=time.monotonic)
    with in_session(session) as s:
        return template_tools.preview(template_tools.get_template(s, id, code), renderer, variables)


def list_template_variables(
    id: int | None = None,  # noqa: A002 - the field's name
    code: str | None = None,
    *,
    session: Session | None = None,
) -> list[TemplateVariable]:
    """The values that an input form for a template of this tenant asks for; by `id`, which wins, or `code`.

    Raises:
        MessageRejected: Neither is given.
        RecordNotFound: This tenant has no such template.
    """
    environment()
    with in_session(session) as s:
        return template_tools.variables_of(template_tools.get_template(s, id, code))


def import_mail_templates(
    folder: Path, *, dry_run: bool = False, session: Session | None = None
) -> list[TemplateChange]:
    """Create or update this tenant's templates by their codes from a folder of theirs; says what it did.

    Raises:
        FileRejected: Names file, field and value; nothing was written.
    """
    environment()
    with in_session(session) as s:
        return import_templates(s, MAIL_TEMPLATES, folder, dry_run=dry_run)


def export_mail_templates(
    folder: Path, codes: Sequence[str] | None = None, *, session: Session | None = None
) -> list[Path]:
    """Write this tenant's templates as folders that `import_mail_templates` reads; None is all of them.

    Raises:
        FileRejected: A code has no template, or a file cannot be written.
    """
    environment()
    with in_session(session) as s:
        return export_templates(s, MAIL_TEMPLATES, folder, codes)
