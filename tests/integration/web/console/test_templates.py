"""Templates in the console: edited with a preview, every save kept as a version, tried by a message of their own."""

import pytest
from sqlalchemy import Engine, text

from messaging import api, tenancy
from messaging.access.roles import Role
from tests.integration.web.console.conftest import Browse

MAIL = {
    "code": "order",
    "name": "Order",
    "body_mode": "HTML_WITH_DERIVED_PLAIN",
    "subject": "Order {{ number }}",
    "body_html": "<p>Dear {{ name }}</p>",
    "active": "yes",
    "sample_variables": '{"number": 17, "name": "Ann"}',
}
SMS = {
    "code": "order",
    "name": "Order",
    "content": "Order {{ number }} – gone",
    "active": "yes",
    "sample_variables": "",
}
HOSTILE = '"><script>alert(1)</script>'


def form_of(browser: object, path: str, given: dict[str, str]) -> dict[str, str]:
    shown = browser.get(f"/console/{path}/1").text  # type: ignore[attr-defined]
    return {**given, "as_of": shown.partition('name="as_of" value="')[2].partition('"')[0]}


@pytest.mark.parametrize(("path", "given"), [("mail-templates", MAIL), ("sms-templates", SMS)])
def test_every_save_is_a_version_that_can_be_brought_back(
    browse: Browse, engine: Engine, path: str, given: dict[str, str]
) -> None:
    browser = browse(Role.TENANT_ADMIN)
    source = "subject" if path == "mail-templates" else "content"
    assert browser.post(f"/console/{path}/new", data=given).status_code == 303
    changed = form_of(browser, path, given) | {source: "Changed {{ number }}", "name": HOSTILE}
    assert browser.post(f"/console/{path}/1", data=changed).status_code == 303
    # Nothing changed, so there is nothing to keep.
    assert browser.post(f"/console/{path}/1", data=form_of(browser, path, changed)).status_code == 303
    assert browser.post(f"/console/{path}/1/disable").status_code == 303
    shown = browser.get(f"/console/{path}/1/versions").text
    assert shown.count('<section class="card"') == 2
    assert "<ins>+ Changed {{ number }}</ins>" in shown
    assert "<script>alert" not in shown
    late = browser.post(f"/console/{path}/1", data=changed | {"name": "too late"})
    assert late.status_code == 409
    assert "Roll back" in browser.get(f"/console/{path}/1/versions/1").text
    assert browser.post(f"/console/{path}/1/versions/1").status_code == 303
    with tenancy.tenant(7):
        row = api.get_mail_template(1) if path == "mail-templates" else api.get_sms_template(1)
    assert (getattr(row, source), row.name) == (given[source], "Order")
    assert browser.get(f"/console/{path}/1/versions").text.count('<section class="card"') == 3
    assert browser.post(f"/console/{path}/1/versions/9").status_code == 404
    assert browse(Role.TENANT_ADMIN, 8).get(f"/console/{path}/1/versions").status_code == 404
    assert browse(Role.VIEWER).post(f"/console/{path}/1/versions/1").status_code == 403
    assert browser.post(f"/console/{path}/1/delete").status_code == 303
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM template_version")).scalar_one() == 0


def test_a_template_from_before_there_were_versions_keeps_what_it_was(browse: Browse, engine: Engine) -> None:
    browser = browse(Role.TENANT_ADMIN)
    browser.post("/console/mail-templates/new", data=MAIL)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM template_version"))
    browser.post("/console/mail-templates/1", data=form_of(browser, "mail-templates", MAIL) | {"subject": "New"})
    shown = browser.get("/console/mail-templates/1/versions").text
    assert "<del>- Order {{ number }}</del>" in shown
    assert shown.count('<section class="card"') == 2


def test_a_preview_is_of_what_was_typed_and_may_nothing(browse: Browse) -> None:
    browser = browse(Role.TENANT_ADMIN)
    shown = browser.post("/console/mail-templates/preview", data=MAIL)
    assert shown.status_code == 200
    assert "Order 17" in shown.text
    assert "<p>Dear Ann</p>" in shown.text
    assert shown.headers["content-security-policy"].startswith("sandbox")
    assert (
        "Not given: number, name"
        in browser.post("/console/mail-templates/preview", data=MAIL | {"sample_variables": "{}"}).text
    )
    for body in (
        "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
        "{{ ''.__class__ }}",
        "{% if %}",
        "{{ 'x' * 10 ** 9 }}",
    ):
        refused = browser.post("/console/mail-templates/preview", data=MAIL | {"body_html": body})
        assert refused.status_code == 422, body
        assert "body_html" in refused.text
    assert browser.post("/console/mail-templates/preview", data=MAIL | {"sample_variables": "[1"}).status_code == 422
    text_shown = browser.post("/console/sms-templates/preview", data=SMS | {"content": "“Order” – gone"}).text
    assert "UCS2, 14 characters, 1 segments" in text_shown
    assert "Could be written in GSM" in text_shown
    assert "GSM7" in browser.post("/console/sms-templates/preview", data=SMS | {"content": "–", "to_gsm": "yes"}).text
    assert browse(None).post("/console/mail-templates/preview", data=MAIL).status_code in (303, 401)


def test_a_trial_is_an_ordinary_message_with_the_sample_data(browse: Browse) -> None:
    browser = browse(Role.TENANT_ADMIN)
    browser.post("/console/mail-templates/new", data=MAIL)
    assert "Ann" in browser.get("/console/mail-templates/1").text
    refused = browser.post("/console/mail-templates/1/try", data={"to": HOSTILE})
    assert refused.status_code == 422
    assert "<script>" not in refused.text
    sent = browser.post("/console/mail-templates/1/try", data={"to": "ann@example.org"})
    assert sent.headers["location"] == "/console/mail/1"
    with tenancy.tenant(7):
        record = api.get_record(1, channel="mail", with_bodies=True)
    assert record.template_variables == {"number": 17, "name": "Ann"}  # type: ignore[union-attr]
    wrong = browser.post("/console/mail-templates/new", data=MAIL | {"code": "other", "body_html": "{% if %}"})
    assert wrong.status_code == 422
    assert "line 1" in wrong.text or "body_html" in wrong.text
    assert "{% if %}" in wrong.text
