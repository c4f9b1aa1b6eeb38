"""Text messages over HTTP: handed in one by one and in batches, listed, looked at, attempted again, called off."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, text
from starlette.testclient import TestClient

from messaging import tenancy
from messaging.access.roles import PERMISSIONS, Permission, Role
from tests.integration.web.api.conftest import MakeClient
from tests.integration.web.api.who_may import WHO_MAY

ALL = "/api/v1/sms/messages"
SMS = {"phone_number": "+4915112345678", "content": "Your parcel is here."}


def send(caller: TestClient, **fields: Any) -> str:
    answer = caller.post(ALL, json={**SMS, **fields})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def put(engine: Engine, record_id: str, **columns: Any) -> None:
    """Columns of a record as a worker would have left them."""
    changed = ", ".join(f"{name} = :{name}" for name in columns)
    with engine.begin() as connection:
        connection.execute(
            text(f"UPDATE sms_send_record SET {changed} WHERE id = :id"), {"id": int(record_id), **columns}
        )


def stored(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT * FROM sms_send_record ORDER BY id")))


def test_a_text_message_handed_in_is_stored_for_the_callers_tenant(client: MakeClient, engine: Engine) -> None:
    record_id = send(
        client(Role.SENDER, tenant=7),
        template_code="otp",
        template_variables={"code": "1"},
        provider_config_id="5",
        sign_name="Shop",
        external_template_id="T1",
        priority="HIGH",
        send_at="2030-01-01T00:00:00Z",
        expires_at="2030-01-02T00:00:00Z",
        idempotency_key="k",
    )
    [row] = stored(engine)
    assert (str(row.id), row.tenant_id, row.status, row.phone_number) == (record_id, 7, "PENDING", "+4915112345678")
    assert (row.template_code, row.template_variables, row.provider_config_id) == ("otp", {"code": "1"}, 5)
    assert (row.sign_name, row.external_template_id, row.priority) == ("Shop", "T1", "HIGH")
    assert (row.send_at, row.idempotency_key) == (datetime(2030, 1, 1, tzinfo=UTC), "k")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"phone_number": "0151 12345678"}, "phone_number"),
        ({"phone_number": ["+4915112345678"]}, "phone_number"),
        ({"content": None}, "content"),
        ({"content": "x" * 2001}, "content"),
        ({"content": "a\u0000"}, "content"),
        ({"tenant_id": "8"}, "tenant_id"),
        ({"to": ["+4915112345678"]}, "to"),
    ],
)
def test_what_cannot_be_accepted_is_refused_by_its_field(
    client: MakeClient, engine: Engine, fields: dict[str, Any], field: str
) -> None:
    answer = client(Role.SENDER).post(ALL, json={**SMS, **fields})
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert stored(engine) == []


def test_a_batch_is_accepted_in_its_order_whole_or_not_at_all_and_once(client: MakeClient, engine: Engine) -> None:
    caller = client(Role.SENDER)
    messages = [{**SMS, "phone_number": f"+491511234567{n}"} for n in range(3)]
    refused = caller.post(f"{ALL}/batch", json={"messages": [*messages, {**SMS, "phone_number": "1"}]})
    assert (refused.status_code, refused.json()["field"]) == (422, "3.phone_number")
    assert caller.post(f"{ALL}/batch", json={"messages": []}).status_code == 422
    assert caller.post(f"{ALL}/batch", json={"messages": messages * 167}).status_code == 422
    assert stored(engine) == []
    first, again = (
        caller.post(f"{ALL}/batch", json={"messages": messages}, headers={"Idempotency-Key": "b"}) for _ in range(2)
    )
    assert (first.status_code, first.json()) == (202, again.json())
    numbers = {str(row.id): row.phone_number for row in stored(engine)}
    assert [numbers[i] for i in first.json()["ids"]] == [one["phone_number"] for one in messages]


def test_the_platforms_scope_is_for_the_platform(client: MakeClient, engine: Engine) -> None:
    asked = {**SMS, "scope": "PLATFORM"}
    assert client(Role.TENANT_ADMIN).post(ALL, json=asked).status_code == 403
    assert client(Role.TENANT_ADMIN).post(f"{ALL}/batch", json={"messages": [asked]}).status_code == 403
    assert client(Role.PLATFORM).post(ALL, json=asked).status_code == 202
    assert [row.tenant_id for row in stored(engine)] == [tenancy.PLATFORM_TENANT_ID]


@pytest.mark.parametrize(("method", "path", "needed"), WHO_MAY)
def test_each_operation_is_for_whom_it_is(client: MakeClient, method: str, path: str, needed: set[Permission]) -> None:
    record_id = send(client(Role.SENDER))
    body = {"": SMS, "/batch": {"messages": [SMS]}, "/retry": {"ids": [record_id]}}.get(path)
    for role in (Role.SENDER, Role.VIEWER, Role.OPERATOR):
        answer = client(role).request(method, ALL + path.format(id=record_id), json=body)
        assert (answer.status_code == 403) is PERMISSIONS[role].isdisjoint(needed), (role, answer.text)


def test_the_status_says_what_was_sent_by_whom_and_what_the_provider_heard(client: MakeClient, engine: Engine) -> None:
    caller = client(Role.SENDER)
    record_id = send(caller)
    put(
        engine,
        record_id,
        status="SENT",
        provider_config_id=5,
        provider_type="TWILIO",
        provider_message_id="SM1",
        encoding="GSM7",
        segments=1,
        delivery_status="DELIVERED",
    )
    status = caller.get(f"{ALL}/{record_id}/status").json()
    assert (
        status.items()
        >= {
            "id": record_id,
            "phone_number": "+4915112345678",
            "content": "Your parcel is here.",
            "status": "SENT",
            "provider_config_id": "5",
            "provider_type": "TWILIO",
            "provider_message_id": "SM1",
            "encoding": "GSM7",
            "segments": 1,
            "delivery_status": "DELIVERED",
            "error_code": None,
        }.items()
    )


@pytest.mark.parametrize("record_id", ["404", "9223372036854775808", "-1", "x"])
def test_an_id_that_is_none_is_not_found(
    client: MakeClient, record_id: str
) -> None:  # operate.md O53, web/admin web-01
    caller = client()
    for path in ("", "/status", "/attempts"):
        assert caller.get(f"{ALL}/{record_id}{path}").status_code == 404
    for action in ("retry", "cancel"):
        assert caller.post(f"{ALL}/{record_id}/{action}").status_code == 404


def test_a_mail_is_no_text_message(client: MakeClient) -> None:
    caller = client()
    mail = {"to": ["a@example.org"], "text_body": "x"}
    mail_id = caller.post("/api/v1/mail/messages", json=mail).json()["id"]
    for path in ("", "/status", "/attempts"):
        assert caller.get(f"{ALL}/{mail_id}{path}").status_code == 404
    for action in ("retry", "cancel"):
        assert caller.post(f"{ALL}/{mail_id}/{action}").status_code == 404
    assert caller.post(f"{ALL}/retry", json={"ids": [mail_id]}).json() == {"requeued": 0}


def test_a_text_message_is_told_with_its_story_and_its_text_only_where_it_is_asked_for(client: MakeClient) -> None:
    caller = client()
    record_id = send(caller, template_variables={"code": "987654"})
    short, told = caller.get(f"{ALL}/{record_id}"), caller.get(f"{ALL}/{record_id}?bodies=true").json()
    assert "987654" not in short.text
    assert told == short.json() | {"content": SMS["content"], "template_variables": {"code": "987654"}}
    assert short.json()["content"] is None
    assert (told["id"], told["phone_number"], told["why"]) == (
        *(record_id, "+4915112345678", "accepted, and not yet taken by a worker"),
    )
    assert caller.get(f"{ALL}/{record_id}/attempts").json() == {"items": []}


@pytest.mark.parametrize("number", ["+4915112345678", " 4915112345678", "4915112345678", "%2B4915112345678"])
def test_a_list_is_narrowed_to_a_number_however_its_plus_comes(client: MakeClient, number: str) -> None:
    caller = client()
    record_id = send(caller)
    send(caller, phone_number="+4915112345679")
    answer = caller.get(f"{ALL}?phone_number={number}")
    assert [line["id"] for line in answer.json()["items"]] == [record_id]


def test_a_list_is_narrowed_by_what_a_message_is(client: MakeClient, engine: Engine) -> None:
    caller = client()
    plain, by_code, failed = send(caller), send(caller, template_code="otp"), send(caller, provider_config_id="5")
    put(engine, failed, status="FAILED", error_code="21211")
    send(client(tenant=8))

    def found(**asked: str) -> list[str]:
        return [line["id"] for line in caller.get(ALL, params=asked).json()["items"]]

    assert found() == [failed, by_code, plain]
    assert found(status="FAILED") == found(error_code="21211") == found(provider_config_id="5") == [failed]
    assert found(template_code="otp") == [by_code]
    assert found(created_before="2020-01-01T00:00:00Z") == []
    [first] = caller.get(ALL, params={"size": "1"}).json()["items"]
    assert (
        first.items()
        >= {
            "id": failed,
            "to": ["+4915112345678"],
            "provider_config_id": "5",
            "template": None,
            "error_code": "21211",
            "next_attempt_at": None,
        }.items()
    )
    for bad in ({"phone_number": "0151"}, {"recipient": "+4915112345678"}, {"template_id": "5"}, {"status": "x"}):
        assert caller.get(ALL, params=bad).status_code == 422


def test_a_list_goes_from_the_newest_on_by_cursors(client: MakeClient) -> None:
    caller = client()
    sent = [send(caller) for _ in range(3)]
    first = caller.get(ALL, params={"size": 2}).json()
    second = caller.get(ALL, params={"size": 2, "cursor": first["next_cursor"]}).json()
    assert [line["id"] for line in (*first["items"], *second["items"])] == sent[::-1]
    assert second["next_cursor"] is None


def test_a_text_message_is_attempted_again_and_called_off_where_its_state_allows_it(
    client: MakeClient, engine: Engine
) -> None:  # operate.md O51
    caller = client(Role.OPERATOR)
    failed, sent, waiting = send(caller), send(caller), send(caller)
    put(engine, failed, status="FAILED", error_code="21211")
    put(engine, sent, status="SENT")
    assert caller.post(f"{ALL}/{failed}/retry").json()["status"] == "RETRY"
    assert caller.post(f"{ALL}/{sent}/retry").status_code == 409
    assert caller.post(f"{ALL}/retry", json={"ids": [failed, sent, waiting]}).json() == {"requeued": 2}
    assert caller.post(f"{ALL}/{waiting}/cancel").json() == {"answer": "cancelled", "status": "FAILED"}
    late = caller.post(f"{ALL}/{sent}/cancel")
    assert (late.status_code, late.json()["code"], late.json()["status"]) == (409, "too_late", "SENT")


def test_what_another_tenant_sent_is_not_there(client: MakeClient) -> None:  # operate.md O5
    record_id = send(client(tenant=8))
    caller = client(tenant=7)
    assert caller.get(ALL).json()["items"] == []
    for path in ("", "/status", "/attempts"):
        assert caller.get(f"{ALL}/{record_id}{path}").status_code == 404
    for action in ("retry", "cancel"):
        assert caller.post(f"{ALL}/{record_id}/{action}").status_code == 404
