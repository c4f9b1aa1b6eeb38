"""Mail: accept it, the servers it goes through, the templates it is made from."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack, overload

from sqlalchemy.orm import Session

from messaging.api.calls import given, in_session
from messaging.api.process import environment
from messaging.clock import utc_now
from messaging.mail import channel, connectivity, server_admin, template_tools
from messaging.mail.acceptance import accept_mails
from messaging.mail.connectivity import Connectivity
from messaging.mail.server_admin import ServerLine
from messaging.mail.server_checks import ServerFields
from messaging.mail.template_files import MAIL_TEMPLATES
from messaging.mail.template_tools import TemplateLine, TemplatePreview
from messaging.requests import SendMail
from messaging.templates.folders import TemplateChange, export_templates, import_templates
from messaging.templates.render import Renderer
from messaging.templates.variables import TemplateVariable


@overload
def send_mail(request: SendMail, *, session: Session | None = None) -> int: ...
@overload
def send_mail(*, session: Session | None = None, **fields: Any) -> int: ...
def send_mail(request: SendMail | None = None, *, session: Session | None = None, **fields: Any) -> int:
    """Accept one mail; answers its record's id. It goes out once the transaction has committed.

    Takes a `SendMail`, or its fields as keywords. Checks everything before it writes anything (RFC 5322 addresses,
    sizes, times); templates, servers and quotas are looked at when it is delivered.

    Raises:
        MessageRejected: The input cannot be accepted; names field and value. Nothing was written, and the transaction
            is still usable.
        PreparationError: The file store did not take an attachment; nothing was written either.
    """
    chosen = given("send_mail", SendMail, channel.NAME, request, fields)
    shared = environment()
    with in_session(session) as s:
        return accept_mails(s, [chosen], settings=shared.settings, now=utc_now(), single=True, files=shared.files)[0]


def send_mail_batch(requests: Sequence[SendMail], *, session: Session | None = None) -> list[int]:
    """Accept 1 to 500 mails, all or none, in one insert; answers ids in the order of the requests.

    Raises:
        MessageRejected: As `send_mail`, with the index of the item.
    """
    shared = environment()
    with in_session(session) as s:
        return accept_mails(s, requests, settings=shared.settings, now=utc_now(), single=False, files=shared.files)


def add_mail_server(*, session: Session | None = None, **fields: Unpack[ServerFields]) -> int:
    """Add a mail server of this tenant; answers its id. See `messaging.mail.server_admin` for what follows.

    Raises:
        ConfigRejected: A field cannot be saved; names field and value. Nothing was written.
    """
    environment()
    with in_session(session) as s:
        return server_admin.add_server(s, **fields)


def change_mail_server(config_id: int, *, session: Session | None = None, **fields: Unpack[ServerFields]) -> None:
    """Change fields of a mail server; the next attempt of each record that uses it goes by them within a second.

    Raises:
        ConfigRejected: A field cannot be saved; nothing was changed.
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        server_admin.change_server(s, config_id, **fields)


def list_mail_servers(*, with_disabled: bool = False, session: Session | None = None) -> list[ServerLine]:
    """This tenant's mail servers in the order in which they are chosen, without secrets."""
    environment()
    with in_session(session) as s:
        return server_admin.list_servers(s, include_disabled=with_disabled)


def set_mail_server_active(config_id: int, is_active: bool, *, session: Session | None = None) -> None:
    """Disable a mail server or enable it again; what was prepared with it goes out in any case.

    Raises:
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        server_admin.set_server_active(s, config_id, is_active)


def set_default_mail_server(config_id: int, *, session: Session | None = None) -> None:
    """Make a mail server this tenant's default in the place of any other.

    Raises:
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
        StateError: It is disabled.
    """
    environment()
    with in_session(session) as s:
        server_admin.set_default_server(s, config_id)


def test_connectivity(config_id: int) -> Connectivity:
    """Try a mail server of this tenant, disabled or not: connect, EHLO, TLS, AUTH, QUIT. Sends nothing; takes seconds.

    Raises:
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    here = environment()
    return connectivity.probe_server(here.engine, here.settings.mail, config_id)


#: A name that pytest would take for a test of whoever imports it.
test_connectivity.__test__ = False  # type: ignore[attr-defined]


def list_mail_templates(*, with_disabled: bool = False, session: Session | None = None) -> list[TemplateLine]:
    """This tenant's mail templates by code."""
    environment()
    with in_session(session) as s:
        return template_tools.list_templates(s, include_disabled=with_disabled)


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
