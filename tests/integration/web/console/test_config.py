"""Pages of configurations: found, added, changed, switched, copied and deleted by whom that is for."""

from typing import Any

import pytest
from sqlalchemy import Engine, text
from starlette.testclient import TestClient

from messaging import api, tenancy
from messaging.access.roles import Role
from tests.integration.web.console.conftest import Browse

HOSTILE = '"><img src=x onerror=alert(1)><script>alert(1)</script>{{7*7}}'
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"
SECRET = "s3cret-never-shown"

#: By path: what a form of a new one says, a field that is wrong with words that are told beside it, its secrets.
KINDS: dict[str, tuple[dict[str, str], tuple[str, str, str], list[str]]] = {
    "send-servers": (
        {
            "name": "first-one",
            "protocol": "SMTP",
            "host": "mail.example.org",
            "port": "587",
            "username": "shop@example.org",
            "password": SECRET,
            "active": "yes",
            "sequence": "100",
        },
        ("port", "many", "not a whole number"),
        ["password"],
    ),
    "receive-servers": (
        {
            "name": "first-one",
            "protocol": "IMAP",
            "host": "mail.example.org",
            "port": "993",
            "ssl_enabled": "yes",
            "username": "shop@example.org",
            "password": SECRET,
            "active": "yes",
            "sequence": "100",
        },
        ("port", "99999999", "65535"),
        ["password"],
    ),
    "sms-providers": (
        {
            "name": "first-one",
            "provider_type": "TWILIO",
            "api_key": "AC" + "0" * 32,
            "api_secret": SECRET,
            "sender_number": "+14155550100",
            "active": "yes",
            "priority": "100",
        },
        ("priority", "first", "not a whole number"),
        ["api_secret"],
    ),
    "webhook-endpoints": (
        {"name": "first-one", "url": "https://shop.example.org/events", "active": "yes", "event_types": "message.sent"},
        ("event_types", "no.such", "message.sent"),
        [],
    ),
}

EACH = pytest.mark.parametrize("path", KINDS)


def add(browser: TestClient, path: str, **changed: str) -> Any:
    return browser.post(f"/console/{path}/new", data={**KINDS[path][0], **changed})


def form_of(browser: TestClient, path: str, row_id: int = 1) -> dict[str, str]:
    """What a browser would send of the form as it stands: its state, and the fields as they were added."""
    shown = browser.get(f"/console/{path}/{row_id}")
    assert shown.status_code == 200
    as_of = shown.text.partition('name="as_of" value="')[2].partition('"')[0]
    return {**{k: v for k, v in KINDS[path][0].items() if v != SECRET}, "as_of": as_of}


@EACH
def test_one_is_added_changed_and_listed_and_its_secret_is_never_shown(
    browse: Browse, engine: Engine, path: str
) -> None:
    browser = browse(Role.TENANT_ADMIN)
    assert browser.get(f"/console/{path}/new").status_code == 200
    added = add(browser, path)
    assert added.status_code in (200, 303), added.text
    assert "first-one" in browser.get(f"/console/{path}").text
    form = form_of(browser, path) | {"name": HOSTILE[:60]}
    assert browser.post(f"/console/{path}/1", data=form).status_code == 303
    pages = [browser.get(f"/console/{path}{rest}").text for rest in ("", "?active=all", "/1", "/1/delete")]
    pages.append(
        browser.post(f"/console/{path}/1", data=form_of(browser, path) | {"name": "", "password": SECRET}).text
    )
    assert all(SECRET not in page for page in pages)
    assert all("<img src=x" not in page for page in pages)
    assert "&lt;img src=x onerror=alert(1)&gt;" in pages[0]
    with engine.connect() as connection:
        noted = connection.execute(text("SELECT CAST(after AS text) FROM audit_log")).scalars().all()
    assert noted
    assert all(SECRET not in (after or "") for after in noted)


@EACH
def test_what_is_wrong_stands_beside_its_field_and_what_was_typed_is_kept(browse: Browse, path: str) -> None:
    browser = browse(Role.TENANT_ADMIN)
    name, typed, words = KINDS[path][1]
    refused = add(browser, path, **{name: typed})
    assert refused.status_code == 422
    assert words in refused.text
    assert f'id="e-{name}"' in refused.text
    assert typed in refused.text
    assert SECRET not in refused.text
    assert "Nothing here yet" in browser.get(f"/console/{path}").text
    for bad in ("\x00", "x" * 10_000):
        assert add(browser, path, name=bad).status_code == 422


@EACH
def test_the_second_of_two_editors_is_told_and_keeps_what_was_typed(browse: Browse, path: str) -> None:
    one, other = browse(Role.TENANT_ADMIN), browse(Role.TENANT_ADMIN)
    add(one, path)
    before = form_of(one, path)
    assert other.post(f"/console/{path}/1", data=form_of(other, path) | {"name": "by the other"}).status_code == 303
    late = one.post(f"/console/{path}/1", data=before | {"name": "typed by one"})
    assert late.status_code == 409
    assert "Someone else saved this meanwhile" in late.text
    assert "typed by one" in late.text
    assert "by the other" in one.get(f"/console/{path}").text


@EACH
def test_o12_one_that_is_switched_off_leaves_the_list_of_active_ones(browse: Browse, path: str) -> None:
    browser = browse(Role.TENANT_ADMIN)
    add(browser, path)
    assert "can be chosen again" in browser.get(f"/console/{path}/1/enable").text
    assert browser.post(f"/console/{path}/1/disable").status_code == 303
    assert "Nothing here yet" in browser.get(f"/console/{path}").text
    assert "first-one" in browser.get(f"/console/{path}?active=all").text
    assert browser.post(f"/console/{path}/1/enable").status_code == 303
    assert "first-one" in browser.get(f"/console/{path}").text
    assert browser.post(f"/console/{path}/1/delete").status_code == 303
    assert browser.get(f"/console/{path}/1").status_code == 404
    assert browser.post(f"/console/{path}/1/delete").status_code == 404


@EACH
def test_others_see_nothing_of_it_and_those_who_only_look_change_nothing(browse: Browse, path: str) -> None:
    add(browse(Role.TENANT_ADMIN), path)
    other, viewer = browse(Role.TENANT_ADMIN, 8), browse(Role.VIEWER)
    assert "first-one" not in other.get(f"/console/{path}?active=all").text
    for rest in ("1", "1/delete", "1/copy") if path != "webhook-endpoints" else ("1", "1/delete"):
        assert other.get(f"/console/{path}/{rest}").status_code == 404
    assert other.post(f"/console/{path}/1/disable").status_code == 404
    assert viewer.get(f"/console/{path}/1").status_code == 200
    assert "Save" not in viewer.get(f"/console/{path}/1").text
    assert add(viewer, path).status_code == 403
    assert viewer.post(f"/console/{path}/1/delete").status_code == 403
    assert viewer.get(f"/console/{path}/1").status_code == 200


def test_a_servers_default_moves_and_copies_are_off(browse: Browse) -> None:
    browser = browse(Role.TENANT_ADMIN)
    add(browser, "send-servers", is_default="yes")
    copied = browser.get("/console/send-servers/1/copy")
    assert "Copy of first-one" in copied.text
    add(browser, "send-servers", name="second")
    assert browser.post("/console/send-servers/2/default").status_code == 303
    with tenancy.tenant(7):
        assert [(one.id, one.is_default) for one in api.list_mail_servers(sort="id")] == [(1, False), (2, True)]
    browser.post("/console/send-servers/1/disable")
    assert browser.post("/console/send-servers/1/default").status_code == 303
    assert "is disabled" in browser.get("/console/send-servers").text


def test_windows_are_shown_as_used_of_their_limit_and_a_test_says_what_came_of_it(browse: Browse) -> None:
    browser = browse(Role.TENANT_ADMIN)
    add(
        browser,
        "send-servers",
        daily_send_limit="1000",
        host="127.0.0.1",
        port="9",
        username="",
        password="",
        from_address="shop@example.org",
    )
    # What other tests of this process took of that window is counted there, too.
    assert " / 1,000" in browser.get("/console/send-servers").text
    tested = browser.post("/console/send-servers/1/test")
    assert tested.status_code == 303
    assert "does not work" in browser.get("/console/send-servers/1").text
    assert "<b>test</b>" in browser.get("/console/audit?object=mail_send_server_config").text


def test_a_secret_stays_when_it_is_not_typed_and_goes_when_that_is_asked(browse: Browse, engine: Engine) -> None:
    browser = browse(Role.TENANT_ADMIN)
    assert add(browser, "sms-providers", ext_config='{"appId": "' + SECRET + '"}').status_code == 303
    assert "set: appId" in browser.get("/console/sms-providers/1").text
    assert browser.post("/console/sms-providers/1", data=form_of(browser, "sms-providers")).status_code == 303
    assert "set: appId" in browser.get("/console/sms-providers/1").text
    refused = browser.post("/console/sms-providers/1", data=form_of(browser, "sms-providers") | {"ext_config": SECRET})
    assert refused.status_code == 422
    assert SECRET not in refused.text
    gone = form_of(browser, "sms-providers") | {"ext_config_remove": "yes"}
    assert browser.post("/console/sms-providers/1", data=gone).status_code == 303
    assert "set: appId" not in browser.get("/console/sms-providers/1").text
    bad = browser.post("/console/operators/new", data={"user_name": "b b", "role": "VIEWER", "password": SECRET})
    assert bad.status_code == 422
    assert SECRET not in bad.text


def test_a_webhooks_secret_is_shown_once(browse: Browse) -> None:
    browser = browse(Role.TENANT_ADMIN)
    added = add(browser, "webhook-endpoints")
    secret = added.text.partition('class="once">')[2].partition("<")[0]
    assert secret.startswith("whsec_")
    assert secret not in browser.get("/console/webhook-endpoints/1").text
    replaced = browser.post("/console/webhook-endpoints/1/secret").text
    assert "whsec_" in replaced
    assert secret not in replaced
    assert browser.post("/console/webhook-endpoints/1/trial").headers["location"].startswith("/console/webhooks/")
    assert "<b>test</b>" in browser.get("/console/audit?object=webhook_endpoint").text


def test_a_binding_names_a_template_and_a_provider(browse: Browse) -> None:
    browser = browse(Role.TENANT_ADMIN)
    add(browser, "sms-providers")
    with tenancy.tenant(7):
        api.add_sms_template(code="code", name="Code", content="x")
    bound = {"template_id": "1", "provider_config_id": "1", "external_template_id": HOSTILE[:40], "priority": "1"}
    assert browser.post("/console/bindings/new", data=bound | {"active": "yes"}).status_code == 303
    shown = browser.get("/console/bindings").text
    assert "<img src=x" not in shown
    assert ">code</a>" in shown
    assert browser.post("/console/bindings/new", data=bound).status_code == 422
    as_of = browser.get("/console/bindings/1").text.partition('name="as_of" value="')[2].partition('"')[0]
    changed = bound | {"as_of": as_of, "priority": "5", "active": "yes"}
    assert browser.post("/console/bindings/1", data=changed).status_code == 303


def test_a_number_is_told_which_provider_takes_it_and_why(browse: Browse) -> None:
    browser = browse(Role.TENANT_ADMIN)
    add(browser, "sms-providers")
    add(browser, "sms-providers", name="second")
    routed = browser.post(
        "/console/routes/new", data={"provider_config_id": "2", "region_code": "DE", "priority": "1", "active": "yes"}
    )
    assert routed.status_code == 303, routed.text
    asked = browser.get("/console/routes", params={"to": "+49 151 23456789"}).text
    assert "goes out by" in asked
    assert "second" in asked
    assert "calling code +49" in asked
    assert "would not go out" in browser.get("/console/routes", params={"to": "+33612345678"}).text
    refused = browser.get("/console/routes", params={"to": HOSTILE})
    assert refused.status_code == 200
    assert "<img src=x" not in refused.text
    again = browser.post(
        "/console/routes/new", data={"provider_config_id": "2", "region_code": "DE", "priority": "1", "active": "yes"}
    )
    assert again.status_code == 422
    assert "already" in again.text
