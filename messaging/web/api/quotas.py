"""`/quotas`: monthly limits of tenants, kept by the platform, and what each tenant has used of them."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from messaging import api
from messaging.access.roles import Permission
from messaging.web.api.configurations import READ, Items, left_out, page_asked, paged
from messaging.web.api.lists import Numbered, Page
from messaging.web.api.resource import DbSession, Resource, needs
from messaging.web.api.shapes import Given, Id, Shown, TenantId, Time

routes = Resource("quotas")

_PLATFORM = [needs(Permission.PLATFORM)]
#: Messages a month; as many as a number of JSON holds exactly (RFC 8259 section 6), and then some below.
_Limit = Annotated[int, Field(strict=True, ge=0, le=10**15)]


class QuotaShown(Shown):
    """The limits of a tenant: messages a month; null is the default of the settings, 0 lets nothing out."""

    id: Id
    #: -1 is the platform's own.
    tenant_id: TenantId
    mail_monthly_limit: int | None
    sms_monthly_limit: int | None
    created_at: Time
    updated_at: Time
    updated_by: str | None


class QuotaChanged(Given):
    """What changes; what is left out stays. Null is the default of the settings, 0 lets nothing out."""

    mail_monthly_limit: _Limit | None = left_out()
    sms_monthly_limit: _Limit | None = left_out()


class QuotaGiven(QuotaChanged):
    """Limits to set for a tenant that has none."""

    tenant_id: TenantId


class QuotaQuery(Numbered):
    """Which quotas."""

    tenant_id: TenantId | None = None
    sort: Literal["tenant_id", "-tenant_id", "updated_at", "-updated_at", "id", "-id"] = "tenant_id"


class UsageQuery(BaseModel):
    """Whose usage: the caller's own unless it is said; only the platform sees others'."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    tenant_id: TenantId | None = None


class UsageHistoryQuery(UsageQuery):
    """Whose usage, and how far back."""

    #: Months in which something was charged.
    months: int = Field(24, ge=1, le=240)


class MonthShown(Shown):
    """What was used in a month."""

    #: `YYYY-MM`.
    period: str
    mail_used: int
    #: In force at the last charge; null is unlimited.
    mail_limit: int | None
    sms_used: int
    sms_limit: int | None


class UsageShown(Shown):
    """What is used of the running month's quota, and the limits as they stand now; null is unlimited."""

    tenant_id: TenantId
    #: `YYYY-MM`.
    period: str
    mail_used: int
    mail_limit: int | None
    mail_remaining: int | None
    sms_used: int
    sms_limit: int | None
    sms_remaining: int | None


@routes.get("/quotas/usage", dependencies=READ)
def get_quota_usage(session: DbSession, query: Annotated[UsageQuery, Query()]) -> UsageShown:
    """What a tenant has used this month; zeros where nothing was charged yet, 403 for another tenant's."""
    return UsageShown.model_validate(api.quota_usage(query.tenant_id, session=session))


@routes.get("/quotas/usage/history", dependencies=READ)
def list_quota_usage(session: DbSession, query: Annotated[UsageHistoryQuery, Query()]) -> Items[MonthShown]:
    """The months in which something was charged, newest first; 403 for another tenant's."""
    found = api.quota_history(query.tenant_id, months=query.months, session=session)
    return Items(items=[MonthShown.model_validate(month) for month in found])


@routes.get("/quotas", dependencies=_PLATFORM)
def list_quotas(session: DbSession, query: Annotated[QuotaQuery, Query()]) -> Page[QuotaShown]:
    """The limits of all tenants that have some of their own."""
    lines = api.list_quotas(query.tenant_id, session=session, **page_asked(query))
    return paged(lines, query, QuotaShown.model_validate)


@routes.get("/quotas/{quota_id}", dependencies=_PLATFORM)
def get_quota(session: DbSession, quota_id: Id) -> QuotaShown:
    """The limits of one tenant."""
    return QuotaShown.model_validate(api.get_quota(quota_id, session=session))


@routes.post("/quotas", status_code=201, dependencies=_PLATFORM)
def add_quota(session: DbSession, given: QuotaGiven) -> QuotaShown:
    """Give a tenant limits of its own."""
    limits = given.sent()
    return get_quota(session, api.add_quota(limits.pop("tenant_id"), session=session, **limits))


@routes.patch("/quotas/{quota_id}", dependencies=_PLATFORM)
def change_quota(session: DbSession, quota_id: Id, given: QuotaChanged) -> QuotaShown:
    """Change a tenant's limits; they hold for the next charge."""
    api.change_quota(quota_id, session=session, **given.sent())
    return get_quota(session, quota_id)


@routes.delete("/quotas/{quota_id}", status_code=204, dependencies=_PLATFORM)
def delete_quota(session: DbSession, quota_id: Id) -> None:
    """Delete a tenant's own limits; from then on the defaults of the settings hold."""
    api.delete_quota(quota_id, session=session)
