"""Suppressions over HTTP: put on, listed, lifted with a reason, moved as files that a spreadsheet may open."""

import csv
import io
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, text
from starlette.testclient import TestClient

from messaging.access.roles import PERMISSIONS, Permission, Role
from tests.integration.web.api.conftest import MakeClient, OpenApi

ALL = "/api/v1/suppressions"
ANN, NUMBER = "ann@example.org", "+4915112345678"


def add(caller: TestClient, address: str = ANN, **fields: Any) -> str:
    answer = caller.post(ALL, json={"address": address, **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def listed(caller: TestClient, **asked: Any) -> list[str]:
    answer = caller.get(ALL, params=asked)
    assert answer.status_code == 200, answer.text
    return [entry["id"] for entry in answer.json()["items"]]


def send_in(caller: TestClient, content: str | bytes, **asked: Any) -> Any:
    return caller.post(f"{ALL}/import", params=asked, content=content, headers={"content-type": "text/csv"})


def test_an_address_put_on_is_shown_in_the_lists_spelling_and_again_stays_as_it_is(client: MakeClient) -> None:
    caller = client(user_id=12)
    entry_id = add(caller, "Ann <ANN@Example.org>", reason="COMPLAINT", list="news", note="by phone")
    assert add(caller, ANN, list="news", note="again") == entry_id
    number = add(caller, NUMBER, channel="sms", sender="Shop")
    newest, oldest = caller.get(ALL).json()["items"]
    assert (newest["id"], newest["channel"], newest["sender"], newest["reason"]) == (number, "sms", "shop", "MANUAL")
    assert (
        oldest.items()
        >= {
            "id": entry_id,
            "channel": "mail",
            "address": ANN,
            "reason": "COMPLAINT",
            "list": "news",
            "note": "by phone",
            "record_id": None,
            "lifted_at": None,
        }.items()
    )


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"address": "nobody"}, "address"),
        ({"address": ""}, "address"),
        ({"address": ANN, "channel": "sms"}, "address"),
        ({"address": ANN, "channel": "fax"}, "channel"),
        ({"address": ANN, "sender": "Shop"}, "sender"),
        ({"address": NUMBER, "channel": "sms", "list": "news"}, "list"),
        ({"address": ANN, "reason": "BORED"}, "reason"),
        ({"address": ANN, "note": "x" * 501}, "note"),
        ({"address": ANN, "note": "a\u0000"}, "note"),
        ({"address": ANN, "tenant_id": "8"}, "tenant_id"),
    ],
)
def test_what_cannot_be_an_entry_is_refused_by_its_field(
    client: MakeClient, fields: dict[str, Any], field: str
) -> None:
    caller = client()
    answer = caller.post(ALL, json=fields)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert listed(caller) == []


def test_a_list_is_narrowed_and_read_part_by_part(client: MakeClient) -> None:
    caller = client()
    ids = [add(caller, f"user{n}@example.org") for n in range(4)]
    number = add(caller, NUMBER, channel="sms", reason="OPT_OUT")
    first = caller.get(ALL, params={"size": 3}).json()
    second = caller.get(ALL, params={"size": 3, "cursor": first["next_cursor"]}).json()
    assert [one["id"] for one in (*first["items"], *second["items"])] == [number, *ids[::-1]]
    assert second["next_cursor"] is None
    assert listed(caller, channel="sms") == listed(caller, reason="OPT_OUT") == [number]
    for plus in ("+", " "):
        assert listed(caller, address=f"{plus}4915112345678") == [number]
    assert listed(caller, address="USER2@example.org") == listed(caller, search="er2@") == [ids[2]]
    for bad in ({"address": "nobody"}, {"channel": "fax"}, {"cursor": "x"}, {"search": "\u0000"}, {"tenant": "8"}):
        answer = caller.get(ALL, params=bad)
        assert (answer.status_code, answer.json()["field"]) == (422, next(iter(bad)))


def test_an_entry_is_lifted_with_a_reason_and_stays_as_a_row(client: MakeClient, engine: Engine) -> None:
    entry_id = add(client())
    caller = client(Role.OPERATOR, user_id=12)
    for bad in ({}, {"reason": ""}, {"reason": "  "}, {"reason": "x" * 501}):
        assert caller.post(f"{ALL}/{entry_id}/lift", json=bad).status_code == 422
    assert caller.post(f"{ALL}/{entry_id}/lift", json={"reason": "a new mailbox"}).json() == {"changed": True}
    assert caller.post(f"{ALL}/{entry_id}/lift", json={"reason": "again"}).json() == {"changed": False}
    assert listed(caller) == []
    [entry] = caller.get(ALL, params={"lifted": "true"}).json()["items"]
    assert (entry["lifted_note"], entry["lifted_at"] is None) == ("a new mailbox", False)
    with engine.connect() as connection:
        noted = connection.execute(text("SELECT action, target_id, note FROM audit_log WHERE action = 'lift'")).all()
    assert noted == [("lift", int(entry_id), "a new mailbox")]
    for unknown in ("404", "9223372036854775808"):
        assert caller.post(f"{ALL}/{unknown}/lift", json={"reason": "x"}).status_code == 404


def test_what_is_suppressed_for_one_tenant_is_not_for_another_and_can_be_lifted(client: MakeClient) -> None:
    # operate.md O64; what an attempt does with it: tests/integration/delivery/test_suppression.py
    seven, eight = client(tenant=7), client(tenant=8)
    entry_id = add(seven)
    assert listed(eight) == []
    assert eight.post(f"{ALL}/{entry_id}/lift", json={"reason": "x"}).status_code == 404
    assert listed(seven) == [entry_id]
    assert seven.post(f"{ALL}/{entry_id}/lift", json={"reason": "x"}).json() == {"changed": True}
    assert add(seven) != entry_id


# -- files


def test_a_file_is_imported_all_or_none(client: MakeClient) -> None:
    caller = client()
    bad = send_in(caller, f"address,reason\n{ANN},HARD_BOUNCE\nnobody,\n")
    assert (bad.status_code, "line 3: address is 'nobody'" in bad.json()["message"]) == (422, True)
    assert listed(caller) == []
    good = f"address,reason\n{ANN},HARD_BOUNCE\nben@example.org,\n{ANN},\n"
    assert send_in(caller, good, dry_run="true").json() == {"added": 2, "known": 1, "lifted": 0}
    assert listed(caller) == []
    assert send_in(caller, good, reason="OPT_OUT").json() == {"added": 2, "known": 1, "lifted": 0}
    reasons = {entry["address"]: entry["reason"] for entry in caller.get(ALL).json()["items"]}
    assert reasons == {ANN: "HARD_BOUNCE", "ben@example.org": "OPT_OUT"}


@pytest.mark.parametrize("content", ["", "\n", "name\nx\n", b"address\n\xff@example.org\n", 'address\n"a'])
def test_what_is_no_such_file_is_refused(client: MakeClient, content: str | bytes) -> None:
    answer = send_in(client(), content)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


NOTES = ["=cmd|' /C calc'!A0", "@SUM(1+1)", "-2+3", "\t=1+1", 'a"b,c\nd', "'tis", "plain"]


def test_an_export_is_safe_in_a_spreadsheet_and_an_import_reads_it_back(client: MakeClient) -> None:
    # web/admin web-02
    seven, eight = client(tenant=7), client(tenant=8)
    for number, note in enumerate(NOTES):
        add(seven, f"user{number}@example.org", note=note)
    add(seven, NUMBER, channel="sms")
    add(seven, "=1@example.org")

    answer = seven.get(f"{ALL}/export")

    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="suppressions.csv"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    cells = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [row["note"] for row in cells[:7]] == [
        *("'=cmd|' /C calc'!A0", "'@SUM(1+1)", "'-2+3", "'\t=1+1", 'a"b,c\nd', "'tis", "plain")
    ]
    assert [row["address"] for row in cells[7:]] == [NUMBER, "'=1@example.org"]
    assert send_in(eight, answer.content).json() == {"added": 9, "known": 0, "lifted": 0}
    notes = {entry["address"]: entry["note"] for entry in eight.get(ALL).json()["items"]}
    assert [notes[f"user{n}@example.org"] for n in range(7)] == NOTES
    assert "=1@example.org" in notes


def test_an_export_leaves_out_what_was_lifted_unless_it_is_asked_for(client: MakeClient) -> None:
    caller = client()
    entry_id = add(caller)
    caller.post(f"{ALL}/{entry_id}/lift", json={"reason": "x"})
    assert len(caller.get(f"{ALL}/export").text.splitlines()) == 1
    [_, line] = caller.get(f"{ALL}/export", params={"lifted": "true"}).text.splitlines()
    assert line.startswith(f"mail,{ANN},MANUAL,")


def test_a_long_list_is_exported_whole(client: MakeClient, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(
            text("""
                INSERT INTO suppression (tenant_id, channel, address, reason, note)
                SELECT 7, 'mail', 'r' || n || '@example.org', 'MANUAL', repeat('n', 500)
                FROM generate_series(1, 3000) n""")
        )
    lines = client().get(f"{ALL}/export").text.splitlines()
    assert (len(lines), lines[-1].split(",")[1]) == (3001, "r3000@example.org")


def test_without_tenants_there_is_one_list(open_api: OpenApi, client: MakeClient) -> None:
    app = open_api(multi_tenancy=False)
    entry_id = add(client(Role.TENANT_ADMIN, app=app))
    assert listed(client(Role.VIEWER, tenant=9, app=app)) == [entry_id]


@pytest.mark.parametrize(
    ("call", "needed"),
    [
        (lambda c, i: c.get(ALL), Permission.READ),
        (lambda c, i: c.get(f"{ALL}/export"), Permission.READ),
        (lambda c, i: c.post(ALL, json={"address": ANN}), Permission.ADMINISTER),
        (lambda c, i: send_in(c, f"address\n{ANN}\n"), Permission.ADMINISTER),
        (lambda c, i: c.post(f"{ALL}/{i}/lift", json={"reason": "x"}), Permission.OPERATE),
    ],
)
def test_each_operation_is_for_whom_it_is(
    client: MakeClient, call: Callable[[TestClient, str], Any], needed: Permission
) -> None:
    entry_id = add(client())
    for role in (Role.SENDER, Role.VIEWER, Role.OPERATOR, Role.TENANT_ADMIN):
        answer = call(client(role), entry_id)
        assert (answer.status_code == 403) is (needed not in PERMISSIONS[role]), (role, answer.text)
    assert call(client(None), entry_id).status_code == 401
