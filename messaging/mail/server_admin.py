"""Mail servers kept by operators: added, changed, copied, listed, switched off and on, made the default, deleted.

Runs in the caller's transaction and tenant; a change is used by every worker's next attempt within a second of its
commit. Secrets go in and never come out: nothing here reads one.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from messaging import config_admin, config_lists
from messaging.config_kinds import Kind
from messaging.config_lists import Lines, ListFields
from messaging.mail.models import MailSendServerConfig
from messaging.mail.server_checks import SECRET_FIELDS, ServerFields, check_together, checked

_S = MailSendServerConfig

#: What stands where nothing is given; None for every other field.
_DEFAULTS: ServerFields = {
    "protocol": "SMTP",
    "ssl_enabled": False,
    "starttls_enabled": False,
    "verp": False,
    "read_receipt_enabled": False,
    "is_default": False,
    "active": True,
    "sequence": 0,
}


@dataclass(frozen=True, slots=True)
class ServerLine:
    """A server as lists show it: without secrets."""

    id: int
    tenant_id: int
    name: str
    description: str | None
    protocol: str
    host: str
    port: int
    ssl_enabled: bool
    starttls_enabled: bool
    username: str | None
    has_password: bool
    from_address: str | None
    from_name: str | None
    reply_to_address: str | None
    envelope_sender: str | None
    verp: bool
    daily_send_limit: int | None
    rate_limit_per_minute: int | None
    dkim_domain: str | None
    dkim_selector: str | None
    signs_dkim: bool
    read_receipt_enabled: bool
    is_default: bool
    active: bool
    sequence: int
    created_at: datetime
    updated_at: datetime
    updated_by: str | None


@dataclass(frozen=True, slots=True)
class Sender:
    """Who mail may be from, as a form offers it."""

    #: Of the server, which a request names to send by it.
    id: int
    name: str
    from_address: str
    from_name: str | None
    is_default: bool


SERVERS = Kind(
    what="mail server",
    model=_S,
    line=ServerLine,
    fields=tuple(ServerFields.__annotations__),
    defaults=_DEFAULTS,
    secrets=SECRET_FIELDS,
    #: Nothing without their key.
    not_copied=frozenset({"dkim_domain", "dkim_selector"}),
    check=checked,
    check_together=check_together,
    order=("tenant_id", "sequence"),
    searched=("name", "host", "from_address"),
    computed={"signs_dkim": _S.dkim_private_key.is_not(None)},
)


def add_server(session: Session, **fields: Unpack[ServerFields]) -> int:
    """Add a server; answers its id. As the default it takes that from the tenant's others.

    Raises:
        ConfigRejected: A field cannot be saved, or does not fit another one; nothing was written.
    """
    return config_admin.add(session, SERVERS, fields)


def change_server(session: Session, config_id: int, **fields: Unpack[ServerFields]) -> None:
    """Change the fields that are given; a secret that is not given stays, None takes it away.

    Raises:
        ConfigRejected: As `add_server`; nothing was changed.
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.change(session, SERVERS, config_id, fields)


def copy_server(session: Session, config_id: int, **fields: Unpack[ServerFields]) -> int:
    """Add a server like another one, but for the fields that are given; answers its id.

    Password and DKIM are not copied; unless it is said otherwise the copy is disabled and no default.

    Raises:
        ConfigRejected: As `add_server`.
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    return config_admin.copy(session, SERVERS, config_id, fields)


def delete_server(session: Session, config_id: int) -> None:
    """Delete a server. To let go out what is prepared with it, disable it instead.

    What went out by it stays as it is, and keeps its id, which no other server gets. What still has to go out by it, as
    it is prepared with it, names it, or has a template that prefers it, fails with `CONFIG_NOT_RESOLVABLE`: no mail
    leaves by a server that nobody chose. Bounces of what a server of the platform has sent are linked to the tenants'
    records no more.

    Raises:
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.delete(session, SERVERS, config_id)


def list_servers(session: Session, **asked: Unpack[ListFields]) -> Lines[ServerLine]:
    """The tenant's servers in the order in which they are chosen. Raises: ValueError, TypeError."""
    return config_lists.listed(session, SERVERS, asked)


def get_server(session: Session, config_id: int) -> ServerLine:
    """One of them, disabled or not. Raises: RecordNotFound."""
    return config_lists.shown(session, SERVERS, config_id)


def list_senders(session: Session) -> list[Sender]:
    """Who mail of this tenant may be from: its enabled servers in order."""
    address = func.coalesce(_S.from_address, _S.username)
    statement = select(_S.id, _S.name, address, _S.from_name, _S.is_default).order_by(_S.sequence, _S.id)
    return [Sender(*row) for row in session.execute(statement)]


def set_server_active(session: Session, config_id: int, is_active: bool) -> None:
    """Disable a server (nothing new is sent by it; what was prepared with it still goes out), or enable it again.

    Raises:
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.switch(session, SERVERS, config_id, is_active)


def set_default_server(session: Session, config_id: int) -> None:
    """Make a server the default; the tenant's others are so no more, disabled ones too.

    Raises:
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
        StateError: It is disabled, so nothing would be sent by it.
    """
    config_admin.choose_default(session, SERVERS, config_id)
