"""API tokens over HTTP: made, listed, revoked; who may, and who is known by one."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, text

from messaging.access.roles import Role
from messaging.web.credentials import KEPT_SECONDS
from tests.integration.web.api.conftest import MakeClient, OpenApi

ALL = "/api/v1/tokens"


def test_a_token_made_by_an_administrator_is_known_and_shown_once(client: MakeClient) -> None:
    admin = client(Role.TENANT_ADMIN)

    made = admin.post(ALL, json={"name": "shop", "role": "SENDER", "user_id": "12"})

    assert made.status_code == 201
    token = made.json()["token"]
    me = client(None).get("/api/v1/me", headers={"authorization": f"Bearer {token}"})
    assert me.json() == {
        "actor": f"token:{made.json()['id']}",
        "tenant_id": "7",
        "user_id": "12",
        "user_name": "shop",
        "permissions": ["SEND"],
    }
    shown = admin.get(f"{ALL}/{made.json()['id']}")
    assert token not in shown.text
    assert shown.json()["prefix"] == token[:12]


@pytest.mark.parametrize("role", [Role.SENDER, Role.VIEWER, Role.OPERATOR])
def test_only_administrators_see_and_make_tokens(client: MakeClient, role: Role) -> None:
    caller = client(role)

    assert caller.get(ALL).status_code == 403
    assert caller.post(ALL, json={"name": "x", "role": "SENDER"}).json()["code"] == "forbidden"


def test_a_tenants_administrator_does_not_make_a_token_of_the_platform(client: MakeClient) -> None:
    answer = client(Role.TENANT_ADMIN).post(ALL, json={"name": "x", "role": "PLATFORM"})

    assert (answer.status_code, answer.json()["field"]) == (403, "role")


def test_a_revoked_token_is_known_to_nobody_within_a_second(open_api: OpenApi, client: MakeClient) -> None:
    now = [0.0]
    app = open_api(options={"ticker": lambda: now[0]})
    admin, sender = client(Role.TENANT_ADMIN, app=app), client(Role.SENDER, app=app)
    assert sender.get("/api/v1/me").status_code == 200
    (listed,) = [one for one in admin.get(ALL).json()["items"] if one["role"] == "SENDER"]

    assert admin.post(f"{ALL}/{listed['id']}/revoke").json()["revoked_at"] is not None

    now[0] += KEPT_SECONDS
    answer = sender.get("/api/v1/me")
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert [one["role"] for one in admin.get(ALL).json()["items"]] == ["TENANT_ADMIN"]


def test_a_token_that_has_run_out_is_known_to_nobody(client: MakeClient, engine: Engine) -> None:
    admin = client(Role.TENANT_ADMIN)
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    made = admin.post(ALL, json={"name": "short", "role": "VIEWER", "expires_at": later}).json()
    with engine.begin() as connection:
        connection.execute(text("UPDATE api_token SET expires_at = now() WHERE id = :id"), {"id": int(made["id"])})

    answer = client(None).get("/api/v1/me", headers={"authorization": f"Bearer {made['token']}"})

    assert answer.status_code == 401


def test_the_last_use_of_a_token_is_noted_to_the_minute(client: MakeClient) -> None:
    admin = client(Role.TENANT_ADMIN)

    (listed,) = admin.get(ALL).json()["items"]

    used = datetime.fromisoformat(listed["last_used_at"])
    assert (used.second, used.tzinfo) == (0, UTC)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": " ", "role": "SENDER"}, "name"),
        ({"name": "a\u0000b", "role": "SENDER"}, "name"),
        ({"name": "x", "role": "KING"}, "role"),
        ({"name": "x", "role": "SENDER", "user_id": 12}, "user_id"),
        ({"name": "x", "role": "SENDER", "expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"name": "x", "role": "SENDER", "expires_at": "2099-01-01T00:00:00"}, "expires_at"),
        ({"name": "x", "role": "SENDER", "expires_at": 4102444800}, "expires_at"),
        ({"name": "x", "role": "SENDER", "tenant_id": "8"}, "tenant_id"),
    ],
)
def test_what_no_token_can_have_is_refused_by_field(client: MakeClient, body: dict[str, object], field: str) -> None:
    answer = client(Role.TENANT_ADMIN).post(ALL, json=body)

    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, "invalid", field)
