"""Webhook endpoints over HTTP: kept, tried, given another secret; their deliveries listed and retried."""

from typing import Any

import pytest
from sqlalchemy import Engine, text
from starlette.testclient import TestClient

from messaging.access.roles import Role
from messaging.webhooks.endpoint_admin import MAX_ENDPOINTS
from messaging.webhooks.signing import new_secret
from tests.integration.web.api.conftest import MakeClient

ALL = "/api/v1/webhooks"
URL = "https://shop.example.org/hook"


def add(admin: TestClient, **fields: Any) -> dict[str, Any]:
    answer = admin.post(ALL, json={"name": "shop", "url": URL, **fields})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def put_delivery(engine: Engine, endpoint_id: str, *, status: str = "FAILED", tenant_id: int = 7) -> str:
    """What an event's delivery leaves behind."""
    statement = text(
        "INSERT INTO webhook_send_record (tenant_id, scope, endpoint_id, event_type, about_channel, about_record_id,"
        " payload, status) VALUES (:tenant_id, 'TENANT', :endpoint_id, 'message.sent', 'mail', 17, '{\"id\": \"17\"}',"
        " :status) RETURNING id"
    )
    with engine.begin() as connection:
        given = {"tenant_id": tenant_id, "endpoint_id": int(endpoint_id), "status": status}
        return str(connection.execute(statement, given).scalar_one())


def test_an_endpoint_is_kept_and_its_secret_is_shown_once(client: MakeClient) -> None:  # operate.md O60
    admin = client(Role.TENANT_ADMIN)
    made = add(admin, event_types=["message.sent", "message.bounced"], description="the shop")
    assert made["secret"].startswith("whsec_")
    one = admin.get(f"{ALL}/{made['id']}")
    assert made["secret"] not in one.text
    assert one.json() | {"created_at": None, "updated_at": None} == {
        "id": made["id"],
        "name": "shop",
        "description": "the shop",
        "url": URL,
        "event_types": ["message.sent", "message.bounced"],
        "active": True,
        "gone_at": None,
        "replaced_secret_until": None,
        "created_at": None,
        "updated_at": None,
    }
    listed = admin.get(ALL)
    assert (listed.json()["total"], listed.json()["items"]) == (1, [one.json()])
    assert made["secret"] not in listed.text


def test_an_endpoint_is_changed_disabled_and_deleted(client: MakeClient) -> None:
    admin = client(Role.TENANT_ADMIN)
    path = f"{ALL}/{add(admin)['id']}"
    changed = admin.patch(path, json={"event_types": ["message.read"], "active": False})
    assert (changed.json()["event_types"], changed.json()["active"]) == (["message.read"], False)
    assert changed.json()["name"] == "shop"
    assert admin.get(ALL).json()["items"] == []
    assert len(admin.get(ALL, params={"active": "all"}).json()["items"]) == 1
    assert admin.delete(path).status_code == 204
    assert admin.get(path).status_code == 404


# Each outcome of the tenant writes a row for each of them, in the statement that many tenants' outcomes share.
def test_a_tenant_has_so_many_endpoints_and_no_more(client: MakeClient, engine: Engine) -> None:
    admin = client(Role.TENANT_ADMIN)
    last = add(admin, active=False)["id"]
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO webhook_endpoint (tenant_id, name, url, secret)"
                " SELECT 7, 'shop', url, secret FROM webhook_endpoint CROSS JOIN generate_series(2, :count)"
            ),
            {"count": MAX_ENDPOINTS},
        )
    refused = admin.post(ALL, json={"name": "shop", "url": URL})
    assert (refused.status_code, str(MAX_ENDPOINTS) in refused.json()["message"]) == (409, True)
    assert admin.delete(f"{ALL}/{last}").status_code == 204
    add(admin)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"url": "http://shop.example.org/"}, "url"),
        ({"url": "https://169.254.169.254/latest/meta-data"}, "url"),
        ({"url": "https://[::1]/"}, "url"),
        ({"url": "https://user:pw@shop.example.org/"}, "url"),
        ({"event_types": []}, "event_types"),
        ({"event_types": ["message.opened"]}, "event_types"),
        ({"name": ""}, "name"),
        ({"secret": "short"}, "secret"),
        ({"tenant_id": "8"}, "tenant_id"),
    ],
    ids=str,
)
def test_what_cannot_be_an_endpoint_is_refused(client: MakeClient, fields: dict[str, Any], field: str) -> None:
    answer = client(Role.TENANT_ADMIN).post(ALL, json={"name": "shop", "url": URL, **fields})
    assert answer.status_code == 422
    assert answer.json()["field"].startswith(field)


def test_a_secret_of_ones_own_is_taken_and_another_replaces_it_for_a_time(client: MakeClient) -> None:
    admin = client(Role.TENANT_ADMIN)
    own = new_secret()
    made = add(admin, secret=own)
    assert made["secret"] == own
    path = f"{ALL}/{made['id']}"
    rotated = admin.post(f"{path}/rotate-secret", json={}).json()
    assert rotated["secret"] not in ("", own)
    assert admin.get(path).json()["replaced_secret_until"] is not None
    assert admin.post(f"{path}/rotate-secret", json={"keep_hours": 0}).status_code == 200
    assert admin.get(path).json()["replaced_secret_until"] is None
    assert admin.post(f"{path}/rotate-secret", json={"keep_hours": 721}).status_code == 422
    assert admin.patch(path, json={"secret": own}).status_code == 422


def test_a_trial_is_told_like_every_event(client: MakeClient) -> None:
    admin, operator = client(Role.TENANT_ADMIN), client(Role.OPERATOR)
    endpoint = add(admin, event_types=["message.read"])
    answer = operator.post(f"{ALL}/{endpoint['id']}/test")
    assert answer.status_code == 202
    told = operator.get(f"{ALL}/deliveries/{answer.json()['id']}").json()
    assert (told["event_type"], told["status"], told["about_record_id"]) == ("webhook.test", "PENDING", None)
    admin.patch(f"{ALL}/{endpoint['id']}", json={"active": False})
    assert operator.post(f"{ALL}/{endpoint['id']}/test").status_code == 409


def test_deliveries_are_listed_newest_first_and_retried(client: MakeClient, engine: Engine) -> None:
    admin, operator = client(Role.TENANT_ADMIN), client(Role.OPERATOR)
    endpoint_id, other_id = add(admin)["id"], add(admin)["id"]
    ids = [put_delivery(engine, endpoint_id) for _ in range(3)]
    sent = put_delivery(engine, other_id, status="SENT")
    deliveries = f"{ALL}/deliveries"
    first = operator.get(deliveries, params={"endpoint_id": endpoint_id, "size": 2}).json()
    assert [one["id"] for one in first["items"]] == ids[:0:-1]
    rest = operator.get(
        deliveries, params={"endpoint_id": endpoint_id, "size": 2, "cursor": first["next_cursor"]}
    ).json()
    assert ([one["id"] for one in rest["items"]], rest["next_cursor"]) == (ids[:1], None)
    assert [one["id"] for one in operator.get(deliveries, params={"status": "SENT"}).json()["items"]] == [sent]
    assert len(operator.get(deliveries, params={"about_record_id": "17"}).json()["items"]) == 4
    assert operator.get(deliveries, params={"event_type": "message.read"}).json()["items"] == []
    assert operator.get(f"{deliveries}/{ids[0]}/attempts").json() == {"items": []}
    retried = operator.post(f"{deliveries}/{ids[0]}/retry").json()
    assert (retried["status"], retried["retry_count"]) == ("RETRY", 1)
    assert operator.post(f"{deliveries}/{sent}/retry").status_code == 409


def test_a_tenant_sees_its_own_endpoints_and_deliveries_alone(client: MakeClient, engine: Engine) -> None:
    mine = add(client(Role.TENANT_ADMIN))["id"]
    delivery = put_delivery(engine, mine)
    stranger = client(Role.TENANT_ADMIN, 8)
    assert stranger.get(ALL, params={"active": "all"}).json()["items"] == []
    assert stranger.get(f"{ALL}/deliveries").json()["items"] == []
    for path in (mine, f"deliveries/{delivery}", f"deliveries/{delivery}/attempts"):
        assert stranger.get(f"{ALL}/{path}").status_code == 404
    for path in (f"{mine}/test", f"deliveries/{delivery}/retry"):
        assert stranger.post(f"{ALL}/{path}").status_code == 404
    assert stranger.post(f"{ALL}/{mine}/rotate-secret", json={}).status_code == 404
    assert stranger.patch(f"{ALL}/{mine}", json={"name": "x"}).status_code == 404
    assert stranger.delete(f"{ALL}/{mine}").status_code == 404


def test_a_tenant_is_told_that_an_endpoint_is_the_platforms(client: MakeClient) -> None:  # operate.md O6
    theirs = add(client(Role.PLATFORM))["id"]
    answer = client(Role.TENANT_ADMIN).patch(f"{ALL}/{theirs}", json={"name": "x"})
    assert answer.status_code == 403
    assert "platform" in answer.json()["message"]


@pytest.mark.parametrize(("role", "reads"), [(Role.SENDER, 403), (Role.VIEWER, 200), (Role.OPERATOR, 200)])
def test_only_administrators_keep_endpoints(client: MakeClient, role: Role, reads: int) -> None:
    caller = client(role)
    assert caller.get(ALL).status_code == reads
    assert caller.post(ALL, json={"name": "shop", "url": URL}).status_code == 403


def test_the_audit_log_has_no_secret(client: MakeClient, engine: Engine) -> None:
    admin = client(Role.TENANT_ADMIN)
    made = add(admin)
    rotated = admin.post(f"{ALL}/{made['id']}/rotate-secret", json={}).json()
    with engine.connect() as connection:
        entries = connection.execute(text("SELECT action, before, after FROM audit_log ORDER BY id")).all()
    actions = [entry.action for entry in entries]
    assert actions[-2:] == ["create", "rotate secret"]
    assert made["secret"] not in str(entries)
    assert rotated["secret"] not in str(entries)
