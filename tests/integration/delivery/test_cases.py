"""The cases from the field, end to end: send_mail, the worker, a server at the far end that plays the case's script.

Each test is named for its case, and each check is a statement of the case. Faults of the broker and races of processes
are in `tests/acceptance`.
"""

import email
import email.policy
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import getaddresses
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from messaging import api, tenancy
from messaging.category import ErrorCategory
from messaging.db.encryption import encrypt
from messaging.delivery.outcome import Failure
from messaging.delivery.status import SendStatus
from messaging.errors import MessageRejected, StateError, TenantContextMissing
from messaging.mail.models import MailSendRecord
from tests.far_end.smtp_server import ScriptedSmtpServer, Transaction
from tests.integration.delivery.desk import Desk
from tests.integration.delivery.records import COOLDOWN, seconds_ahead

pytestmark = pytest.mark.postgres16

PENDING, SENDING, SENT, RETRY, FAILED, DEAD_LETTER = SendStatus

Step = Mapping[str, Any]

GREETING: Step = {"on": "CONNECT", "send": "220 mx.example.com ESMTP"}
EHLO: Step = {"on": "EHLO", "send": "250-mx.example.com\r\n250 8BITMIME"}
MAIL: Step = {"on": "MAIL FROM:", "send": "250 ok"}
RCPT: Step = {"on": "RCPT TO:", "send": "250 ok"}
DATA: Step = {"on": "DATA", "send": "354 go"}
EOD: Step = {"on": "EOD", "send": "250 2.0.0 queued"}

MakeDesk = Callable[..., Desk]
Play = Callable[..., Desk]


@pytest.fixture
def play(make_desk: MakeDesk) -> Play:
    """A desk whose server plays the steps of a case; `server` are columns of its configuration."""

    def play(*steps: Step, server: Mapping[str, Any] | None = None, **overrides: Any) -> Desk:
        script = ScriptedSmtpServer.from_steps(steps)
        # The script's EHLO reply offers no PIPELINING: a command sent ahead would be a violation.
        extensions = ("8BITMIME",) if any(step["on"] == "EHLO" for step in steps) else ("PIPELINING", "8BITMIME")
        desk = make_desk(smtp={"rules": script.rules, "extensions": extensions}, **overrides)
        api.configure(desk.settings, engine=desk.engine)
        desk.add_server(**server or {})
        return desk

    return play


def one(**fields: Any) -> int:
    return api.send_mail(**{"to": ["a@example.com"], "subject": "s", "text_body": "t", **fields})


def deliver(desk: Desk, record_id: int) -> dict[str, int]:
    """One attempt, and no violation of the protocol in it."""
    result = desk.deliver(record_id)
    assert desk.server.violations == []
    return result


def sent(desk: Desk, **fields: Any) -> Transaction:
    """Accept and deliver one mail; what the server was sent."""
    record_id = one(**fields)
    assert deliver(desk, record_id) == {"sent": 1}
    assert desk.records.row(record_id).status == SENT
    return desk.server.messages[-1]


def parsed(message: Transaction) -> EmailMessage:
    found = email.message_from_bytes(message.content, policy=email.policy.default)
    assert isinstance(found, EmailMessage)
    assert not found.defects
    return found


def header_lines(message: Transaction) -> list[bytes]:
    return message.content.partition(b"\r\n\r\n")[0].split(b"\r\n")


def field_names(message: Transaction) -> list[bytes]:
    return [line.partition(b":")[0] for line in header_lines(message) if line[:1] not in (b" ", b"\t")]


def is_due(desk: Desk, record_id: int, nominal: float) -> bool:
    """Whether the next attempt lies within half of the nominal wait."""
    return 0.5 * nominal <= seconds_ahead(desk.records, record_id) <= 1.5 * nominal


# Acceptance and addresses


def test_addr_01_a_comma_in_a_quoted_display_name(play: Play) -> None:
    desk = play()
    record_id = one(to=['"Lee, Kevin" <kevin@example.com>'])
    assert desk.records.row(record_id).to_addresses == ['"Lee, Kevin" <kevin@example.com>']
    assert deliver(desk, record_id) == {"sent": 1}
    assert desk.server.lines("RCPT") == ["RCPT TO:<kevin@example.com>"]
    header = parsed(desk.server.messages[0])["To"]
    assert [(a.display_name, a.addr_spec) for a in header.addresses] == [("Lee, Kevin", "kevin@example.com")]
    assert getaddresses([str(header)]) == [("Lee, Kevin", "kevin@example.com")]


@pytest.mark.parametrize(
    ("case", "value"),
    [
        ("addr-02", "Lee, Kevin <kevin@example.com>"),
        ("addr-02", "John Smith, Jr <john@example.com>"),
        ("addr-05", "user@good.example(x)evil.example"),
    ],
)
@pytest.mark.parametrize("field", ["to", "cc", "bcc"])
def test_addr_02_addr_05_a_text_that_is_not_one_mailbox(play: Play, case: str, value: str, field: str) -> None:
    desk = play()
    with Session(desk.engine) as session:
        session.execute(text("CREATE TEMPORARY TABLE own (n int) ON COMMIT DROP"))
        with pytest.raises(MessageRejected) as refused:
            api.send_mail(**{"to": ["a@example.com"], "text_body": "t", field: [value]}, session=session)
        assert (refused.value.field, refused.value.value) == (field, value)
        assert value in str(refused.value)
        session.execute(text("INSERT INTO own VALUES (1)"))
        session.commit()
    assert desk.records.rows() == {}


def test_addr_03_an_internationalised_domain_without_smtputf8(play: Play) -> None:
    known = {"on": "RCPT TO:<info@xn--bcher-kva.example>", "send": "250 ok"}
    other = {"on": "RCPT TO:*", "send": "501 5.1.3 bad address"}
    desk = play(GREETING, EHLO, MAIL, known, other, DATA, EOD)
    message = sent(desk, to=["info@bücher.example"])
    assert desk.server.lines("RCPT") == ["RCPT TO:<info@xn--bcher-kva.example>"]
    assert "SMTPUTF8" not in desk.server.lines("MAIL")[0]
    assert message.raw.isascii()


def test_addr_04_a_local_part_beyond_ascii_without_smtputf8(play: Play) -> None:
    desk = play(GREETING, EHLO, {"on": "*", "send": "250 ok"})
    record_id = one(to=["jörg@example.com"])
    assert deliver(desk, record_id) == {"failed": 1}
    assert [line.split()[0] for line in desk.server.lines() if line != "CONNECT"] in (["EHLO"], ["EHLO", "QUIT"])
    row = desk.records.row(record_id)
    assert (row.status, row.error_code, row.retry_count) == (FAILED, "SMTP_UTF8_UNSUPPORTED", 0)
    assert "SMTPUTF8" in row.error_message
    able = ScriptedSmtpServer(extensions=("8BITMIME", "SMTPUTF8"))
    with able:
        desk.run(f"UPDATE mail_send_server_config SET port = {able.port}, updated_at = now()")
        api.retry(record_id)
        assert deliver(desk, record_id) == {"sent": 1}
    assert able.lines("MAIL")[0].split(" ")[-1] == "SMTPUTF8"
    assert able.lines("RCPT") == ["RCPT TO:<jörg@example.com>"]


# Building the message


def test_mime_01_blind_recipients_are_in_the_envelope_alone(play: Play) -> None:
    desk = play()
    message = sent(desk, to=["a@example.com"], cc=["c@example.com"], bcc=["hidden@example.com"])
    assert desk.server.lines("RCPT") == [
        "RCPT TO:<a@example.com>",
        "RCPT TO:<c@example.com>",
        "RCPT TO:<hidden@example.com>",
    ]
    assert b"\nbcc:" not in message.content.lower()  # a Message-ID may hold these letters
    assert b"hidden@example.com" not in message.content


def test_mime_02_a_mixed_subject_has_no_empty_encoded_word(play: Play) -> None:
    subject = "Re: some few filler words here RE: Routeraustausch und übriggebliebene Glasfaser"
    message = sent(play(), subject=subject)
    assert not any(b"?q??=" in line.lower() or b"?b??=" in line.lower() for line in header_lines(message))
    assert parsed(message)["Subject"] == subject
    assert max(map(len, header_lines(message))) <= 78
    assert max(map(len, message.content.split(b"\r\n"))) <= 998


def test_mime_05_long_references_stay_literal(play: Play) -> None:
    ids = [f"<{letter * 60}@mail.example.com>" for letter in "abc"]
    message = sent(play(), headers={"References": " ".join(ids)})
    lines = header_lines(message)
    start = next(n for n, line in enumerate(lines) if line.startswith(b"References:"))
    unfolded = lines[start]
    for line in lines[start + 1 :]:
        if line[:1] != b" ":
            break
        unfolded += line
    assert unfolded.decode() == "References: " + " ".join(ids)
    assert b"=?" not in unfolded


def test_smtp_03_lines_that_begin_with_dots(play: Play) -> None:
    message = sent(play(), text_body="first\n.\n..two\n.hidden line\nlast\n")
    assert message.raw.count(b"\n") == message.raw.count(b"\r\n") == message.raw.count(b"\r")
    assert parsed(message).get_content().splitlines() == ["first", ".", "..two", ".hidden line", "last"]
    assert message.raw.count(b"\r\n.\r\n") == 1
    assert message.raw.endswith(b"\r\n.\r\n")


@pytest.mark.parametrize(
    "subject", ["hi\nBcc: victim@example.net\nX-A: 1", "hi\r\nBcc: v@example.net", "hi\rBcc: v@example.net"]
)
def test_sec_01_a_line_break_in_the_subject(play: Play, subject: str) -> None:
    desk = play()
    usual = field_names(sent(desk))
    message = sent(desk, subject=subject)
    assert field_names(message) == usual
    assert usual.count(b"Subject") == 1
    assert parsed(message)["Subject"] == " ".join(subject.split())
    assert desk.server.lines("RCPT") == ["RCPT TO:<a@example.com>"] * 2


# The dialogue


def test_smtp_01_one_of_two_recipients_is_refused(play: Play) -> None:
    good = {"on": "RCPT TO:<good@example.com>", "send": "250 ok"}
    gone = {"on": "RCPT TO:<gone@example.com>", "send": "550 5.1.1 user unknown"}
    desk = play(GREETING, EHLO, MAIL, good, gone, DATA, EOD)
    record_id = one(to=["good@example.com", "gone@example.com"])
    assert deliver(desk, record_id) == {"sent": 1}
    shown = api.status(record_id)
    assert (shown.status, shown.error_code) == (SENT, "SMTP_550_5.1.1")
    refused = shown.recipient_results["gone@example.com"]
    assert (refused["result"], refused["code"]) == ("refused", "SMTP_550_5.1.1")
    assert "gone@example.com" in (shown.error_message or "")
    assert "user unknown" in refused["text"]
    assert desk.server.copies() == {"good@example.com": 1}
    with pytest.raises(StateError):
        api.retry(record_id)
    assert desk.deliver(record_id) == {"not_mine": 1}
    assert desk.server.copies() == {"good@example.com": 1}


def test_smtp_02_a_421_in_the_buffer_of_a_kept_connection(play: Play) -> None:
    desk = play(
        GREETING,
        EHLO,
        {"on": "message 1", "send": "250 (whole dialogue ok)"},
        {"on": "idle 60s", "send": "421 4.4.2 timeout, closing", "close": True},
        {"on": "second CONNECT", "send": "220 mx.example.com ESMTP"},
        {"on": "message 2", "send": "250 (whole dialogue ok)"},
    )
    first, second, third = one(), one(), one()
    assert deliver(desk, first) == {"sent": 1}
    desk.server.wait_until(lambda: desk.server.open_connections == 0, 5, "the server closes")
    assert deliver(desk, second) == {"sent": 1}
    row = desk.records.row(second)
    assert (row.status, row.retry_count) == (SENT, 0)
    assert [a.outcome for a in desk.records.attempts(second)] == ["SENT"]
    assert deliver(desk, third) == {"sent": 1}
    assert [message.connection for message in desk.server.messages] == [1, 2, 2]


def test_smtp_04_silence_after_the_final_dot(play: Play) -> None:
    limits = {"delivery": {"reply_wait_seconds": 1}, "mail": {"transport": {"read_timeout_seconds": 1}}}
    desk = play(GREETING, EHLO, MAIL, RCPT, DATA, {"on": "EOD", "delay_s": 9999}, retry={"max_retries": 1}, **limits)
    record_id = one()
    started = datetime.now(UTC)
    assert deliver(desk, record_id) == {"retry": 1}
    assert datetime.now(UTC) - started < timedelta(seconds=5)
    row = desk.records.row(record_id)
    assert (row.status, row.error_code, row.uncertain) == (RETRY, "SMTP_NO_REPLY_AFTER_DATA", True)
    assert desk.records.attempts(record_id)[0].category == "TRANSIENT"
    assert deliver(desk, record_id) == {"dead_letter": 1}
    first, second = desk.server.transactions
    assert first.raw == second.raw
    assert f"Message-ID: {row.message_id}\r\n".encode() in first.content
    assert desk.deliver(record_id) == {"not_mine": 1}


@pytest.mark.parametrize("starttls", [None, {"on": "STARTTLS", "send": "454 4.7.0 TLS not available"}])
def test_sec_02_starttls_that_was_removed(play: Play, starttls: Step | None) -> None:
    offered = "" if starttls is None else "250-STARTTLS\r\n"
    ehlo = {"on": "EHLO", "send": f"250-mx.example.com\r\n{offered}250 AUTH PLAIN LOGIN"}
    auth = {"on": "AUTH", "send": "235 ok"}
    protected = {"starttls_enabled": True, "username": "u", "password": encrypt("pa55-word")}
    steps = [{"on": "CONNECT", "send": "220 mx"}, ehlo, auth, *([starttls] if starttls else [])]
    desk = play(*steps, server=protected)
    record_id = one()
    deliver(desk, record_id)
    assert desk.server.lines("AUTH") == desk.server.lines("MAIL") == []
    assert {line.split(" ")[0] for line in desk.server.lines()} <= {"CONNECT", "EHLO", "STARTTLS", "QUIT"}
    row = desk.records.row(record_id)
    assert row.status == (FAILED if starttls is None else RETRY)
    assert "TLS is required" in row.error_message
    assert "pa55-word" not in row.error_message


# Classification


def test_class_01_greylisting(play: Play) -> None:
    desk = play(GREETING, EHLO, MAIL, {"on": "RCPT TO:", "send": "451 4.7.1 Try again later"})
    record_id = one()
    assert deliver(desk, record_id) == {"retry": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.retry_count, row.error_code) == (RETRY, 1, "SMTP_451_4.7.1")
    assert desk.records.attempts(record_id)[0].category == "TRANSIENT"
    assert is_due(desk, record_id, 30)
    desk.server.on("RCPT TO:", "250 ok")
    assert deliver(desk, record_id) == {"sent": 1}


def test_class_02_the_only_recipient_does_not_exist(play: Play) -> None:
    unknown = {"on": "RCPT TO:", "send": "550-5.1.1 The account does not exist\r\n550 5.1.1 see example.com"}
    desk = play(GREETING, EHLO, MAIL, unknown)
    record_id = one()
    assert deliver(desk, record_id) == {"failed": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.retry_count, row.error_code) == (FAILED, 0, "SMTP_550_5.1.1")
    assert desk.records.attempts(record_id)[0].category == "PERMANENT"
    assert "The account does not exist" in row.error_message
    assert "see example.com" in row.error_message
    assert desk.deliver(record_id) == {"not_mine": 1}
    assert desk.server.connections == 1


def test_class_04_a_wait_that_the_other_side_asks_for(play: Play) -> None:
    # No mail server asks for one in a field of its own; the core takes it from any channel.
    desk = play()
    record_id = one()
    [claim] = desk.records.claim_now(record_id)
    desk.records.prepare([claim])
    asked = Failure(ErrorCategory.QUOTA, "HTTP_429", "Too Many Requests", retry_after_seconds=600)
    assert desk.records.end(claim, asked) == "retry"
    assert seconds_ahead(desk.records, record_id) >= 600
    assert desk.records.attempts(record_id)[0].category == "QUOTA"


# Claims and retries


def test_claim_01_ten_workers_and_one_due_record(play: Play) -> None:
    desk = play()
    desk.server.on("EOD", delay_seconds=0.5)
    record_id = one()
    workers = [desk.new_worker(f"at-once-{n}") for n in range(10)]
    barrier = threading.Barrier(len(workers))
    results: list[dict[str, int]] = []

    def work(n: int) -> None:
        barrier.wait(5)
        results.append(workers[n].deliver([[record_id, 0]]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(workers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(desk.server.transactions) == 1
    assert sorted(map(str, results)) == ["{'not_mine': 1}"] * 9 + ["{'sent': 1}"]
    assert desk.records.row(record_id).version == 3


def test_claim_02_a_sweep_while_the_first_worker_only_is_slow(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    desk = play()
    desk.server.on("EOD", hang=True, times=1)
    record_id = one()
    slow = desk.begin(record_id)
    desk.server.wait_for_command("EOD", 5)
    assert desk.records.swept(record_id) == RETRY
    assert seconds_ahead(desk.records, record_id) >= COOLDOWN
    desk.server.on("RCPT", "550 5.1.1 user unknown")
    desk.records.shift(2 * COOLDOWN, record_id)
    desk.records.promote()
    [leased] = desk.records.lease()
    second = desk.new_worker("worker-2")
    assert second.deliver([[leased.record_id, leased.version]]) == {"failed": 1}
    written = desk.records.row(record_id)
    with caplog.at_level(logging.WARNING, "messaging"):
        desk.server.release()
        assert slow.result(5) == {"not_mine": 1}
    assert desk.records.row(record_id) == written
    assert written.status == FAILED
    lost = [record for record in caplog.records if "outcome lost" in record.message]
    assert [record.__dict__["record_id"] for record in lost] == [record_id]
    settings = desk.settings
    assert settings.delivery.send_budget_seconds < settings.sweeper.stale_seconds
    assert settings.delivery.send_max_seconds < settings.sweeper.stale_seconds


@pytest.mark.parametrize("is_committed", [True, False])
def test_claim_03_a_mail_of_an_open_transaction_is_nobodys(play: Play, is_committed: bool) -> None:
    desk = play()
    with Session(desk.engine) as session:
        record_id = api.send_mail(to=["a@example.com"], text_body="t", session=session)
        desk.records.promote()
        assert desk.records.lease() == []
        assert desk.worker.deliver([[record_id, 0]]) == {"not_mine": 1}
        assert desk.server.connections == 0
        if is_committed:
            session.commit()
        else:
            session.rollback()
    leased = desk.records.lease()
    results = [desk.worker.deliver([[row.record_id, row.version]]) for row in leased]
    assert results == ([{"sent": 1}] if is_committed else [])
    assert len(desk.server.transactions) == int(is_committed)


def test_claim_04_a_server_that_always_breaks_off(play: Play) -> None:
    desk = play(GREETING, EHLO, MAIL, RCPT, DATA, {"on": "EOD", "close": True})
    record_id = one()
    for nominal in (30, 60, 120, 240, 480):
        assert deliver(desk, record_id) == {"retry": 1}
        assert is_due(desk, record_id, nominal)
    assert deliver(desk, record_id) == {"dead_letter": 1}
    assert desk.records.row(record_id).status == DEAD_LETTER
    assert len(desk.records.dead_letters(record_id)) == 1
    api.retry(record_id)
    assert deliver(desk, record_id) == {"dead_letter": 1}
    assert len(desk.server.transactions) == 7
    assert len({transaction.raw for transaction in desk.server.transactions}) == 1


# Tenants


@pytest.mark.parametrize("call", ["list", "status", "retry", "cancel", "send"])
def test_tenant_02_no_tenant_is_not_all_tenants(play: Play, call: str) -> None:
    desk = play(multi_tenancy=True)
    with tenancy.tenant(7):
        record_id = one()
    calls: dict[str, Callable[[], object]] = {
        "list": lambda: _listed(desk),
        "status": lambda: api.status(record_id),
        "retry": lambda: api.retry(record_id),
        "cancel": lambda: api.cancel(record_id),
        "send": one,
    }
    before = desk.records.row(record_id)
    with pytest.raises(MessageRejected if call == "send" else TenantContextMissing):
        calls[call]()
    assert desk.records.rows() == {record_id: before}
    api.configure(desk.settings.model_copy(update={"multi_tenancy": False}), engine=desk.engine)
    calls[call]()


def _listed(desk: Desk) -> Sequence[MailSendRecord]:
    with Session(desk.engine) as session:
        return session.scalars(select(MailSendRecord)).all()


def test_tenant_03_one_client_reference_in_two_tenants(play: Play) -> None:
    desk = play(multi_tenancy=True, server={"tenant_id": -1})
    ids = {}
    for tenant_id, subject in ((7, "A"), (8, "B")):
        with tenancy.tenant(tenant_id):
            ids[tenant_id] = one(subject=subject, idempotency_key="order-1")
    assert ids[7] != ids[8]
    for tenant_id, subject in ((7, "A"), (8, "B")):
        with tenancy.tenant(tenant_id):
            assert [row.subject for row in _listed(desk)] == [subject]
            assert one(subject=subject, idempotency_key="order-1") == ids[tenant_id]
        assert deliver(desk, ids[tenant_id]) == {"sent": 1}
    assert [parsed(message)["Subject"] for message in desk.server.messages] == ["A", "B"]
