"""What holds for every resource: one shape of errors, request ids and traces, bounds, headers, who is asked."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI, Request
from sqlalchemy import Engine, text
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from messaging import tenancy
from messaging.access.roles import PERMISSIONS, Permission, Role
from messaging.api import access
from messaging.db.engine import create_engine
from messaging.embedded import Postgres
from messaging.settings import Settings
from messaging.web.auth import Identity
from messaging.web.errors import ApiError
from tests.conftest import MakeSettings
from tests.integration.web.api.conftest import MakeClient, OpenApi

ME, TOKENS = "/api/v1/me", "/api/v1/tokens"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v1/nothing", 404, "not_found"),
        ("GET", "/api/v1/", 404, "not_found"),
        ("PUT", TOKENS, 405, "method_not_allowed"),
        ("GET", f"{TOKENS}/999", 404, "not_found"),
        ("POST", TOKENS, 422, "invalid"),
        ("GET", f"{TOKENS}?size=201", 422, "invalid"),
        ("GET", f"{TOKENS}?page=0", 422, "invalid"),
        ("GET", f"{TOKENS}?sort=token_hash", 422, "invalid"),
    ],
)
def test_every_error_has_one_shape(client: MakeClient, method: str, path: str, status: int, code: str) -> None:
    answer = client().request(method, path)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert set(answer.json()) <= {"code", "message", "field"}
    assert answer.headers["content-type"] == "application/json"


def test_a_refused_method_is_answered_with_those_there_are(client: MakeClient) -> None:
    assert client().put(TOKENS).headers["allow"] == "GET, POST"


def test_a_path_of_words_is_not_that_of_an_id(client: MakeClient) -> None:
    answer = client().get("/api/v1/mail/messages/batch")

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000, b'{"name": NaN}', b"null", b"[]"])
def test_a_body_that_is_no_json_of_ours_is_refused_and_not_repeated(client: MakeClient, body: bytes) -> None:
    answer = client().post(TOKENS, content=body, headers={"content-type": "application/json"})

    assert answer.status_code == 422
    assert len(answer.content) < 300


def test_a_form_of_another_site_is_no_json(client: MakeClient) -> None:
    answer = client().post(TOKENS, content=b'{"name":"x","role":"SENDER"}', headers={"content-type": "text/plain"})

    assert answer.status_code == 422


# web-01
@pytest.mark.parametrize(
    "row_id",
    ["2147483648", "9223372036854775807", "9223372036854775808", "99999999999999999999", "-1", "0", "1.5", "x"],
)
def test_an_id_that_no_column_holds_is_of_nothing(client: MakeClient, row_id: str) -> None:
    admin = client()

    for answer in (admin.get(f"{TOKENS}/{row_id}"), admin.post(f"{TOKENS}/{row_id}/revoke")):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "Traceback" not in answer.text


# tenant-01
def test_a_tenant_named_by_the_request_is_refused_or_not_seen(client: MakeClient) -> None:
    seven = client(tenant=7)
    client(tenant=8)

    assert seven.get(ME, headers={"x-tenant-id": "8"}).json()["tenant_id"] == "7"
    for named in ({"tenant_id": "8"}, {"tenantId": "-1"}):
        assert seven.get(TOKENS, params=named).status_code == 422
    # O6
    assert seven.post(TOKENS, json={"name": "x", "role": "SENDER", "tenant_id": "-1"}).json()["field"] == "tenant_id"
    listed = seven.get(TOKENS, headers={"x-tenant-id": "8", "tenant-id": "8"}).json()
    assert listed["total"] == 1


# O5
def test_anothers_row_is_not_there_and_the_platforms_is_refused(client: MakeClient) -> None:
    with tenancy.tenant(8):
        theirs = access.add_token("theirs", role=Role.SENDER).id
    with tenancy.tenant(tenancy.PLATFORM_TENANT_ID):
        platforms = access.add_token("platform's", role=Role.SENDER).id
    seven = client(tenant=7)

    assert seven.get(f"{TOKENS}/{theirs}").status_code == 404
    assert seven.post(f"{TOKENS}/{theirs}/revoke").status_code == 404
    # O6
    refused = seven.post(f"{TOKENS}/{platforms}/revoke")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert "platform" in refused.json()["message"]


def test_a_role_that_does_not_suffice_is_told_which_do(client: MakeClient) -> None:
    refused = client(Role.SENDER).get("/api/v1/audit").json()
    roles = "VIEWER, OPERATOR, TENANT_ADMIN, PLATFORM"
    assert refused["message"] == f"this needs the permission READ; roles with it: {roles}"


@pytest.mark.parametrize("sent", [{"data": {"name": "x"}}, {"json": ["x"]}])
def test_what_is_no_json_object_is_told_so(client: MakeClient, sent: dict[str, Any]) -> None:
    refused = client().post(TOKENS, **sent)
    assert (refused.status_code, refused.json()["field"]) == (422, "body")
    assert refused.json()["message"] == "the body is no JSON object, or its Content-Type is not application/json"


def test_the_length_of_a_text_is_counted_in_characters(client: MakeClient) -> None:
    refused = client().post("/api/v1/suppressions/1/lift", json={"reason": ""}).json()
    assert (refused["field"], refused["message"]) == ("reason", "has too few characters; allowed: 1 or more")


def test_a_sane_request_id_is_kept_and_another_is_made(client: MakeClient) -> None:
    caller = client()

    assert caller.get(ME, headers={"x-request-id": "order-1/a"}).headers["x-request-id"] == "order-1/a"
    for insane in ("a b", "x" * 65, "é".encode()):
        made = caller.get(ME, headers={"x-request-id": insane}).headers["x-request-id"]
        assert len(made) == 32
    assert "x-request-id" in caller.get("/api/v1/nothing").headers


@pytest.mark.parametrize(
    ("traceparent", "found"),
    [
        (f"00-{TRACE}-{SPAN}-01", (TRACE, SPAN)),
        (f"01-{TRACE}-{SPAN}-01-later", (TRACE, SPAN)),
        (f"ff-{TRACE}-{SPAN}-01", (None, None)),
        (f"00-{'0' * 32}-{SPAN}-01", (None, None)),
        (f"00-{TRACE}-{'0' * 16}-01", (None, None)),
        (f"00-{TRACE.upper()}-{SPAN}-01", (None, None)),
        ("garbage", (None, None)),
    ],
)
def test_a_handler_runs_in_the_callers_trace_and_under_the_callers_name(
    open_api: OpenApi, client: MakeClient, traceparent: str, found: tuple[str | None, str | None]
) -> None:
    seen: list[tenancy.Context] = []
    caller = client(Role.OPERATOR, user_id=12, app=_seeing(open_api, seen))

    caller.get("/api/v1/seen", headers={"traceparent": traceparent, "x-request-id": "r1"})

    (context,) = seen
    assert (context.trace_id, context.span_id) == found
    assert (context.request_id, context.tenant_id, context.user_id) == ("r1", 7, 12)
    assert str(context.actor).startswith("token:")
    assert tenancy.current() == tenancy.Context()


def _seeing(open_api: OpenApi, seen: list[tenancy.Context], engine: Engine | None = None) -> ASGIApp:
    """An application whose authenticator is asked in the context of the request, with a resource that tells its own."""
    from messaging.web.api import router
    from messaging.web.api.resource import Resource, needs

    routes = Resource("test")

    @routes.get("/seen", dependencies=[needs()])
    def see() -> None:
        seen.append(tenancy.current())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("messaging.web.api.application.RESOURCES", (*router.RESOURCES, routes))
        return open_api()


def test_a_fault_of_ours_is_told_by_its_request_id_alone(
    open_api: OpenApi, client: MakeClient, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caller = client()
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE api_token ALTER COLUMN prefix TYPE varchar(3) USING left(prefix, 3)"))

    answer = caller.post(TOKENS, json={"name": "a secret name", "role": "SENDER"})

    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "varchar" not in answer.text
    assert "Traceback" not in answer.text
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR and one.name == "messaging.web.errors"]
    assert record.exc_info is not None


def test_the_line_of_a_request_says_who_called_what_and_holds_no_value(
    client: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    client().get(f"{TOKENS}/12345?token=s3cret", headers={"x-request-id": "r1"})

    (line,) = [one for one in caplog.records if one.name == "messaging.web.envelope"]
    told = vars(line)
    assert (told["method"], told["route"], told["status"]) == ("GET", "/api/v1/tokens/{token_id}", 404)
    assert (told["actor"], told["tenant_id"]) == ("token:1", 7)
    assert not [value for value in told.values() if "12345" in str(value) or "s3cret" in str(value)]


# O57
def test_a_database_that_is_away_is_answered_503_and_nothing_is_written(
    open_api: OpenApi, make_settings: MakeSettings, client: MakeClient, postgres: Postgres, settings: Settings
) -> None:
    quick = make_settings(database={"connect_timeout_seconds": 1})
    engine = create_engine(quick)
    caller = client(app=open_api(engine=engine))
    assert caller.get(ME).status_code == 200
    engine.dispose()
    postgres.stop()
    try:
        answer = caller.post(TOKENS, json={"name": "x", "role": "SENDER"})
        unknown = client(None).get(ME, headers={"authorization": "Bearer msg_" + "a" * 43})
    finally:
        postgres.start()
    engine.dispose()

    for one in (answer, unknown):
        assert (one.status_code, one.json()["code"]) == (503, "unavailable")
        assert one.headers["retry-after"]
    assert caller.get(TOKENS).json()["total"] == 1
    engine.dispose()


def test_bodies_have_bounds_and_those_of_unknown_callers_smaller_ones(open_api: OpenApi, client: MakeClient) -> None:
    app = open_api(api={"max_body_bytes": 100_000})
    known, unknown = client(app=app), client(None, app=app)
    large = b'"' + b"x" * 70_000 + b'"'
    json = {"content-type": "application/json"}

    assert known.post(TOKENS, content=large, headers=json).status_code == 422
    assert known.post(TOKENS, content=large * 2, headers=json).json()["code"] == "too_large"
    assert unknown.post(TOKENS, content=large, headers=json).status_code == 401

    def chunks() -> Iterator[bytes]:
        yield from [large, large]

    # A body that states no size.
    assert known.post(TOKENS, content=chunks(), headers=json).status_code == 413
    assert unknown.post(TOKENS, content=chunks(), headers=json).status_code == 413


def test_hooks_keep_their_own_smaller_bound(client: MakeClient) -> None:
    answer = client().post("/hooks/unsubscribe/x", content=b"x" * (512 * 1024 + 1))

    assert answer.status_code == 413


def test_a_caller_has_a_rate_of_its_own(open_api: OpenApi, client: MakeClient) -> None:
    app = open_api(api={"rate_per_second": 1}, options={"ticker": lambda: 0.0})
    one, other = client(app=app), client(app=app)

    statuses = [one.get(ME).status_code for _ in range(11)]

    assert statuses == [200] * 10 + [429]
    assert one.get(ME).json()["code"] == "too_many_requests"
    assert one.get(ME).headers["retry-after"] == "1"
    assert other.get(ME).status_code == 200


def test_answers_carry_headers_that_keep_them_out_of_caches_and_frames(client: MakeClient) -> None:
    for answer in (client().get(ME), client(None).get(ME)):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


def test_scripts_of_other_origins_may_call_only_where_a_setting_says_so(open_api: OpenApi, client: MakeClient) -> None:
    asked = {"origin": "https://app.example.com", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in client(None).options(TOKENS, headers=asked).headers

    allowing = client(app=open_api(api={"cors_origins": ("https://app.example.com",)}))
    assert allowing.options(TOKENS, headers=asked).headers["access-control-allow-origin"] == asked["origin"]
    assert allowing.get(ME, headers=asked).headers["access-control-allow-origin"] == asked["origin"]
    stranger = {**asked, "origin": "https://evil.example"}
    assert "access-control-allow-origin" not in allowing.get(ME, headers=stranger).headers
    assert "access-control-allow-credentials" not in allowing.get(ME, headers=asked).headers


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer msg_short", "Bearer é"])
def test_a_credential_of_another_shape_is_nobodys(client: MakeClient, header: str) -> None:
    answer = client(None).get(ME, headers={"authorization": header.encode()})

    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_with_authentication_off_everybody_is_the_platform(open_api: OpenApi, client: MakeClient) -> None:
    app = open_api(multi_tenancy=False, api={"require_auth": False})

    me = client(None, app=app).get(ME).json()

    assert (me["actor"], me["tenant_id"]) == ("anybody", "0")
    assert set(me["permissions"]) == PERMISSIONS[Role.PLATFORM]


def test_with_multi_tenancy_off_every_caller_acts_in_tenant_0(open_api: OpenApi, client: MakeClient) -> None:
    app = open_api(multi_tenancy=False)

    assert client(Role.PLATFORM, app=app).get(ME).json()["tenant_id"] == "0"


class Users:
    """An application's own users; asked in a thread."""

    def authenticate(self, request: Request) -> Identity | None:
        name = request.headers.get("x-user")
        if name == "banned":
            raise ApiError(403, "banned")
        return None if name is None else Identity(f"user:{name}", 7, frozenset({Permission.READ}), user_id=5)


def test_an_application_mounts_the_api_behind_its_own_users(open_api: OpenApi, engine: Engine) -> None:
    ours = FastAPI()
    ours.mount("/messaging", open_api(options={"authenticator": Users()}))
    caller = TestClient(ours)

    me: dict[str, Any] = caller.get("/messaging/api/v1/me", headers={"x-user": "ann"}).json()

    assert (me["actor"], me["tenant_id"], me["user_id"]) == ("user:ann", "7", "5")
    assert caller.get("/messaging/api/v1/me").status_code == 401
    assert caller.get("/messaging/api/v1/me", headers={"x-user": "banned"}).json()["message"] == "banned"
    assert caller.get("/messaging/api/v1/tokens", headers={"x-user": "ann"}).status_code == 403
    assert caller.get("/messaging/healthz").status_code == 200


def test_the_description_names_every_operation_once_with_its_roles_and_errors(client: MakeClient) -> None:
    document = client(None).get("/api/v1/openapi.json").json()

    operations = [one for path in document["paths"].values() for one in path.values()]
    names = [one["operationId"] for one in operations]
    assert len(names) == len(set(names))
    for one in operations:
        assert one["description"], one["operationId"]
        assert {"422", "429", "500", "503"} <= set(one["responses"])
        if "security" in one:
            assert one["x-roles"]
            assert {"401", "403"} <= set(one["responses"])
    assert {one["operationId"] for one in operations if "security" not in one} == {"sign_in"}


def test_the_description_is_not_shown_where_a_setting_says_so(open_api: OpenApi, client: MakeClient) -> None:
    assert client(app=open_api(api={"docs": False})).get("/api/v1/openapi.json").status_code == 404
