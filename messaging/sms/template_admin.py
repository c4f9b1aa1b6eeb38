"""Templates of text messages kept by authors: added, changed, copied, listed, deleted.

Runs in the caller's transaction and tenant; a change is used by every message that is prepared from a second after its
commit on. What is prepared stays as it is. As files: `messaging.sms.template_files`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict, Unpack

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from messaging import config_admin, config_lists
from messaging.config_lists import Lines, ListFields
from messaging.db.active import with_disabled
from messaging.sms.models import SmsTemplate, SmsTemplateProviderBinding
from messaging.sms.template_checks import DEFAULTS, FIELDS, checked
from messaging.templates.kinds import template_kind

#: What messages call one.
WHAT = "SMS template"
#: Characters of a text that a summary shows.
SUMMARY_CHARS = 100

_T = SmsTemplate


class SmsTemplateFields(TypedDict, total=False):
    """The fields of `SmsTemplate` that are given; what they mean is said there."""

    code: str
    name: str
    description: str | None
    active: bool
    strict: bool
    redact: bool
    to_gsm: bool
    max_segments: int | None
    content: str | None


@dataclass(frozen=True, slots=True)
class SmsTemplateLine:
    """A template as lists show it: without its text."""

    id: int
    tenant_id: int
    code: str
    name: str
    description: str | None
    strict: bool
    redact: bool
    to_gsm: bool
    max_segments: int | None
    active: bool
    created_at: datetime
    updated_at: datetime
    updated_by: str | None


@dataclass(frozen=True, slots=True)
class SmsTemplateDetail(SmsTemplateLine):
    """All of a template."""

    content: str | None


@dataclass(frozen=True, slots=True)
class SmsTemplateSummary:
    """A template as a form offers it to whoever sends."""

    id: int
    code: str
    name: str
    description: str | None
    #: The first 100 characters of its text.
    content: str | None


TEMPLATES = template_kind(
    WHAT,
    _T,
    SmsTemplateLine,
    fields=FIELDS,
    defaults=DEFAULTS,
    check=checked,
)


def add_template(session: Session, **fields: Unpack[SmsTemplateFields]) -> int:
    """Add a template of this tenant; answers its id.

    Raises:
        TemplateRejected: A field cannot be saved, the text does not compile, or the tenant has a template of this code;
            the transaction is usable.
    """
    return config_admin.add(session, TEMPLATES, fields)


def change_template(session: Session, template_id: int, **fields: Unpack[SmsTemplateFields]) -> None:
    """Change the fields that are given; None takes a value away.

    Raises:
        TemplateRejected: As `add_template`; nothing was changed.
        RecordNotFound: No such template in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.change(session, TEMPLATES, template_id, fields)


def copy_template(session: Session, template_id: int, **fields: Unpack[SmsTemplateFields]) -> int:
    """Add a template like another one, but for the fields that are given, of which `code` is needed; answers its id.

    Bindings are not copied; unless it is said otherwise the copy is disabled.

    Raises:
        TemplateRejected: As `add_template`.
        RecordNotFound: No such template in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    return config_admin.copy(session, TEMPLATES, template_id, fields)


def delete_template(session: Session, template_id: int) -> None:
    """Delete a template with its bindings. Messages that are prepared with it go out as they are, and keep its code.

    Those that name it and are not prepared yet fail with `TEMPLATE_NOT_FOUND`, and can be sent by a retry once there is
    a template of this code again.

    Raises:
        RecordNotFound: No such template in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.delete(session, TEMPLATES, template_id)
    bindings = select(SmsTemplateProviderBinding).where(SmsTemplateProviderBinding.template_id == template_id)
    for binding in session.scalars(with_disabled(bindings)):
        session.delete(binding)
    session.flush()


def list_templates(session: Session, **asked: Unpack[ListFields]) -> Lines[SmsTemplateLine]:
    """This tenant's templates by code. Raises: ValueError, TypeError."""
    return config_lists.listed(session, TEMPLATES, asked)


def summaries(session: Session) -> list[SmsTemplateSummary]:
    """This tenant's enabled templates by code, as a form offers them."""
    beginning = func.left(_T.content, SUMMARY_CHARS)
    statement = select(_T.id, _T.code, _T.name, _T.description, beginning).order_by(_T.code)
    return [SmsTemplateSummary(*row) for row in session.execute(statement)]


def detail(row: SmsTemplate) -> SmsTemplateDetail:
    """All of a stored template."""
    return SmsTemplateDetail(**{name: getattr(row, name) for name in SmsTemplateDetail.__dataclass_fields__})
