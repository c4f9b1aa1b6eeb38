"""Captured messages over HTTP: listed, shown, downloaded as they would have gone out, cleared away."""

from typing import Any

import pytest
from sqlalchemy import Engine, insert

from messaging.access.roles import PERMISSIONS, Permission, Role
from messaging.sandbox.models import CAPTURED_MESSAGE
from tests.integration.web.api.conftest import MakeClient

ALL = "/api/v1/captured"
RAW = b"From: shop@example.org\r\nTo: ann@example.com\r\nSubject: Hi\r\n\r\nt\r\n"


def add(engine: Engine, tenant_id: int = 7, **columns: Any) -> str:
    values = {
        "channel": "mail",
        "tenant_id": tenant_id,
        "recipients": ["ann@example.com"],
        "subject": "Hi",
        "sender": "shop@example.org",
        "raw": RAW,
        **columns,
    }
    with engine.begin() as connection:
        return str(
            connection.execute(insert(CAPTURED_MESSAGE).values(values).returning(CAPTURED_MESSAGE.c.id)).scalar()
        )


def test_they_are_listed_newest_first_and_narrowed(client: MakeClient, engine: Engine) -> None:
    caller = client(Role.VIEWER)
    text = {"channel": "sms", "recipients": ["+4915112345678"], "raw": None, "subject": None, "content": "code 7"}
    first, second = add(engine, record_id=11), add(engine, record_id=12, **text)
    add(engine, tenant_id=8, record_id=13)

    def listed(**asked: Any) -> list[str]:
        return [one["id"] for one in caller.get(ALL, params=asked).json()["items"]]

    assert listed() == [second, first]
    assert (listed(channel="mail"), listed(record_id="12")) == ([first], [second])
    assert (listed(recipient="+4915112345678"), listed(recipient="nobody")) == ([second], [])
    [line] = caller.get(ALL, params={"channel": "mail"}).json()["items"]
    assert (line["record_id"], line["recipients"], line["size"]) == ("11", ["ann@example.com"], len(RAW))
    part = caller.get(ALL, params={"size": 1}).json()
    assert [one["id"] for one in part["items"]] == [second]
    rest = caller.get(ALL, params={"size": 1, "cursor": part["next_cursor"]}).json()
    assert ([one["id"] for one in rest["items"]], rest["next_cursor"]) == ([first], None)
    assert caller.get(ALL, params={"channel": "fax"}).status_code == 422


def test_one_is_shown_and_a_mail_downloaded_as_it_would_have_gone_out(client: MakeClient, engine: Engine) -> None:
    caller = client(Role.VIEWER)
    mail = add(engine, record_id=11, details={"envelope_sender": "b@example.org"})
    text = add(engine, record_id=12, channel="sms", raw=None, content="code 7")
    assert caller.get(f"{ALL}/{mail}").json()["details"] == {"envelope_sender": "b@example.org"}
    assert caller.get(f"{ALL}/{text}").json()["content"] == "code 7"
    answer = caller.get(f"{ALL}/{mail}/raw")
    assert (answer.content, answer.headers["content-type"]) == (RAW, "message/rfc822")
    assert answer.headers["content-disposition"] == f'attachment; filename="captured-{mail}.eml"'
    assert caller.get(f"{ALL}/{text}/raw").status_code == 404


def test_another_tenant_s_are_not_there(client: MakeClient, engine: Engine) -> None:
    foreign = add(engine, tenant_id=8, record_id=1)
    caller = client(Role.TENANT_ADMIN)
    assert [caller.get(f"{ALL}/{foreign}{rest}").status_code for rest in ("", "/raw")] == [404, 404]
    assert caller.delete(ALL).json() == {"cleared": 0}
    assert client(Role.VIEWER, tenant=8).get(f"{ALL}/{foreign}").status_code == 200


def test_all_of_a_tenant_are_cleared_away(client: MakeClient, engine: Engine) -> None:
    add(engine, record_id=1)
    add(engine, record_id=2)
    kept = add(engine, tenant_id=8, record_id=3)
    assert client(Role.OPERATOR).delete(ALL).json() == {"cleared": 2}
    assert [one["id"] for one in client(Role.VIEWER, tenant=8).get(ALL).json()["items"]] == [kept]


@pytest.mark.parametrize("role", list(Role))
def test_who_may(client: MakeClient, role: Role) -> None:
    caller = client(role)
    may_read, may_clear = (p in PERMISSIONS[role] for p in (Permission.READ, Permission.OPERATE))
    assert caller.get(ALL).status_code == (200 if may_read else 403)
    assert caller.delete(ALL).status_code == (200 if may_clear else 403)
