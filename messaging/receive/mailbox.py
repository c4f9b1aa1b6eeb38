"""A mailbox as a fetch needs it: read from the database each time, as it stands then (`receive.md` 1)."""

from dataclasses import dataclass

from sqlalchemy import Engine, Text, select, type_coerce

from messaging import tenancy
from messaging.clock import boot_seconds
from messaging.config_cache import ConfigCache, own_config
from messaging.db.engine import autocommitting
from messaging.db.filters import owning_tenant
from messaging.errors import NoDefaultMailbox
from messaging.receive.login import Login, login_of
from messaging.receive.mailbox_checks import drains, folders
from messaging.receive.models import MAIL_RECEIVE_SERVER_CONFIG
from messaging.tenancy import PLATFORM_TENANT_ID

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


def resolve_mailbox(engine: Engine, config_id: int | None = None) -> int:
    """The id of the mailbox that is fetched on the current tenant's behalf (`receive.md` 1).

    The named one of its own, disabled or not; for None its default, else the platform's.

    Raises:
        ReceiveError: None is named, and none is a default.
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    if config_id is not None:
        found: int = own_config(engine, MAIL_RECEIVE_SERVER_CONFIG, config_id, what="mailbox")["id"]
        return found
    owner = owning_tenant()
    configs = ConfigCache(engine, MAIL_RECEIVE_SERVER_CONFIG, ttl_seconds=0, ticker=boot_seconds)
    for tenant_id in tenancy.tiers(PLATFORM_TENANT_ID if owner is None else owner):
        for config in configs.defaults(tenant_id):
            default: int = config["id"]
            return default
    raise NoDefaultMailbox
