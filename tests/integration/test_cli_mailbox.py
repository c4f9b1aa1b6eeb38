"""`messaging mailbox ...` on a real database: what it prints, its exit code, and that no secret is shown or given."""

import io
import json
import os
import pty
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, text

from tests.far_end.pop3_server import GREETING, ScriptedPop3Server
from tests.integration.command_line import Run
from tests.integration.receive.fetching import mail


@pytest.fixture
def run(run_command: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`messaging mailbox ...`, with a password in the environment."""
    monkeypatch.setenv("MAILBOX_PASSWORD", "s3cret-pass")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return partial(run_command, "mailbox")


def add(run: Run, *more: object) -> int:
    given = ("--name", "in", "--host", "imap.example.com", "--username", "in@example.org")
    code, out, err = run("add", *given, "--password-from", "env:MAILBOX_PASSWORD", *more)
    assert (code, err) == (0, "")
    return int(out)


def listed(run: Run, *more: object) -> Any:
    return json.loads(run("list", "--json", *more)[1])


@pytest.mark.parametrize(
    ("given", "port"),
    [((), 993), (("--protocol", "imap"), 143), (("--protocol", "pop3", "--yes"), 110), (("--port", "1143"), 1143)],
)
def test_a_mailbox_is_added_at_its_protocols_usual_port(run: Run, given: tuple[str, ...], port: int) -> None:
    config_id = add(run, *given)
    [line] = listed(run)
    assert (line["id"], line["port"], line["has_password"], line["fetch_folders"]) == (config_id, port, True, "INBOX")


def test_a_mailbox_is_listed_changed_disabled_enabled_and_preferred(run: Run) -> None:
    config_id = add(run, "--folders", "INBOX, Junk", "--interval", "60", "--sequence", "3")
    [line] = listed(run)
    assert (line["fetch_folders"], line["fetch_interval_seconds"], line["sequence"]) == ("INBOX,Junk", 60, 3)
    assert run("change", config_id, "--interval", "0", "--folders", "", "--name", "support")[0] == 0
    [line] = listed(run)
    assert (line["name"], line["fetch_folders"], line["fetch_interval_seconds"]) == ("support", None, None)
    assert run("default", config_id) == (0, f"mailbox {config_id} is the default\n", "")
    assert run("disable", config_id)[0] == 0
    assert listed(run) == []
    assert [line["is_default"] for line in listed(run, "--all")] == [True]
    assert "disabled" in run("list", "--all")[1]
    assert run("enable", config_id)[0] == 0
    shown = run("list")[1]
    assert "imap.example.com:993" in shown
    assert "s3cret-pass" not in shown + json.dumps(listed(run))  # operate.md O60


def test_pop3_wants_to_be_meant(run: Run) -> None:
    given = ("--name", "in", "--host", "pop.example.com", "--username", "u", "--password-from", "env:MAILBOX_PASSWORD")
    code, out, err = run("add", *given, "--protocol", "pop3s")
    assert (code, out) == (2, "")
    assert "POP3S drains the mailbox" in err
    assert "--yes" in err
    config_id = add(run)
    code, _, err = run("change", config_id, "--protocol", "pop3")
    assert code == 2
    assert "--yes" in err
    assert listed(run)[0]["protocol"] == "IMAPS"
    assert run("change", config_id, "--protocol", "pop3", "--yes")[0] == 0
    assert listed(run)[0]["protocol"] == "POP3"


@pytest.mark.parametrize(("answer", "code"), [("n", 130), ("y", 0)])
def test_at_a_terminal_pop3_is_asked_for(run: Run, monkeypatch: pytest.MonkeyPatch, answer: str, code: int) -> None:
    controller, terminal = pty.openpty()
    with os.fdopen(controller, "w") as keyboard, os.fdopen(terminal) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        keyboard.write(f"{answer}\n")
        keyboard.flush()
        given = ("--name", "in", "--host", "h.example.com", "--username", "u", "--protocol", "pop3")
        came = run("add", *given, "--password-from", "env:MAILBOX_PASSWORD")
    assert came[0] == code
    assert "deleted from the server" in came[2]
    assert len(listed(run)) == (code == 0)


def test_what_is_refused_is_named_and_shows_no_secret(run: Run) -> None:
    given = ("--host", "imaps://x", "--name", "in", "--username", "u", "--password-from", "env:MAILBOX_PASSWORD")
    code, _, err = run("add", *given)
    assert code == 2
    assert "host" in err
    assert "s3cret-pass" not in err
    code, _, err = run("add", "--name", "in", "--host", "h", "--username", "u")
    assert (code, "nobody can be asked" in err) == (2, True)
    assert run("change", 99, "--name", "x")[2] == "messaging: no mailbox 99\n"


def test_a_token_needs_no_password(run: Run) -> None:
    code, out, _ = run("add", "--name", "in", "--host", "h.example.com", "--username", "u", "--auth", "xoauth2")
    assert code == 0
    assert [(line["id"], line["auth"], line["has_password"]) for line in listed(run)] == [(int(out), "XOAUTH2", False)]
    assert "XOAUTH2" in run("list")[1]


def test_watermarks_are_shown(run: Run, engine: Engine) -> None:
    assert run("watermarks")[1] == "nothing was fetched so far\n"
    config_id = add(run)
    statement = text(
        "INSERT INTO mail_fetch_imap_watermark (tenant_id, server_config_id, folder_name, last_seen_uid)"
        " VALUES (0, :i, 'Junk', 42)"
    )
    with engine.begin() as connection:
        connection.execute(statement, {"i": config_id})
    assert "Junk" in run("watermarks", config_id)[1]
    assert [line["last_seen_uid"] for line in json.loads(run("watermarks", "--json")[1])] == [42]


def test_a_mailbox_is_tried_and_fetched(run: Run) -> None:
    with ScriptedPop3Server([mail("one"), mail("two")], users={"in@example.org": "s3cret-pass"}) as server:
        given = ("--protocol", "pop3", "--yes", "--host", "127.0.0.1", "--port", server.port)
        config_id = add(run, *given)
        code, out, err = run("test", config_id)
        assert (code, err) == (0, "")
        assert f"it greets: {GREETING}\nready to be fetched, after " in out
        assert json.loads(run("test", config_id, "--json")[1])["success"] is True
        assert run("fetch", config_id) == (0, "2 new mails\n", "")
        assert run("fetch")[2] == (
            "messaging: no receiving mail server: neither this tenant nor the platform has a default mailbox\n"
        )
        run("default", config_id)
        assert run("fetch") == (0, "0 new mails\n", "")
        server.users.clear()
        code, out, _ = run("test", config_id)
        assert code == 1
        assert "[AUTH]" in out
        code, _, err = run("fetch", config_id)
        assert code == 2
        assert err.startswith(f"messaging: 127.0.0.1:{server.port}: logging in: ")
        assert "s3cret-pass" not in out + err


def test_a_deleted_mailbox_is_gone(run: Run) -> None:
    config_id = add(run)
    told = f"mailbox {config_id} is deleted; the mails that came from it stay\n"
    assert run("delete", config_id) == (0, told, "")
    assert listed(run, "--all") == []
    assert run("delete", config_id) == (2, "", f"messaging: no mailbox {config_id}\n")
