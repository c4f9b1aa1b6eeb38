"""Webhook endpoints kept by operators: added, changed, listed, switched off and on, deleted, given another secret.

Runs in the caller's transaction and tenant; what an endpoint is told follows a change within a second of its commit. A
secret comes out once, when it is made.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from messaging import config_admin, config_lists, field_checks
from messaging.config_kinds import Kind
from messaging.config_lists import Lines, ListFields
from messaging.db.active import with_disabled
from messaging.db.encryption import CredentialUnreadable
from messaging.db.own_rows import TO_CHANGE, get_own, sign
from messaging.errors import ConfigRejected, StateError
from messaging.field_checks import switch, text
from messaging.webhooks.addresses import MAX_URL_CHARS, check_url
from messaging.webhooks.events import EVENT_TYPES
from messaging.webhooks.models import WebhookEndpoint
from messaging.webhooks.signing import check_secret, new_secret

#: What messages call it.
WHAT = "webhook endpoint"

#: Hours for which a secret that was replaced signs as well, unless it is said otherwise, and at most.
KEEP_HOURS, MAX_KEEP_HOURS = 24.0, 24.0 * 30

#: Endpoints of one tenant, disabled ones too: each outcome writes a row for each, where other tenants' outcomes wait.
MAX_ENDPOINTS = 50


class EndpointFields(TypedDict, total=False):
    """The fields of `WebhookEndpoint` that are given; what they mean is said there."""

    name: str
    description: str | None
    url: str
    #: Types of events; None is all.
    event_types: Collection[str] | None
    active: bool
    #: `whsec_` and the base64 of 24 to 64 octets; None: a new one is made.
    secret: str | None


@dataclass(frozen=True, slots=True)
class WebhookEndpointLine:
    """An endpoint as lists show it: without its secret."""

    id: int
    tenant_id: int
    name: str
    description: str | None
    url: str
    #: None is all.
    event_types: list[str] | None
    active: bool
    #: When it answered 410 Gone, which disabled it.
    gone_at: datetime | None
    #: Until when the secret that was replaced signs as well.
    replaced_secret_until: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class WebhookEndpointAdded:
    """An endpoint just added, or given another secret."""

    id: int
    #: Shown this once.
    secret: str


def add_endpoint(session: Session, *, allow_private: bool, **fields: Unpack[EndpointFields]) -> WebhookEndpointAdded:
    """Add an endpoint; what happens from now on is told to it. `allow_private`: `check_url`.

    Raises:
        ConfigRejected: A field cannot be saved; nothing was written.
        StateError: The tenant has as many as it may.
    """
    secret = fields.get("secret") or new_secret()
    _check_address(fields, allow_private)
    count = session.scalars(with_disabled(select(func.count(WebhookEndpoint.id)))).one()
    if count >= MAX_ENDPOINTS:
        raise StateError(f"there are {count} {WHAT}s; a tenant may have {MAX_ENDPOINTS}")
    row_id = config_admin.add(session, KIND, {**fields, "secret": secret})
    return WebhookEndpointAdded(row_id, secret)


def change_endpoint(
    session: Session, endpoint_id: int, *, allow_private: bool, **fields: Unpack[EndpointFields]
) -> None:
    """Change the fields that are given, not the secret: see `rotate_secret`.

    Raises:
        ConfigRejected: A field cannot be saved; nothing was changed.
        RecordNotFound: No such endpoint in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    if "secret" in fields:
        raise ConfigRejected("secret", None, "is replaced, not changed: rotate it", is_secret=True)
    _check_address(fields, allow_private)
    config_admin.change(session, KIND, endpoint_id, fields, follow=_forget_gone)


def list_endpoints(session: Session, asked: ListFields) -> Lines[WebhookEndpointLine]:
    """The tenant's endpoints. Raises: ValueError, TypeError, naming what was asked and what is allowed."""
    return config_lists.listed(session, KIND, asked)


def get_endpoint(session: Session, endpoint_id: int) -> WebhookEndpointLine:
    """One of them, disabled or not. Raises: RecordNotFound."""
    return config_lists.shown(session, KIND, endpoint_id)


def delete_endpoint(session: Session, endpoint_id: int) -> None:
    """Delete an endpoint; what it has not been told yet fails.

    Raises:
        RecordNotFound: No such endpoint in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.delete(session, KIND, endpoint_id)


def rotate_secret(
    session: Session, endpoint_id: int, *, keep_hours: float = KEEP_HOURS, secret: str | None = None
) -> WebhookEndpointAdded:
    """Replace an endpoint's secret; for `keep_hours` the old one signs as well, so that the receiver may change over.

    `secret` None: a new one is made. One that was replaced before and signs still does so no more.

    Raises:
        ConfigRejected: The secret is none, or the hours are not 0 to 720.
        RecordNotFound: No such endpoint in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    if not 0 <= keep_hours <= MAX_KEEP_HOURS:
        raise ConfigRejected("keep_hours", keep_hours, f"allowed: 0 to {MAX_KEEP_HOURS:g}")
    row = get_own(session, WebhookEndpoint, endpoint_id, what=WHAT, lock=TO_CHANGE)
    newest: str = KIND.check({"secret": secret or new_secret()})["secret"]
    old = _newest_secret(row) if keep_hours else None
    row.secret = newest if old is None else f"{newest} {old}"
    now: datetime = session.scalars(func.now().select()).one()
    row.replaced_secret_until = None if old is None else now + timedelta(hours=keep_hours)
    sign(row)
    session.flush()
    return WebhookEndpointAdded(row.id, newest)


def _newest_secret(row: WebhookEndpoint) -> str | None:
    """None for one that nobody can read any more: it signs nothing."""
    try:
        return row.secret.split()[0]
    except CredentialUnreadable:
        return None


def _check_address(fields: EndpointFields, allow_private: bool) -> None:
    """Raises: ConfigRejected."""
    url: object = fields.get("url")
    if isinstance(url, str) and url.strip():
        try:
            check_url(url.strip(), allow_private=allow_private)
        except ValueError as exc:
            raise ConfigRejected("url", url, str(exc)) from exc


def _forget_gone(row: WebhookEndpoint, values: Mapping[str, Any]) -> None:
    """Enabled again, or pointed elsewhere: what it answered before says nothing of it."""
    if values.get("active") or values.get("url", row.url) != row.url:
        row.gone_at = None


def _event_types(value: Any) -> list[str] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Collection) or not value:
        raise ValueError(f"allowed: none for all, or some of {', '.join(EVENT_TYPES)}")
    unknown = [one for one in value if one not in EVENT_TYPES]
    if unknown:
        raise ValueError(f"there is no event {unknown[0]!r}; allowed: {', '.join(EVENT_TYPES)}")
    return [one for one in EVENT_TYPES if one in value]


def _secret(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("is no text")
    check_secret(value)
    return value


_CHECKS: Mapping[str, field_checks.Check] = {
    "name": text(100, is_required=True),
    "description": text(500),
    "url": text(MAX_URL_CHARS, is_required=True),
    "event_types": _event_types,
    "active": switch,
    "secret": _secret,
}


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    return field_checks.checked(given, _CHECKS, what=f"a {WHAT}", secrets=KIND.secrets)


KIND = Kind(
    what=WHAT,
    model=WebhookEndpoint,
    line=WebhookEndpointLine,
    fields=tuple(EndpointFields.__annotations__),
    defaults={"active": True},
    secrets=frozenset({"secret"}),
    check=_checked,
    order=("tenant_id", "name"),
    searched=("name", "url"),
)
