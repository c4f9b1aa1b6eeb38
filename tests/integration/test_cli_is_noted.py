"""Whatever an operator changes on the command line is in the audit log: tried on every command that there is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session
from typer.main import get_command

from messaging.audit import AUDIT_LOG
from messaging.cli.entry import app
from messaging.db.session import transaction
from tests.integration.command_line import Run
from tests.integration.web.api.rows import ROWS

#: Commands that are none of an operator's actions on what is kept, and why.
NOT_NOTED = {
    **dict.fromkeys(("send", "sms"), "a message: its record says who handed it in"),
    **dict.fromkeys(("worker", "beat", "flower", "web", "demo"), "a program: it runs until it is stopped"),
    **dict.fromkeys(("doctor", "classify"), "a look: nothing is written"),
    **dict.fromkeys(("db upgrade", "db current", "db check"), "the schema, which the log itself is part of"),
}

#: So end those that only tell.
_TELLING = frozenset({"list", "show", "watermarks", "preview", "variables", "export", "explain", "deliveries"})

PASSWORD = "correct horse battery"
SECRET = "env:CLI_SECRET"
_SERVER = ("--host", "127.0.0.1", "--port", 1, "--from-address", "shop@example.org")
_MAILBOX = ("--host", "127.0.0.1", "--port", 1, "--protocol", "imap", "--username", "in", "--password-from", SECRET)
_PROVIDER = ("--type", "twilio", "--api-key-from", SECRET, "--api-secret-from", SECRET)
_PROVIDER_SENDER = ("--sender-number", "+14155550100", "--api-endpoint", "http://127.0.0.1:1")

#: In this order, on the rows that those before have made, whose ids are all 1: what is given, and what the log says.
#: `{NAME}` is the id of a row that no command makes.
STEPS: list[tuple[str, tuple[object, ...], str]] = [
    ("server add", ("--name", "out", *_SERVER), "create"),
    ("server change", (1, "--name", "changed"), "update"),
    ("server test", (1,), "test"),
    ("server default", (1,), "set default"),
    ("server disable", (1,), "disable"),
    ("server enable", (1,), "enable"),
    ("mailbox add", ("--name", "in", *_MAILBOX), "create"),
    ("mailbox change", (1, "--name", "changed"), "update"),
    ("mailbox test", (1,), "test"),
    ("mailbox fetch", (1,), "fetch"),
    ("mailbox default", (1,), "set default"),
    ("mailbox disable", (1,), "disable"),
    ("mailbox enable", (1,), "enable"),
    ("template import", ("{folder}",), "create"),
    ("template delete", (1,), "delete"),
    ("template add", ("code", "--content", "{{ code }}"), "create"),
    ("provider add", ("--name", "sms", *_PROVIDER, *_PROVIDER_SENDER), "create"),
    ("provider change", (1, "--name", "changed"), "update"),
    ("provider test", (1,), "test"),
    ("provider disable", (1,), "disable"),
    ("provider enable", (1,), "enable"),
    ("route add", ("DE", 1), "create"),
    ("binding add", ("code", 1, "--external-template-id", "x"), "create"),
    ("binding remove", (1,), "delete"),
    ("route remove", (1,), "delete"),
    ("quota set", (0, "--mail", 5), "create"),
    ("suppression add", ("ann@example.org",), "create"),
    ("suppression lift", (1, "--note", "asked"), "lift"),
    ("suppression import", ("{addresses}",), "import"),
    ("tenant provision", (0, "--seeds", "{seeds}"), "create"),
    ("retry", ("{mail}",), "retry"),
    ("cancel", ("{mail}",), "cancel"),
    ("received read", ("{received}",), "mark"),
    ("received archive", ("{received}",), "mark"),
    ("received delete", ("{received}",), "mark"),
    ("captured clear", (), "clear"),
    ("dead-letter resolve", ("{letter}",), "resolve"),
    ("dead-letter discard", ("{letter_too}",), "discard"),
    ("token add", ("shop",), "create"),
    ("token revoke", (1,), "revoke"),
    ("operator add", ("ann", "--role", "viewer", "--password-from", SECRET), "create"),
    ("operator password", (1, "--password-from", SECRET), "set password"),
    ("operator link", ("ann", "--base-url", "https://example.org"), "make sign-in link"),
    ("operator disable", (1,), "disable"),
    ("operator enable", (1,), "enable"),
    ("webhook add", ("--name", "shop", "--url", "https://example.org/hook"), "create"),
    ("webhook change", ("{endpoint}", "--name", "changed"), "update"),
    ("webhook test", ("{endpoint}",), "test"),
    ("webhook rotate-secret", ("{endpoint}",), "rotate secret"),
    ("webhook disable", ("{endpoint}",), "disable"),
    ("webhook enable", ("{endpoint}",), "enable"),
    ("webhook retry", ("{delivery}",), "retry"),
    ("webhook delete", ("{endpoint}",), "delete"),
    ("prune", (), "prune"),
    ("provider delete", (1,), "delete"),
    ("mailbox delete", (1,), "delete"),
    ("server delete", (1,), "delete"),
]


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    if hasattr(command, "commands"):
        for name, one in command.commands.items():
            yield from _commands(one, (*path, name))
    else:
        yield " ".join(path)


def test_every_command_is_noted_or_tells_or_says_why_not() -> None:
    every = set(_commands(get_command(app)))
    telling = {name for name in every if name.rpartition(" ")[2] in _TELLING}
    assert {name for name, _, _ in STEPS} == every - telling - set(NOT_NOTED)
    assert set(NOT_NOTED) < every
    assert not telling & set(NOT_NOTED)


@pytest.fixture
def made(tmp_path: Path) -> dict[str, object]:
    """Files that commands are given."""
    welcome = tmp_path / "templates" / "welcome"
    welcome.mkdir(parents=True)
    (welcome / "template.yaml").write_text("code: welcome\nname: Welcome\nsubject: Hi\nbody_mode: PLAIN\n")
    (welcome / "body.txt").write_text("Hello")
    seeds = tmp_path / "seeds"
    seeds.mkdir()
    (seeds / "hello.yaml").write_text("model: mail_template\nkey: hello\ncode: hello\nname: Hello\n")
    addresses = tmp_path / "addresses.csv"
    addresses.write_text("address\nben@example.org\n")
    return {"folder": welcome.parent, "seeds": seeds, "addresses": addresses}


def _letter(session: Session) -> int:
    row = text(
        "INSERT INTO dead_letter_message (source, event_type, payload)"
        " VALUES ('BROKER_POISON', 'UNDECODABLE', '{}') RETURNING id"
    )
    found: int = session.connection().execute(row).scalar_one()
    return found


def _rows(engine: Engine) -> dict[str, object]:
    """What no command makes. Last of all: the steps before count on ids from 1."""
    with transaction(engine) as session:
        ROWS["/captured"](session)
        return {
            "mail": ROWS["/mail/messages"](session),
            "received": ROWS["/mail/received"](session),
            "letter": _letter(session),
            "letter_too": _letter(session),
            "delivery": ROWS["/webhooks/deliveries"](session),
            "endpoint": ROWS["/webhooks"](session),
        }


def _filled(given: object, made: dict[str, object]) -> object:
    is_name = isinstance(given, str) and given.startswith("{") and not given.startswith("{{")
    return made[str(given)[1:-1]] if is_name else given


def test_what_an_operator_does_on_the_command_line_is_noted(
    run_command: Run, engine: Engine, made: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLI_SECRET", PASSWORD)
    monkeypatch.setenv("MESSAGING_RETENTION__CAPTURED_DAYS", "7")
    begins_with_rows = next(index for index, step in enumerate(STEPS) if step[0] == "retry")
    seen = 0
    for number, (name, given, action) in enumerate(STEPS):
        if number == begins_with_rows:
            made |= _rows(engine)
        code, out, err = run_command(*name.split(), *(_filled(one, made) for one in given))
        with engine.connect() as connection:
            lines = connection.execute(select(AUDIT_LOG).where(AUDIT_LOG.c.id > seen).order_by(AUDIT_LOG.c.id)).all()
        noted = [line for line in lines if line.actor == "command line"]
        assert action in {line.action for line in noted}, (name, code, out, err)
        assert PASSWORD not in str(lines)
        seen = lines[-1].id
