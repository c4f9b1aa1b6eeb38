"""Operators sign in, are known by a cookie, and are so no more: by hand, by time, by a new password, disabled."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, text
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from messaging import tenancy
from messaging.access import operators
from messaging.access.models import Operator
from messaging.access.roles import Role
from messaging.api import access
from messaging.db.own_rows import get_own
from messaging.db.session import transaction
from messaging.errors import StateError
from messaging.web.credentials import KEPT_SECONDS
from tests.integration.web.api.conftest import MakeClient, OpenApi

SESSION, ME = "/api/v1/session", "/api/v1/me"
PASSWORD, OTHER = "correct horse battery", "staple of the horse"
#: What pages of ours send with every request.
OURS = {"x-requested-with": "fetch"}

Browse = Callable[..., TestClient]


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


@pytest.fixture
def app(open_api: OpenApi, clock: list[float]) -> ASGIApp:
    return open_api(options={"ticker": lambda: clock[0]})


@pytest.fixture
def operator_id(app: ASGIApp) -> int:
    with tenancy.tenant(7):
        return access.add_operator("ann", password=PASSWORD, role=Role.OPERATOR, display_name="Ann", user_id=12)


@pytest.fixture
def browse(client: MakeClient, operator_id: int) -> Browse:
    def browse(password: str = PASSWORD) -> TestClient:
        """A browser in which Ann has signed in."""
        browser = client(None)
        answer = browser.post(SESSION, json={"user_name": "Ann", "password": password})
        assert answer.status_code == 201, answer.text
        return browser

    return browse


def test_an_operator_who_signed_in_is_known_with_role_and_person(browse: Browse, operator_id: int) -> None:
    browser = browse()

    assert browser.get(ME).json() == {
        "actor": f"operator:{operator_id}",
        "tenant_id": "7",
        "user_id": "12",
        "user_name": "Ann",
        "permissions": ["OPERATE", "READ", "SEND"],
    }
    shown = browser.get(SESSION).json()
    assert (shown["user_name"], shown["role"], shown["tenant_id"]) == ("ann", "OPERATOR", "7")


def test_the_cookie_is_for_no_script_and_no_other_site(client: MakeClient, operator_id: int) -> None:
    answer = client(None).post(SESSION, json={"user_name": "ann", "password": PASSWORD})

    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert PASSWORD not in answer.text


def test_the_cookie_is_sent_over_tls_only_where_the_application_is_reached_by_it(
    open_api: OpenApi, client: MakeClient, operator_id: int
) -> None:
    app = open_api(public_base_url="https://mail.example.com")

    answer = client(None, app=app).post(SESSION, json={"user_name": "ann", "password": PASSWORD})

    assert "secure" in answer.headers["set-cookie"].lower()


@pytest.mark.parametrize(("name", "password"), [("ann", "wrong"), ("nobody", PASSWORD), ("ann", PASSWORD + " ")])
def test_a_wrong_password_and_an_unknown_name_are_told_alike(
    client: MakeClient, operator_id: int, name: str, password: str
) -> None:
    answer = client(None).post(SESSION, json={"user_name": name, "password": password})

    assert (answer.status_code, answer.json()) == (
        401,
        {"code": "unauthenticated", "message": "user name or password is wrong"},
    )
    assert "set-cookie" not in answer.headers


def test_a_sign_in_is_in_the_audit_log(browse: Browse, engine: Engine, operator_id: int) -> None:
    browse()

    with engine.connect() as connection:
        noted = connection.execute(
            text("SELECT tenant_id, actor, actor_name, target_id FROM audit_log WHERE action = 'sign in'")
        ).all()
    assert noted == [(7, f"operator:{operator_id}", "ann", operator_id)]


def test_an_operator_without_a_password_does_not_sign_in(client: MakeClient) -> None:
    with tenancy.tenant(7):
        access.add_operator("ben")

    answer = client(None).post(SESSION, json={"user_name": "ben", "password": "the password of nobody"})

    assert answer.status_code == 401


def test_attempts_for_one_name_run_out_and_come_back(client: MakeClient, operator_id: int, clock: list[float]) -> None:
    browser = client(None)
    wrong = {"user_name": "ann", "password": "wrong"}
    statuses = [browser.post(SESSION, json=wrong).status_code for _ in range(11)]

    assert statuses == [401] * 10 + [429]
    refused = browser.post(SESSION, json={"user_name": "ANN ", "password": PASSWORD})
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
    clock[0] += float(refused.headers["retry-after"])
    assert browser.post(SESSION, json={"user_name": "ann", "password": PASSWORD}).status_code == 201


def test_who_signed_out_is_known_no_more_at_once(browse: Browse) -> None:
    browser = browse()
    kept = dict(browser.cookies)
    assert browser.get(ME).status_code == 200

    assert browser.delete(SESSION, headers=OURS).status_code == 204

    assert not browser.cookies
    browser.cookies.update(kept)
    assert browser.get(ME).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"sec-fetch-site": "cross-site", "origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "null", "host": ""}, 403),
        ({"origin": "http://["}, 403),
        ({"origin": "//testserver"}, 403),
        ({"origin": "http://testserver"}, 204),
        ({"origin": "https://testserver"}, 204),
        ({"sec-fetch-site": "same-origin"}, 204),
        (OURS, 204),
    ],
)
def test_a_change_that_a_cookie_alone_vouches_for_comes_from_a_page_of_ours(
    browse: Browse, headers: dict[str, str], status: int
) -> None:
    answer = browse().delete(SESSION, headers=headers)

    assert answer.status_code == status
    if status == 403:
        assert answer.json()["code"] == "csrf"


def test_a_disabled_operator_is_known_no_more_within_a_second(
    browse: Browse, client: MakeClient, operator_id: int, clock: list[float]
) -> None:
    browser = browse()
    assert browser.get(ME).status_code == 200

    assert client(Role.TENANT_ADMIN).post(f"/api/v1/operators/{operator_id}/disable").json()["active"] is False

    clock[0] += KEPT_SECONDS
    assert browser.get(ME).status_code == 401
    assert client(None).post(SESSION, json={"user_name": "ann", "password": PASSWORD}).status_code == 401


@pytest.mark.parametrize("column", ["expires_at", "last_seen_at"])
def test_a_session_ends_by_age_and_by_not_being_used(
    browse: Browse, engine: Engine, clock: list[float], column: str
) -> None:
    browser = browse()
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE operator_session SET {column} = now() - interval '62 minutes'"))
    clock[0] += KEPT_SECONDS

    assert browser.get(ME).status_code == 401


def test_a_new_password_ends_the_other_sessions(browse: Browse, clock: list[float]) -> None:
    here, elsewhere = browse(), browse()
    change = {"current": PASSWORD, "password": OTHER}

    wrong = here.post(f"{SESSION}/password", json=change | {"current": "wrong"}, headers=OURS)
    assert (wrong.status_code, wrong.json()["field"]) == (422, "current")
    assert here.post(f"{SESSION}/password", json=change, headers=OURS).status_code == 204

    clock[0] += KEPT_SECONDS
    assert (here.get(ME).status_code, elsewhere.get(ME).status_code) == (200, 401)
    assert browse(OTHER).get(ME).status_code == 200


def test_a_token_is_no_session(client: MakeClient) -> None:
    assert client(Role.OPERATOR).get(SESSION).status_code == 401


def test_who_knows_the_old_password_does_not_undo_a_new_one(
    client: MakeClient, engine: Engine, operator_id: int
) -> None:
    with transaction(engine) as session, tenancy.tenant(7):
        known = get_own(session, Operator, operator_id, what="operator").password_hash
    given = client(Role.TENANT_ADMIN).post(f"/api/v1/operators/{operator_id}/password", json={"password": OTHER})
    assert given.status_code == 204

    with pytest.raises(StateError), tenancy.tenant(7), transaction(engine) as session:
        operators.set_password(session, operator_id, PASSWORD, instead_of=known)

    assert client(None).post(SESSION, json={"user_name": "ann", "password": OTHER}).status_code == 201
