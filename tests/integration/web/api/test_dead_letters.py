"""`/dead-letters` and `/audit`: who may, what is answered, what is noted."""

from typing import Any

import pytest
from sqlalchemy import Engine, text

from messaging.access.roles import Role
from messaging.audit import AUDIT_LOG
from tests.integration.web.api.conftest import MakeClient

PATH = "/api/v1/dead-letters"


@pytest.fixture
def letters(engine: Engine) -> list[str]:
    """Ids of three, oldest first."""
    with engine.begin() as connection:
        rows = connection.execute(
            text("""
                INSERT INTO dead_letter_message (source_tenant_id, source, channel, event_type, event_id, payload)
                SELECT 7, 'SEND_EXHAUSTED', 'mail', 'SEND_DEAD_LETTER', 9007199254740993, '{"category": "NETWORK"}'
                FROM generate_series(1, 3) RETURNING id
            """)
        )
        return [str(row.id) for row in rows]


def test_they_are_listed_newest_first_by_cursor(client: MakeClient, letters: list[str]) -> None:
    platform = client(Role.PLATFORM)
    answer = platform.get(PATH, params={"size": 2, "status": "PENDING"}).json()
    assert [item["id"] for item in answer["items"]] == [letters[2], letters[1]]
    assert answer["items"][0]["event_id"] == "9007199254740993"
    assert "payload" not in answer["items"][0]
    rest = platform.get(PATH, params={"size": 2, "status": "PENDING", "cursor": answer["next_cursor"]}).json()
    assert ([item["id"] for item in rest["items"]], rest["next_cursor"]) == ([letters[0]], None)
    assert platform.get(PATH, params={"channel": "sms"}).json()["items"] == []
    assert platform.get(f"{PATH}/{letters[0]}").json()["payload"] == {"category": "NETWORK"}


def test_they_are_settled_once(client: MakeClient, letters: list[str], engine: Engine) -> None:  # operate.md O34
    platform = client(Role.PLATFORM)
    one, two, _ = letters
    answer = platform.post(f"{PATH}/{one}/resolve", json={"remark": "seen to"}, headers={"x-request-id": "request-1"})
    assert (answer.status_code, answer.json()["status"], answer.json()["resolved_remark"]) == (
        200,
        "RESOLVED",
        "seen to",
    )
    again = platform.post(f"{PATH}/{one}/resolve")
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert platform.post(f"{PATH}/{one}/discard").status_code == 409
    assert platform.post(f"{PATH}/{two}/discard").json()["status"] == "DISCARDED"
    with engine.connect() as connection:
        noted = connection.execute(AUDIT_LOG.select().where(AUDIT_LOG.c.action == "resolve")).one()
    assert (noted.target_id, noted.note, noted.request_id, noted.tenant_id) == (int(one), "seen to", "request-1", -1)
    assert noted.actor.startswith("token:")


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.PLATFORM])
def test_no_tenants_role_reads_or_settles_them(
    client: MakeClient, letters: list[str], role: Role
) -> None:  # operate.md O35
    caller = client(role)
    assert caller.get(PATH).status_code == 403
    assert caller.get(f"{PATH}/{letters[0]}").status_code == 403
    assert caller.post(f"{PATH}/{letters[0]}/resolve").status_code == 403
    assert client(None).get(PATH).status_code == 401


@pytest.mark.parametrize("path", ["99999", "0", "99999999999999999999", "x"])
def test_of_none_the_answer_is_404(client: MakeClient, path: str) -> None:
    platform = client(Role.PLATFORM)
    assert platform.get(f"{PATH}/{path}").status_code == 404
    assert platform.post(f"{PATH}/{path}/resolve").status_code == 404


@pytest.mark.parametrize("body", [{"remark": "r" * 3001}, {"remark": "a\x00"}, {"remark": 5}, {"said": "x"}])
def test_a_remark_that_cannot_be_is_refused(client: MakeClient, letters: list[str], body: dict[str, Any]) -> None:
    answer = client(Role.PLATFORM).post(f"{PATH}/{letters[0]}/resolve", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, next(iter(body)))


def test_the_audit_log_is_read_by_who_may_read_and_shows_one_tenant(client: MakeClient) -> None:
    admin, viewer, other = client(Role.TENANT_ADMIN), client(Role.VIEWER), client(Role.TENANT_ADMIN, 8)
    made = admin.post("/api/v1/tokens", json={"name": "shop", "role": "SENDER"}).json()
    listed = viewer.get("/api/v1/audit", params={"target_type": "api_token", "target_id": made["id"]}).json()["items"]
    assert [(item["action"], item["target_id"], item["after"]["token_hash"]) for item in listed] == [
        ("create", made["id"], "***")
    ]
    assert listed[0]["actor"].startswith("token:")
    assert made["token"] not in str(listed)
    assert other.get("/api/v1/audit", params={"target_id": made["id"]}).json()["items"] == []
    assert client(Role.SENDER).get("/api/v1/audit").status_code == 403
    first = viewer.get("/api/v1/audit", params={"size": 1}).json()
    second = viewer.get("/api/v1/audit", params={"size": 1, "cursor": first["next_cursor"]}).json()
    assert int(second["items"][0]["id"]) < int(first["items"][0]["id"])
    at = first["items"][0]["at"]
    assert viewer.get("/api/v1/audit", params={"since": at, "size": 1}).json()["items"] == first["items"]
    assert viewer.get("/api/v1/audit", params={"until": at, "since": at}).json()["items"] == []
    assert viewer.get("/api/v1/audit", params={"tenant_id": 8}).status_code == 422
