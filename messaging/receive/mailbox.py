"""A mailbox as a fetch needs it: read from the database each time, as it stands then (`receive.md` 1)."""

from dataclasses import dataclass

from sqlalchemy import Engine, Text, select, type_coerce

from messaging.db.engine import autocommitting
from messaging.receive.login import Login, login_of
from messaging.receive.mailbox_checks import drains, folders
from messaging.receive.models import MAIL_RECEIVE_SERVER_CONFIG

_t = MAIL_RECEIVE_SERVER_CONFIG.c
_FIND = select(
    _t.id,
    _t.tenant_id,
    _t.protocol,
    _t.host,
    _t.port,
    _t.ssl_enabled,
    _t.username,
    _t.auth,
    # Still encrypted: who decrypts it says what cannot be.
    type_coerce(_t.password, Text).label("password"),
    _t.fetch_folders,
)


@dataclass(frozen=True, slots=True)
class Mailbox:
    """Where a mailbox is, who logs in to it, what is read of it."""

    login: Login
    folders: tuple[str, ...]

    @property
    def config_id(self) -> int:
        """Of its configuration."""
        return self.login.config_id

    @property
    def tenant_id(self) -> int:
        """Whose it is, and so whose its mails are."""
        return self.login.tenant_id

    @property
    def is_drained(self) -> bool:
        """Whether it is read by POP3, and not looked at by IMAP."""
        return drains(self.login.protocol)


def find_mailbox(engine: Engine, config_id: int) -> Mailbox | None:
    """A mailbox of whatever tenant, disabled or not; None when there is none.

    Raises: ReceiveError, when its password cannot be decrypted; what the driver raises.
    """
    with autocommitting(engine).connect() as connection:
        row = connection.execute(_FIND.where(_t.id == config_id)).mappings().one_or_none()
    return None if row is None else Mailbox(login_of(dict(row)), tuple(folders(row["fetch_folders"])))
