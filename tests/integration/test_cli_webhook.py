"""`messaging webhook ...` on a real database: what it prints, its exit codes, and a secret that is shown once."""

import json
from typing import Any

from sqlalchemy import Engine, text

from messaging.webhooks.signing import check_secret, new_secret
from tests.integration.command_line import Run

GIVEN = ("--name", "shop", "--url", "https://shop.example.org/hook")


def add(run: Run, *more: object) -> tuple[int, str]:
    code, out, err = run("webhook", "add", *GIVEN, *more)
    assert (code, err) == (0, "")
    endpoint_id, secret = out.split()
    return int(endpoint_id), secret


def listed(run: Run, *more: object) -> Any:
    return json.loads(run("webhook", "list", "--json", *more)[1])


def told(run: Run, *more: object) -> Any:
    return json.loads(run("webhook", "deliveries", "--json", *more)[1])["deliveries"]


def test_an_endpoint_is_added_listed_changed_disabled_enabled_and_deleted(run_command: Run) -> None:
    run = run_command
    endpoint_id, secret = add(run, "--events", "message.sent, message.read")
    check_secret(secret)
    [line] = listed(run)
    assert (line["id"], line["event_types"]) == (endpoint_id, ["message.sent", "message.read"])
    assert secret not in run("webhook", "list", "--json")[1]
    assert run("webhook", "change", endpoint_id, "--events", "all", "--description", "the shop")[0] == 0
    [line] = listed(run)
    assert (line["event_types"], line["description"], line["name"]) == (None, "the shop", "shop")
    assert run("webhook", "disable", endpoint_id)[1] == f"webhook endpoint {endpoint_id} is disabled\n"
    assert listed(run) == []
    shown = run("webhook", "list", "--all")[1]
    for part in ("shop", "https://shop.example.org/hook", "all", "disabled"):
        assert part in shown
    assert run("webhook", "enable", endpoint_id)[1] == f"webhook endpoint {endpoint_id} is enabled\n"
    assert run("webhook", "delete", endpoint_id)[0] == 0
    assert "no webhook endpoints" in run("webhook", "list", "--all")[1]
    assert run("webhook", "delete", endpoint_id)[0] == 2


def test_what_cannot_be_an_endpoint_is_refused_by_field(run_command: Run) -> None:
    for given, words in (
        (("--name", "x", "--url", "http://10.0.0.1/"), "url"),
        ((*GIVEN, "--events", "message.opened"), "message.opened"),
        ((*GIVEN, "--events", ""), "event_types"),
    ):
        code, out, err = run_command("webhook", "add", *given)
        assert (code, out) == (2, "")
        assert words in err


def test_a_secret_comes_from_the_environment_and_is_replaced(run_command: Run, monkeypatch: Any) -> None:
    own = new_secret()
    monkeypatch.setenv("HOOK", own)
    endpoint_id, secret = add(run_command, "--signing-secret-from", "env:HOOK")
    assert secret == own
    made = json.loads(run_command("webhook", "rotate-secret", endpoint_id, "--keep-hours", 1, "--json")[1])
    assert made["secret"] != own
    assert listed(run_command)[0]["replaced_secret_until"] is not None
    monkeypatch.setenv("HOOK", "whsec_bad")
    code, _, err = run_command("webhook", "rotate-secret", endpoint_id, "--signing-secret-from", "env:HOOK")
    assert (code, "whsec_bad" in err) == (2, False)


def test_a_trial_is_queued_listed_and_told_again(run_command: Run, engine: Engine) -> None:
    run = run_command
    endpoint_id, _ = add(run)
    trial = int(run("webhook", "test", endpoint_id)[1])
    [line] = told(run, "--endpoint", endpoint_id)
    assert (line["id"], line["event_type"], line["status"]) == (trial, "webhook.test", "PENDING")
    assert "webhook.test" in run("webhook", "deliveries")[1]
    assert told(run, "--status", "sent") == told(run, "--record", 17) == []
    second = int(run("webhook", "test", endpoint_id)[1])
    code, out, _ = run("webhook", "deliveries", "--limit", 1)
    assert (code, f"more: --before {second}" in out) == (0, True)
    assert [line["id"] for line in told(run, "--before", second)] == [trial]
    with engine.begin() as connection:
        connection.execute(text("UPDATE webhook_send_record SET status = 'DEAD_LETTER'"))
    assert run("webhook", "retry", trial)[1] == f"{trial} is told again\n"
    code, _, err = run("webhook", "retry", second + 1)
    assert (code, err) == (2, f"messaging: no record {second + 1}\n")
