"""Monthly quotas, which the platform keeps, and what was used of them: this month, and the months before."""

from collections.abc import Sequence
from typing import Any

from fastapi import Request
from starlette.responses import Response

from messaging import api, tenancy
from messaging.access.roles import Permission
from messaging.quota_admin import QUOTAS
from messaging.web.api.quotas import QuotaChanged, QuotaGiven
from messaging.web.api.resource import Caller, DbSession, needs
from messaging.web.console import asking
from messaging.web.console.audience import sees_platform
from messaging.web.console.config import ConfigPages
from messaging.web.console.pages import Pages, page
from messaging.web.console.tables import Cell, Column, Filter

routes = Pages()

_PATH = "/quotas"
_MONTHS = 12
_CHART_HEIGHT = 60


def _limit(value: int | None) -> str:
    return "by default" if value is None else f"{value:,}"


limits = ConfigPages(
    routes=routes,
    path="/quotas/limits",
    title="Quotas of tenants",
    one="quota",
    kind=QUOTAS,
    given=QuotaGiven,
    changed=QuotaChanged,
    columns=(
        Column("Tenant", lambda row: Cell(str(row.tenant_id), path=f"/quotas/limits/{row.id}"), "c-id", is_number=True),
        Column("Mails a month", lambda row: _limit(row.mail_monthly_limit), "c-what", is_number=True),
        Column("Text messages a month", lambda row: _limit(row.sms_monthly_limit), "c-what", is_number=True),
        Column("Usage", lambda row: Cell("Usage", path=f"/quotas?tenant={row.tenant_id}"), "c-short"),
        Column("Changed by", lambda row: row.updated_by, "c-with"),
        Column("Changed (UTC)", lambda row: row.updated_at, "c-when"),
    ),
    list_rows=api.list_quotas,
    get=api.get_quota,
    add=api.add_quota,
    change=api.change_quota,
    delete=api.delete_quota,
    after_delete="The tenant has the limits of the settings from then on.",
    labels={
        "tenant_id": "Tenant",
        "mail_monthly_limit": "Mails a month at most",
        "sms_monthly_limit": "Text messages a month at most",
    },
    hints={
        "mail_monthly_limit": "Empty: the setting's; 0: nothing goes out.",
        "sms_monthly_limit": "Empty: the setting's; 0: nothing goes out.",
        "tenant_id": "-1 is the platform's own.",
    },
    only_new=("tenant_id",),
    readers={"tenant_id": asking.tenant_id},
    filter_options=lambda _session: (Filter("tenant_id", "Tenant"),),
    is_searched=False,
    keepers=Permission.PLATFORM,
    viewers=Permission.PLATFORM,
)
limits.register()


@routes.get(_PATH, dependencies=[needs(Permission.READ)])
def show_usage(request: Request, caller: Caller, session: DbSession) -> Response:
    """What was used."""
    may_ask = sees_platform(caller) and tenancy.is_multi_tenancy()
    readers: dict[str, asking.Reader] = {"tenant": asking.tenant_id} if may_ask else {}
    asked = asking.read(request.url.query, readers)
    tenant_id = None if asked.errors else asked.get("tenant")
    usage = api.quota_usage(tenant_id, session=session)
    months = list(reversed(api.quota_history(tenant_id, months=_MONTHS, session=session)))
    return page(
        request,
        "quotas.html",
        asked=asked,
        usage=usage,
        months=months,
        charts=[
            ("Mails", _bars(months, "mail_used")),
            ("Text messages", _bars(months, "sms_used")),
        ],
        chart_height=_CHART_HEIGHT,
        may_ask=may_ask,
        keeps=sees_platform(caller),
    )


def _bars(months: Sequence[Any], name: str) -> list[tuple[int, float, float, str]]:
    """Place, top and height of each month's bar, and what it says."""
    highest = max((getattr(month, name) for month in months), default=0)
    bars = []
    for number, month in enumerate(months):
        used = getattr(month, name)
        height = round(_CHART_HEIGHT * used / highest, 1) if highest else 0.0
        bars.append((number * 30, round(_CHART_HEIGHT - height, 1), height, f"{month.period}: {used:,}"))
    return bars
