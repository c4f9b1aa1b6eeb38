"""`messaging provider`, `route` and `binding` on a real database: what they print, their exit codes, and no secret."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, insert, text

from messaging.db import encryption
from messaging.sms.ext_config import unseal
from messaging.sms.models import SMS_TEMPLATE
from tests.far_end.provider_server import Reply, serving
from tests.far_end.twilio_api import TwilioApi
from tests.integration.command_line import Run

GIVEN = ("--name", "out", "--type", "twilio", "--sender-number", "+14155550100")


@pytest.fixture
def run(run_command: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`messaging ...`, with an account's secrets in the environment."""
    monkeypatch.setenv("SMS_KEY", "k3y-value")
    monkeypatch.setenv("SMS_SECRET", "s3cret")
    return run_command


def add(run: Run, *more: object) -> int:
    secrets = ("--api-key-from", "env:SMS_KEY", "--api-secret-from", "env:SMS_SECRET")
    code, out, err = run("provider", "add", *GIVEN, *secrets, *more)
    assert (code, err) == (0, "")
    return int(out)


def listed(run: Run, what: str, *more: object) -> Any:
    return json.loads(run(what, "list", "--json", *more)[1])


def stored(engine: Engine, config_id: int, column: str) -> Any:
    with engine.connect() as connection:
        return connection.execute(text(f"SELECT {column} FROM sms_provider_config WHERE id = {config_id}")).scalar_one()


def test_a_provider_is_added_listed_changed_disabled_and_enabled(run: Run) -> None:
    first, second = add(run, "--default"), add(run, "--priority", 5, "--ext", "statusCallbackUrl=https://x.example")
    assert [(line["id"], line["is_default"]) for line in listed(run, "provider")] == [(second, False), (first, True)]
    assert listed(run, "provider")[0]["ext_keys"] == ["statusCallbackUrl"]
    assert run("provider", "change", second, "--default", "--priority", 200)[0] == 0
    assert [(line["id"], line["is_default"]) for line in listed(run, "provider")] == [(first, True), (second, True)]
    assert run("provider", "change", first, "--no-default")[0] == 0
    assert "records prepared with it still go out" in run("provider", "disable", first)[1]
    assert [line["id"] for line in listed(run, "provider")] == [second]
    shown = run("provider", "list", "--all")[1]
    for part in ("TWILIO", "+14155550100", "disabled", "default"):
        assert part in shown
    assert run("provider", "enable", first)[1] == f"SMS provider {first} is enabled\n"
    assert run("provider", "change", second, "--ext", "")[0] == 0
    assert listed(run, "provider")[1]["ext_keys"] == []


def test_empty_lists_say_so(run: Run) -> None:
    assert run("provider", "list") == (0, "no providers\n", "")
    assert run("route", "list") == (0, "no routes\n", "")
    assert run("binding", "list") == (0, "no bindings\n", "")


def test_secrets_come_from_the_environment_or_standard_input_and_are_never_shown(
    run: Run, engine: Engine, give: Callable[[str], None]
) -> None:
    config_id = add(run, "--ext", "authToken=env:SMS_SECRET")
    assert encryption.decrypt(stored(engine, config_id, "api_key")) == "k3y-value"
    assert encryption.decrypt(stored(engine, config_id, "api_secret")) == "s3cret"
    assert unseal(stored(engine, config_id, "ext_config")) == {"authToken": "s3cret"}
    assert "s3cret" not in str(stored(engine, config_id, "ext_config"))
    give("k from stdin\ns from stdin\n")
    sources = ("--api-key-from", "stdin", "--api-secret-from", "stdin")
    assert run("provider", "change", config_id, *sources)[0] == 0
    assert encryption.decrypt(stored(engine, config_id, "api_key")) == "k from stdin"
    assert encryption.decrypt(stored(engine, config_id, "api_secret")) == "s from stdin"
    for more in ((), ("--json",)):
        shown = run("provider", "list", *more)[1]
        assert not any(secret in shown for secret in ("k3y-value", "s3cret", "from stdin"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), ("--api-key-from", "ask")),
        (("--api-key-from", "env:NOT_THERE"), ("--api-key-from", "NOT_THERE")),
        (("--api-key-from", "k3y-value"), ("--api-key-from",)),
        (("--api-key-from", "env:SMS_KEY"), ("api_secret is missing",)),
        (("--api-key-from", "env:SMS_KEY", "--type", "vonage"), ("provider_type", "'vonage'", "TWILIO")),
        (("--api-key-from", "env:SMS_KEY", "--priority", "first"), ("--priority", "'first'")),
        (("--api-key-from", "env:SMS_KEY", "--ext", "s3cret"), ("--ext", "KEY=VALUE")),
        (("--api-key-from", "env:SMS_KEY", "--ext", "a=env:NOT_THERE"), ("--ext a", "NOT_THERE")),
        (("--api-key-from", "env:SMS_KEY", "--tenant", "7"), ("--tenant", "MULTI_TENANCY")),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_stored(
    run: Run, engine: Engine, give: Callable[[str], None], arguments: tuple[str, ...], named: tuple[str, ...]
) -> None:
    code, out, err = run("provider", "add", *GIVEN, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert all(part in err for part in named)
    assert not any(secret in err for secret in ("s3cret", "k3y-value"))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM sms_provider_config")).scalar_one() == 0


def test_a_provider_is_tested_without_sending_anything(run: Run, engine: Engine) -> None:
    with serving(TwilioApi()) as server:
        config_id = add(run, "--api-endpoint", f"{server.url}/2010-04-01")
        code, out, err = run("provider", "test", config_id)
        assert (code, err) == (1, "")
        assert out.startswith("20404: The requested resource ")
        assert [request.method for request in server.requests] == ["GET"]
        server.next.append(Reply(200, {"sid": "AC1", "status": "active"}))
        code, out, err = run("provider", "test", config_id)
        assert (code, err) == (0, "")
        assert out.startswith("TWILIO: it takes the credentials, after ")
    with engine.begin() as connection:
        connection.execute(text("UPDATE sms_provider_config SET api_secret = NULL"))
    code, out, err = run("provider", "test", config_id, "--json")
    assert (code, err) == (1, "")
    assert json.loads(out)["error_message"] == "PROVIDER_CONFIG_INVALID: twilio: api_secret is missing"
    cm_id = add(run, "--type", "cm")
    assert run("provider", "test", cm_id)[1].startswith("CM: all it needs is there; its credentials cannot be tried")


def test_a_provider_is_shown_with_the_addresses_it_is_to_call(run: Run, engine: Engine) -> None:
    config_id = add(run, "--ext", "authToken=t0ken")
    token = stored(engine, config_id, "receipt_token")
    code, out, err = run("provider", "show", config_id)
    assert (code, err) == (0, "")
    assert f"receipts    /hooks/sms/twilio/{token} below PUBLIC_BASE_URL, which is not set" in out
    assert "authToken" in out
    assert "t0ken" not in out
    assert json.loads(run("provider", "show", config_id, "--json")[1])["receipt_path"] == f"/hooks/sms/twilio/{token}"
    assert f"/hooks/sms/twilio/{token}" in run("provider", "list")[1]
    assert run("provider", "show", config_id + 1)[2].count("\n") == 1


def test_routes_are_added_listed_and_removed(run: Run) -> None:
    provider_id = add(run)
    route_id = int(run("route", "add", "de", provider_id, "--priority", 5)[1])
    assert [(line["region_code"], line["dial_code"], line["priority"]) for line in listed(run, "route")] == [
        ("DE", "49", 5)
    ]
    assert "+49" in run("route", "list", "--country", "DE")[1]
    run("provider", "disable", provider_id)
    assert "provider disabled" in run("route", "list")[1]
    assert run("route", "add", "DE", provider_id)[2].count("\n") == 1
    for wrong in ("ZZ", "*"):
        code, out, err = run("route", "add", wrong, provider_id)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"'{wrong}'" in err
    assert run("route", "remove", route_id)[1] == f"route {route_id} is removed\n"
    assert run("route", "remove", route_id) == (2, "", f"messaging: no route {route_id}\n")


def test_bindings_are_added_listed_and_removed(run: Run, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(insert(SMS_TEMPLATE).values(code="otp", name="OTP", content="{{ code }}"))
    provider_id = add(run, "--default")
    names = ("--external-template-id", "T1", "--sign-name", "Shop")
    binding_id = int(run("binding", "add", "otp", provider_id, "--country", "cn", *names)[1])
    [line] = listed(run, "binding", "--template", "otp")
    assert (line["region_code"], line["external_template_id"], line["sign_name"]) == ("CN", "T1", "Shop")
    assert "otp" in run("binding", "list")[1]
    code, out, _ = run("route", "explain", "+8613800138000", "--template", "otp")
    assert code == 0
    assert "template there: T1" in out
    code, out, _ = run("route", "explain", "+4915112345678", "--template", "otp")
    assert code == 1
    assert "so it fails: SMS template 'otp' has bindings, but none for DE" in out
    assert run("binding", "add", "gone", provider_id)[2] == "messaging: SMS template 'gone' is none of this tenant\n"
    assert run("binding", "remove", binding_id)[1] == f"binding {binding_id} is removed\n"


def test_a_numbers_way_is_explained(run: Run) -> None:
    code, out, err = run("route", "explain", "+4915112345678")
    assert (code, err) == (1, "")
    assert "1. +4915112345678 is of DE, calling code +49" in out
    provider_id = add(run, "--default")
    code, out, err = run("route", "explain", "+4915112345678", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["provider_config_id"] == provider_id
    code, out, err = run("route", "explain", "13800138000")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "phone_number" in err


@pytest.mark.parametrize("command", ["test", "disable", "enable", "change", "delete"])
def test_a_provider_that_is_not_there_is_one_line(run: Run, command: str) -> None:
    assert run("provider", command, 5) == (2, "", "messaging: no SMS provider 5\n")
    assert "'x'" in run("provider", command, "x")[2]


def test_each_tenant_keeps_its_own_and_the_platform_its_own(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MESSAGING_MULTI_TENANCY", "true")
    own, platforms = add(run, "--tenant", 7), add(run, "--tenant", -1, "--default")
    assert [line["id"] for line in listed(run, "provider", "--tenant", 7)] == [own]
    assert {line["tenant_id"] for line in listed(run, "provider", "--tenant", "all")} == {7, -1}
    code, out, err = run("route", "add", "DE", platforms, "--tenant", 7)
    assert (code, out) == (2, "")
    assert "belongs to the platform" in err
    assert run("route", "add", "CN", own, "--tenant", 7)[0] == 0
    told = run("route", "explain", "+4915112345678", "--tenant", 7)[1]
    assert f"the platform's default providers: SMS provider {platforms}" in told
    assert "--tenant" in run("provider", "list")[2]


def test_a_deleted_provider_is_gone_with_its_routes(run: Run) -> None:
    provider_id = add(run)
    assert run("route", "add", "DE", provider_id)[0] == 0
    told = f"SMS provider {provider_id} is deleted; what still has to go out by it fails\n"
    assert run("provider", "delete", provider_id) == (0, told, "")
    assert listed(run, "provider", "--all") == listed(run, "route", "--all") == []
