"""`messaging received ...`, and what `messaging show` tells of what came back: output, exit codes, bad input."""

import json
from typing import Any

import pytest
from sqlalchemy import Engine

from messaging.settings import Settings
from messaging.tenancy import use_multi_tenancy
from tests.integration.command_line import Run
from tests.integration.receive.books import A, B, Books, failed


@pytest.fixture
def run(run_command: Run) -> Run:
    """`messaging ...`."""
    return run_command


@pytest.fixture
def books(run: Run, engine: Engine, settings: Settings) -> Books:
    use_multi_tenancy(False)  # `run` undoes it
    return Books(engine, settings)


def listed(run: Run, *options: object) -> list[dict[str, Any]]:
    code, out, err = run("received", "list", "--json", *options)
    assert (code, err) == (0, "")
    told: list[dict[str, Any]] = json.loads(out)["mails"]
    return told


def test_mails_are_listed_page_by_page_and_narrowed(run: Run, books: Books) -> None:
    assert run("received", "list") == (0, "no mails\n", "")
    record_id = books.sent()
    bounce, receipt = books.bounce(record_id), books.receipt(record_id)
    spam = books.received(None, link_status="NONE", is_spam=True, subject="Win [bold]now[/bold]", server_config_id=9)
    books.link()
    assert [m["id"] for m in listed(run)] == [spam, receipt, bounce]
    for option, ids in (
        (("--type", "bounce"), [bounce]),
        (("--type", "read-receipt"), [receipt]),
        (("--status", "archived"), []),
        (("--link", "linked"), [receipt, bounce]),
        (("--flag", "spam"), [spam]),
        (("--mailbox", 9), [spam]),
        (("--record", record_id), [receipt, bounce]),
        (("--before", receipt), [bounce]),
    ):
        assert [m["id"] for m in listed(run, *option)] == ids
    code, out, _ = run("received", "list", "--limit", 2)
    assert code == 0
    assert "Win [bold]now[/bold]" in out
    assert "spam" in out
    assert out.endswith(f"older ones: --before {receipt}\n")
    assert "BOUNCE hard" in run("received", "list", "--type", "bounce")[1]


def test_a_bounce_is_shown_with_its_groups_and_its_record(run: Run, books: Books) -> None:
    record_id = books.sent(A, B)
    received_id = books.bounce(
        record_id,
        failed(A, original_recipient="first@example.org"),
        failed(B, kind="DELAYED", reason="MAILBOX_FULL", reply_code="452", status="4.2.2"),
        from_address="mailer-daemon@mx.example.net",
        subject="Undelivered",
        body_text="I am sorry.",
        attachments=[{"file_id": 5, "file_name": "m.eml", "content_type": "message/rfc822", "size": 17}],
    )
    books.link()
    code, out, err = run("received", "show", received_id)
    assert (code, err) == (0, "")
    for told in (
        *("BOUNCE  UNREAD", "mailer-daemon@mx.example.net", "Undelivered", f"<{record_id}@example.org>"),
        *("550 5.1.1", "USER_UNKNOWN", "first@example.org", "452 4.2.2", "DELAYED", "no such user"),
        *("m.eml (message/rfc822, 17 octets, file 5)", f"{record_id} FAILED  to {A}, {B}, bounced 550 5.1.1"),
    ):
        assert told in out
    assert "I am sorry." not in out
    assert "I am sorry." in run("received", "show", received_id, "--bodies")[1]
    told = json.loads(run("received", "show", received_id, "--json")[1])
    assert (told["linked_send_record_id"], told["linked_record"]["status"]) == (record_id, "FAILED")
    assert "body_text" not in told
    assert len(told["bounce_recipients"]) == 2
    assert json.loads(run("received", "show", received_id, "--bodies", "--json")[1])["body_text"] == "I am sorry."


def test_an_ordinary_mail_is_shown_too(run: Run, books: Books) -> None:
    received_id = books.received(None, link_status="NONE", from_name="Kim", from_address="kim@example.org")
    code, out, _ = run("received", "show", received_id)
    assert code == 0
    assert "Kim <kim@example.org>" in out
    assert json.loads(run("received", "show", received_id, "--json")[1])["linked_record"] is None


@pytest.mark.parametrize("control", ["\x1b", "\x9b", "\x7f", "\u202e"], ids=["ESC", "CSI", "DEL", "right-to-left"])
def test_what_strangers_wrote_moves_no_cursor(run: Run, books: Books, control: str) -> None:
    hostile = f"{control}[2Jgone"
    received_id = books.bounce(
        books.sent(),
        failed(hostile, diagnostic=f"550 {hostile}"),
        subject=hostile,
        from_address=hostile,
        from_name=hostile,
        body_text=f"one\n{hostile}",
        message_id=f"<{hostile}@example.net>",
        attachments=[{"file_id": 1, "file_name": hostile, "content_type": hostile, "size": 1}],
    )
    listed_mails, shown = run("received", "list"), run("received", "show", received_id, "--bodies")
    assert (listed_mails[0], shown[0], "[2Jgone" in shown[1]) == (0, 0, True)
    assert control not in listed_mails[1] + shown[1]


def test_mails_are_read_archived_and_deleted(run: Run, books: Books) -> None:
    first, second = (books.received(None, link_status="NONE") for _ in range(2))
    assert run("received", "read", first, second) == (0, f"{first} is read\n{second} is read\n", "")
    assert run("received", "read", first) == (0, f"{first} was not unread\n", "")
    assert run("received", "archive", first)[1] == f"{first} is archived\n"
    assert run("received", "archive", first)[1] == f"{first} was archived or deleted before\n"
    assert run("received", "delete", second)[1] == f"{second} is deleted\n"
    assert run("received", "delete", second)[1] == f"{second} was deleted before\n"
    assert [m["id"] for m in listed(run)] == [first]
    assert [m["id"] for m in listed(run, "--status", "deleted")] == [second]
    assert run("received", "read", 404, first)[0] == 2


@pytest.mark.parametrize("command", ["show", "read", "archive", "delete"])
def test_an_unknown_id_is_named(run: Run, books: Books, command: str) -> None:
    assert run("received", command, 404) == (2, "", "messaging: no received mail 404\n")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("list", "--type", "letter"), "'letter' is none of NORMAL"),
        (("list", "--flag", "red"), "'red' is none of MAILING_LIST"),
        (("list", "--link", "x"), "'x' is none of NONE"),
        (("list", "--limit", "0"), "0 is not within"),
        (("show", "x"), "'x' is not a whole number"),
        (("read",), "ID..."),
    ],
)
def test_bad_input_is_one_line(run: Run, arguments: tuple[str, ...], named: str) -> None:
    code, out, err = run("received", *arguments)
    assert (code, out) == (2, "")
    assert named in err
    assert err.count("\n") == 1


def test_show_tells_what_came_back_about_a_record(run: Run, books: Books) -> None:
    record_id = books.sent(A, B)
    assert "received about it" not in run("show", record_id)[1]
    bounce, receipt = books.bounce(record_id), books.receipt(record_id)
    books.link()
    code, out, _ = run("show", record_id)
    assert code == 0
    assert "taken by the server, and came back: BOUNCED: smtp; 550 5.1.1 no such user" in out
    for told in ("bounced  550 5.1.1", "read receipt  20", "received about it", f"{bounce} ", f"{receipt} ", "bounced"):
        assert told in out
    told = json.loads(run("show", record_id, "--json")[1])
    assert [m["id"] for m in told["received"]] == [receipt, bounce]
    assert told["recipients"][0]["result"] == "bounced"
