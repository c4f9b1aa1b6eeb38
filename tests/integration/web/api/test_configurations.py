"""Configurations of every kind over HTTP: kept by administrators, read by others, never with secrets.

operate.md section 9: O5, O6, O12, O60; cases tenant-01, web-01.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from messaging.access.roles import Role
from tests.integration.web.api.conftest import MakeClient

BASE = "/api/v1"
SECRET = "s3cret-of-the-shop"

SERVER = {"name": "out", "host": "mail.example.com", "port": 587, "username": "shop@example.org", "password": SECRET}
MAILBOX = {"name": "in", "host": "mail.example.com", "port": 993, "username": "shop@example.org", "password": SECRET}
PROVIDER = {
    "name": "texts",
    "provider_type": "TWILIO",
    "account_id": "AC1",
    "api_key": SECRET,
    "api_secret": SECRET,
    "sender_number": "+14155550100",
    "ext_config": {"edge": SECRET},
}


@dataclass(frozen=True)
class Subject:
    path: str
    given: dict[str, Any]
    changed: dict[str, Any]
    #: A value that the library refuses, of a field that the shape takes.
    refused: dict[str, Any]
    #: Fields that name rows made first: field -> path.
    references: dict[str, str] = field(default_factory=dict)
    #: What a copy is given.
    copied: dict[str, Any] | None = None

    def body(self, client: TestClient) -> dict[str, Any]:
        """A body to add one, with what it refers to."""
        body = dict(self.given)
        for name, path in self.references.items():
            body[name] = add(client, SUBJECTS[path])["id"]
        if "code" in body:
            body["code"] += client.get(BASE + self.path, params={"active": "all"}).json()["total"] * "x"
        return body


SUBJECTS = {
    subject.path: subject
    for subject in (
        Subject("/mail/send-servers", SERVER, {"host": "b.example.com"}, {"host": "a b"}, copied={"name": "copy"}),
        Subject(
            "/mail/receive-servers", MAILBOX, {"host": "b.example.com"}, {"host": "a b"}, copied={"password": SECRET}
        ),
        Subject(
            "/mail/templates",
            {"code": "welcome", "name": "Welcome", "subject": "Hi {{ name }}", "body_html": "<p>{{ name }}</p>"},
            {"subject": "Hello"},
            {"subject": "{{ name"},
            copied={"code": "copied"},
        ),
        Subject(
            "/sms/templates",
            {"code": "otp", "name": "OTP", "content": "Code {{ code }}"},
            {"max_segments": 2},
            {"content": "{% if %}"},
            copied={"code": "copied"},
        ),
        Subject(
            "/sms/providers",
            PROVIDER,
            {"sender_number": "+14155550101"},
            {"provider_type": "PIGEON"},
            copied={"api_key": SECRET, "api_secret": SECRET},
        ),
        Subject(
            "/sms/routes",
            {"region_code": "DE"},
            {"region_code": "FR"},
            {"region_code": "ZZ"},
            {"provider_config_id": "/sms/providers"},
        ),
        Subject(
            "/sms/template-bindings",
            {"external_template_id": "HX1"},
            {"sign_name": "Shop"},
            {"region_code": "ZZ"},
            {"provider_config_id": "/sms/providers", "template_id": "/sms/templates"},
        ),
    )
}
each = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)


def add(client: TestClient, subject: Subject, **fields: Any) -> Any:
    answer = client.post(BASE + subject.path, json=subject.body(client) | fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


def problem(answer: Response) -> tuple[int, str, str | None]:
    """Status, code and field of a refusal."""
    return answer.status_code, answer.json()["code"], answer.json().get("field")


@each
def test_one_is_added_read_changed_and_deleted(client: MakeClient, subject: Subject) -> None:
    admin = client(Role.TENANT_ADMIN)
    body = subject.body(admin)
    answer = admin.post(BASE + subject.path, json=body)
    assert answer.status_code == 201
    added = answer.json()
    shown = {name: value for name, value in body.items() if name in added}
    assert {name: added[name] for name in shown} == shown
    one = f"{BASE}{subject.path}/{added['id']}"
    assert admin.get(one).json() == added
    changed = admin.patch(one, json=subject.changed)
    assert changed.status_code == 200
    assert changed.json() | {"updated_at": "", "dial_code": ""} == added | subject.changed | {
        "updated_at": "",
        "dial_code": "",
        **({"updated_by": changed.json()["updated_by"]} if "updated_by" in added else {}),
    }
    assert admin.patch(one, json={}).status_code == 200
    assert (admin.delete(one).status_code, admin.delete(one).status_code) == (204, 404)
    assert problem(admin.get(one)) == (404, "not_found", None)


@each
def test_a_list_has_enabled_ones_unless_others_are_asked_for(client: MakeClient, subject: Subject) -> None:  # O12
    admin = client(Role.TENANT_ADMIN)
    on, off = add(admin, subject)["id"], add(admin, subject)["id"]
    one = f"{BASE}{subject.path}/{off}"
    assert admin.patch(one, json={"active": False}).json()["active"] is False

    def ids(**query: Any) -> list[str]:
        found: list[str] = [row["id"] for row in admin.get(BASE + subject.path, params=query).json()["items"]]
        return found

    assert (ids(), ids(active="false"), set(ids(active="all"))) == ([on], [off], {on, off})
    assert admin.get(one).json()["id"] == off
    page = admin.get(BASE + subject.path, params={"active": "all", "sort": "-id", "size": 1, "page": 2}).json()
    assert ([row["id"] for row in page["items"]], page["total"], page["page"], page["size"]) == ([on], 2, 2, 1)
    for wrong in ({"active": "yes"}, {"sort": "password"}, {"size": 201}, {"page": 0}, {"tenant_id": "8"}):
        answer = admin.get(BASE + subject.path, params=wrong)
        assert problem(answer) == (422, "invalid", next(iter(wrong)))


@each
def test_who_reads_does_not_write_and_who_sends_does_not_read(client: MakeClient, subject: Subject) -> None:
    admin = client(Role.TENANT_ADMIN)
    body = subject.body(admin)
    row_id = add(admin, subject)["id"]
    path, one = BASE + subject.path, f"{BASE}{subject.path}/{row_id}"
    for role, reads in ((Role.VIEWER, 200), (Role.OPERATOR, 200), (Role.SENDER, 403)):
        caller = client(role)
        assert (caller.get(path).status_code, caller.get(one).status_code) == (reads, reads)
        writes = [caller.post(path, json=body), caller.patch(one, json=subject.changed), caller.delete(one)]
        assert [problem(answer)[:2] for answer in writes] == [(403, "forbidden")] * 3
    assert client(None).get(one).status_code == 401


@each
def test_others_rows_are_not_found_and_the_platforms_are_told_to_be_so(client: MakeClient, subject: Subject) -> None:
    theirs = add(client(Role.TENANT_ADMIN, tenant=8), subject)["id"]  # O5
    platforms = add(client(Role.PLATFORM), subject)["id"]  # O6
    admin = client(Role.TENANT_ADMIN, tenant=7)
    for row_id, status in ((theirs, 404), (platforms, 403)):
        one = f"{BASE}{subject.path}/{row_id}"
        assert admin.get(one).status_code == 404
        refused = [admin.patch(one, json=subject.changed), admin.delete(one)]
        assert [answer.status_code for answer in refused] == [status] * 2
        if status == 403:
            assert all("belongs to the platform" in answer.json()["message"] for answer in refused)
    assert admin.get(BASE + subject.path, params={"active": "all"}).json()["items"] == []


@each
def test_what_cannot_be_saved_is_told_by_its_field_and_nothing_is(client: MakeClient, subject: Subject) -> None:
    admin = client(Role.TENANT_ADMIN)
    body = subject.body(admin)
    (name,) = subject.refused
    assert problem(admin.post(BASE + subject.path, json=body | subject.refused)) == (422, "invalid", name)
    assert problem(admin.post(BASE + subject.path, json=body | {"tenant_id": "8"})) == (422, "invalid", "tenant_id")
    assert admin.post(BASE + subject.path, json={}).status_code == 422
    assert admin.get(BASE + subject.path, params={"active": "all"}).json()["total"] == 0
    added = add(admin, subject)
    assert problem(admin.patch(f"{BASE}{subject.path}/{added['id']}", json=subject.refused)) == (422, "invalid", name)
    assert admin.get(f"{BASE}{subject.path}/{added['id']}").json() == added


@each
def test_an_id_that_no_row_has_is_not_found(client: MakeClient, subject: Subject) -> None:
    admin = client(Role.TENANT_ADMIN)  # web/admin web-01
    for row_id in ("2147483648", "9223372036854775808", "99999999999999999999", "-1", "0", "x"):
        one = f"{BASE}{subject.path}/{row_id}"
        answers = [admin.get(one), admin.patch(one, json=subject.changed), admin.delete(one)]
        assert [answer.status_code for answer in answers] == [404] * 3, row_id


@pytest.mark.parametrize("path", ["/mail/send-servers", "/mail/receive-servers", "/sms/providers"])
def test_no_answer_holds_a_secret(client: MakeClient, path: str) -> None:  # O60
    admin, subject = client(Role.TENANT_ADMIN), SUBJECTS[path]
    added = add(admin, subject)
    one = f"{BASE}{path}/{added['id']}"
    answers = [
        admin.post(BASE + path, json=subject.body(admin)),
        admin.get(one),
        admin.get(BASE + path),
        admin.patch(one, json=subject.changed),
        admin.patch(one, json={"password" if path.startswith("/mail") else "api_secret": SECRET + "2"}),
        admin.patch(one, json={"password" if path.startswith("/mail") else "api_secret": [SECRET]}),
        admin.post(f"{one}/copy", json=subject.copied),
        admin.post(BASE + path, json=subject.body(admin) | {"host": 1, "provider_type": 2}),
    ]
    assert {answer.status_code for answer in answers} == {200, 201, 422}
    for answer in answers:
        assert SECRET not in answer.text
    flags = {name: value for name, value in added.items() if name.startswith("has_")}
    assert flags
    assert all(flags.values())


@pytest.mark.parametrize("path", [path for path, subject in SUBJECTS.items() if subject.copied is not None])
def test_a_copy_is_disabled_and_without_code_and_secrets(client: MakeClient, path: str) -> None:
    admin, subject = client(Role.TENANT_ADMIN), SUBJECTS[path]
    added = add(admin, subject)
    one = f"{BASE}{path}/{added['id']}"
    answer = admin.post(f"{one}/copy", json=subject.copied)
    assert answer.status_code == 201
    copied = answer.json()
    assert (copied["active"], copied["id"] == added["id"], copied.get("is_default", False)) == (False, False, False)
    if "code" in added:
        assert problem(admin.post(f"{one}/copy", json={})) == (422, "invalid", "code")
        assert problem(admin.post(f"{one}/copy", json={"code": added["code"]})) == (422, "invalid", "code")
    if path == "/mail/send-servers":
        assert (copied["name"], copied["host"], copied["has_password"]) == ("copy", added["host"], False)
    if path == "/mail/receive-servers":
        assert problem(admin.post(f"{one}/copy", json={})) == (422, "invalid", "password")
    assert client(Role.OPERATOR).post(f"{one}/copy", json=subject.copied).status_code == 403
