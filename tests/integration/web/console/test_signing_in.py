"""Who may see the console: by a password, by a link once; until they sign out, here or everywhere."""

import re

import pytest
from sqlalchemy import Engine, text
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount
from starlette.types import ASGIApp

from messaging import tenancy
from messaging.access.roles import PERMISSIONS, Role
from messaging.api import access
from messaging.web.auth import Identity
from messaging.web.credentials import KEPT_SECONDS
from tests.integration.web.api.conftest import OpenApi
from tests.integration.web.console import stories
from tests.integration.web.console.conftest import PASSWORD, Browse, browser_of

SIGN_IN = "/console/sign-in"


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


@pytest.fixture
def app(open_api: OpenApi, clock: list[float]) -> ASGIApp:
    return open_api(options={"ticker": lambda: clock[0]})


def test_who_is_not_signed_in_is_led_there_and_back(browse: Browse) -> None:
    browse()  # makes the operator
    stranger = browse(None)
    asked = stranger.get("/console/mail?status=FAILED&q=a%26b")
    assert asked.status_code == 303
    form = stranger.get(asked.headers["location"])
    assert 'value="/console/mail?status=FAILED&amp;q=a%26b"' in form.text

    given = {"user_name": "operator-7", "password": PASSWORD, "next": "/console/mail?status=FAILED&q=a%26b"}
    entered = stranger.post(SIGN_IN, data=given)
    assert (entered.status_code, entered.headers["location"]) == (303, "/console/mail?status=FAILED&q=a%26b")
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert stranger.get("/").headers["location"] == "/console/"
    assert stranger.get("/console/mail").status_code == 200


@pytest.mark.parametrize(
    "target",
    ["https://evil.example", "//evil.example", "/\\evil.example", "/console/\\evil", "/api/v1/me", "javascript:1", "x"],
)
def test_nobody_is_led_to_another_site(browse: Browse, target: str) -> None:
    given = {"user_name": "operator-7", "password": PASSWORD, "next": target}
    assert browse().post(SIGN_IN, data=given).headers["location"] == "/console/"


def test_unknown_names_and_wrong_passwords_get_the_same_page_and_then_a_pause(browse: Browse) -> None:
    browse()
    stranger = browse(None)
    pages = {}
    for name in ("operator-7", "nobody-at-7", "<b>\x00"):
        answer = stranger.post(SIGN_IN, data={"user_name": name, "password": "wrong"})
        assert answer.status_code == 401
        pages[name] = answer.text.replace(name, "NAME")
    assert pages["operator-7"].replace("NAME", "") == pages["nobody-at-7"].replace("NAME", "")
    assert "<b>" not in pages["<b>\x00"]

    answers = [stranger.post(SIGN_IN, data={"user_name": "operator-7", "password": "wrong"}) for _ in range(10)]
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) > 0
    assert "Too many attempts" in answers[-1].text


def test_a_link_signs_in_once_and_looking_at_it_does_not_use_it_up(
    app: ASGIApp, engine: Engine, browse: Browse
) -> None:
    browse()
    with tenancy.tenant(7):
        links = [access.make_operator_link("Operator-7", minutes=5) for _ in range(2)]
    stranger = browse(None)
    for _ in range(2):
        assert "Sign in as operator-7" in stranger.get(f"/console/link/{links[0]}").text
    assert stranger.get("/console/mail").status_code == 303

    assert stranger.post(f"/console/link/{links[0]}").headers["location"] == "/console/"
    assert stranger.get("/console/mail").status_code == 200

    for token in (links[0], "unknown", "x" * 300):
        assert browse(None).get(f"/console/link/{token}").status_code == 404
        assert browse(None).post(f"/console/link/{token}").status_code == 404
    with engine.begin() as connection:
        assert connection.execute(text("SELECT token_hash FROM operator_link")).scalar_one() != links[1]
        connection.execute(text("UPDATE operator_link SET expires_at = now() - interval '1 second'"))
    assert browse(None).post(f"/console/link/{links[1]}").status_code == 404


def test_signing_out_ends_one_session_or_all(app: ASGIApp, browse: Browse, clock: list[float]) -> None:
    browsers = [browse() for _ in range(3)]
    assert browsers[0].post("/console/sign-out").status_code == 303
    assert browsers[0].get("/console/mail").status_code == 303
    assert browsers[1].get("/console/mail").status_code == 200

    left = browsers[1].post("/console/sign-out", data={"everywhere": "yes"})
    assert "You are signed out everywhere." in browsers[1].get(left.headers["location"]).text
    clock[0] += KEPT_SECONDS
    assert browsers[2].get("/console/mail").status_code == 303


def test_a_form_of_another_site_does_nothing(app: ASGIApp, browse: Browse) -> None:
    browser = browse()
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "", "origin": "https://evil.example"},
        {"sec-fetch-site": ""},
    ):
        sent = {name: value for name, value in headers.items() if value}
        with browser_of(app) as other:
            del other.headers["sec-fetch-site"]
            other.cookies = browser.cookies
            for path in ("/console/sign-out", "/console/mail/1/retry", "/console/theme", SIGN_IN):
                answer = other.post(path, headers=sent)
                assert answer.status_code == 403, (path, headers)
                assert "another site" in answer.text
    assert browser.get("/console/mail").status_code == 200


def test_where_nobody_must_sign_in_everybody_sees_all(open_api: OpenApi) -> None:
    with browser_of(open_api(multi_tenancy=False, api={"require_auth": False})) as browser:
        page = browser.get("/console/mail")
        assert page.status_code == 200
        assert "Sign out" not in page.text
        assert browser.get("/console/dead-letters").status_code == 200


def test_a_sender_sees_no_records_and_a_viewer_changes_none(browse: Browse, engine: Engine) -> None:
    assert browse(Role.SENDER).get("/console/mail").status_code == 403
    viewer = browse(Role.VIEWER)
    assert viewer.get("/console/mail").status_code == 200
    assert viewer.get("/console/mail/1/retry").status_code == 403
    assert viewer.post("/console/mail/1/cancel").status_code == 403
    assert viewer.get("/console/dead-letters").status_code == 403


def test_looking_on_does_not_keep_a_session(browse: Browse, engine: Engine, clock: list[float]) -> None:
    browser = browse()

    def seen_long_ago(headers: dict[str, str]) -> bool:
        with engine.begin() as connection:
            connection.execute(text("UPDATE operator_session SET last_seen_at = now() - interval '5 minutes'"))
        clock[0] += KEPT_SECONDS
        assert browser.get("/console/mail", headers=headers).status_code == 200
        with engine.connect() as connection:
            found = connection.execute(text("SELECT last_seen_at < now() - interval '2 minutes' FROM operator_session"))
            return bool(found.scalar_one())

    assert seen_long_ago({"x-requested-with": "poll"})
    assert not seen_long_ago({"x-requested-with": "fetch"})


def test_an_application_that_mounts_it_has_its_own_people_and_its_own_path(open_api: OpenApi, engine: Engine) -> None:
    class People:
        async def authenticate(self, request: Request) -> Identity | None:
            name = request.headers.get("x-person")
            return Identity(f"user:{name}", 7, PERMISSIONS[Role.OPERATOR], user_name=name) if name else None

    mounted = Starlette(routes=[Mount("/post", app=open_api(options={"authenticator": People()}))])
    record_id = stories.mail(engine, status="FAILED", said="no")
    with browser_of(mounted) as browser:
        refused = browser.get("/post/console/")
        assert (refused.status_code, "Sign in first" in refused.text) == (401, True)
        assert browser.get("/post/").headers["location"] == "/post/console/"
        browser.headers["x-person"] = "ann"
        page = browser.get("/post/console/mail").text
        assert f'"/post/console/mail/{record_id}/retry' in page
        assert 'aria-current="page"' in page
        assert "Sign out" not in page
        assert set(re.findall(r'(?:href|src|action)="/([^/"]+)', page)) == {"post"}
        for path in re.findall(r'"(/post/console/static/[^"]+)"', page):
            assert browser.get(path).status_code == 200
        done = browser.post(f"/post/console/mail/{record_id}/retry", data={"back": "-"})
        assert done.headers["location"] == "/post/console/mail"
        assert "is requeued" in browser.get(done.headers["location"]).text
