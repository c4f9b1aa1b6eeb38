"""Providers, routes, bindings and countries over HTTP: operate.md section 9, sms.md R22."""

from typing import Any

import redis
from starlette.testclient import TestClient

from messaging.access.roles import Role
from tests.far_end.provider_server import Reply, serving
from tests.integration.sms.providers.subjects import TWILIO
from tests.integration.web.api.conftest import MakeClient, OpenApi

PROVIDERS, ROUTES = "/api/v1/sms/providers", "/api/v1/sms/routes"
BINDINGS = "/api/v1/sms/template-bindings"
GIVEN = {
    "name": "texts",
    "provider_type": "twilio",
    "account_id": "AC1",
    "api_key": "k",
    "api_secret": "s3cret",
    "sender_number": "+14155550100",
}


def add(client: TestClient, path: str, **fields: Any) -> Any:
    answer = client.post(path, json=fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_countries_are_known_to_every_caller_that_sends_or_reads(client: MakeClient) -> None:
    regions = client(Role.SENDER).get("/api/v1/regions").json()["items"]
    assert client(Role.VIEWER).get("/api/v1/regions").json()["items"] == regions
    assert len(regions) == 249
    assert next(one for one in regions if one["code"] == "CN") == {
        "code": "CN",
        "name": "China",
        "alpha3": "CHN",
        "dial_code": "86",
        "currency": "CNY",
        "continent": "AS",
    }
    assert client(None).get("/api/v1/regions").status_code == 401


def test_a_routes_dial_code_follows_from_its_country_and_is_read_only(client: MakeClient) -> None:
    admin = client(Role.TENANT_ADMIN)  # sms.md R22
    provider = add(admin, PROVIDERS, **GIVEN)
    route = add(admin, ROUTES, provider_config_id=provider["id"], region_code="cn")
    assert (route["region_code"], route["dial_code"], route["priority"], route["is_used"]) == ("CN", "86", 100, True)
    one = f"{ROUTES}/{route['id']}"
    assert admin.patch(one, json={"dial_code": "49"}).json()["field"] == "dial_code"
    assert admin.patch(one, json={"region_code": "DE"}).json()["dial_code"] == "49"
    second = admin.post(ROUTES, json={"provider_config_id": provider["id"], "region_code": "DE"})
    assert (second.status_code, second.json()["field"]) == (422, "region_code")
    assert route["id"] in second.json()["message"]
    add(admin, ROUTES, provider_config_id=provider["id"], region_code="FR")
    assert admin.get(ROUTES, params={"region_code": "de"}).json()["total"] == 1
    assert admin.get(ROUTES, params={"provider_config_id": provider["id"]}).json()["total"] == 2
    admin.patch(f"{PROVIDERS}/{provider['id']}", json={"active": False})
    assert admin.get(one).json()["is_used"] is False


def test_a_route_leads_to_a_provider_of_the_tenant_and_a_binding_also_to_the_platforms(client: MakeClient) -> None:
    admin = client(Role.TENANT_ADMIN)
    template = add(admin, "/api/v1/sms/templates", code="otp", name="OTP", content="x")
    platforms = add(client(Role.PLATFORM), PROVIDERS, **GIVEN)["id"]
    theirs = add(client(Role.TENANT_ADMIN, tenant=8), PROVIDERS, **GIVEN)["id"]
    for provider_id in (platforms, theirs, "99"):
        refused = admin.post(ROUTES, json={"provider_config_id": provider_id, "region_code": "DE"})
        assert (refused.status_code, refused.json()["field"]) == (422, "provider_config_id")
    bound = add(admin, BINDINGS, template_id=template["id"], provider_config_id=platforms, sign_name="Shop")
    assert (bound["provider_name"], bound["template_code"], bound["region_code"]) == (None, "otp", "")
    for wrong in ({"provider_config_id": theirs}, {"template_id": "99"}):
        refused = admin.patch(f"{BINDINGS}/{bound['id']}", json=wrong)
        assert (refused.status_code, refused.json()["field"]) == (422, next(iter(wrong)))
    assert admin.get(BINDINGS, params={"template_id": template["id"]}).json()["total"] == 1
    assert admin.get(BINDINGS, params={"provider_config_id": theirs}).json()["total"] == 0


def test_where_receipts_come_to_is_told_to_administrators_alone(open_api: OpenApi, client: MakeClient) -> None:
    app = open_api(public_base_url="https://shop.example.org")
    admin = client(Role.TENANT_ADMIN, app=app)
    provider = add(admin, PROVIDERS, **GIVEN)
    told = admin.get(f"{PROVIDERS}/{provider['id']}/callbacks").json()
    assert told["receipt_url"] == f"https://shop.example.org{told['receipt_path']}"
    assert told["is_told_receipt_url"] is True
    viewer = client(Role.VIEWER, app=app)
    assert viewer.get(f"{PROVIDERS}/{provider['id']}/callbacks").status_code == 403
    token = told["receipt_path"].rsplit("/", 1)[1]
    for path in (PROVIDERS, f"{PROVIDERS}/{provider['id']}"):
        assert token not in viewer.get(path).text


def test_ext_config_shows_which_keys_it_has_and_not_their_values(client: MakeClient) -> None:
    admin = client(Role.TENANT_ADMIN)
    provider = add(admin, PROVIDERS, **GIVEN, ext_config={"edge": "hidden-value", "region": "ie1"})
    assert provider["ext_keys"] == ["edge", "region"]
    changed = admin.patch(f"{PROVIDERS}/{provider['id']}", json={"ext_config": {"region": "us1"}})
    assert changed.json()["ext_keys"] == ["region"]
    refused = admin.patch(f"{PROVIDERS}/{provider['id']}", json={"ext_config": {"edge": "\x00"}})
    assert (refused.status_code, refused.json()["field"]) == (422, "ext_config")


def test_a_provider_is_tried_without_sending_anything(client: MakeClient) -> None:
    admin = client(Role.TENANT_ADMIN)
    with serving(TWILIO.api()) as server:
        provider = add(admin, PROVIDERS, **GIVEN, api_endpoint=server.url + TWILIO.path, active=False)
        server.next.append(Reply(401, {"code": 20003, "message": "Authenticate"}))
        came = admin.post(f"{PROVIDERS}/{provider['id']}/test").json()
    assert (came["success"], came["provider_type"], came["was_called"]) == (False, "TWILIO", True)
    assert "s3cret" not in str(came)
    assert client(Role.TENANT_ADMIN, tenant=8).post(f"{PROVIDERS}/{provider['id']}/test").status_code == 404


def test_what_is_taken_of_a_providers_windows_is_told(client: MakeClient, redis_client: redis.Redis) -> None:
    admin = client(Role.TENANT_ADMIN)
    provider_id = add(admin, PROVIDERS, **GIVEN, rate_limit_per_minute=0)["id"]
    assert admin.get(f"{PROVIDERS}/{provider_id}/windows").json() == {
        "daily_send_limit": None,
        "sent_this_day": 0,
        "rate_limit_per_minute": None,
        "sent_this_minute": 0,
    }
