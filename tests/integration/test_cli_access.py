"""`messaging token ...` and `messaging operator ...`: what they print, exit codes, secrets that no argument holds."""

import json
from collections.abc import Callable

import pytest
from sqlalchemy import Engine

from messaging.access import links, sessions, tokens
from messaging.access.secrets import hashed
from tests.integration.command_line import Run

PASSWORD = "correct horse battery"


def test_a_token_is_printed_once_and_known_until_it_is_revoked(run_command: Run, engine: Engine) -> None:
    code, token, told = run_command("token", "add", "shop", "--role", "operator", "--user-id", 12)
    assert (code, told) == (0, "token 1 is shown this once\n")
    with engine.begin() as connection:
        caller = tokens.find_caller(connection, hashed(token.strip()))
    assert caller is not None
    assert (caller.name, caller.role, caller.user_id) == ("shop", "OPERATOR", 12)

    _, listed, _ = run_command("token", "list", "--json")
    assert token.strip() not in listed
    (shown,) = json.loads(listed)
    assert token.startswith(shown["prefix"])
    assert shown["last_used_at"] is not None

    assert run_command("token", "revoke", 1, 9) == (2, "1 is revoked\n", "messaging: no token 9\n")
    assert run_command("token", "revoke", 1) == (0, "1 was revoked before\n", "")
    with engine.begin() as connection:
        assert tokens.find_caller(connection, hashed(token.strip())) is None
    assert run_command("token", "list") == (0, "no tokens\n", "")
    assert "shop" in run_command("token", "list", "--all")[1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--role", "king"), "'king' is none of SENDER, VIEWER, OPERATOR, TENANT_ADMIN, PLATFORM"),
        (("--expires-at", "2020-01-01T00:00:00Z"), "is past"),
        (("--expires-at", "2099-01-01T00:00:00"), "no time zone"),
    ],
)
def test_a_token_that_cannot_be_is_refused_on_one_line(run_command: Run, options: tuple[str, ...], told: str) -> None:
    code, out, err = run_command("token", "add", "shop", *options)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err


def test_an_operator_signs_in_by_the_password_that_was_read(
    run_command: Run, give: Callable[[str], None], engine: Engine
) -> None:
    give(PASSWORD + "\n")
    added = run_command("operator", "add", "Ann", "--role", "platform", "--password-from", "stdin")
    assert added == (0, "1\n", "")
    assert sessions.sign_in(engine, "ann", PASSWORD, hours=1) is not None

    give("another long password\n")
    assert run_command("operator", "password", 1, "--password-from", "stdin")[0] == 0
    assert sessions.sign_in(engine, "ann", PASSWORD, hours=1) is None

    assert run_command("operator", "disable", 1) == (0, "operator 1 is disabled\n", "")
    assert sessions.sign_in(engine, "ann", "another long password", hours=1) is None
    assert run_command("operator", "list") == (0, "no operators\n", "")
    assert "disabled" in run_command("operator", "list", "--all")[1]

    assert run_command("operator", "enable", 1) == (0, "operator 1 is enabled\n", "")
    _, listed, _ = run_command("operator", "list", "--json")
    (shown,) = json.loads(listed)
    assert (shown["user_name"], shown["role"], shown["active"]) == ("ann", "PLATFORM", True)
    assert "argon2" not in listed


def test_a_password_too_short_is_refused_and_not_repeated(run_command: Run, give: Callable[[str], None]) -> None:
    give("short\n")

    code, out, err = run_command("operator", "add", "ann", "--password-from", "stdin")

    assert (code, out) == (2, "")
    assert "12 to 256 characters" in err
    assert "short" not in err


def test_with_multi_tenancy_a_token_is_of_the_tenant_that_is_named(
    run_command: Run, monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    monkeypatch.setenv("MESSAGING_MULTI_TENANCY", "true")

    _, token, _ = run_command("token", "add", "shop", "--tenant", 7)
    refused = run_command("token", "add", "shop", "--tenant", 7, "--role", "platform")

    with engine.begin() as connection:
        caller = tokens.find_caller(connection, hashed(token.strip()))
    assert caller is not None
    assert caller.tenant_id == 7
    assert refused[0] == 2
    assert "tenant -1" in refused[2]


def test_a_link_signs_an_operator_in_once(run_command: Run, give: Callable[[str], None], engine: Engine) -> None:
    give(PASSWORD + "\n")
    run_command("operator", "add", "ann", "--password-from", "stdin")

    code, printed, _ = run_command("operator", "link", "Ann", "--base-url", "https://mail.example.com/")

    base, _, secret = printed.strip().rpartition("/")
    assert (code, base) == (0, "https://mail.example.com/console/link")
    assert links.find_name(engine, secret) == "ann"
    assert links.sign_in(engine, secret, hours=1) is not None
    assert links.sign_in(engine, secret, hours=1) is None
    assert run_command("operator", "link", "ann")[1].startswith("http://127.0.0.1:8000/console/link/")
    assert run_command("operator", "link", "bea") == (2, "", "messaging: no operator 'bea' who may sign in\n")
    run_command("operator", "disable", 1)
    assert run_command("operator", "link", "ann")[0] == 2
    assert run_command("operator", "link", "ann", "--minutes", 61)[0] == 2
