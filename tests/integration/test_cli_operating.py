"""`messaging dead-letter ...`, `messaging audit list`: what they print, exit codes, who is noted."""

import getpass
import json
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, text

from tests.integration.command_line import Run


def stored(engine: Engine) -> int:
    with engine.begin() as connection:
        found: int = connection.execute(
            text("""
                INSERT INTO dead_letter_message
                    (source, source_tenant_id, original_queue, task_name, event_type, event_id, payload, last_error_msg)
                VALUES ('BROKER_POISON', 7, 'mail_send', 'other.task', 'UNKNOWN_TASK', 42, '{"a": [1]}', 'no\n such')
                RETURNING id
            """)
        ).scalar_one()
    return found


@pytest.fixture
def run(run_command: Run) -> Run:
    """`messaging dead-letter ...`."""
    return partial(run_command, "dead-letter")


def test_dead_letters_are_seen_and_settled(run: Run, engine: Engine) -> None:
    assert run("list") == (0, "no dead letters\n", "")
    one, two = stored(engine), stored(engine)
    code, out, _ = run("list", "--limit", 1)
    assert code == 0
    assert all(word in out for word in (str(two), "PENDING", "UNKNOWN_TASK", "mail_send", "42", "no"))
    assert out.endswith(f"older ones: --before {two}\n")
    code, out, _ = run("show", one)
    assert all(word in out for word in (f"dead letter {one}", "other.task", "tenant  7", '"a": ['))
    assert json.loads(run("show", one, "--json")[1])["payload"] == {"a": [1]}

    assert run("resolve", one, "--remark", "seen to") == (0, f"{one} is resolved\n", "")
    assert run("discard", one, two) == (2, f"{two} is discarded\n", f"messaging: dead letter {one} is RESOLVED\n")
    assert run("resolve", 999) == (2, "", "messaging: no dead letter 999\n")
    assert run("show", 999)[0] == 2
    assert run("discard", two, "--remark", "x" * 3001)[0] == 2
    listed = json.loads(run("list", "--json", "--status", "resolved", "--source", "broker-poison", "--record", 42)[1])
    assert [(line["id"], line["resolved_remark"], line["updated_by"]) for line in listed["dead_letters"]] == [
        (one, "seen to", getpass.getuser())
    ]
    assert "seen to" in run("show", one)[1]


def test_with_multi_tenancy_the_command_acts_for_the_platform(
    run: Run, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESSAGING_MULTI_TENANCY", "true")
    one = stored(engine)
    assert run("resolve", one) == (0, f"{one} is resolved\n", "")


def audited(run_command: Run, *options: object) -> list[dict[str, Any]]:
    code, out, err = run_command("audit", "list", "--json", *options)
    assert (code, err) == (0, "")
    told: list[dict[str, Any]] = json.loads(out)["entries"]
    return told


def test_what_the_command_line_does_is_in_the_log_under_its_account(run_command: Run, engine: Engine) -> None:
    assert run_command("audit", "list") == (0, "no entries\n", "")
    one = stored(engine)
    run_command("dead-letter", "resolve", one, "--remark", "seen to")
    run_command("suppression", "add", "ann@example.org")
    [suppressed, resolved] = audited(run_command)
    assert (resolved["actor"], resolved["actor_name"], resolved["action"]) == (
        "command line",
        getpass.getuser(),
        "resolve",
    )
    assert suppressed["after"] == {"channel": "mail", "address": "ann@example.org", "reason": "MANUAL"}
    code, out, _ = run_command("audit", "list", "--limit", 1, "--target", f"dead_letter_message:{one}")
    assert code == 0
    assert all(word in out for word in ("resolve", "dead_letter_message", "PENDING -> RESOLVED", "note: seen to"))
    assert out.endswith(f"older ones: --before {resolved['id']}\n")
    assert audited(run_command, "--before", suppressed["id"]) == [resolved]
    assert audited(run_command, "--action", "create", "--actor", "command line") == [suppressed]
    assert audited(run_command, "--target", "suppression") == [suppressed]
    assert audited(run_command, "--since", "2020-01-01T00:00:00Z", "--until", "2020-01-02T00:00:00Z") == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--since", "2020-01-01T00:00:00"), "--since is 2020-01-01T00:00:00; it needs a zone"),
        (("--target", "suppression:x"), "'x' is not a whole number"),
        (("--until", "yesterday"), "is no ISO 8601 time"),
    ],
)
def test_what_cannot_be_asked_is_one_line(run_command: Run, options: tuple[str, ...], told: str) -> None:
    code, out, err = run_command("audit", "list", *options)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
