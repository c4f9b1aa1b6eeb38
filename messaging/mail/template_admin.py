"""Mail templates kept by authors: added, changed, copied, listed, deleted.

Runs in the caller's transaction and tenant; a change is used by every mail that is prepared from a second after its
commit on. What is prepared stays as it is. As files: `messaging.mail.template_files`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict, Unpack

from sqlalchemy import select
from sqlalchemy.orm import Session

from messaging import config_admin, config_lists
from messaging.config_lists import Lines, ListFields
from messaging.errors import TemplateRejected
from messaging.mail.models import MailTemplate
from messaging.mail.template_checks import DEFAULTS, FIELDS, checked
from messaging.mail.template_references import unknown_references
from messaging.templates.kinds import template_kind

#: What messages call one.
WHAT = "mail template"

_T = MailTemplate


class MailTemplateFields(TypedDict, total=False):
    """The fields of `MailTemplate` that are given; what they mean is said there."""

    code: str
    name: str
    description: str | None
    subject: str | None
    body_mode: str
    active: bool
    strict: bool
    redact: bool
    inline_css: bool
    default_priority: str | None
    reply_to: str | None
    preferred_server_config_id: int | None
    attachments: list[dict[str, Any]] | None
    body_html: str | None
    body_text: str | None


@dataclass(frozen=True, slots=True)
class TemplateLine:
    """A template as lists show it: without its bodies."""

    id: int
    tenant_id: int
    code: str
    name: str
    description: str | None
    subject: str | None
    body_mode: str
    default_priority: str | None
    strict: bool
    redact: bool
    inline_css: bool
    active: bool
    created_at: datetime
    updated_at: datetime
    updated_by: str | None


@dataclass(frozen=True, slots=True)
class TemplateDetail(TemplateLine):
    """All of a template."""

    reply_to: str | None
    preferred_server_config_id: int | None
    #: Of each: `file_id`, `file_name`, `content_type` and `content_id`.
    attachments: list[dict[str, Any]] | None
    body_html: str | None
    body_text: str | None


@dataclass(frozen=True, slots=True)
class TemplateSummary:
    """A template as a form offers it to whoever sends."""

    id: int
    code: str
    name: str
    description: str | None
    subject: str | None
    default_priority: str | None


def _check_references(session: Session, values: Mapping[str, Any]) -> None:
    for _, field, reason in unknown_references(session, [values]):
        raise TemplateRejected(field, values[field], reason)


TEMPLATES = template_kind(
    WHAT,
    _T,
    TemplateLine,
    fields=FIELDS,
    defaults=DEFAULTS,
    check=checked,
    check_references=_check_references,
)


def add_template(session: Session, **fields: Unpack[MailTemplateFields]) -> int:
    """Add a template of this tenant; answers its id.

    Raises:
        TemplateRejected: A field cannot be saved, a source does not compile, the tenant has a template of this code,
            or it has not the server or a file that is named. Nothing was written, and the transaction is usable.
    """
    return config_admin.add(session, TEMPLATES, fields)


def change_template(session: Session, template_id: int, **fields: Unpack[MailTemplateFields]) -> None:
    """Change the fields that are given; None takes a value away.

    Raises:
        TemplateRejected: As `add_template`; nothing was changed.
        RecordNotFound: No such template in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.change(session, TEMPLATES, template_id, fields)


def copy_template(session: Session, template_id: int, **fields: Unpack[MailTemplateFields]) -> int:
    """Add a template like another one, but for the fields that are given, of which `code` is needed; answers its id.

    Unless it is said otherwise the copy is disabled.

    Raises:
        TemplateRejected: As `add_template`.
        RecordNotFound: No such template in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    return config_admin.copy(session, TEMPLATES, template_id, fields)


def delete_template(session: Session, template_id: int) -> None:
    """Delete a template. Mails that are prepared with it go out as they are, and keep its id and code.

    Those that name it and are not prepared yet fail with `TEMPLATE_NOT_FOUND`; those that name its code can be sent by
    a retry once there is a template of this code again, and its id no other template gets.

    Raises:
        RecordNotFound: No such template in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.delete(session, TEMPLATES, template_id)


def list_templates(session: Session, **asked: Unpack[ListFields]) -> Lines[TemplateLine]:
    """This tenant's templates by code. Raises: ValueError, TypeError."""
    return config_lists.listed(session, TEMPLATES, asked)


def summaries(session: Session) -> list[TemplateSummary]:
    """This tenant's enabled templates by code, as a form offers them."""
    columns = [getattr(_T, name) for name in TemplateSummary.__dataclass_fields__]
    return [TemplateSummary(*row) for row in session.execute(select(*columns).order_by(_T.code))]


def detail(row: MailTemplate) -> TemplateDetail:
    """All of a stored template."""
    return TemplateDetail(**{name: getattr(row, name) for name in TemplateDetail.__dataclass_fields__})
