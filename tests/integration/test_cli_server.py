"""`messaging server ...` on a real database: what it prints, its exit code, and that no secret is shown or given."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, text

from messaging.db import encryption
from messaging.embedded import free_port
from tests.far_end.smtp_server import ScriptedSmtpServer
from tests.integration.command_line import Run


@pytest.fixture
def run(run_command: Run) -> Run:
    """`messaging server ...`."""
    return partial(run_command, "server")


def add(run: Run, *more: object, host: str = "mail.example.com") -> int:
    code, out, err = run("add", "--name", "out", "--host", host, "--from-address", "shop@example.org", *more)
    assert (code, err) == (0, "")
    return int(out)


def listed(run: Run, *more: object) -> Any:
    return json.loads(run("list", "--json", *more)[1])


def stored(engine: Engine, config_id: int, column: str) -> Any:
    statement = text(f"SELECT {column} FROM mail_send_server_config WHERE id = {config_id}")
    with engine.connect() as connection:
        return connection.execute(statement).scalar_one()


def test_a_server_is_added_listed_disabled_enabled_and_preferred(run: Run) -> None:
    first, second = add(run, "--default"), add(run, "--tls", "none", "--daily-send-limit", 5)
    by_id = {line["id"]: line for line in listed(run)}
    assert (by_id[first]["port"], by_id[first]["starttls_enabled"], by_id[first]["is_default"]) == (587, True, True)
    assert (by_id[second]["port"], by_id[second]["starttls_enabled"], by_id[second]["daily_send_limit"]) == (
        25,
        False,
        5,
    )
    assert run("default", second)[1] == f"mail server {second} is the default\n"
    assert {line["id"]: line["is_default"] for line in listed(run)} == {first: False, second: True}
    assert run("disable", first)[0] == 0
    assert [line["id"] for line in listed(run)] == [second]
    shown = run("list", "--all")[1]
    for part in ("mail.example.com:587", "starttls", "disabled", "default", "shop@example.org"):
        assert part in shown
    assert run("default", first)[2] == f"messaging: mail server {first} is disabled; enable it first\n"
    assert run("enable", first)[1] == f"mail server {first} is enabled\n"
    assert len(listed(run)) == 2


def test_an_empty_list_says_so(run: Run) -> None:
    assert run("list") == (0, "no servers\n", "")


def test_a_password_comes_from_the_environment_or_standard_input(
    run: Run, engine: Engine, give: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "from-env")
    config_id = add(run, "--username", "shop", "--password-from", "env:SHOP_PASSWORD")
    assert encryption.decrypt(stored(engine, config_id, "password")) == "from-env"
    give("from stdin\n")
    assert run("change", config_id, "--password-from", "stdin")[0] == 0
    assert encryption.decrypt(stored(engine, config_id, "password")) == "from stdin"
    assert listed(run)[0]["has_password"]
    assert not any(
        secret in run("list", *more)[1] for secret in ("from-env", "from stdin") for more in ((), ("--json",))
    )


def test_a_password_is_asked_for_at_a_terminal_and_not_echoed(run: Run, engine: Engine) -> None:
    ours, theirs = pty.openpty()
    arguments = ["--name", "out", "--host", "h", "--from-address", "shop@example.org", "--username", "shop"]
    command = [sys.executable, "-m", "messaging.cli", "server", "add", *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as program:
        os.close(theirs)
        said = b""
        while b"Password: " not in said:  # the blank comes once the echo is off
            said += os.read(ours, 1000)
        os.write(ours, b"typed s3cret\n")
        assert program.wait(60) == 0
        said += os.read(ours, 1000)
    os.close(ours)
    assert b"s3cret" not in said
    [line] = listed(run)
    assert encryption.decrypt(stored(engine, line["id"], "password")) == "typed s3cret"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--username", "shop"], ("--password-from", "ask")),
        (["--password-from", "env:NOT_THERE"], ("--password-from", "NOT_THERE")),
        (["--port", "70000"], ("--port", "70000")),
        (["--tls", "maybe"], ("--tls", "'maybe'", "STARTTLS")),
        (["--from-address", "nobody"], ("from_address", "'nobody'")),
        (["--host", "smtp://x"], ("host", "'smtp://x'")),
        (["--daily-send-limit", "-1"], ("--daily-send-limit", "-1")),
        (["--dkim-domain", "example.org"], ("dkim_selector",)),
        (["--dkim-key-file", "/dev/null/key"], ("--dkim-key-file", "/dev/null/key")),
        (["--tenant", "7"], ("--tenant", "MULTI_TENANCY")),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_stored(
    run: Run, engine: Engine, give: Callable[[str], None], arguments: list[str], named: tuple[str, ...]
) -> None:
    given = ["--name", "out", "--host", "h", "--from-address", "shop@example.org", *arguments]
    code, out, err = run("add", *given)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert all(part in err for part in named)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM mail_send_server_config")).scalar_one() == 0


def test_a_password_given_in_the_wrong_place_is_not_repeated(run: Run) -> None:
    code, out, err = run("add", "--name", "x", "--host", "h", "--username", "u", "--password-from", "s3cret")
    assert (code, out) == (2, "")
    assert "s3cret" not in err


@pytest.mark.parametrize("command", ["test", "disable", "enable", "default", "delete"])
def test_a_server_that_is_not_there_is_one_line(run: Run, command: str) -> None:
    assert run(command, 5) == (2, "", "messaging: no mail server 5\n")
    assert "'x'" in run(command, "x")[2]


def test_a_server_is_tried(run: Run) -> None:
    with ScriptedSmtpServer() as server:
        config_id = add(run, "--tls", "none", "--port", server.port, host="127.0.0.1")
        code, out, err = run("test", config_id)
    assert (code, err) == (0, "")
    assert "it greets: 220 mx.example.com ESMTP" in out
    assert "ready for mail" in out
    code, out, err = run("test", config_id, "--json")
    assert (code, err) == (1, "")
    assert json.loads(out)["success"] is False
    run("change", config_id, "--port", free_port())
    assert "SMTP_CONNECT" in run("test", config_id)[1]


def test_each_tenant_keeps_its_own_and_the_platform_its_own(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MESSAGING_MULTI_TENANCY", "true")
    own, platforms = add(run, "--tenant", 7), add(run, "--tenant", -1)
    assert [line["id"] for line in listed(run, "--tenant", 7)] == [own]
    assert {line["tenant_id"] for line in listed(run, "--tenant", "all")} == {7, -1}
    for command in ("test", "disable", "enable", "default", "delete"):
        code, out, err = run(command, platforms, "--tenant", 7)
        assert (code, out) == (2, "")
        assert "belongs to the platform" in err
        assert run(command, own, "--tenant", 8)[2] == f"messaging: no mail server {own}\n"
    assert "--tenant" in run("list")[2]


def test_a_deleted_server_is_gone(run: Run) -> None:
    config_id = add(run)
    assert run("delete", config_id) == (
        0,
        f"mail server {config_id} is deleted; what still has to go out by it fails\n",
        "",
    )
    assert listed(run, "--all") == []
