"""Monthly quotas: what a tenant has used, and the limits that the platform keeps."""

from collections.abc import Sequence
from typing import Unpack

from sqlalchemy.orm import Session

from messaging import quota, quota_admin
from messaging.api.calls import in_session
from messaging.api.process import environment
from messaging.config_lists import Lines, ListFields
from messaging.quota import UNCHANGED, MonthUsage, Unchanged, Usage
from messaging.quota_admin import LimitFields, QuotaLine


def quota_usage(tenant_id: int | None = None, *, session: Session | None = None) -> Usage:
    """What a tenant has used of this month's quota, and its limit; zeros where nothing was charged yet.

    None is the current tenant; -1 is the platform's own. The platform may ask for any.

    Raises:
        TenantMismatch: Another tenant's.
    """
    settings = environment().settings
    with in_session(session) as s:
        return quota.usage(s, tenant_id, settings.quota)


def quota_history(
    tenant_id: int | None = None, *, months: int = 24, session: Session | None = None
) -> Sequence[MonthUsage]:
    """A tenant's months in which something was charged, newest first. Raises: as `quota_usage`."""
    environment()
    with in_session(session) as s:
        return quota.history(s, tenant_id, months=months)


def set_quota_limits(
    tenant_id: int,
    *,
    mail: int | Unchanged | None = UNCHANGED,
    sms: int | Unchanged | None = UNCHANGED,
    session: Session | None = None,
) -> None:
    """Set a tenant's monthly limits, as the platform: None is the default of the settings, 0 lets nothing out.

    Raises:
        TenantMismatch: A tenant asks for it.
        ValueError: A limit below 0, or no whole number.
    """
    environment()
    with in_session(session) as s:
        quota.set_limits(s, tenant_id, mail=mail, sms=sms)


def add_quota(tenant_id: int, *, session: Session | None = None, **limits: Unpack[LimitFields]) -> int:
    """Give a tenant limits of its own, as the platform; answers the quota's id. -1 is the platform's own.

    Raises:
        ConfigRejected: A limit is none, there can be no such tenant, or it has a quota already. Nothing was written.
        TenantMismatch: A tenant asks for it.
    """
    environment()
    with in_session(session) as s:
        return quota_admin.add_quota(s, tenant_id, **limits)


def change_quota(quota_id: int, *, session: Session | None = None, **limits: Unpack[LimitFields]) -> None:
    """Change the limits that are given, as the platform; they hold for the next charge.

    Raises:
        ConfigRejected: A limit is none; nothing was changed.
        RecordNotFound: No such quota.
        TenantMismatch: A tenant asks for it.
    """
    environment()
    with in_session(session) as s:
        quota_admin.change_quota(s, quota_id, **limits)


def delete_quota(quota_id: int, *, session: Session | None = None) -> None:
    """Delete a tenant's own limits, as the platform, so that the defaults of the settings hold.

    Raises:
        RecordNotFound: No such quota.
        TenantMismatch: A tenant asks for it.
    """
    environment()
    with in_session(session) as s:
        quota_admin.delete_quota(s, quota_id)


def list_quotas(
    tenant_id: int | None = None, *, session: Session | None = None, **asked: Unpack[ListFields]
) -> Lines[QuotaLine]:
    """The limits of all tenants that have some of their own, as the platform sees them; None is all tenants.

    Raises:
        ValueError, TypeError: They name what was asked and what is allowed.
        TenantMismatch: A tenant asks for it.
    """
    environment()
    with in_session(session) as s:
        return quota_admin.list_quotas(s, tenant_id, **asked)


def get_quota(quota_id: int, *, session: Session | None = None) -> QuotaLine:
    """The limits of one tenant, as the platform sees them. Raises: RecordNotFound, TenantMismatch."""
    environment()
    with in_session(session) as s:
        return quota_admin.get_quota(s, quota_id)
