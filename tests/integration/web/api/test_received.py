"""Received mails over HTTP: listed, looked at, marked, and fetched now."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine
from starlette.testclient import TestClient

from messaging import api, tenancy
from messaging.access.roles import PERMISSIONS, Permission, Role
from messaging.db.session import transaction
from messaging.embedded import free_port
from messaging.receive.models import MailReceiveRecord
from tests.far_end.pop3_server import ScriptedPop3Server
from tests.integration.receive.fetching import mail
from tests.integration.web.api.conftest import MakeClient
from tests.integration.web.api.rows import ROWS

ALL = "/api/v1/mail/received"

Receive = Callable[..., str]


@pytest.fixture
def receive(engine: Engine) -> Receive:
    """Makes a received mail of tenant 7, with other columns as told."""

    def receive(tenant: int = 7, **columns: Any) -> str:
        with tenancy.tenant(tenant), transaction(engine) as session:
            received_id = ROWS["/mail/received"](session)
            row = session.get(MailReceiveRecord, received_id)
            for name, value in columns.items():
                setattr(row, name, value)
        return str(received_id)

    return receive


def listed(caller: TestClient, **asked: Any) -> list[str]:
    answer = caller.get(ALL, params=asked)
    assert answer.status_code == 200, answer.text
    return [line["id"] for line in answer.json()["items"]]


def test_a_list_is_narrowed_by_what_a_mail_is(client: MakeClient, receive: Receive) -> None:
    caller = client()
    bounce = receive(mail_type="BOUNCE", bounce_kind="HARD", link_status="LINKED", linked_send_record_id=77)
    bulk = receive(is_bulk=True, server_config_id=99)
    spam = receive(is_bulk=True, is_spam=True, truncation_reason="BODY_TOO_LARGE", status="READ")
    deleted = receive(status="DELETED")
    receive(tenant=8)

    assert listed(caller) == [spam, bulk, bounce]
    assert listed(caller, mail_type="BOUNCE") == listed(caller, link_status="LINKED") == [bounce]
    assert listed(caller, linked_send_record_id="77") == [bounce]
    assert listed(caller, flags="BULK") == [spam, bulk]
    assert listed(caller, flags=["BULK", "SPAM"]) == listed(caller, truncation_reason="BODY_TOO_LARGE") == [spam]
    assert listed(caller, server_config_id="99") == [bulk]
    assert listed(caller, status="READ") == [spam]
    assert listed(caller, status="DELETED") == [deleted]
    for bad in ({"flags": "LOUD"}, {"mail_type": "x"}, {"size": "0"}, {"cursor": "x"}, {"tenant_id": "8"}):
        assert caller.get(ALL, params=bad).status_code == 422


def test_a_list_goes_from_the_newest_on_by_cursors(client: MakeClient, receive: Receive) -> None:
    caller = client()
    ids = [receive() for _ in range(3)]
    first = caller.get(ALL, params={"size": 2}).json()
    receive()
    second = caller.get(ALL, params={"size": 2, "cursor": first["next_cursor"]}).json()
    assert [line["id"] for line in (*first["items"], *second["items"])] == ids[::-1]
    assert second["next_cursor"] is None


def test_a_mail_is_told_as_a_whole(client: MakeClient, receive: Receive) -> None:
    recipient = {"address": "ann@example.org", "kind": "HARD"}
    file = {"file_id": 5, "file_name": "a.pdf", "content_type": "application/pdf", "content_id": None, "size": 3}
    received_id = receive(
        subject="<img src=x onerror=alert(3)>",
        body_html="<p>Hi</p>",
        is_signed=True,
        attachments=[file],
        bounce_recipients=[recipient],
        duplicate_of=9007199254740993,
    )
    caller = client()
    answer = caller.get(f"{ALL}/{received_id}")
    told = answer.json()
    assert answer.headers["content-type"] == "application/json"
    assert (told["id"], told["subject"]) == (received_id, "<img src=x onerror=alert(3)>")  # security sec-03
    assert (told["body_text"], told["body_html"], told["flags"]) == ("property-of-7", "<p>Hi</p>", ["SIGNED"])
    assert told["attachments"] == [{**file, "file_id": "5"}]
    assert (told["bounce_recipients"], told["duplicate_of"]) == ([recipient], "9007199254740993")
    short = caller.get(f"{ALL}/{received_id}", params={"bodies": "false"}).json()
    assert short == told | {"body_text": None, "body_html": None}


@pytest.mark.parametrize(
    ("action", "moved"),
    [("read", {"UNREAD"}), ("archive", {"UNREAD", "READ"}), ("delete", {"UNREAD", "READ", "ARCHIVED"})],
)
def test_a_mark_goes_forwards_only(client: MakeClient, receive: Receive, action: str, moved: set[str]) -> None:
    caller = client(Role.OPERATOR)
    reached = {"read": "READ", "archive": "ARCHIVED", "delete": "DELETED"}[action]
    for status in ("UNREAD", "READ", "ARCHIVED", "DELETED"):
        received_id = receive(status=status)
        is_moved = status in moved
        assert caller.post(f"{ALL}/{received_id}/{action}").json() == {"changed": is_moved}
        assert caller.get(f"{ALL}/{received_id}").json()["status"] == (reached if is_moved else status)


def test_many_are_marked_read_and_the_others_left_out(client: MakeClient, receive: Receive) -> None:
    unread, read, others = receive(), receive(status="READ"), receive(tenant=8)
    caller = client(Role.OPERATOR)
    assert caller.post(f"{ALL}/read", json={"ids": [unread, read, others, "404"]}).json() == {"changed": 1}
    assert caller.post(f"{ALL}/read", json={"ids": []}).status_code == 422
    assert client(tenant=8).get(f"{ALL}/{others}").json()["status"] == "UNREAD"


@pytest.mark.parametrize("received_id", ["404", "9223372036854775808", "-1", "x"])
def test_an_id_that_is_none_or_anothers_is_not_found(client: MakeClient, receive: Receive, received_id: str) -> None:
    caller = client()
    for one in (received_id, receive(tenant=8), receive(tenant=-1)):  # web/admin web-01, operate.md O5
        assert caller.get(f"{ALL}/{one}").status_code == 404
        for action in ("read", "archive", "delete"):
            assert caller.post(f"{ALL}/{one}/{action}").status_code == 404


# -- fetching


@pytest.fixture
def server() -> Iterator[ScriptedPop3Server]:
    with ScriptedPop3Server([mail("one"), mail("two")]) as server:
        yield server


def add_mailbox(port: int, tenant: int = 7, **fields: Any) -> int:
    given = {"name": "in", "protocol": "POP3", "host": "127.0.0.1", "port": port, "username": "ann"}
    with tenancy.tenant(tenant):
        return api.add_mailbox(**{**given, "password": "secret", **fields})


def test_the_default_mailbox_is_fetched_now(client: MakeClient, server: ScriptedPop3Server) -> None:
    add_mailbox(server.port, is_default=True)
    caller = client(Role.OPERATOR)
    assert caller.post(f"{ALL}/fetch").json() == {"new": 2}
    assert caller.post(f"{ALL}/fetch").json() == {"new": 0}
    assert len(listed(caller)) == 2


def test_a_mailbox_of_the_tenants_own_is_fetched_now(client: MakeClient, server: ScriptedPop3Server) -> None:
    mine = add_mailbox(server.port, active=False)
    caller = client(Role.OPERATOR)
    assert caller.post(f"{ALL}/fetch/{mine}").json() == {"new": 2}
    assert caller.post(f"{ALL}/fetch/{add_mailbox(server.port, tenant=8)}").status_code == 404
    platforms = caller.post(f"{ALL}/fetch/{add_mailbox(server.port, tenant=-1)}")
    assert (platforms.status_code, "belongs to the platform" in platforms.json()["message"]) == (403, True)


def test_what_cannot_be_fetched_is_told(client: MakeClient) -> None:
    caller = client(Role.OPERATOR)
    missing = caller.post(f"{ALL}/fetch")
    assert (missing.status_code, missing.json()["code"]) == (409, "no_default_mailbox")
    mine = add_mailbox(free_port())
    answer = caller.post(f"{ALL}/fetch/{mine}")
    assert (answer.status_code, answer.json()["code"]) == (502, "mailbox_failed")
    assert "secret" not in answer.text  # operate.md O60


@pytest.mark.parametrize(
    ("method", "path", "needed"),
    [
        ("GET", "", Permission.READ),
        ("GET", "/{id}", Permission.READ),
        ("POST", "/{id}/read", Permission.OPERATE),
        ("POST", "/{id}/archive", Permission.OPERATE),
        ("POST", "/{id}/delete", Permission.OPERATE),
        ("POST", "/read", Permission.OPERATE),
        ("POST", "/fetch", Permission.OPERATE),
        ("POST", "/fetch/404", Permission.OPERATE),
    ],
)
def test_each_operation_is_for_whom_it_is(
    client: MakeClient, receive: Receive, method: str, path: str, needed: Permission
) -> None:
    received_id = receive()
    body = {"ids": [received_id]} if path == "/read" else None
    for role in (Role.SENDER, Role.VIEWER, Role.OPERATOR):
        answer = client(role).request(method, ALL + path.format(id=received_id), json=body)
        assert (answer.status_code == 403) is (needed not in PERMISSIONS[role]), (role, answer.text)
