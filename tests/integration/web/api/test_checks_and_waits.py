"""`/mail/check`, `/sms/check`, `.../wait`: what is in a message's way, and what became of it."""

from collections.abc import Callable
from threading import Timer
from typing import Any

import pytest
from sqlalchemy import Engine, text
from starlette.testclient import TestClient

from messaging import api, tenancy
from messaging.access.roles import Role
from tests.integration.web.api.conftest import MakeClient

MAIL = {"to": ["ann@example.org"], "subject": "Hello", "text_body": "Hi"}
SMS = {"phone_number": "+4915112345678", "content": "hi"}

Ask = Callable[[str, dict[str, Any]], dict[str, Any]]


@pytest.fixture
def ask(client: MakeClient) -> Ask:
    """A service of tenant 7 asks for a check."""
    sender = client(Role.SENDER)

    def ask(path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = sender.post(path, json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    return ask


def test_a_mail_is_checked_and_not_accepted(ask: Ask, engine: Engine) -> None:
    with tenancy.tenant(7):
        server = api.add_mail_server(
            name="relay", host="smtp.example.com", port=25, from_address="a@example.com", is_default=True
        )
    told = ask("/api/v1/mail/check", MAIL)
    assert (told["is_sendable"], told["findings"], told["server_config_id"]) == (True, [], str(server))
    assert (told["quota_tenant_id"], told["quota_remaining"]) == ("7", None)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM mail_send_record")).scalar_one() == 0


def test_what_is_in_a_mails_way_is_told_with_its_field(ask: Ask) -> None:
    told = ask("/api/v1/mail/check", MAIL | {"attachments": [{"file_name": "a.pdf", "file_id": "99"}]})
    assert told["is_sendable"] is False
    assert [(one["severity"], one["code"], one["field"]) for one in told["findings"]] == [
        ("ERROR", "CONFIG_NOT_RESOLVABLE", None),
        ("ERROR", "ATTACHMENT_NOT_FOUND", "attachments"),
    ]
    told = ask("/api/v1/mail/check", MAIL | {"to": ["nobody"]})
    assert [(one["code"], one["field"]) for one in told["findings"]] == [("REJECTED", "to")]


def test_a_text_message_is_checked(ask: Ask) -> None:
    with tenancy.tenant(7):
        provider = api.add_sms_provider(name="CM", provider_type="CM", api_key="k", sender_id="Shop", is_default=True)
    told = ask("/api/v1/sms/check", SMS)
    assert (told["is_sendable"], told["provider_config_id"], told["segments"]) == (True, str(provider), 1)


def test_who_may_check_is_who_may_send(client: MakeClient) -> None:
    assert client(Role.VIEWER).post("/api/v1/mail/check", json=MAIL).status_code == 403
    assert client(Role.SENDER).post("/api/v1/sms/check", json=SMS | {"scope": "PLATFORM"}).status_code == 403
    assert client(Role.PLATFORM).post("/api/v1/sms/check", json=SMS | {"scope": "PLATFORM"}).status_code == 200


def send(engine: Engine) -> int:
    with tenancy.tenant(7):
        return api.send_mail(to=["ann@example.org"], subject="s", text_body="t")


def move(engine: Engine, record_id: int, status: str) -> None:
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE mail_send_record SET status = :status WHERE id = :id"), {"status": status, "id": record_id}
        )


def wait(caller: TestClient, record_id: int, seconds: float, channel: str = "mail") -> Any:
    return caller.get(f"/api/v1/{channel}/messages/{record_id}/wait", params={"timeout_seconds": seconds})


def test_a_request_waits_for_the_outcome(client: MakeClient, engine: Engine) -> None:
    record = send(engine)
    timer = Timer(0.1, move, (engine, record, "SENT"))
    timer.start()
    assert wait(client(Role.SENDER), record, 55).json()["status"] == "SENT"
    timer.join()


def test_when_the_time_is_up_the_answer_says_where_it_stands(client: MakeClient, engine: Engine) -> None:
    record = send(engine)
    assert wait(client(Role.SENDER), record, 0.1).json()["status"] == "PENDING"
    assert wait(client(Role.SENDER), record, 0).json()["status"] == "PENDING"


def test_of_another_tenant_another_channel_or_nobody_there_is_nothing(client: MakeClient, engine: Engine) -> None:
    record = send(engine)
    assert wait(client(Role.SENDER, 8), record, 55).status_code == 404
    assert wait(client(Role.SENDER), record, 55, "sms").status_code == 404
    assert wait(client(None), record, 55).status_code == 401
    assert wait(client(Role.SENDER), record, 56).status_code == 422
    with tenancy.tenant(7):
        text_message = api.send_sms(phone_number="+4915112345678", content="hi")
        api.cancel(text_message)
    assert wait(client(Role.SENDER), text_message, 55, "sms").json()["status"] == "FAILED"
