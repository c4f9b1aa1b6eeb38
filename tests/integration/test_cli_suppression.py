"""`messaging suppression ...`: what it prints, exit codes, one line for bad input."""

import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.command_line import Run

ANN, BEN, NUMBER = "ann@example.org", "ben@example.org", "+4915112345678"


@pytest.fixture
def run(run_command: Run) -> Run:
    """`messaging suppression ...`."""
    return partial(run_command, "suppression")


def entries(run: Run, *options: object) -> list[dict[str, Any]]:
    code, out, err = run("list", "--json", *options)
    assert (code, err) == (0, "")
    told: list[dict[str, Any]] = json.loads(out)["entries"]
    return told


def test_entries_are_added_seen_and_lifted(run: Run) -> None:
    assert run("list") == (0, "no entries\n", "")
    code, out, _ = run("add", f"Ann <{ANN}>", NUMBER, "--note", "asked by phone")
    assert code == 0
    ids = [line.split()[0] for line in out.splitlines()]
    assert [(e["channel"], e["address"], e["reason"], e["note"]) for e in entries(run)] == [
        ("sms", NUMBER, "MANUAL", "asked by phone"),
        ("mail", ANN, "MANUAL", "asked by phone"),
    ]
    assert [e["address"] for e in entries(run, "--channel", "mail")] == [ANN]
    code, out, _ = run("list", "--limit", 1)
    assert NUMBER in out
    assert out.endswith(f"older ones: --before {ids[1]}\n")

    assert run("lift", ids[0], "--note", "wants mail again") == (0, f"{ids[0]} is lifted\n", "")
    assert run("lift", ids[0], "--note", "the same") == (0, f"{ids[0]} was lifted before\n", "")
    assert run("lift", 999, "--note", "none") == (2, "", "messaging: no suppression entry 999\n")
    assert [e["address"] for e in entries(run)] == [NUMBER]
    [lifted] = [e for e in entries(run, "--lifted") if e["lifted_at"]]
    assert lifted["lifted_note"] == "wants mail again"


def test_entries_can_be_of_a_list_or_a_sender(run: Run) -> None:
    assert run("add", ANN, "--only-list", "news", "--reason", "unsubscribed")[0] == 0
    assert run("add", NUMBER, "--only-sender", "Shop", "--reason", "opt-out")[0] == 0
    assert [(e["reason"], e["list"], e["sender"]) for e in entries(run)] == [
        ("OPT_OUT", "", "shop"),
        ("UNSUBSCRIBED", "news", ""),
    ]
    _, out, _ = run("list")
    assert "list news" in out
    assert "sender shop" in out


def test_of_several_addresses_one_that_is_none_adds_none(run: Run) -> None:
    code, _, err = run("add", ANN, "nobody")
    assert code == 2
    assert err.startswith("messaging: address is 'nobody': ")
    assert entries(run) == []


def test_a_lift_says_why(run: Run) -> None:
    code, out, err = run("lift", 1)
    assert (code, out) == (2, "")
    assert "--note" in err


def test_a_file_is_imported_all_or_none_and_exported(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "old.csv"
    file.write_text(f"address,reason\n{ANN},HARD_BOUNCE\nnobody,\n")
    code, out, err = run("import", file)
    assert (code, out) == (2, "")
    assert err.startswith(f"messaging: {file}: line 3: address is 'nobody': ")
    assert entries(run) == []

    file.write_text(f"address,reason\n{ANN},HARD_BOUNCE\n{BEN},\n{ANN},\n")
    assert run("import", file, "--dry-run") == (0, "2 would be added, 1 known before, 0 left out as lifted\n", "")
    assert run("import", file) == (0, "2 added, 1 known before, 0 left out as lifted\n", "")
    assert {(e["address"], e["reason"]) for e in entries(run)} == {(ANN, "HARD_BOUNCE"), (BEN, "MANUAL")}

    target = tmp_path / "new.csv"
    assert run("export", target) == (0, "", "2 entries\n")
    code, out, _ = run("export")
    assert out == target.read_bytes().decode()
    monkeypatch.setattr("sys.stdin", io.StringIO(out))
    assert run("import", "-") == (0, "0 added, 2 known before, 0 left out as lifted\n", "")


def test_a_file_that_is_not_there_or_not_text_is_named(run: Run, tmp_path: Path) -> None:
    missing = tmp_path / "none.csv"
    assert run("import", missing) == (2, "", f"messaging: {missing}: No such file or directory\n")
    binary = tmp_path / "bad.csv"
    binary.write_bytes(b"address\n\xff\xfe@example.org\n")
    code, _, err = run("import", binary)
    assert code == 2
    assert "can't decode" in err
    assert run("export", tmp_path)[0] == 2
