"""Mail servers kept by operators: added, changed, listed, switched off and on, made the default.

Runs in the caller's transaction and tenant; a change is used by every worker's next attempt within a second of its
commit. Secrets go in and never come out: nothing here reads one.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

from sqlalchemy import select
from sqlalchemy.orm import Session

from messaging.db.active import with_disabled
from messaging.db.own_rows import created, get_own, make_default, set_active, sign
from messaging.mail.models import MailSendServerConfig
from messaging.mail.server_checks import SECRET_FIELDS, ServerFields, check_together, checked

_S = MailSendServerConfig
_WHAT = "mail server"

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
    protocol: str
    host: str
    port: int
    ssl_enabled: bool
    starttls_enabled: bool
    username: str | None
    from_address: str | None
    is_default: bool
    active: bool
    sequence: int
    daily_send_limit: int | None
    rate_limit_per_minute: int | None
    updated_at: datetime
    has_password: bool
    signs_dkim: bool


def add_server(session: Session, **fields: Unpack[ServerFields]) -> int:
    """Add a server; answers its id. As the default it takes that from the tenant's others.

    Raises:
        ConfigRejected: A field cannot be saved, or does not fit another one; nothing was written.
    """
    row = new_server(**fields)
    session.add(row)
    session.flush()
    return row.id


def new_server(**fields: Unpack[ServerFields]) -> MailSendServerConfig:
    """A server with these fields, not in a session yet.

    Raises:
        ConfigRejected: As `add_server`.
    """
    given = dict.fromkeys(ServerFields.__annotations__) | dict(_DEFAULTS) | dict(fields)
    values = checked(given)
    check_together(values)
    return _S(**values, **created())


def change_server(session: Session, config_id: int, **fields: Unpack[ServerFields]) -> None:
    """Change the fields that are given; a secret that is not given stays, None takes it away.

    Raises:
        ConfigRejected: As `add_server`; nothing was changed.
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    row = _get(session, config_id)
    values = checked(fields)
    check_together({name: getattr(row, name) for name in _READABLE} | _secrets(session, row) | values)
    for name, value in values.items():
        setattr(row, name, value)
    sign(row)
    session.flush()


def list_servers(session: Session, *, include_disabled: bool = False) -> list[ServerLine]:
    """The tenant's servers in the order in which they are chosen."""
    plain = [name for name in ServerLine.__dataclass_fields__ if name not in ("has_password", "signs_dkim")]
    statement = select(
        *(getattr(_S, name) for name in plain),
        _S.password.is_not(None).label("has_password"),
        _S.dkim_private_key.is_not(None).label("signs_dkim"),
    ).order_by(_S.tenant_id, _S.sequence, _S.id)
    return [
        ServerLine(**r._mapping) for r in session.execute(with_disabled(statement) if include_disabled else statement)
    ]


def set_server_active(session: Session, config_id: int, is_active: bool) -> None:
    """Disable a server (nothing new is sent by it; what was prepared with it still goes out), or enable it again.

    Raises:
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    set_active(session, _get(session, config_id), is_active)


def set_default_server(session: Session, config_id: int) -> None:
    """Make a server the default; the tenant's others are so no more, disabled ones too.

    Raises:
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
        StateError: It is disabled, so nothing would be sent by it.
    """
    make_default(session, _get(session, config_id), what=_WHAT)


#: Fields that may be looked at.
_READABLE = [name for name in ServerFields.__annotations__ if name not in SECRET_FIELDS]


def _get(session: Session, config_id: int) -> MailSendServerConfig:
    return get_own(session, _S, config_id, what=_WHAT)


def _secrets(session: Session, row: MailSendServerConfig) -> dict[str, Any]:
    """Whether there are secrets, as `check_together` takes it. Not read: what is replaced may be unreadable."""
    names = sorted(SECRET_FIELDS)
    found = session.execute(select(*(getattr(_S, name).is_not(None) for name in names)).where(_S.id == row.id)).one()
    return {name: True if is_there else None for name, is_there in zip(names, found, strict=True)}
