"""Quotas over HTTP: kept by the platform, usage seen by the tenant. operate.md section 5: O43, O44."""

from typing import Any

import pytest
from sqlalchemy import Engine, insert

from messaging.access.roles import Role
from messaging.clock import utc_now
from messaging.quota import TENANT_MESSAGE_USAGE, period
from tests.integration.web.api.conftest import MakeClient, OpenApi

ALL = "/api/v1/quotas"


def use(engine: Engine, tenant_id: int, when: str | None = None, **columns: Any) -> None:
    with engine.begin() as connection:
        values = {"tenant_id": tenant_id, "period": when or period(utc_now(), "UTC"), **columns}
        connection.execute(insert(TENANT_MESSAGE_USAGE).values(values))


def test_the_platform_gives_tenants_limits(client: MakeClient) -> None:
    platform = client(Role.PLATFORM)
    made = platform.post(ALL, json={"tenant_id": "7", "mail_monthly_limit": 10})
    assert made.status_code == 201
    quota = made.json()
    assert (quota["tenant_id"], quota["mail_monthly_limit"], quota["sms_monthly_limit"]) == ("7", 10, None)
    one = f"{ALL}/{quota['id']}"
    assert platform.patch(one, json={"sms_monthly_limit": 0}).json()["mail_monthly_limit"] == 10
    assert platform.post(ALL, json={"tenant_id": "-1"}).json()["tenant_id"] == "-1"
    again = platform.post(ALL, json={"tenant_id": "7"})
    assert (again.status_code, again.json()["field"]) == (422, "tenant_id")
    assert [row["tenant_id"] for row in platform.get(ALL).json()["items"]] == ["-1", "7"]
    assert platform.get(ALL, params={"tenant_id": "7"}).json()["items"] == [platform.get(one).json()]
    for wrong in ({"mail_monthly_limit": -1}, {"mail_monthly_limit": "10"}, {"tenant_id": "8"}):
        assert platform.patch(one, json=wrong).json()["field"] == next(iter(wrong))
    assert (platform.delete(one).status_code, platform.get(one).status_code) == (204, 404)


@pytest.mark.parametrize("role", [Role.SENDER, Role.VIEWER, Role.OPERATOR, Role.TENANT_ADMIN])
def test_a_tenant_neither_sees_nor_sets_limits(client: MakeClient, role: Role) -> None:  # O44
    quota_id = client(Role.PLATFORM).post(ALL, json={"tenant_id": "7"}).json()["id"]
    caller = client(role)
    answers = [
        caller.post(ALL, json={"tenant_id": "7", "mail_monthly_limit": 10**6}),
        caller.patch(f"{ALL}/{quota_id}", json={"mail_monthly_limit": 10**6}),
        caller.delete(f"{ALL}/{quota_id}"),
        caller.get(ALL),
        caller.get(f"{ALL}/{quota_id}"),
    ]
    assert [answer.status_code for answer in answers] == [403] * 5


def test_usage_is_ones_own_or_the_platforms_to_ask_for(client: MakeClient, engine: Engine) -> None:  # O43
    platform, admin = client(Role.PLATFORM), client(Role.VIEWER)
    platform.post(ALL, json={"tenant_id": "7", "mail_monthly_limit": 10})
    use(engine, 7, mail_used=4, sms_used=2, mail_limit=99)
    own = admin.get(f"{ALL}/usage").json()
    assert own == {
        "tenant_id": "7",
        "period": period(utc_now(), "UTC"),
        "mail_used": 4,
        "mail_limit": 10,
        "mail_remaining": 6,
        "sms_used": 2,
        "sms_limit": None,
        "sms_remaining": None,
    }
    assert admin.get(f"{ALL}/usage", params={"tenant_id": "7"}).json() == own
    assert platform.get(f"{ALL}/usage", params={"tenant_id": "7"}).json() == own
    none_yet = platform.get(f"{ALL}/usage", params={"tenant_id": "8"}).json()
    assert (none_yet["mail_used"], none_yet["sms_used"], none_yet["mail_limit"]) == (0, 0, None)
    for foreign in ("8", "-1", "0"):
        for path in ("usage", "usage/history"):
            assert admin.get(f"{ALL}/{path}", params={"tenant_id": foreign}).status_code == 403
    assert client(Role.SENDER).get(f"{ALL}/usage").status_code == 403


def test_the_months_before_are_listed_newest_first(client: MakeClient, engine: Engine) -> None:
    for month in ("2026-01", "2025-12", "2025-11"):
        use(engine, 7, month, mail_used=1, mail_limit=5)
    use(engine, 8, "2026-01", mail_used=9)
    months = client(Role.VIEWER).get(f"{ALL}/usage/history", params={"months": 2}).json()["items"]
    assert [month["period"] for month in months] == ["2026-01", "2025-12"]
    assert months[0] == {"period": "2026-01", "mail_used": 1, "mail_limit": 5, "sms_used": 0, "sms_limit": None}
    assert len(client(Role.PLATFORM).get(f"{ALL}/usage/history", params={"tenant_id": "8"}).json()["items"]) == 1


def test_with_multi_tenancy_off_there_is_one_quota(open_api: OpenApi, client: MakeClient) -> None:  # O11
    platform = client(Role.PLATFORM, app=open_api(multi_tenancy=False))
    assert platform.post(ALL, json={"tenant_id": "7"}).json()["field"] == "tenant_id"
    assert platform.post(ALL, json={"tenant_id": "0", "mail_monthly_limit": 3}).status_code == 201
    assert platform.get(f"{ALL}/usage").json()["mail_remaining"] == 3
