"""Each command of the command line on a real database: what it prints, its exit code, and one line for bad input."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from sqlalchemy import Engine, text

from messaging import api, cli
from messaging.db import schema
from messaging.db.session import transaction
from messaging.delivery.hints import live_workers
from messaging.embedded import Postgres, Valkey, free_port
from messaging.mail.models import MailSendServerConfig
from messaging.requests import Attachment

#: Seconds a program may take to come up or to end on a busy machine.
PATIENCE_SECONDS = 60.0

Run = Callable[..., "Answer"]


class Answer:
    """What a command printed and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def variables(
    database_url: str, valkey: Valkey, secrets_key: str, unconfigured: None, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """The environment of an operator; what the command configured is undone."""
    given = {
        "MESSAGING_DATABASE_URL": database_url,
        "MESSAGING_REDIS_URL": valkey.url,
        "MESSAGING_SECRETS_KEYS": secrets_key,
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return given


@pytest.fixture
def run(variables: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one command in this process."""

    def run(*arguments: object) -> Answer:
        code = cli.run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture
def refused(run: Run) -> Callable[..., str]:
    """Runs a command that is refused: exit 2, nothing on standard output, and the one line that is answered."""

    def refused(*arguments: object) -> str:
        answer = run(*arguments)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("messaging: ")
        assert answer.err.count("\n") == 1
        return answer.err.strip()

    return refused


def send(run: Run, to: str = "ada@example.com", *more: object) -> int:
    answer = run("send", "--to", to, "--subject", "Hello", "--text", "A body.", *more)
    assert (answer.code, answer.err) == (0, "")
    return int(answer.out)


def change(engine: Engine, record_id: int, **columns: str) -> None:
    sets = ", ".join(f"{name} = {value}" for name, value in columns.items())
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE mail_send_record SET {sets} WHERE id = {record_id}"))


# -- send


def test_send_prints_the_id_of_a_stored_record(run: Run, engine: Engine) -> None:
    record_id = send(run, "Ada <ada@example.com>", "--cc", "bob@example.com", "--bcc", "eve@example.com")
    with engine.connect() as connection:
        row = connection.execute(text("SELECT * FROM mail_send_record")).one()
    assert (row.id, row.status, row.body_text) == (record_id, "PENDING", "A body.")
    assert (row.to_addresses, row.cc_addresses) == (["Ada <ada@example.com>"], ["bob@example.com"])
    assert row.bcc_addresses == ["eve@example.com"]


def test_send_reads_a_body_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    body = tmp_path / "body.html"
    body.write_text("<p>From a file.</p>")
    with body.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        answer = run("send", "--to", "ada@example.com", "--html", "-")
    assert run("show", answer.out.strip(), "--bodies", "--json").json["body_html"] == "<p>From a file.</p>"


def test_send_fills_a_template_and_attaches_files(run: Run, engine: Engine, tmp_path: Path) -> None:
    report, variables = tmp_path / "Prüfbericht.pdf", tmp_path / "variables.json"
    report.write_bytes(b"%PDF-1.7")
    variables.write_text('{"order": {"number": 7}, "name": "x"}')
    argv = ["--to", "ada@example.com", "--template", "welcome", "--list", "news", "--attach", report]
    answer = run("send", *argv, "--variables", variables, "--var", "name=Ada")
    with engine.connect() as connection:
        row = connection.execute(text("SELECT * FROM mail_send_record")).one()
        stored = connection.execute(text("SELECT content, content_type FROM stored_file")).one()
    assert (row.id, row.template_code, row.unsubscribe_list) == (int(answer.out), "welcome", "news")
    assert row.template_variables == {"order": {"number": 7}, "name": "Ada"}
    assert [(a["file_name"], a["content_type"]) for a in row.attachments] == [("Prüfbericht.pdf", "application/pdf")]
    assert (bytes(stored.content), stored.content_type) == (b"%PDF-1.7", "application/pdf")
    by_id = int(run("send", "--to", "ada@example.com", "--template-id", "12").out)
    assert run("show", by_id, "--json").json["template"] == "id 12"


def test_send_with_the_same_key_answers_the_same_id(run: Run) -> None:
    first = send(run, "ada@example.com", "--idempotency-key", "order-1")
    assert send(run, "ada@example.com", "--idempotency-key", "order-1") == first


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--to", "no address", "--text", "x"], ("to", "'no address'")),
        (["--to", "ada@example.com", "--cc", "b@@c", "--text", "x"], ("cc", "'b@@c'")),
        (["--to", "ada@example.com"], ("body",)),
        (["--text", "x"], ("--to",)),
        (["--to", "ada@example.com", "--text", "x", "--send-at", "tomorrow"], ("--send-at", "'tomorrow'")),
        (["--to", "ada@example.com", "--text", "x", "--send-at", "2030-01-01T00:00:00"], ("send_at",)),
        (["--to", "ada@example.com", "--text", "x", "--priority", "urgent"], ("--priority", "'urgent'", "HIGH")),
        (["--to", "ada@example.com", "--text", "x", "--server", "0"], ("--server", "0")),
        (["--to", "ada@example.com", "--text", "x", "--subject", "s" * 501], ("subject",)),
        (["--to", "ada@example.com", "--text", "-", "--html", "-"], ("--html", "'-'")),
        (["--to", "ada@example.com", "--text", "-", "--variables", "-"], ("--variables", "'-'")),
        (
            ["--to", "ada@example.com", "--template", "x", "--variables", "nosuch.json"],
            ("--variables", "'nosuch.json'"),
        ),
        (["--to", "ada@example.com", "--template", "x", "--var", "name"], ("--var", "'name'")),
        (["--to", "ada@example.com", "--template", "x" * 101], ("template_code",)),
        (["--to", "ada@example.com", "--text", "x", "--attach", "nosuch.pdf"], ("--attach", "'nosuch.pdf'")),
        (["--to", "ada@example.com", "--text", "x", "--tenant", "7"], ("--tenant", "7", "MULTI_TENANCY")),
    ],
)
def test_send_names_the_field_and_the_value_it_refuses(
    refused: Callable[..., str], engine: Engine, arguments: list[str], named: tuple[str, ...]
) -> None:
    line = refused("send", *arguments)
    for part in named:
        assert part in line
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM mail_send_record")).scalar_one() == 0


# -- show


def test_show_tells_of_a_record_that_waits(run: Run) -> None:
    record_id = send(run)
    answer = run("show", record_id)
    assert answer.code == 0
    assert "PENDING" in answer.out
    assert "not yet taken by a worker" in answer.out
    assert re.search(r"next attempt +\d{4}-", answer.out)
    assert "ada@example.com" in answer.out


def test_show_tells_of_attempts_recipients_and_why(run: Run, engine: Engine) -> None:
    record_id = send(run, "ada@example.com", "--cc", "bob@example.com")
    with transaction(engine) as session:
        server = MailSendServerConfig(name="out", host="mail.example.com", port=25)
        session.add(server)
        session.flush()
        results = {
            "ada@example.com": {
                "result": "accepted",
                "code": "SMTP_250",
                "text": "250 ok",
                "at": "",
            },
            "bob@example.com": {
                "result": "refused",
                "code": "SMTP_550_5.1.1",
                "text": "550 unknown",
                "at": "",
            },
        }
        session.execute(
            text(
                "UPDATE mail_send_record SET status = 'SENT', sent_at = now(), retry_count = 1,"
                " server_config_id = :server, recipient_results = :results,"
                " error_code = 'SMTP_550_5.1.1', error_message = 'RCPT: 550 unknown'"
            ),
            {"server": server.id, "results": json.dumps(results)},
        )
        for number, outcome, code in ((1, "RETRY", "SMTP_450_4.2.0"), (2, "PARTIAL", "SMTP_550_5.1.1")):
            session.execute(
                text(
                    "INSERT INTO send_attempt (channel, record_id, attempt_no, started_at, ended_at, outcome,"
                    " error_code, worker_name)"
                    " VALUES ('mail', :id, :number, now(), now(), :outcome, :code, 'mail@host')"
                ),
                {"id": record_id, "number": number, "outcome": outcome, "code": code},
            )
    told = run("show", record_id, "--json").json
    assert told["status"] == "SENT"
    assert told["next_attempt_at"] is None
    assert told["why"] == (
        "taken by the server, but not for bob@example.com: SMTP_550_5.1.1: RCPT: 550 unknown"
        " at attempt 2, after RETRY (SMTP_450_4.2.0)"
    )
    assert told["server"] == "out (mail.example.com:25)"
    assert [(r["address"], r["result"]) for r in told["recipients"]] == [
        ("ada@example.com", "accepted"),
        ("bob@example.com", "refused"),
    ]
    assert [(a["attempt_no"], a["outcome"], a["worker_name"]) for a in told["attempts"]] == [
        (1, "RETRY", "mail@host"),
        (2, "PARTIAL", "mail@host"),
    ]
    shown = run("show", record_id).out
    for part in ("SENT", "mail.example.com:25", "550 unknown", "SMTP_450_4.2.0", "mail@host"):
        assert part in shown


def test_show_keeps_bodies_to_itself_unless_asked(run: Run) -> None:
    record_id = send(run)
    for options in ((), ("--json",)):
        assert "A body." not in run("show", record_id, *options).out
        assert "A body." in run("show", record_id, "--bodies", *options).out


def test_show_and_list_tell_of_template_files_and_list(run: Run, engine: Engine) -> None:
    api.environment()
    file = Attachment(content=b"x", file_name="report.pdf", content_type="application/pdf", content_id="r1")
    with transaction(engine) as session:
        by_code = api.send_mail(
            to=["ada@example.com"],
            template_code="welcome",
            unsubscribe_list="news",
            attachments=[file],
            session=session,
        )
        by_id = api.send_mail(to=["ada@example.com"], template_code="welcome", template_id=5, session=session)
    shown = run("show", by_code).out
    of_file = r"report.pdf \(application/pdf, file \d+, inline as cid:r1\)"
    for line in ("template +welcome", f"attachments +{of_file}", "list +news"):
        assert re.search(line, shown)
    assert "missing" not in shown
    change(engine, by_code, missing_variables="""'["name", "user.name"]'""")
    assert re.search(r"missing +name, user.name", run("show", by_code).out)
    assert re.search(r"template +id 5", run("show", by_id).out)
    told = run("show", by_code, "--json").json
    assert (told["template"], told["unsubscribe_list"]) == ("welcome", "news")
    assert told["missing_variables"] == ["name", "user.name"]
    listed = run("list").out
    assert "of template welcome" in listed
    assert "of template id 5" in listed
    change(engine, by_id, subject="'Rendered'")
    assert "of template id 5" not in run("list").out


def test_a_record_that_is_not_there_is_named(refused: Callable[..., str]) -> None:
    for command in ("show", "cancel", "retry"):
        assert "999" in refused(command, 999)
    assert "999" in refused("list", "--before", 999)


@pytest.mark.parametrize("command", ["show", "cancel", "retry"])
@pytest.mark.parametrize("value", ["abc", "0", str(2**63)])
def test_an_id_that_is_none_is_named(refused: Callable[..., str], command: str, value: str) -> None:
    line = refused(command, value)
    assert "ID" in line
    assert value in line


# -- list


def test_list_pages_from_the_newest_on(run: Run) -> None:
    ids = [send(run) for _ in range(5)]
    first = run("list", "--limit", 2, "--json").json
    assert [record["id"] for record in first["records"]] == ids[:2:-1]
    second = run("list", "--limit", 2, "--json", "--before", first["next_before"]).json
    assert [record["id"] for record in second["records"]] == ids[2:0:-1]
    third = run("list", "--limit", 2, "--json", "--before", second["next_before"]).json
    assert [record["id"] for record in third["records"]] == ids[:1]
    assert third["next_before"] is None


def test_list_shows_one_status(run: Run, engine: Engine) -> None:
    waiting, failed = send(run), send(run)
    change(engine, failed, status="'FAILED'", error_code="'SMTP_550'")
    assert [r["id"] for r in run("list", "--status", "failed", "--json").json["records"]] == [failed]
    assert [r["id"] for r in run("list", "--status", "PENDING", "--json").json["records"]] == [waiting]
    shown = run("list").out
    for part in (str(waiting), str(failed), "SMTP_550", "ada@example.com", "Hello"):
        assert part in shown
    assert "no records" in run("list", "--status", "SENT").out


def test_list_is_narrowed_to_a_recipient_a_template_and_an_error(run: Run, engine: Engine) -> None:
    mail = send(run, "Ben <BEN@example.org>")
    text_id = int(run("sms", "+4915112345678", "--template", "otp").out)
    send(run)
    with engine.begin() as connection:
        connection.execute(text("UPDATE sms_send_record SET status = 'FAILED', error_code = '21211'"))

    def found(*options: str) -> list[int]:
        return [record["id"] for record in run("list", *options, "--json").json["records"]]

    assert found("--to", "ben@example.org") == [mail]
    assert found("--to", "+4915112345678") == found("--template", "otp") == found("--error", "21211") == [text_id]
    assert found("--to", "+4915112345678", "--channel", "mail") == []


@pytest.mark.parametrize(
    ("option", "value"), [("--status", "gone"), ("--limit", "0"), ("--limit", "many"), ("--before", "-1")]
)
def test_list_names_the_option_it_refuses(refused: Callable[..., str], option: str, value: str) -> None:
    line = refused("list", option, value)
    assert option in line
    assert value in line


# -- text messages


def test_a_text_message_is_accepted_shown_listed_retried_and_cancelled(run: Run, engine: Engine) -> None:
    mail = send(run)
    answer = run("sms", "+4915112345678", "--text", "Your code is 4711.", "--priority", "high")
    text_id = int(answer.out)
    by_template = int(run("sms", "+33123456789", "--template", "otp", "--var", "code=1").out)
    told = run("show", text_id, "--json").json
    assert (told["channel"], told["phone_number"], told["priority"]) == ("sms", "+4915112345678", "HIGH")
    assert "content" not in told
    for options in ((), ("--json",)):
        assert "4711" not in run("show", text_id, *options).out
        assert "4711" in run("show", text_id, "--bodies", *options).out
    assert run("show", mail, "--json").json["channel"] == "mail"
    listed = run("list", "--json").json["records"]
    assert [(r["id"], r["channel"]) for r in listed] == [(by_template, "sms"), (text_id, "sms"), (mail, "mail")]
    assert (listed[0]["template"], listed[0]["to"]) == ("otp", ["+33123456789"])
    assert [r["id"] for r in run("list", "--channel", "sms", "--json").json["records"]] == [by_template, text_id]
    assert [r["id"] for r in run("list", "--before", by_template, "--json").json["records"]] == [text_id, mail]
    with transaction(engine) as session:
        session.execute(
            text(
                "UPDATE sms_send_record SET status = 'SENT', sent_at = now(), provider_message_id = 'SM1',"
                " segments = 2, encoding = 'UCS2', delivery_status = 'DELIVERED', delivery_status_updated_at = now()"
                " WHERE id = :id"
            ),
            {"id": text_id},
        )
    shown = run("show", text_id).out
    for part in ("taken by the provider", "SM1", "DELIVERED", "2 x UCS2"):
        assert part in shown
    assert run("retry", by_template).out == f"{by_template} is due now\n"
    assert "is SENT" in run("retry", text_id).err
    assert run("cancel", by_template).out.startswith("cancelled")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("not-a-phone", "--text", "x"), "phone_number"),
        (("+4915112345678",), "content"),
        (("+4915112345678", "--template", "otp", "--variables", "[1]"), "--variables"),
        (("+4915112345678", "--template", "otp", "--variables", "{"), "--variables"),
    ],
)
def test_a_text_message_that_cannot_be_names_what_is_wrong(
    refused: Callable[..., str], arguments: tuple[str, ...], named: str
) -> None:
    assert named in refused("sms", *arguments)


# -- retry and cancel


def test_retry_makes_records_due(run: Run, engine: Engine) -> None:
    ids = [send(run), send(run)]
    for record_id in ids:
        change(engine, record_id, status="'FAILED'", error_code="'SMTP_550'")
    answer = run("retry", *ids)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [f"{record_id} is due now" for record_id in ids]
    assert run("show", ids[0], "--json").json["status"] == "RETRY"


def test_retry_names_those_it_refuses_and_does_the_others(run: Run, engine: Engine) -> None:
    sent, failed = send(run), send(run)
    change(engine, sent, status="'SENT'")
    change(engine, failed, status="'FAILED'", error_code="'SMTP_550'")
    answer = run("retry", sent, failed)
    assert answer.code == 2
    assert answer.err == f"messaging: mail record {sent} is SENT\n"
    assert answer.out == f"{failed} is due now\n"


def test_all_that_failed_by_one_code_are_retried_at_once(
    run: Run, refused: Callable[..., str], engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("messaging.cli.records.RETRIED_AT_ONCE", 2)
    ids = [send(run) for _ in range(5)]
    for record_id in ids:
        change(engine, record_id, status="'FAILED'", error_code="'SMTP_535'")
    change(engine, ids[1], status="'SENT'")
    change(engine, ids[2], error_code="'SMTP_550'")
    assert run("retry", "--error", "SMTP_535").out == "3 are due now\n"
    states = [run("show", record_id, "--json").json["status"] for record_id in ids]
    assert states == ["RETRY", "SENT", "FAILED", "RETRY", "RETRY"]
    for given in ((), (ids[2], "--error", "SMTP_550")):
        assert "give ids of records, or --error CODE" in refused("retry", *given)


def test_cancel_says_what_it_means(run: Run, engine: Engine) -> None:
    waiting, uncertain, sending, sent, failed = (send(run) for _ in range(5))
    change(engine, uncertain, uncertain="true")
    change(engine, sending, status="'SENDING'", claimed_at="now()")
    change(engine, sent, status="'SENT'")
    change(engine, failed, status="'FAILED'")
    for record_id, word, code in (
        (waiting, "cancelled", 0),
        (waiting, "cancelled", 0),
        (uncertain, "stopped", 0),
        (sending, "in_progress", 1),
        (sent, "too_late", 1),
        (failed, "already_final", 1),
    ):
        answer = run("cancel", record_id)
        assert (answer.out.partition(":")[0], answer.code) == (word, code)
    assert "was cancelled" in run("retry", waiting).err


# -- tenants


def test_a_tenant_sees_and_changes_its_own_records_only(  # O1
    run: Run, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESSAGING_MULTI_TENANCY", "true")
    own, other = send(run, "ada@example.com", "--tenant", 7), send(run, "bob@example.com", "--tenant", 8)
    assert run("show", own, "--tenant", 7, "--json").json["tenant_id"] == 7
    for command in ("show", "cancel", "retry"):
        assert str(other) in refused(command, other, "--tenant", 7)
    assert [r["id"] for r in run("list", "--tenant", 7, "--json").json["records"]] == [own]
    assert [r["id"] for r in run("list", "--tenant", "all", "--json").json["records"]] == [other, own]
    page = run("list", "--tenant", "all", "--limit", 1, "--before", other, "--json").json
    assert [r["id"] for r in page["records"]] == [own]
    assert "--tenant" in refused("list")
    assert "--tenant" in refused("send", "--to", "ada@example.com", "--text", "x", "--tenant", "all")
    assert "'x'" in refused("list", "--tenant", "x")


# -- the schema


def test_the_schema_is_brought_up_looked_at_and_compared(
    run: Run, refused: Callable[..., str], postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.create_database("cli_fresh")
    monkeypatch.setenv("MESSAGING_DATABASE_URL", postgres.url("cli_fresh"))
    head = schema.head()
    try:
        assert run("db", "current").out == f"nothing (this code needs {head})\n"
        assert run("db", "current").code == 1
        assert "messaging db upgrade" in refused("db", "check")
        assert "messaging db upgrade" in refused("list")
        assert run("db", "upgrade").out == f"the schema is at {head}, before it was at nothing\n"
        assert run("db", "upgrade").out == f"the schema is at {head}, as before\n"
        assert run("db", "current").code == 0
        checked = run("db", "check")
        assert (checked.code, checked.out) == (0, "the database is what the models say\n")
    finally:
        postgres.drop_database("cli_fresh")


def test_a_database_that_differs_from_the_models_is_told(run: Run, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE mail_send_record DROP COLUMN bounce_code"))
    checked = run("db", "check")
    assert checked.code == 1
    assert "bounce_code" in checked.out


# -- the doctor


@pytest.mark.usefixtures("redis_client")
def test_the_doctor_answers_for_people_and_for_programs(run: Run) -> None:
    answer = run("doctor")
    assert answer.code == 1
    assert "messaging beat" in answer.out
    findings = run("doctor", "--json").json
    assert {"check": "redis", "level": "ok", "detail": "answers", "advice": ""} in findings
    assert any(finding["level"] == "fail" and finding["check"] == "beat" for finding in findings)


# -- bad input of every kind


@pytest.mark.parametrize("arguments", [["list"], ["show", "1"], ["db", "current"], ["db", "upgrade"], ["db", "check"]])
def test_a_database_that_is_away_is_one_line(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setenv("MESSAGING_DATABASE_URL", f"postgresql://ada:s3cret@127.0.0.1:{free_port()}/x")
    for nudge in ("tasks.dispatch:nudge", "no function"):
        monkeypatch.setenv("MESSAGING_DISPATCH__NUDGE", nudge)
        line = refused(*arguments)
        assert "MESSAGING_D" in line
        assert "s3cret" not in line


def test_a_password_the_database_refuses_is_one_line(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, postgres: Postgres
) -> None:
    monkeypatch.setenv("MESSAGING_DATABASE_URL", f"postgresql://postgres:s3cret@127.0.0.1:{postgres.port}/messaging")
    line = refused("list")
    assert "MESSAGING_DATABASE_URL" in line
    assert "s3cret" not in line


def test_an_address_that_is_none_is_one_line(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MESSAGING_DATABASE_URL", "postgresql://ada:s3cret@localhost:port/x")
    for arguments in (["list"], ["db", "upgrade"]):
        line = refused(*arguments)
        assert "MESSAGING_DATABASE_URL is no address" in line
        assert "s3cret" not in line
    monkeypatch.setenv("MESSAGING_REDIS_URL", "redis://:s3cret@localhost:port/0")
    line = refused("list")
    assert "MESSAGING_REDIS_URL is no address" in line
    assert "s3cret" not in line


def test_a_user_without_rights_is_one_line(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, engine: Engine, database_url: str
) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE ROLE cli_reader LOGIN PASSWORD 'reader'"))
    try:
        address = database_url.partition("@")[2]
        monkeypatch.setenv("MESSAGING_DATABASE_URL", f"postgresql://cli_reader:reader@{address}")
        assert "may not" in refused("list")
    finally:
        with engine.begin() as connection:
            connection.execute(text("DROP ROLE cli_reader"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["doctor"],
        ["worker"],
        ["beat"],
        ["flower"],
        ["web"],
        ["db", "upgrade"],
        ["send", "--to", "a@b.example"],
    ],
)
def test_settings_that_cannot_be_used_are_one_line(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setenv("MESSAGING_RETRY__JITTER", "2")
    monkeypatch.delenv("MESSAGING_REDIS_URL")
    line = refused(*arguments)
    assert "MESSAGING_RETRY__JITTER is '2'" in line
    assert "MESSAGING_REDIS_URL is not set" in line


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["fly"], ("fly",)),
        (["db", "fly"], ("fly",)),
        (["show"], ("ID",)),
        (["list", "--fly"], ("--fly",)),
        (["worker", "--queues", "mail_send,fly"], ("--queues", "'fly'", "control")),
        (["worker", "--concurrency", "0"], ("--concurrency", "0")),
        (["worker", "--name", "a@b %x"], ("--name", "'a@b %x'")),
        (["worker", "--log-level", "loud"], ("--log-level", "'loud'", "INFO")),
        (["flower", "--port", "70000"], ("--port", "70000")),
        (["web", "--port", "0"], ("--port", "0")),
        (["web", "--trusted-proxies", "10.0.0.5, a proxy"], ("--trusted-proxies", "'a proxy'")),
        (["web", "--log-level", "loud"], ("--log-level", "'loud'")),
        (["demo", "--state", "/dev/null/x"], ("--state", "/dev/null/x")),
    ],
)
def test_what_cannot_be_done_is_one_line(
    refused: Callable[..., str], arguments: list[str], named: tuple[str, ...]
) -> None:
    line = refused(*arguments)
    for part in named:
        assert part in line


def test_without_arguments_the_commands_are_listed(run: Run) -> None:
    commands = ("demo", "db", "worker", "beat", "flower", "web", "send", "show", "list", "retry", "cancel", "doctor")
    for arguments in ([], ["--help"]):
        answer = run(*arguments)
        assert answer.code == 0
        assert all(f"\n  {command} " in answer.out for command in commands)
    assert "upgrade" in run("db").out


# -- as processes


def test_help_needs_no_heavy_module() -> None:
    heavy = ("sqlalchemy", "psycopg", "pydantic", "redis", "alembic", "celery", "prometheus_client")
    script = f"import sys, messaging.cli; print([m for m in {heavy!r} if m in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


def test_the_module_and_the_console_script_are_the_same(variables: dict[str, str]) -> None:
    script = Path(sys.executable).with_name("messaging")
    for program in ([sys.executable, "-m", "messaging.cli"], [str(script)]):
        ended = subprocess.run([*program, "show", "x"], capture_output=True, text=True, check=False, env={**os.environ})
        assert ended.returncode == 2
        assert ended.stdout == ""
        assert ended.stderr == "messaging: Invalid value for 'ID': 'x' is not a whole number\n"


def test_a_reader_that_goes_away_is_no_error(run: Run, variables: dict[str, str]) -> None:
    send(run)
    ended = subprocess.run(
        [f"{sys.executable} -m messaging.cli list --json | true"],
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.fixture
def program(variables: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., "Program"]]:
    """Starts `messaging ...` as a process, in a folder whose modules must not be taken for ours."""
    (tmp_path / "tasks.py").write_text("raise SystemExit('the wrong tasks')")
    (tmp_path / "celeryconfig.py").write_text("raise SystemExit('the wrong celeryconfig')")
    started: list[Program] = []

    def start(*arguments: object, **environment: str) -> Program:
        started.append(Program(arguments, tmp_path, environment))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()


class Program:
    """A command that stays."""

    def __init__(self, arguments: tuple[object, ...], cwd: Path, environment: dict[str, str]) -> None:
        self._log = cwd / "program.log"
        script = Path(sys.executable).with_name("messaging")
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [script, *map(str, arguments)], cwd=cwd, stdout=log, stderr=log, env={**os.environ, **environment}
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < until, self.log
            time.sleep(0.05)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)


def test_worker_runs_celery_in_the_folder_of_its_modules(
    program: Callable[..., Program], redis_client: "redis.Redis"
) -> None:
    started = program("worker", "--queues", "mail_send", "--concurrency", "3", "--name", "post")
    started.wait_for(lambda: "ready" in started.log)
    assert re.search(r"post@\S+ ready", started.log)
    [(name, threads)] = live_workers(redis_client, "mail").items()
    assert name.startswith("post@")
    assert threads == 3
    assert "the wrong" not in started.log
    if sys.platform == "linux":
        assert os.readlink(f"/proc/{started.process.pid}/cwd") == str(Path(cli.__file__).parents[2])
    assert started.stop() == 0


def test_beat_asks_for_ticks_and_writes_no_file(
    program: Callable[..., Program], redis_client: "redis.Redis", tmp_path: Path
) -> None:
    started = program("beat")
    started.wait_for(lambda: redis_client.llen("msg:control") >= 2)
    started.stop()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["celeryconfig.py", "program.log", "tasks.py"]


@pytest.mark.usefixtures("redis_client")
def test_flower_is_read_only_and_asks_for_a_password(program: Callable[..., Program]) -> None:
    import urllib.error
    import urllib.request
    from base64 import b64encode

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    started = program("flower", "--port", port, FLOWER_UNAUTHENTICATED_API="true")

    def answer(path: str, login: str = "", method: str = "GET") -> int:
        request = urllib.request.Request(url + path, method=method)
        if login:
            request.add_header("Authorization", f"Basic {b64encode(login.encode()).decode()}")
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                return int(reply.status)
        except urllib.error.HTTPError as exc:
            exc.close()
            return exc.code
        except OSError:
            return 0

    started.wait_for(lambda: answer("/healthcheck") == 200)
    told = re.search(r"for this run it is (messaging:\S+)", started.log)
    assert told is not None
    assert answer("/api/workers") == 401
    assert answer("/api/workers", told[1]) == 200
    assert answer("/api/worker/shutdown/post@host", told[1], method="POST") == 403
    started.stop()


def test_web_answers_while_database_and_redis_are_away_and_logs_json(program: Callable[..., Program]) -> None:
    port, nowhere = free_port(), free_port()
    variables = {
        "MESSAGING_DATABASE_URL": f"postgresql://nobody:s3cret@127.0.0.1:{nowhere}/nothing",
        "MESSAGING_REDIS_URL": f"redis://:s3cret@127.0.0.1:{nowhere}/0",
    }
    started = program("web", "--port", port, **variables)

    def answer(method: str, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.request(method, path)
            reply = connection.getresponse()
            return reply.status, reply.read()
        except OSError:
            return 0, b""
        finally:
            connection.close()

    started.wait_for(lambda: answer("GET", "/healthz")[0] == 200)
    assert answer("GET", "/readyz") == (503, b'{"status":"not ready","failing":["database","redis"]}')
    token = "t" * 43
    assert answer("POST", f"/hooks/sms/twilio/{token}?number=4915112345678")[0] == 503
    assert started.stop() == 0
    lines = [json.loads(line) for line in started.log.splitlines()]
    assert {"method": "POST", "route": "/hooks/sms/{provider}/{token}", "status": 503}.items() <= next(
        line.items() for line in lines if line["event"] == "request"
    )
    for secret in (token, "4915112345678", "s3cret"):
        assert secret not in started.log


# -- quotas --------------------------------------------------------------------------------------------------------


def test_quota_limits_are_set_and_shown_to_the_platforms_operator(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MESSAGING_MULTI_TENANCY", "true")
    monkeypatch.setenv("MESSAGING_QUOTA__MAIL_MONTHLY_DEFAULT", "50")
    month = rf"in {time.strftime('%Y-', time.gmtime())}\d\d: 0 mails"
    assert re.fullmatch(rf"tenant 7 {month} of 50, 50 left\n", run("quota", "show", 7).out)
    assert re.fullmatch(rf"tenant 7 {month} of 1000, 1000 left\n", run("quota", "set", 7, "--mail", 1000).out)
    assert re.fullmatch(rf"tenant 7 {month} of 0, 0 left\n", run("quota", "set", 7, "--mail", "none").out)
    assert re.fullmatch(rf"tenant 7 {month} of 50, 50 left\n", run("quota", "set", 7, "--mail", "default").out)
    assert re.fullmatch(rf"tenant -1 {month} of 3, 3 left\n", run("quota", "set", -1, "--mail", 3).out)
    assert run("quota", "show").out == run("quota", "show", -1).out
    assert run("quota", "set", 7, "--sms", 20).out.endswith("0 mails of 50, 50 left; 0 text messages of 20, 20 left\n")


def test_a_tenant_given_to_quota_as_an_option_is_told_that_it_is_the_argument(
    refused: Callable[..., str],
) -> None:
    assert "no option --tenant here; the tenant's id is the argument" in refused("quota", "show", "--tenant", 7)


def test_quota_show_tells_the_months_before(run: Run, engine: Engine) -> None:
    assert run("quota", "show").out.endswith(": 0 mails, unlimited\n")
    assert "nothing was charged in any month" in run("quota", "show", "--history").out
    with engine.begin() as connection:
        row = "(tenant_id, period, mail_used, mail_limit) VALUES (0, '2026-01', 5, 9)"
        connection.execute(text(f"INSERT INTO tenant_message_usage {row}"))
    answer = run("quota", "show", "--history")
    assert answer.out.rstrip().splitlines()[-1].split() == ["2026-01", "5", "9", "0", "unlimited"]
    shown = run("quota", "show", 0, "--history", "--json").json
    assert (shown["tenant_id"], shown["mail_used"], shown["mail_limit"], shown["mail_remaining"]) == (0, 0, None, None)
    month = {"period": "2026-01", "mail_used": 5, "mail_limit": 9, "sms_used": 0, "sms_limit": None}
    assert shown["history"] == [month]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["set", "7", "--mail", "5"], ("tenant 7", "multi-tenancy is off")),
        (["show", "7"], ("tenant 7", "multi-tenancy is off")),
        (["set", "0", "--mail", "-5"], ("--mail", "default")),
        (["set", "0", "--mail", "many"], ("--mail", "'many'", "none or default")),
        (["set", "0"], ("--mail",)),
        (["set", "--mail", "5"], ("TENANT",)),
        (["show", "--frobnicate"], ("TENANT", "--frobnicate")),
        (["show", "-2"], ("-2 is not within -1",)),
    ],
)
def test_bad_quota_input_is_one_line(refused: Callable[..., str], arguments: list[str], words: tuple[str, ...]) -> None:
    line = refused("quota", *arguments)
    assert all(word in line for word in words), line
