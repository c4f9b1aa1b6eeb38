"""Operators over HTTP: added, changed, disabled; who may do that to whom."""

import pytest
from sqlalchemy import Engine, text
from starlette.types import ASGIApp

from messaging import tenancy
from messaging.access.roles import Role
from messaging.api import access
from tests.integration.web.api.conftest import MakeClient, OpenApi

ALL = "/api/v1/operators"
PASSWORD = "correct horse battery"


def test_an_operator_is_added_changed_and_listed_without_the_password(client: MakeClient, engine: Engine) -> None:
    admin = client(Role.TENANT_ADMIN)

    added = admin.post(ALL, json={"user_name": "Ann", "role": "VIEWER", "password": PASSWORD, "user_id": "12"})
    assert added.status_code == 201
    one = f"{ALL}/{added.json()['id']}"
    changed = admin.patch(one, json={"display_name": "Ann", "user_id": None})

    assert changed.json() == admin.get(one).json()
    assert (changed.json()["user_name"], changed.json()["role"], changed.json()["display_name"]) == (
        "ann",
        "VIEWER",
        "Ann",
    )
    assert changed.json()["user_id"] is None
    assert [one["user_name"] for one in admin.get(ALL).json()["items"]] == ["ann"]
    with engine.connect() as connection:
        stored = connection.execute(text("SELECT password_hash FROM operator")).scalar_one()
        noted = connection.execute(text("SELECT string_agg(after::text, '') FROM audit_log")).scalar_one()
    assert stored.startswith("$argon2id$")
    for shown in (added.text, changed.text, noted):
        assert stored not in shown
        assert PASSWORD not in shown


def test_a_name_is_taken_whatever_the_tenant(client: MakeClient) -> None:
    given = {"user_name": "ann", "role": "VIEWER"}
    assert client(tenant=8).post(ALL, json=given).status_code == 201

    answer = client(tenant=7).post(ALL, json=given)

    assert (answer.status_code, answer.json()["field"], answer.json()["message"]) == (422, "user_name", "is taken")


def test_disabled_operators_are_in_the_lists_that_ask_for_them(client: MakeClient) -> None:
    admin = client()
    ids = [admin.post(ALL, json={"user_name": name, "role": "VIEWER"}).json()["id"] for name in ("ann", "ben")]
    assert admin.post(f"{ALL}/{ids[0]}/disable").json()["active"] is False

    def listed(active: str) -> list[str]:
        answer = admin.get(ALL, params={"active": active}).json()
        assert answer["total"] == len(answer["items"])
        return [one["user_name"] for one in answer["items"]]

    assert (listed("true"), listed("false"), listed("all")) == (["ben"], ["ann"], ["ann", "ben"])
    assert admin.post(f"{ALL}/{ids[0]}/enable").json()["active"] is True


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"user_name": "a b"}, "user_name"),
        ({"user_name": "ann", "password": "short"}, "password"),
        ({"user_name": "correct-horse", "password": "Correct-Horse"}, "password"),
        ({"user_name": "ann", "display_name": "x" * 101}, "display_name"),
    ],
)
def test_what_no_operator_can_have_is_refused_and_no_password_repeated(
    client: MakeClient, given: dict[str, str], field: str
) -> None:
    answer = client().post(ALL, json={"role": "VIEWER", **given})

    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert given.get("password", PASSWORD) not in answer.text


def test_an_administrator_has_no_way_to_the_platforms_role(open_api: OpenApi, client: MakeClient) -> None:
    app: ASGIApp = open_api(multi_tenancy=False)
    boss = access.add_operator("boss", password=PASSWORD, role=Role.PLATFORM)
    admin = client(Role.TENANT_ADMIN, app=app)

    for answer in (
        admin.post(ALL, json={"user_name": "me", "role": "PLATFORM"}),
        admin.post(f"{ALL}/{boss}/password", json={"password": PASSWORD}),
        admin.post(f"{ALL}/{boss}/disable"),
        admin.patch(f"{ALL}/{boss}", json={"role": "VIEWER"}),
    ):
        assert answer.status_code == 403, answer.text


def test_a_platforms_administrator_makes_its_own_operators(client: MakeClient) -> None:
    platform = client(Role.PLATFORM)

    answer = platform.post(ALL, json={"user_name": "root", "role": "PLATFORM"})

    assert answer.status_code == 201
    with tenancy.tenant(tenancy.PLATFORM_TENANT_ID):
        assert [row.user_name for row in access.list_operators()] == ["root"]
