"""`messaging classify`: what it prints and exits with; it needs no database, no settings and no keys."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from messaging import cli

SAMPLES = Path(__file__).parents[1] / "data" / "classified"
BOUNCE = Path(__file__).parents[1] / "data" / "bounces" / "postfix-headers-only.eml"
RECEIPT = SAMPLES / "read_receipt" / "outlook.eml"
FIELDS = [
    "file",
    "type",
    "recipients",
    "status",
    "reply_code",
    "action",
    "hard_bounce",
    "reason",
    "original_message_id",
    "flags",
]

Answer = tuple[int, str, str]
Run = Callable[..., Answer]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one command in this process, with no setting in its environment."""
    for name in list(os.environ):
        if name.startswith("MESSAGING_"):
            monkeypatch.delenv(name)

    def run(*arguments: object) -> Answer:
        code = cli.run(["classify", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_a_bounce_in_json(run: Run) -> None:
    code, out, err = run("--json", BOUNCE)
    assert (code, err) == (0, "")
    [told] = lines(out)
    assert list(told) == FIELDS
    assert told["file"] == str(BOUNCE)
    assert (told["type"], told["status"], told["reply_code"], told["action"]) == ("bounce", "5.1.1", "550", "failed")
    assert (told["hard_bounce"], told["reason"], told["flags"]) == (True, "USER_UNKNOWN", {})
    assert [address.rpartition("@")[1] for address in told["recipients"]] == ["@"]


def test_a_read_receipt_in_json_has_no_words_of_bounces(run: Run) -> None:
    _, out, _ = run(RECEIPT, "--json")
    assert lines(out) == [
        {
            "file": str(RECEIPT),
            "type": "read_receipt",
            "recipients": ["kim@customer.example"],
            "status": None,
            "reply_code": None,
            "action": None,
            "hard_bounce": None,
            "reason": None,
            "original_message_id": "<42.7f3a@mail.shop.example>",
            "flags": {},
        }
    ]


def test_a_folder_is_all_files_below_it_sorted_and_a_name_is_printed_as_it_was_given(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b/two.eml", "a/one.eml", "c.eml"):
        (tmp_path / "mails" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mails" / name).write_bytes(RECEIPT.read_bytes())
    os.mkfifo(tmp_path / "mails" / "pipe")
    monkeypatch.chdir(tmp_path)
    code, out, err = run("--json", "./mails", "mails/c.eml")
    assert (code, err) == (0, "")
    assert [told["file"] for told in lines(out)] == [
        "./mails/a/one.eml",
        "./mails/b/two.eml",
        "./mails/c.eml",
        "mails/c.eml",
    ]


def test_what_cannot_be_read_is_named_when_the_others_are_done(run: Run, tmp_path: Path) -> None:
    missing, dangling = tmp_path / "missing.eml", tmp_path / "folder" / "link.eml"
    dangling.parent.mkdir()
    dangling.symlink_to(tmp_path / "nowhere")
    code, out, err = run("--json", missing, RECEIPT, dangling.parent)
    assert code == 2
    assert [told["file"] for told in lines(out)] == [str(RECEIPT)]
    assert err.splitlines() == [
        f"messaging: {missing}: No such file or directory",
        f"messaging: {dangling}: No such file or directory",
    ]


def test_a_mail_on_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(RECEIPT.read_bytes())))
    code, out, _ = run("-", "--json")
    assert code == 0
    assert [(told["file"], told["type"]) for told in lines(out)] == [("-", "read_receipt")]


def test_a_table_for_people(run: Run, tmp_path: Path) -> None:
    shown = tmp_path / "short.eml"
    shown.write_bytes(BOUNCE.read_bytes())
    code, out, _ = run(shown)
    assert code == 0
    for word in ("file", "recipients", "bounce", "5.1.1", "550", "failed", "USER_UNKNOWN", "yes"):
        assert word in out
    assert run(tmp_path / "empty-folder")[0] == 2


def test_an_empty_folder_has_no_mails(run: Run, tmp_path: Path) -> None:
    assert run(tmp_path) == (0, "no mails\n", "")
    assert run(tmp_path, "--json") == (0, "", "")


def test_an_empty_file_and_a_name_that_is_no_text_are_mails_like_others(run: Run, tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.eml")
    Path(odd).write_bytes(b"")
    code, out, _ = run("--json", odd)
    assert code == 0
    assert [(told["file"], told["type"]) for told in lines(out)] == [(odd, "normal")]
    assert run(odd)[0] == 0


def test_without_a_file_it_says_what_it_wants(run: Run) -> None:
    code, out, err = run()
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1


def test_nothing_of_the_machine_is_needed(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("messaging")
    done = subprocess.run(
        [program, "classify", "--json", RECEIPT],
        cwd=tmp_path,
        env={"PATH": "/usr/bin"},
        capture_output=True,
        check=True,
    )
    assert lines(done.stdout.decode())[0]["type"] == "read_receipt"
    assert done.stderr == b""
