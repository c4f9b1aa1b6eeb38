"""`/inbox` over HTTP: handed in, a person's own, and what operators may; O17 to O23 of operate.md, and the cases."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, select, text
from starlette.testclient import TestClient

import messaging
from messaging import tenancy
from messaging.access.roles import Role
from messaging.audit import AUDIT_LOG
from messaging.requests import SendInbox
from tests.integration.web.api.conftest import MakeClient

INBOX, MINE = "/api/v1/inbox", "/api/v1/inbox/me"
U, V = 41, 42


def given(recipient_id: int = U, **fields: Any) -> dict[str, Any]:
    return {"recipient_id": str(recipient_id), "title": "Leave", "content": "Please approve.", **fields}


def send(*recipients: int, tenant: int = 7, **fields: Any) -> list[int]:
    with tenancy.tenant(tenant):
        requests = [SendInbox(**{"recipient_id": r, "title": "t", "content": "c", **fields}) for r in recipients]
        return messaging.send_inbox_batch(requests)


def unread(person: TestClient) -> int:
    answer = person.get(f"{MINE}/unread-count")
    assert answer.status_code == 200, answer.text
    count: int = answer.json()["unread_count"]
    return count


def test_a_notification_that_is_handed_in_is_in_the_persons_inbox(client: MakeClient) -> None:
    fields = {
        "notification_type": "WORKFLOW",
        "source_model": "Leave",
        "source_id": "9",
        "expires_at": "2126-01-01T00:00Z",
    }
    answer = client(Role.SENDER).post(INBOX, json=given(**fields))
    assert answer.status_code == 201
    (shown,) = client(Role.SENDER, user_id=U).get(MINE).json()["items"]
    created_at = shown.pop("created_at")
    assert datetime.fromisoformat(created_at).tzinfo is not None
    assert shown == {
        "id": answer.json()["id"],
        "title": "Leave",
        "content": "Please approve.",
        "notification_type": "WORKFLOW",
        "source_model": "Leave",
        "source_id": "9",
        "is_read": False,
        "read_at": None,
        "expires_at": "2126-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"recipient_id": None}, "recipient_id"),
        ({"recipient_id": str(2**63)}, "recipient_id"),
        ({"content": " "}, "content"),
        ({"title": "x" * 201}, "title"),
        ({"source_model": "x" * 51}, "source_model"),
        ({"tenant_id": "8"}, "tenant_id"),
        ({"title": "a\x00b"}, "title"),
    ],
)
def test_what_cannot_be_is_422_and_names_the_field(client: MakeClient, fields: dict[str, Any], field: str) -> None:
    # operate.md O17
    sender = client(Role.SENDER)
    answer = sender.post(INBOX, json=given(**fields))
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    batch = sender.post(f"{INBOX}/batch", json={"notifications": [given(), given(**fields)]})
    assert batch.status_code == 422
    assert batch.json()["field"].endswith(f"1.{field}")
    assert unread(client(Role.SENDER, user_id=U)) == 0


def test_a_batch_answers_ids_in_order_and_has_its_bounds(client: MakeClient) -> None:  # operate.md O18
    sender = client(Role.SENDER)
    ids = sender.post(f"{INBOX}/batch", json={"notifications": [given(U), given(V), given(U)]}).json()["ids"]
    assert [one["id"] for one in client(Role.SENDER, user_id=U).get(MINE).json()["items"]] == [ids[2], ids[0]]
    for wrong in ([], [given()] * 501, [given(), None], None):
        assert sender.post(f"{INBOX}/batch", json={"notifications": wrong}).status_code == 422
    assert unread(client(Role.SENDER, user_id=V)) == 1


def test_a_request_that_comes_again_with_its_key_notifies_once(client: MakeClient) -> None:  # inbox inbox-03
    sender, header = client(Role.SENDER), {"Idempotency-Key": "run-9"}
    first = sender.post(INBOX, json=given(), headers=header).json()
    assert sender.post(INBOX, json=given(), headers=header).json() == first
    batch = {"notifications": [given(U), given(U), given(V)]}
    ids = sender.post(f"{INBOX}/batch", json=batch, headers=header).json()
    assert sender.post(f"{INBOX}/batch", json=batch, headers=header).json() == ids
    assert unread(client(Role.SENDER, user_id=U)) == 3
    own = sender.post(INBOX, json=given(idempotency_key="run-9")).json()
    assert own == first


def test_reading_answers_by_whose_it_is(client: MakeClient) -> None:  # operate.md O19
    (mine,), (others,), (foreign,) = send(U), send(V), send(U, tenant=8)
    me = client(Role.SENDER, user_id=U)
    assert me.post(f"{MINE}/{mine}/read").json() == {"marked": True}
    read_at = me.get(MINE).json()["items"][0]["read_at"]
    assert me.post(f"{MINE}/{mine}/read").json() == {"marked": False}
    assert me.get(MINE).json()["items"][0]["read_at"] == read_at
    answers = [me.post(f"{MINE}/{one}/read").status_code for one in (others, foreign, 2**63 - 1, 2**63, -1)]
    assert answers == [403, 404, 404, 404, 404]


def test_a_count_is_the_length_of_the_unread_list(client: MakeClient) -> None:  # inbox inbox-01
    ids = send(U, U, U)
    first, second = client(Role.SENDER, user_id=U), client(Role.SENDER, user_id=U)
    for window in (first, first, second):
        assert window.post(f"{MINE}/{ids[0]}/read").status_code == 200
    shown = second.get(MINE, params={"unread": "true"}).json()["items"]
    assert unread(first) == len(shown) == 2


def test_reading_all_is_of_no_page_and_no_other(client: MakeClient) -> None:  # inbox inbox-02, operate.md O21
    send(*[U] * 250, *[V] * 5)
    send(*[U] * 10, tenant=8)
    me = client(Role.SENDER, user_id=U)
    assert me.post(f"{MINE}/read-all").json() == {"marked": 250}
    assert unread(me) == 0
    assert unread(client(Role.SENDER, user_id=V)) == 5
    assert unread(client(Role.SENDER, tenant=8, user_id=U)) == 10


@pytest.mark.parametrize(("limit", "shown"), [(0, 1), (20, 20), (999, 50), (-3, 1)])
def test_a_limit_is_brought_within_bounds(client: MakeClient, limit: int, shown: int) -> None:  # operate.md O20
    send(*[U] * 60)
    me = client(Role.SENDER, user_id=U)
    assert len(me.get(MINE, params={"limit": limit}).json()["items"]) == shown


def test_an_expired_one_is_for_operators_alone(client: MakeClient) -> None:  # operate.md O20
    ids = send(U, expires_at=datetime(2001, 1, 1, tzinfo=UTC))
    me = client(Role.SENDER, user_id=U)
    assert (me.get(MINE).json(), unread(me)) == ({"items": []}, 0)
    shown = client(Role.VIEWER).get(INBOX, params={"recipient_id": U}).json()
    assert [one["id"] for one in shown["items"]] == [str(ids[0])]


def test_without_a_person_there_is_no_own_inbox(client: MakeClient) -> None:  # operate.md O22
    for caller in (client(None), client(Role.TENANT_ADMIN)):
        asked = [caller.get(path) for path in (MINE, f"{MINE}/unread-count", f"{MINE}/events")]
        asked += [caller.post(path) for path in (f"{MINE}/read-all", f"{MINE}/1/read")]
        assert [answer.status_code for answer in asked] == [401] * 5


def test_nobody_says_whose_inbox_theirs_is(client: MakeClient) -> None:  # tenancy tenant-01
    send(V)
    send(U, tenant=8)
    me = client(Role.SENDER, user_id=U)
    for query in ({"tenant_id": "8"}, {"tenantId": "-1"}, {"recipient_id": V}, {"user_id": V}):
        assert me.get(MINE, params=query).status_code == 422
    assert me.get(MINE, headers={"X-Tenant-Id": "8"}).json() == {"items": []}


def test_operators_see_and_mark_the_tenants_inboxes_and_it_is_noted(client: MakeClient, engine: Engine) -> None:
    one, _ = send(U, U)
    (foreign,) = send(U, tenant=8)
    operator = client(Role.OPERATOR)
    assert operator.get(f"{INBOX}/unread-count", params={"recipient_id": U}).json() == {"unread_count": 2}
    assert operator.post(f"{INBOX}/{one}/read").json() == {"marked": True}
    assert operator.post(f"{INBOX}/{one}/read").json() == {"marked": False}
    assert operator.post(f"{INBOX}/{foreign}/read").status_code == 404
    assert operator.post(f"{INBOX}/read-all", json={"recipient_id": str(U)}).json() == {"marked": 1}
    with engine.connect() as connection:
        a = AUDIT_LOG.c
        rows = connection.execute(
            select(a.action, a.target_id, a.after).where(a.target_type == "inbox_notification").order_by(a.id)
        ).all()
    assert [tuple(row) for row in rows] == [("read", one, None), ("read", None, {"recipient_id": U, "count": 1})]
    assert unread(client(Role.SENDER, tenant=8, user_id=U)) == 1


def test_a_persons_list_goes_on_by_its_cursor(client: MakeClient) -> None:
    ids = send(*[U] * 5)
    viewer, shown, cursor = client(Role.VIEWER), [], None
    while True:
        query = {"recipient_id": U, "size": 2} | ({} if cursor is None else {"cursor": cursor})
        answer = viewer.get(INBOX, params=query).json()
        shown += [int(one["id"]) for one in answer["items"]]
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    assert shown == ids[::-1]


@pytest.mark.parametrize(
    ("role", "method", "path", "status"),
    [
        (Role.VIEWER, "POST", INBOX, 403),
        (Role.SENDER, "GET", INBOX, 403),
        (Role.SENDER, "GET", f"{INBOX}/unread-count", 403),
        (Role.SENDER, "POST", f"{INBOX}/read-all", 403),
        (Role.VIEWER, "POST", f"{INBOX}/1/read", 403),
        (Role.VIEWER, "POST", f"{INBOX}/batch", 403),
    ],
)
def test_who_may_not_is_refused(client: MakeClient, role: Role, method: str, path: str, status: int) -> None:
    assert (
        client(role).request(method, path, params={"recipient_id": 1} if method == "GET" else None).status_code
        == status
    )


def test_a_failing_request_leaves_nothing(client: MakeClient, engine: Engine) -> None:  # operate.md O23
    with engine.begin() as connection:
        connection.execute(text("DROP INDEX uq_inbox_notification_idempotency_key"))
    assert client(Role.SENDER).post(INBOX, json=given()).status_code in (500, 503)
    assert unread(client(Role.SENDER, user_id=U)) == 0
