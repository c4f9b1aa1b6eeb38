"""`messaging captured ...` and `messaging prune`: output, exit codes, bad input."""

import json
from typing import Any

import pytest
from sqlalchemy import Engine, insert, text

from messaging import api
from messaging.sandbox.models import CAPTURED_MESSAGE
from tests.integration.command_line import Run

RAW = b"From: shop@example.org\r\nSubject: Hi\r\n\r\nHello there\r\n"


@pytest.fixture
def run(run_command: Run) -> Run:
    """`messaging ...`."""
    return run_command


def add(engine: Engine, record_id: int, **columns: Any) -> int:
    values = {"channel": "mail", "recipients": ["ann@example.com"], "subject": "Hi [bold]", "raw": RAW, **columns}
    with engine.begin() as connection:
        statement = insert(CAPTURED_MESSAGE).values(record_id=record_id, **values).returning(CAPTURED_MESSAGE.c.id)
        added: int = connection.execute(statement).scalar_one()
    return added


def test_captured_messages_are_listed_shown_and_cleared(run: Run, engine: Engine) -> None:
    assert run("captured", "list") == (0, "nothing was captured\n", "")
    mail = add(engine, 5)
    sms = add(engine, 6, channel="sms", recipients=["+4915112345678"], subject=None, raw=None, content="code 7")
    code, out, _ = run("captured", "list", "--json")
    assert (code, [one["id"] for one in json.loads(out)["messages"]]) == (0, [sms, mail])
    code, out, _ = run("captured", "list")
    assert (code, "Hi [bold]" in out, "+4915112345678" in out) == (0, True, True)
    for option in (("--channel", "sms"), ("--record", 6), ("--recipient", "+4915112345678")):
        assert [one["id"] for one in json.loads(run("captured", "list", "--json", *option)[1])["messages"]] == [sms]
    assert "Hello there" in run("captured", "show", mail)[1]
    assert "code 7" in run("captured", "show", sms)[1]
    assert json.loads(run("captured", "show", sms, "--json")[1])["content"] == "code 7"
    assert run("captured", "clear") == (0, "2\n", "")
    assert run("captured", "show", mail) == (2, "", f"messaging: no captured message {mail}\n")


def test_a_captured_mail_is_written_as_it_would_have_gone_out(run: Run, engine: Engine) -> None:
    code, out, _ = run("captured", "show", add(engine, 5), "--raw")
    assert (code, out.encode()) == (0, RAW)


def test_what_cannot_be_captured_is_refused(run: Run, engine: Engine) -> None:
    code, _, err = run("captured", "list", "--channel", "fax")
    assert (code, err) == (2, "messaging: --channel is 'fax'; allowed: mail, sms, webhook\n")
    sms = add(engine, 6, channel="sms", raw=None)
    assert run("captured", "show", sms, "--raw") == (2, "", f"messaging: captured message {sms} is no mail\n")


def test_pruning_is_counted_done_told_of_and_noted(run: Run, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("prune") == (0, "no kind has an age: set MESSAGING_RETENTION__*_DAYS\n", "")
    monkeypatch.setenv("MESSAGING_RETENTION__CAPTURED_DAYS", "7")
    api.configure()
    add(engine, 5, captured_at=text("now() - interval '8 days'"))
    add(engine, 6)
    counted = json.loads(run("prune", "--dry-run", "--json")[1])
    assert [(one["name"], one["rows"]) for one in counted] == [("captured", 1)]
    assert json.loads(run("prune", "--kind", "bodies", "--json")[1]) == []
    code, out, err = run("prune", "--kind", "captured")
    assert (code, "captured" in out, err) == (0, True, "captured: 1\n")
    lines = {line["name"]: line for line in json.loads(run("prune", "--progress", "--json")[1])}
    assert (lines["captured"]["days"], lines["captured"]["pruned"], lines["bodies/mail"]["days"]) == (7, 1, None)
    assert "captured" in run("prune", "--progress")[1]
    with engine.connect() as connection:
        noted = connection.execute(text("SELECT action, after FROM audit_log WHERE target_type = 'prune_progress'"))
        assert [tuple(row) for row in noted] == [("prune", {"captured": 1})]
    assert run("prune", "--kind", "usage")[0] == 2
