"""Monthly limits of tenants kept by the platform: added, changed, listed, deleted. What they mean: `messaging.quota`.

Runs in the caller's transaction. A limit holds for the next charge; what is prepared was charged and goes out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict, Unpack

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from messaging import config_admin, config_lists, field_checks, tenancy
from messaging.config_kinds import Kind, Twin
from messaging.config_lists import Lines, ListFields
from messaging.errors import ConfigRejected
from messaging.field_checks import number
from messaging.quota import TenantMessageQuota, require_platform
from messaging.settings import MAX_STORABLE_COUNT

_Q = TenantMessageQuota


class LimitFields(TypedDict, total=False):
    """The limits that are given: messages a month; None is the default of the settings, 0 lets nothing out."""

    mail_monthly_limit: int | None
    sms_monthly_limit: int | None


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """The limits of a tenant."""

    id: int
    #: -1 is the platform's own.
    tenant_id: int
    mail_monthly_limit: int | None
    sms_monthly_limit: int | None
    created_at: datetime
    updated_at: datetime
    updated_by: str | None


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    values = field_checks.checked(given, _CHECKS, what="a quota", secrets=())
    is_alone = tenancy.is_single_tenant()
    if "tenant_id" in values and is_alone != (values["tenant_id"] == tenancy.SINGLE_TENANT_ID):
        allowed = "0, as multi-tenancy is off" if is_alone else "a tenant's id, or -1 for the platform's own"
        raise ConfigRejected("tenant_id", values["tenant_id"], f"allowed: {allowed}")
    return values


def _like(fields: Mapping[str, Any]) -> Twin:
    return Twin(select(_Q).where(_Q.tenant_id == fields["tenant_id"]), "tenant_id", "it has a quota already")


_LIMIT = number(0, MAX_STORABLE_COUNT, is_required=False)
_CHECKS: Mapping[str, field_checks.Check] = {
    "tenant_id": number(tenancy.PLATFORM_TENANT_ID, 2**63 - 1),
    "mail_monthly_limit": _LIMIT,
    "sms_monthly_limit": _LIMIT,
}
QUOTAS = Kind(
    what="quota",
    model=_Q,
    line=QuotaLine,
    fields=tuple(_CHECKS),
    defaults={},
    check=_checked,
    order=("tenant_id",),
    searched=(),
    twin=_like,
)


def add_quota(session: Session, tenant_id: int, **limits: Unpack[LimitFields]) -> int:
    """Give a tenant limits of its own; answers the quota's id.

    Raises:
        ConfigRejected: A limit is none, there can be no such tenant, or it has a quota already. Nothing was written.
        TenantMismatch: A tenant asks for it.
    """
    require_platform()
    return config_admin.add(session, QUOTAS, {"tenant_id": tenant_id, **limits})


def change_quota(session: Session, quota_id: int, **limits: Unpack[LimitFields]) -> None:
    """Change the limits that are given.

    Raises:
        ConfigRejected: A limit is none; nothing was changed.
        RecordNotFound: No such quota.
        TenantMismatch: A tenant asks for it.
    """
    require_platform()
    config_admin.change(session, QUOTAS, quota_id, limits)


def delete_quota(session: Session, quota_id: int) -> None:
    """Delete a tenant's own limits; from then on the defaults of the settings hold. What was used stays counted.

    Raises:
        RecordNotFound: No such quota.
        TenantMismatch: A tenant asks for it.
    """
    require_platform()
    config_admin.delete(session, QUOTAS, quota_id)


def list_quotas(session: Session, tenant_id: int | None = None, **asked: Unpack[ListFields]) -> Lines[QuotaLine]:
    """The limits of all tenants that have some of their own, by tenant; None is all tenants.

    Raises:
        ValueError, TypeError: As `messaging.config_lists.listed`.
        TenantMismatch: A tenant asks for it.
    """
    require_platform()
    conditions: list[ColumnElement[bool]] = [] if tenant_id is None else [_Q.tenant_id == tenant_id]
    return config_lists.listed(session, QUOTAS, asked, *conditions)


def get_quota(session: Session, quota_id: int) -> QuotaLine:
    """One of them. Raises: RecordNotFound; TenantMismatch, where a tenant asks for it."""
    require_platform()
    return config_lists.shown(session, QUOTAS, quota_id)
