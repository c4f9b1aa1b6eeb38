"""SMS providers kept by operators: added, changed, copied, listed, switched off and on, checked, deleted.

Runs in the caller's transaction and tenant; a change is used by every worker's next attempt within a second of its
commit. Secrets go in and never come out. Routes and bindings: `messaging.sms.route_admin`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from messaging import config_admin, config_lists
from messaging.config_cache import own_config
from messaging.config_kinds import Kind
from messaging.config_lists import Lines, ListFields
from messaging.db.active import with_disabled
from messaging.db.encryption import CredentialUnreadable
from messaging.errors import ConfigRejected, PreparationError
from messaging.sms.ext_config import unseal
from messaging.sms.models import SMS_PROVIDER_CONFIG, SmsProviderConfig, SmsProviderRegion
from messaging.sms.provider_checks import SECRET_FIELDS, ProviderFields, check_together, checked
from messaging.sms.providers import registry
from messaging.sms.receipt_address import INBOUND, receipt_path, receipt_url
from messaging.sms.routing import provider_config

#: What messages call it.
WHAT = "SMS provider"

_P = SmsProviderConfig

#: What stands where nothing is given; None for every other field.
_DEFAULTS: ProviderFields = {"is_default": False, "active": True, "priority": 100}


@dataclass(frozen=True, slots=True)
class ProviderLine:
    """A provider as lists show it: without secrets."""

    id: int
    tenant_id: int
    name: str
    description: str | None
    provider_type: str
    has_api_key: bool
    has_api_secret: bool
    #: The keys of `ext_config`, which may hold secrets.
    ext_keys: list[str]
    api_endpoint: str | None
    account_id: str | None
    sender_number: str | None
    sender_id: str | None
    is_default: bool
    active: bool
    priority: int
    daily_send_limit: int | None
    rate_limit_per_minute: int | None
    created_at: datetime
    updated_at: datetime
    updated_by: str | None
    #: Where its receipts come to, below the public address of the web application; whoever knows it can send some.
    receipt_path: str
    #: The whole address, and that of messages to us; None where the web application has no public address.
    receipt_url: str | None
    inbound_url: str | None
    #: Whether each message says where its receipts go to; else an operator sets that in the provider's console.
    is_told_receipt_url: bool


@dataclass(frozen=True, slots=True)
class ProviderCheck:
    """What can be said of a provider without calling anybody. Holds no secret."""

    success: bool
    provider_type: str
    #: Marker and reason; None on success.
    error_message: str | None


def add_provider(session: Session, **fields: Unpack[ProviderFields]) -> int:
    """Add a provider; answers its id. A tenant may have several defaults, of which the lowest priority goes first.

    Raises:
        ConfigRejected: A field cannot be saved, or the adapter could not send with it; nothing was written.
    """
    return config_admin.add(session, PROVIDERS, fields)


def change_provider(session: Session, config_id: int, **fields: Unpack[ProviderFields]) -> None:
    """Change the fields that are given; a secret that is not given stays, None takes it away.

    Raises:
        ConfigRejected: As `add_provider`; nothing was changed.
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.change(session, PROVIDERS, config_id, fields)


def copy_provider(session: Session, config_id: int, **fields: Unpack[ProviderFields]) -> int:
    """Add a provider like another one, but for the fields that are given; answers its id.

    Keys, secrets and `ext_config` are not copied, nor are routes and bindings; its receipts come to an address of its
    own. Unless it is said otherwise the copy is disabled and no default.

    Raises:
        ConfigRejected: As `add_provider`; also where the adapter needs what is not copied.
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    return config_admin.copy(session, PROVIDERS, config_id, fields)


def delete_provider(session: Session, config_id: int) -> None:
    """Delete a provider with its routes. To let go out what is prepared with it, disable it instead.

    What went out by it stays as it is, and keeps its id, which no other provider gets; its receipts are refused like
    those to any unknown address. What still has to go out by it, as it is prepared with it or names it, fails with
    `CONFIG_NOT_RESOLVABLE`. Bindings to it stay and are passed over: a template that has no others fails with
    `NO_TEMPLATE_BINDING` until somebody removes them, and does not go out under a name that nobody registered.

    Raises:
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.delete(session, PROVIDERS, config_id)
    routes = select(SmsProviderRegion).where(SmsProviderRegion.provider_config_id == config_id)
    for route in session.scalars(with_disabled(routes)):
        session.delete(route)
    session.flush()


def list_providers(
    session: Session, *, public_base_url: str | None = None, **asked: Unpack[ListFields]
) -> Lines[ProviderLine]:
    """The tenant's providers, lowest priority first; `public_base_url` is the web application's.

    Raises: ValueError, TypeError.
    """
    found = config_lists.rows(session, PROVIDERS, asked)
    return Lines([_line(row, public_base_url) for row in found], found.total)


def get_provider(session: Session, config_id: int, *, public_base_url: str | None = None) -> ProviderLine:
    """One of them, disabled or not.

    Raises:
        RecordNotFound: No such provider in this tenant.
    """
    return _line(config_lists.one(session, PROVIDERS, config_id), public_base_url)


def set_provider_active(session: Session, config_id: int, is_active: bool) -> None:
    """Disable a provider (nothing new is sent by it; what was prepared with it still goes out), or enable it again.

    Raises:
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.switch(session, PROVIDERS, config_id, is_active)


def check_provider(engine: Engine, config_id: int) -> ProviderCheck:
    """Whether a provider of the current tenant, disabled or not, has an adapter, readable secrets and all it needs.

    Nobody is called; that is `messaging.sms.connectivity`'s.

    Raises:
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    row = own_config(engine, SMS_PROVIDER_CONFIG, config_id, what=WHAT)
    provider_type: str = row["provider_type"]
    try:
        registry.provider(provider_type).check_config(provider_config(row))
    except PreparationError as exc:
        return ProviderCheck(False, provider_type, f"{exc.marker}: {exc}")
    return ProviderCheck(True, provider_type, None)


def _stored(row: Any, names: Collection[str]) -> dict[str, Any]:
    """Fields as they were given. Raises: ConfigRejected, for a secret that nobody can read any more."""
    found = {}
    for name in names:
        try:
            found[name] = unseal(row.ext_config) if name == "ext_config" else getattr(row, name)
        except CredentialUnreadable as exc:
            raise ConfigRejected(name, None, f"is stored and unreadable ({exc}); give it anew", is_secret=True) from exc
    return found


PROVIDERS = Kind(
    what=WHAT,
    model=_P,
    line=ProviderLine,
    fields=tuple(ProviderFields.__annotations__),
    defaults=_DEFAULTS,
    secrets=SECRET_FIELDS,
    check=checked,
    check_together=check_together,
    stored=_stored,
    order=("tenant_id", "priority"),
    #: What the shape of a line is made of.
    computed={"ext_keys": _P.ext_config, "receipt_path": _P.receipt_token},
)


def _line(row: dict[str, Any], public_base_url: str | None) -> ProviderLine:
    ext_config, token = row.pop("ext_keys"), row.pop("receipt_path")
    provider_type = row["provider_type"]
    path, url = receipt_path(provider_type, token), receipt_url(public_base_url, provider_type, token)
    return ProviderLine(
        **row,
        ext_keys=sorted(ext_config) if isinstance(ext_config, Mapping) else [],
        receipt_path=path,
        receipt_url=url,
        inbound_url=None if url is None else url + INBOUND,
        is_told_receipt_url=url is not None and _takes_callback(provider_type),
    )


def _takes_callback(provider_type: str) -> bool:
    try:
        return registry.provider(provider_type).takes_callback
    except PreparationError:  # an application's own type, which this process has not registered
        return False
