"""Versions of templates of either channel, what their authors try them with, and how a draft would look."""

import json
import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from messaging.api.calls import in_session
from messaging.api.process import environment
from messaging.errors import TemplateRejected
from messaging.mail import template_admin as mail_admin
from messaging.mail import template_tools as mail_tools
from messaging.mail.models import MailTemplate
from messaging.mail.template_tools import TemplatePreview
from messaging.sms import template_admin as sms_admin
from messaging.sms import template_tools as sms_tools
from messaging.sms.models import SmsTemplate
from messaging.sms.template_tools import SmsTemplatePreview
from messaging.templates import versions
from messaging.templates.render import Renderer
from messaging.templates.versions import Version

#: Characters of what a template is tried with, as JSON.
MAX_SAMPLE_CHARS = 100_000

_MODELS: Mapping[str, tuple[type[Any], str]] = {
    "mail": (MailTemplate, mail_admin.WHAT),
    "sms": (SmsTemplate, sms_admin.WHAT),
}


def list_template_versions(channel: str, template_id: int, *, session: Session | None = None) -> list[Version]:
    """A template's versions, the newest first. Raises: RecordNotFound, TenantMismatch."""
    environment()
    with in_session(session) as s:
        return versions.listed(s, _own(s, channel, template_id))


def roll_back_template(channel: str, template_id: int, number: int, *, session: Session | None = None) -> None:
    """Make a template what it was in a version; that is a change as any other, and a version of its own.

    Raises:
        RecordNotFound: No such template in this tenant, or no such version.
        TemplateRejected: It cannot be saved any more; nothing was changed.
    """
    environment()
    with in_session(session) as s:
        content = dict(versions.get(s, _own(s, channel, template_id), number).content)
        change: Any = mail_admin.change_template if channel == "mail" else sms_admin.change_template
        change(s, template_id, **content)


def get_template_sample(channel: str, template_id: int, *, session: Session | None = None) -> dict[str, Any]:
    """What its author tries a template with. Raises: RecordNotFound, TenantMismatch."""
    environment()
    with in_session(session) as s:
        return dict(_own(s, channel, template_id).sample_variables or {})


def set_template_sample(
    channel: str, template_id: int, variables: Mapping[str, Any], *, session: Session | None = None
) -> None:
    """Keep what a template is tried with.

    Raises:
        TemplateRejected: It is too long.
        RecordNotFound, TenantMismatch.
    """
    if len(json.dumps(variables)) > MAX_SAMPLE_CHARS:
        raise TemplateRejected("sample_variables", None, f"at most {MAX_SAMPLE_CHARS} characters of JSON")
    environment()
    with in_session(session) as s:
        row = _own(s, channel, template_id)
        if (row.sample_variables or {}) != dict(variables):
            row.sample_variables = dict(variables)
            s.flush()


def preview_draft(
    channel: str, fields: Mapping[str, Any], variables: Mapping[str, Any]
) -> TemplatePreview | SmsTemplatePreview:
    """A template that is not saved, rendered as a send would; within the bounds of one.

    Raises:
        MessageRejected: The variables are no JSON.
        RenderError, TemplateError: It fails; names column, line and variable.
    """
    settings = environment().settings
    renderer = Renderer(max_chars=settings.mail.max_body_chars, ticker=time.monotonic)
    if channel == "mail":
        return mail_tools.preview(MailTemplate(**fields), renderer, variables)
    return sms_tools.preview(SmsTemplate(**fields), renderer, variables)


def _own(session: Session, channel: str, template_id: int) -> Any:
    model, what = _MODELS[channel]
    return versions.own(session, model, template_id, what=what)
