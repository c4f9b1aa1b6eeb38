"""Mailboxes kept by operators: added, changed, copied, listed, switched off and on, made the default, deleted.

Runs in the caller's transaction and tenant; the next fetch reads the mailbox as it is then. Secrets go in and never
come out: nothing here reads one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from messaging import config_admin, config_lists
from messaging.config_kinds import Kind
from messaging.config_lists import Lines, ListFields
from messaging.db.own_rows import get_own
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
    description: str | None
    protocol: str
    host: str
    port: int
    ssl_enabled: bool
    username: str | None
    has_password: bool
    auth: str
    fetch_folders: str | None
    #: None: `MAIL__FETCH__INTERVAL_SECONDS`.
    fetch_interval_seconds: int | None
    #: When the next fetch is due; None: at the next tick.
    next_fetch_at: datetime | None
    is_default: bool
    active: bool
    sequence: int
    created_at: datetime
    updated_at: datetime
    updated_by: str | None


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


MAILBOXES = Kind(
    what=WHAT,
    model=_M,
    line=MailboxLine,
    fields=tuple(MailboxFields.__annotations__),
    defaults=_DEFAULTS,
    secrets=SECRET_FIELDS,
    check=checked,
    check_together=check_together,
    order=("tenant_id", "sequence"),
    searched=("name", "host", "username"),
)


def add_mailbox(session: Session, **fields: Unpack[MailboxFields]) -> int:
    """Add a mailbox; answers its id. As the default it takes that from the tenant's others.

    Raises:
        ConfigRejected: A field cannot be saved, or does not fit another one; nothing was written.
    """
    return config_admin.add(session, MAILBOXES, fields)


def change_mailbox(session: Session, config_id: int, **fields: Unpack[MailboxFields]) -> None:
    """Change the fields that are given; a secret that is not given stays, None takes it away.

    Raises:
        ConfigRejected: As `add_mailbox`; nothing was changed.
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.change(session, MAILBOXES, config_id, fields, follow=_forget_what_depends)


def copy_mailbox(session: Session, config_id: int, **fields: Unpack[MailboxFields]) -> int:
    """Add a mailbox like another one, but for the fields that are given; answers its id.

    The password is not copied. Unless it is said otherwise the copy is disabled, as one account that is fetched twice
    is stored twice, and no default.

    Raises:
        ConfigRejected: As `add_mailbox`; also where a password is needed and not given.
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    return config_admin.copy(session, MAILBOXES, config_id, fields)


def delete_mailbox(session: Session, config_id: int) -> None:
    """Delete a mailbox with how far its folders were read; the mails that came from it stay, and keep its id.

    A fetch that is under way ends before its next folder or mail. The same account added anew is read from its
    beginning, and its mails are stored again.

    Raises:
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.delete(session, MAILBOXES, config_id)
    session.execute(delete(MailFetchWatermark).where(MailFetchWatermark.server_config_id == config_id))


def list_mailboxes(session: Session, **asked: Unpack[ListFields]) -> Lines[MailboxLine]:
    """The tenant's mailboxes in the order in which they are polled. Raises: ValueError, TypeError."""
    return config_lists.listed(session, MAILBOXES, asked)


def get_mailbox(session: Session, config_id: int) -> MailboxLine:
    """One of them, disabled or not. Raises: RecordNotFound."""
    return config_lists.shown(session, MAILBOXES, config_id)


def set_mailbox_active(session: Session, config_id: int, is_active: bool) -> None:
    """Disable a mailbox (it is polled no more; what was fetched stays), or enable it again.

    Raises:
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.switch(session, MAILBOXES, config_id, is_active)


def set_default_mailbox(session: Session, config_id: int) -> None:
    """Make a mailbox the one that is fetched when none is named; the tenant's others are so no more.

    Raises:
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
        StateError: It is disabled.
    """
    config_admin.choose_default(session, MAILBOXES, config_id)


def list_watermarks(session: Session, config_id: int | None = None) -> list[WatermarkLine]:
    """How far each folder of the tenant's mailboxes was read, of disabled ones too; None is all mailboxes.

    Raises:
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    w = MailFetchWatermark
    statement = select(*(getattr(w, name) for name in WatermarkLine.__dataclass_fields__))
    if config_id is not None:
        statement = statement.where(w.server_config_id == get_own(session, _M, config_id, what=WHAT).id)
    rows = session.execute(statement.order_by(w.server_config_id, w.folder_name))
    return [WatermarkLine(**row._mapping) for row in rows]


def _forget_what_depends(row: Any, values: Mapping[str, Any]) -> None:
    if any(name in _LOGIN and getattr(row, name) != value for name, value in values.items()):
        row.oauth_token = row.oauth_token_expires_at = None
    if "fetch_interval_seconds" in values:
        # A shorter interval counts from now, not from the end of the longer one.
        row.next_fetch_at = None
