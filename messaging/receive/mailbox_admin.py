"""Mailboxes kept by operators: added, changed, listed, switched off and on, made the default.

Runs in the caller's transaction and tenant; the next fetch reads the mailbox as it is then. Secrets go in and never
come out: nothing here reads one.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

from sqlalchemy import select
from sqlalchemy.orm import Session

from messaging.db.active import with_disabled
from messaging.db.own_rows import created, get_own, make_default, set_active, sign
from messaging.receive.mailbox_checks import INBOX, SECRET_FIELDS, MailboxFields, check_together, checked
from messaging.receive.models import MailFetchWatermark, MailReceiveServerConfig
from messaging.receive.vocabulary import MailboxAuth

_M = MailReceiveServerConfig
#: How one is called.
WHAT = "mailbox"

#: What stands where nothing is given; None for every other field.
_DEFAULTS: MailboxFields = {
    "protocol": "IMAPS",
    "ssl_enabled": False,
    "auth": MailboxAuth.PASSWORD,
    "fetch_folders": INBOX,
    "is_default": False,
    "active": True,
    "sequence": 0,
}

#: A token belongs to the login that it was made for.
_LOGIN = frozenset({"host", "username", "auth", "protocol"})


@dataclass(frozen=True, slots=True)
class MailboxLine:
    """A mailbox as lists show it: without secrets."""

    id: int
    tenant_id: int
    name: str
    protocol: str
    host: str
    port: int
    ssl_enabled: bool
    username: str | None
    auth: str
    fetch_folders: str | None
    #: None: `MAIL__FETCH__INTERVAL_SECONDS`.
    fetch_interval_seconds: int | None
    #: When the next fetch is due; None: at the next tick.
    next_fetch_at: datetime | None
    is_default: bool
    active: bool
    sequence: int
    updated_at: datetime
    has_password: bool


@dataclass(frozen=True, slots=True)
class WatermarkLine:
    """How far a folder of a mailbox was read, and whether it is being read."""

    server_config_id: int
    folder_name: str
    #: None before the first fetch, and for POP3.
    uid_validity: int | None
    last_seen_uid: int
    #: When a fetch last read the folder to its end.
    last_fetched_at: datetime | None
    #: Since when somebody reads it, or their last heartbeat; None: nobody does.
    in_progress_since: datetime | None


def add_mailbox(session: Session, **fields: Unpack[MailboxFields]) -> int:
    """Add a mailbox; answers its id. As the default it takes that from the tenant's others.

    Raises:
        ConfigRejected: A field cannot be saved, or does not fit another one; nothing was written.
    """
    given = dict.fromkeys(MailboxFields.__annotations__) | dict(_DEFAULTS) | dict(fields)
    values = checked(given)
    check_together(values)
    row = _M(**values, **created())
    session.add(row)
    session.flush()
    return row.id


def change_mailbox(session: Session, config_id: int, **fields: Unpack[MailboxFields]) -> None:
    """Change the fields that are given; a secret that is not given stays, None takes it away.

    Raises:
        ConfigRejected: As `add_mailbox`; nothing was changed.
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    row = _get(session, config_id)
    values = checked(fields)
    readable = [name for name in MailboxFields.__annotations__ if name not in SECRET_FIELDS]
    # Not read: what is replaced may be unreadable.
    has_password = session.scalar(select(_M.password.is_not(None)).where(_M.id == config_id))
    check_together({name: getattr(row, name) for name in readable} | {"password": has_password or None} | values)
    if any(name in _LOGIN and getattr(row, name) != value for name, value in values.items()):
        row.oauth_token = row.oauth_token_expires_at = None
    for name, value in values.items():
        setattr(row, name, value)
    if "fetch_interval_seconds" in values:
        # A shorter interval counts from now, not from the end of the longer one.
        row.next_fetch_at = None
    sign(row)
    session.flush()


def list_mailboxes(session: Session, *, include_disabled: bool = False) -> list[MailboxLine]:
    """The tenant's mailboxes in the order in which they are polled."""
    plain = [name for name in MailboxLine.__dataclass_fields__ if name != "has_password"]
    statement = select(*(getattr(_M, name) for name in plain), _M.password.is_not(None).label("has_password")).order_by(
        _M.tenant_id, _M.sequence, _M.id
    )
    found = session.execute(with_disabled(statement) if include_disabled else statement)
    return [MailboxLine(**row._mapping) for row in found]


def set_mailbox_active(session: Session, config_id: int, is_active: bool) -> None:
    """Disable a mailbox (it is polled no more; what was fetched stays), or enable it again.

    Raises:
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    set_active(session, _get(session, config_id), is_active)


def set_default_mailbox(session: Session, config_id: int) -> None:
    """Make a mailbox the one that is fetched when none is named; the tenant's others are so no more.

    Raises:
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
        StateError: It is disabled.
    """
    make_default(session, _get(session, config_id), what=WHAT)


def list_watermarks(session: Session, config_id: int | None = None) -> list[WatermarkLine]:
    """How far each folder of the tenant's mailboxes was read, of disabled ones too; None is all mailboxes.

    Raises:
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    w = MailFetchWatermark
    statement = select(*(getattr(w, name) for name in WatermarkLine.__dataclass_fields__))
    if config_id is not None:
        statement = statement.where(w.server_config_id == _get(session, config_id).id)
    rows = session.execute(statement.order_by(w.server_config_id, w.folder_name))
    return [WatermarkLine(**row._mapping) for row in rows]


def _get(session: Session, config_id: int) -> MailReceiveServerConfig:
    return get_own(session, _M, config_id, what=WHAT)
