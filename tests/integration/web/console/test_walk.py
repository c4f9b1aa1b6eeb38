"""Every page of the frame, for everybody whom it is for; every form, which other sites may not send."""

import re
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text
from starlette.routing import Route

from messaging import api, tenancy
from messaging.access.roles import Role
from messaging.web.console import app as console
from messaging.web.console.navigation import GROUPS
from messaging.web.paths import CONSOLE
from tests.integration.web.console import stories
from tests.integration.web.console.conftest import Browse

PATHS = [entry.path for _, entries in GROUPS for entry in entries]

HOSTILE = '"><script>alert(1)</script>=cmd()'


def posts() -> Iterator[str]:
    """The path of every form, with an id of nothing where it has one."""
    for pages in console.PAGES:
        for route in pages.routes:
            if isinstance(route, Route) and "POST" in (route.methods or ()):
                path = re.sub(r"\{channel[^}]*\}", "mail", route.path)
                yield re.sub(r"\{[a-z_]+(:[a-z]+)?\}", "1", path)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.TENANT_ADMIN, Role.PLATFORM])
def test_every_page_that_the_frame_leads_to_is_there(browse: Browse, engine: Engine, role: Role) -> None:
    stories.mail(engine, status="FAILED", subject=HOSTILE)
    stories.sms(engine, content=HOSTILE)
    browser = browse(role)
    frame = browser.get("/console/").text
    led_to = re.findall(r'<li><a href="/console/([a-z-]*)"', frame)
    assert set(led_to) <= set(PATHS)
    assert len(led_to) >= len(PATHS) - 3
    for path in led_to:
        shown = browser.get(f"/console/{path}")
        assert shown.status_code == 200, path
        assert 'aria-current="page"' in shown.text, path
        assert "<script>alert" not in shown.text, path
        assert len(re.findall("<h1", shown.text)) == 1, path
    for path in set(PATHS) - set(led_to):
        assert browser.get(f"/console/{path}").status_code == 403, path


def test_every_form_refuses_other_sites_and_nobody(browse: Browse, engine: Engine) -> None:
    signed_in, nobody = browse(Role.PLATFORM), browse(None)
    paths = sorted(set(posts()))
    assert len(paths) > 40
    before = _tables(engine)
    for path in paths:
        for headers in ({"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}):
            assert signed_in.post(path, headers=headers, data={"name": "x"}).status_code == 403, path
        if path not in (f"{CONSOLE}/sign-in", f"{CONSOLE}/link/1", f"{CONSOLE}/theme"):
            assert nobody.post(path).status_code in (303, 401), path
    assert _tables(engine) == before


def _tables(engine: Engine) -> dict[str, int]:
    names = ("audit_log", "mail_send_record", "mail_template", "operator", "api_token", "batch_job", "webhook_endpoint")
    with engine.connect() as connection:
        return {name: connection.execute(text(f"SELECT count(*) FROM {name}")).scalar_one() for name in names}


def test_files_for_a_spreadsheet_hold_no_formula_and_keep_numbers(browse: Browse, engine: Engine) -> None:
    stories.mail(engine, subject="=1+1", to=["ann@example.org", "bea@example.org"])
    stories.mail(engine, subject="  @SUM(A1)")
    stories.mail(engine, 8, subject="another tenant's")
    stories.sms(engine, phone_number="+4915112345678")
    browser = browse(Role.VIEWER)
    mails = browser.get("/console/mail.csv").text
    assert "'=1+1" in mails
    assert "'@SUM(A1)" in mails
    assert "ann@example.org; bea@example.org" in mails
    assert "another tenant" not in mails
    assert ",+4915112345678," in browser.get("/console/sms.csv").text
    assert browser.get("/console/mail.csv?status=SENT").text.count("\n") == 1
    assert "export" in browser.get("/console/audit.csv").text
    assert browser.get("/console/mail.csv?since=never").status_code == 303
    assert browser.get("/console/mail.csv?q=nobody").status_code == 303


def test_the_bell_tells_the_person_that_an_operator_is(browse: Browse, engine: Engine) -> None:
    browser = browse(Role.VIEWER)
    assert 'id="bell"' not in browser.get("/console/mail").text
    assert browser.get("/console/inbox").status_code in (303, 401)
    with engine.begin() as connection:
        connection.execute(text("UPDATE operator SET user_id = 5"))
    with tenancy.tenant(7):
        ours = api.send_inbox(recipient_id=5, title=HOSTILE, content=HOSTILE)
        api.send_inbox(recipient_id=5, title="second", content="two")
        theirs = api.send_inbox(recipient_id=6, title="somebody else's", content="three")
    browser = browse(Role.VIEWER)
    assert 'id="bell"' in browser.get("/console/mail").text
    assert '<b class="badge">2' in browser.get("/console/inbox/badge").text
    shown = browser.get("/console/inbox").text
    assert "<script>alert" not in shown
    assert "somebody else" not in shown
    assert browser.post(f"/console/inbox/{ours}/read").status_code == 303
    assert browser.post(f"/console/inbox/{theirs}/read").status_code == 403
    assert '<b class="badge">1' in browser.get("/console/inbox/badge").text
    browser.post("/console/inbox/read-all")
    assert "0 unread" in browser.get("/console/inbox").text
