"""SMS providers kept by operators: added, changed, listed, switched off and on, tried.

Runs in the caller's transaction and tenant; a change is used by every worker's next attempt within a second of its
commit. Secrets go in and never come out. Routes and bindings: `messaging.sms.route_admin`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from messaging.config_cache import own_config
from messaging.db.active import with_disabled
from messaging.db.encryption import CredentialUnreadable
from messaging.db.own_rows import created, get_own, set_active, sign
from messaging.errors import ConfigRejected, PreparationError, RecordNotFound
from messaging.sms.ext_config import unseal
from messaging.sms.models import SMS_PROVIDER_CONFIG, SmsProviderConfig
from messaging.sms.provider_checks import ProviderFields, check_together, checked
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
    provider_type: str
    api_endpoint: str | None
    account_id: str | None
    sender_number: str | None
    sender_id: str | None
    is_default: bool
    active: bool
    priority: int
    daily_send_limit: int | None
    rate_limit_per_minute: int | None
    updated_at: datetime
    has_api_key: bool
    has_api_secret: bool
    #: The keys of `ext_config`, which may hold secrets.
    ext_keys: list[str]
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
    row = new_provider(**fields)
    session.add(row)
    session.flush()
    return row.id


def new_provider(**fields: Unpack[ProviderFields]) -> SmsProviderConfig:
    """A provider with these fields, not in a session yet.

    Raises:
        ConfigRejected: As `add_provider`.
    """
    given = dict.fromkeys(ProviderFields.__annotations__) | dict(_DEFAULTS) | dict(fields)
    values = checked(given)
    check_together(values)
    return _P(**values, **created())


def change_provider(session: Session, config_id: int, **fields: Unpack[ProviderFields]) -> None:
    """Change the fields that are given; a secret that is not given stays, None takes it away.

    Raises:
        ConfigRejected: As `add_provider`; nothing was changed.
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    row = get_own(session, _P, config_id, what=WHAT)
    values = checked(fields)
    check_together({name: values[name] if name in values else _stored(row, name) for name in _FIELDS})
    for name, value in values.items():
        setattr(row, name, value)
    sign(row)
    session.flush()


def list_providers(
    session: Session, *, include_disabled: bool = False, public_base_url: str | None = None
) -> list[ProviderLine]:
    """The tenant's providers, lowest priority first; `public_base_url` is the web application's."""
    names = [name for name in ProviderLine.__dataclass_fields__ if name in SMS_PROVIDER_CONFIG.c]
    statement = select(
        *(getattr(_P, name) for name in names),
        _P.api_key.is_not(None).label("has_api_key"),
        _P.api_secret.is_not(None).label("has_api_secret"),
        _P.ext_config,
        _P.receipt_token,
    ).order_by(_P.tenant_id, _P.priority, _P.id)
    rows = session.execute(with_disabled(statement) if include_disabled else statement)
    return [_line(dict(row._mapping), public_base_url) for row in rows]


def get_provider(session: Session, config_id: int, *, public_base_url: str | None = None) -> ProviderLine:
    """One of them, disabled or not.

    Raises:
        RecordNotFound: No such provider in this tenant.
    """
    lines = list_providers(session, include_disabled=True, public_base_url=public_base_url)
    found = next((line for line in lines if line.id == config_id), None)
    if found is None:
        raise RecordNotFound(f"no {WHAT} {config_id}")
    return found


def set_provider_active(session: Session, config_id: int, is_active: bool) -> None:
    """Disable a provider (nothing new is sent by it; what was prepared with it still goes out), or enable it again.

    Raises:
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    set_active(session, get_own(session, _P, config_id, what=WHAT), is_active)


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


_FIELDS = tuple(ProviderFields.__annotations__)


def _stored(row: SmsProviderConfig, name: str) -> Any:
    """A field as it was given. Raises: ConfigRejected, for a secret that nobody can read any more."""
    try:
        return unseal(row.ext_config) if name == "ext_config" else getattr(row, name)
    except CredentialUnreadable as exc:
        raise ConfigRejected(name, None, f"is stored and unreadable ({exc}); give it anew", is_secret=True) from exc


def _line(row: dict[str, Any], public_base_url: str | None) -> ProviderLine:
    ext_config, token = row.pop("ext_config"), row.pop("receipt_token")
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
