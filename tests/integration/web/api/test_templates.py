"""Templates over HTTP: offered to senders, their variables, previews, a change of the body mode.

operate.md section 9: O15, O53, O54; send.md sections 5.4 to 5.6.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.testclient import TestClient

from messaging.access.roles import Role
from messaging.web.limits import Limits
from tests.integration.web.api.conftest import MakeClient, OpenApi

MAIL, SMS = "/api/v1/mail/templates", "/api/v1/sms/templates"


def add(client: TestClient, path: str = MAIL, **fields: Any) -> str:
    answer = client.post(path, json={"code": "welcome", "name": "Welcome", **fields})
    assert answer.status_code == 201, answer.text
    row_id: str = answer.json()["id"]
    return row_id


def test_summaries_are_of_enabled_templates_for_whoever_sends(client: MakeClient) -> None:
    admin, sender = client(Role.TENANT_ADMIN), client(Role.SENDER)
    mail = add(admin, subject="Hi", default_priority="HIGH", description="For new ones", body_text="secret text")
    add(admin, code="off", active=False)
    assert sender.get(f"{MAIL}/summaries").json()["items"] == [
        {
            "id": mail,
            "code": "welcome",
            "name": "Welcome",
            "description": "For new ones",
            "subject": "Hi",
            "default_priority": "HIGH",
        }
    ]
    add(admin, SMS, content="x" * 200)  # O53
    (summary,) = sender.get(f"{SMS}/summaries").json()["items"]
    assert summary["content"] == "x" * 100
    assert sender.get(MAIL).status_code == 403


@pytest.mark.parametrize("path", [MAIL, SMS])
def test_variables_are_told_by_id_which_wins_or_code_of_disabled_ones_too(client: MakeClient, path: str) -> None:
    admin, sender = client(Role.TENANT_ADMIN), client(Role.SENDER)
    body = "body_html" if path == MAIL else "content"
    source = "{{ user.name }}{% for item in items %}{{ item }}{% endfor %}{{ a + b }}"
    one = add(admin, path, **{body: source, "active": False})  # O15
    two = add(admin, path, code="other", **{body: "{{ only }}"})

    def names(**query: str) -> list[tuple[str, str]]:
        answer = sender.get(f"{path}/variables", params=query)
        return [(entry["name"], entry["kind"]) for entry in answer.json()["items"]]

    assert names(code="welcome") == names(id=one)
    assert dict(names(id=one)) == {"user.name": "VARIABLE", "items": "COLLECTION", "a + b": "EXPRESSION"}
    assert names(id=two, code="welcome") == [("only", "VARIABLE")]  # O54
    neither = sender.get(f"{path}/variables")
    assert (neither.status_code, neither.json()["field"]) == (422, "code")
    assert sender.get(f"{path}/variables", params={"code": "none"}).status_code == 404
    assert sender.get(f"{path}/variables", params={"id": "x"}).status_code == 422
    assert client(Role.SENDER, tenant=8).get(f"{path}/variables", params={"id": one}).status_code == 404


def test_a_mail_is_previewed_and_nothing_is_sent(client: MakeClient) -> None:
    admin, sender = client(Role.TENANT_ADMIN), client(Role.SENDER)
    template_id = add(
        admin, subject="Hi {{ name }}", body_html="<p>{{ name }}{{ rest }}</p>", strict=True, active=False
    )
    given: dict[str, Any] = {"id": template_id, "variables": {"name": "<Ada>"}}
    assert sender.post(f"{MAIL}/preview", json=given).json() == {  # O15
        "rendered_subject": "Hi <Ada>",
        "rendered_body_html": "<p>&lt;Ada&gt;</p>",
        "rendered_body_text": None,
        "missing_variables": ["rest"],
    }
    without = sender.post(f"{MAIL}/preview", json={"code": "welcome"}).json()
    assert (without["rendered_subject"].strip(), without["missing_variables"]) == ("Hi", ["name", "rest"])
    neither = sender.post(f"{MAIL}/preview", json={"variables": {}})
    assert (neither.status_code, neither.json()["field"]) == (422, "code")


def test_a_template_that_fails_is_told_by_column_line_and_variable(client: MakeClient) -> None:
    admin = client(Role.TENANT_ADMIN)
    template_id = add(admin, body_html="<p>\n{{ count // zero }}</p>")
    answer = admin.post(f"{MAIL}/preview", json={"id": template_id, "variables": {"count": 1, "zero": 0}})
    told = answer.json()
    assert (answer.status_code, told["code"], told["field"], told["line"]) == (422, "render_failed", "body_html", 2)
    refused = admin.patch(f"{MAIL}/{template_id}", json={"body_html": "a\nb\n{% if %}"})
    assert (refused.status_code, refused.json()["field"], refused.json()["line"]) == (422, "body_html", 3)
    text_id = add(admin, SMS, content="{{ count // zero }}")
    answer = admin.post(f"{SMS}/preview", json={"id": text_id, "variables": {"count": 1, "zero": 0}})
    assert (answer.status_code, answer.json()["field"]) == (422, "content")


def test_a_text_is_previewed_with_its_segments(client: MakeClient) -> None:
    template_id = add(client(Role.TENANT_ADMIN), SMS, content="Code {{ code }} ✓", max_segments=1)
    given = {"id": template_id, "variables": {"code": "1" * 70}}
    assert client(Role.SENDER).post(f"{SMS}/preview", json=given).json() == {
        "content": "Code " + "1" * 70 + " ✓",
        "encoding": "UCS2",
        "segments": 2,
        "units": 77,
        "refused": "it comes to 2 segments, and max_segments is 1",
        "missing_variables": [],
    }


def test_a_change_of_the_body_mode_answers_the_forms_bodies_and_stores_nothing(client: MakeClient) -> None:
    admin = client(Role.TENANT_ADMIN)
    path = f"{MAIL}/body-mode-change"
    form = {"body_html": "<p>Hello {{ name }}</p>", "body_text": None}
    assert admin.post(path, json=form | {"body_mode": "PLAIN"}).json() == {
        "body_mode": "PLAIN",
        "body_html": None,
        "body_text": "Hello {{ name }}",
    }
    kept = form | {"body_mode": "HTML"}
    assert admin.post(path, json=kept).json() == kept
    assert admin.post(path, json=form | {"body_mode": "RTF"}).json()["field"] == "body_mode"
    assert client(Role.SENDER).post(path, json=kept).status_code == 403
    assert admin.get(MAIL).json()["total"] == 0


def test_a_template_names_servers_and_files_of_its_tenant_alone(client: MakeClient) -> None:
    admin, other = client(Role.TENANT_ADMIN), client(Role.TENANT_ADMIN, tenant=8)
    server = {"name": "out", "host": "mail.example.com", "port": 25, "from_address": "shop@example.org"}
    own, theirs = (c.post("/api/v1/mail/send-servers", json=server).json()["id"] for c in (admin, other))
    template_id = add(admin, preferred_server_config_id=own)
    assert admin.get(f"{MAIL}/{template_id}").json()["preferred_server_config_id"] == own
    for wrong in (
        {"preferred_server_config_id": theirs},
        {"attachments": [{"file_id": "99", "file_name": "a.pdf"}]},
    ):
        refused = admin.patch(f"{MAIL}/{template_id}", json=wrong)
        assert (refused.status_code, refused.json()["field"]) == (422, next(iter(wrong)))


def test_a_templates_code_is_taken_once(client: MakeClient) -> None:  # tenancy tenant-03
    admin, other = client(Role.TENANT_ADMIN), client(Role.TENANT_ADMIN, tenant=8)
    add(admin)
    add(other)
    again = admin.post(MAIL, json={"code": "welcome", "name": "Again"})
    assert (again.status_code, again.json()["field"]) == (422, "code")
    assert admin.get(MAIL, params={"search": "WELC"}).json()["total"] == 1


def test_previews_that_take_long_leave_threads_for_everybody_else(open_api: OpenApi, client: MakeClient) -> None:
    app = open_api(options={"limits": Limits(threads=8)})
    admin = client(Role.TENANT_ADMIN, app=app)
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    given = {"code": "slow", "name": "n", "subject": "s", "body_mode": "PLAIN", "body_text": loop}
    assert admin.post("/api/v1/mail/templates", json=given).status_code == 201

    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(admin.post, "/api/v1/mail/templates/preview", json={"code": "slow"}) for _ in range(2)]
        assert sorted(one.result().status_code for one in asked) == [422, 429]
