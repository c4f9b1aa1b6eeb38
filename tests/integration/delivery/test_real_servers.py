"""What a real Postfix takes from us, as a real Dovecot shows it by IMAP; what they refuse; the bounces they send.

Postfix and Exim deliver to Dovecot by LMTP and relay to each other and to a far end that refuses.
"""

import io
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import fast_mail_parser
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from messaging import api
from messaging.delivery.gate import SendGate, SendLimits
from messaging.delivery.recipients import RecipientStatus
from messaging.delivery.status import SendStatus
from messaging.mail import dkim, mime, unsubscribe, verp
from messaging.mail.attached_files import AttachedFile
from messaging.mail.smtp import Envelope, Security, SmtpServer, SmtpTransport
from messaging.requests import Attachment, BodyMode
from messaging.settings import MailTransportSettings
from tests.far_end import dkim_verifier, exim, postfix
from tests.far_end.dovecot import Dovecot
from tests.far_end.exim import Exim
from tests.far_end.postfix import Postfix
from tests.far_end.smtp_server import Rule, ScriptedSmtpServer
from tests.integration.delivery.desk import Desk

#: All in one worker of pytest-xdist: starting the servers takes as long as the tests.
pytestmark = pytest.mark.xdist_group("mail servers")

PENDING, SENDING, SENT, RETRY, FAILED, DEAD_LETTER = SendStatus

DKIM_DOMAIN, SELECTOR = "shop.example", "s2026"
SIGNED_AT = datetime(2026, 3, 1, 9, 5, 7, tzinfo=UTC)

BASE_URL = "https://mail.example.com"

GONE = "550 5.1.1 <gone@refusing.example>: Recipient address rejected: User unknown"


@dataclass
class Servers:
    dovecot: Dovecot
    postfix: Postfix
    exim: Exim

    def mailbox(self) -> str:
        """A name that no other test uses."""
        return f"u{secrets.token_hex(6)}"

    def read_one(self, name: str) -> EmailMessage:
        (octets,) = self.dovecot.read(name)
        return parsed(octets)


@pytest.fixture(scope="module")
def servers(servers_folder: Path) -> Iterator[Servers]:
    folder = servers_folder / f"mail-{secrets.token_hex(3)}"
    folder.mkdir(mode=0o711)
    # Each knows the other's port before it is there.
    postfix_routes, exim_routes = {}, {}
    with (
        ScriptedSmtpServer([Rule("RCPT", GONE)]) as refusing,
        Dovecot(folder / "dovecot").start() as dovecot,
        Exim(folder / "exim", lmtp_port=dovecot.lmtp_port, routes=exim_routes) as second,
        Postfix(folder / "postfix", lmtp_port=dovecot.lmtp_port, routes=postfix_routes) as server,
    ):
        postfix_routes.update({"refusing.example": refusing.port, "exim.example": second.port})
        exim_routes.update({"refusing.example": refusing.port, "local.example": server.port})
        second.start()
        server.start()
        yield Servers(dovecot, server, second)


@pytest.fixture
def sender(servers: Servers) -> str:
    """Who the mails are from: a mailbox, so that bounces can be read."""
    return at_local(servers.mailbox())


@pytest.fixture
def desk(servers: Servers, sender: str, make_desk: Callable[..., Desk]) -> Desk:
    """A desk whose default server is Postfix."""
    desk = make_desk(public_base_url=BASE_URL)
    api.configure(desk.settings, engine=desk.engine)
    desk.add_server(port=servers.postfix.port, from_address=sender)
    return desk


def add_signing_server(desk: Desk, port: int, sender: str, key: str) -> None:
    """The new default server: signs, and gives each record an envelope sender of its own."""
    desk.run("UPDATE mail_send_server_config SET is_default = false, updated_at = now()")
    names = {"dkim_domain": DKIM_DOMAIN, "dkim_selector": SELECTOR, "dkim_private_key": key}
    desk.add_server(port=port, from_address="shop@shop.example", envelope_sender=sender, verp=True, **names)


def pem(key: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def parsed(octets: bytes) -> EmailMessage:
    message = message_from_bytes(octets, policy=default)
    assert isinstance(message, EmailMessage)
    return message


def unix(text: str) -> str:
    return text.replace("\r\n", "\n")


def accept(*to: str, **fields: Any) -> int:
    bodies = {} if "html_body" in fields else {"text_body": "Thank you."}
    return api.send_mail(**{"to": [at_local(name) for name in to], "subject": "Order 17", **bodies, **fields})


def at_local(name: str) -> str:
    return name if "@" in name else f"{name}@{postfix.DOMAIN}"


TEXT = "Grüße, 漢字 und 😀.\n.\n..\nFrom here on: ein langer Absatz " + "ohne Umbruch " * 120 + "\n"
HTML = "<p>Grüße, <b>漢字</b> und 😀.</p>\n" * 40


def test_a_plain_mail_arrives_as_it_was_asked_for(desk: Desk, servers: Servers, sender: str) -> None:
    name = servers.mailbox()
    record_id = accept(
        f"Ännchen Übermaß <{name}@local.example>", subject="Ihre Bestellung über 漢字 😀", text_body=TEXT
    )
    assert desk.deliver(record_id) == {"sent": 1}
    got = servers.read_one(name)
    assert got["Subject"] == "Ihre Bestellung über 漢字 😀"
    assert got["To"].addresses[0].display_name == "Ännchen Übermaß"
    assert got["Message-ID"] == desk.records.row(record_id).message_id
    assert got["Return-Path"] == f"<{sender}>"
    assert got.get_content_type() == "text/plain"
    assert unix(got.get_content()) == TEXT


@pytest.mark.parametrize("mode", [BodyMode.HTML, BodyMode.HTML_WITH_DERIVED_PLAIN, BodyMode.HTML_WITH_AUTHORED_PLAIN])
def test_html_arrives_in_every_body_mode(desk: Desk, servers: Servers, mode: BodyMode) -> None:
    name = servers.mailbox()
    text = TEXT if mode is BodyMode.HTML_WITH_AUTHORED_PLAIN else None
    record_id = accept(name, html_body=HTML, text_body=text, body_mode=mode)
    assert desk.deliver(record_id) == {"sent": 1}
    (octets,) = servers.dovecot.read(name)
    # Read by a parser that shares nothing with Python's.
    mail = fast_mail_parser.parse_email(octets)
    assert [unix(part) for part in mail.text_html] == [HTML]
    row = desk.records.row(record_id)
    assert bool(mail.text_plain) is (mode is not BodyMode.HTML)
    if mode is not BodyMode.HTML:
        assert unix(mail.text_plain[0]).rstrip("\n") == row.body_text.rstrip("\n")


def test_each_recipient_gets_the_mail_and_nobody_sees_the_blind_ones(desk: Desk, servers: Servers) -> None:
    to, cc, bcc = servers.mailbox(), servers.mailbox(), servers.mailbox()
    record_id = accept(to, cc=[at_local(cc)], bcc=[at_local(bcc)])
    assert desk.deliver(record_id) == {"sent": 1}
    mails = [servers.dovecot.read(name)[0] for name in (to, cc, bcc)]
    for octets in mails:
        got = parsed(octets)
        assert (got["To"], got["Cc"], got["Bcc"]) == (at_local(to), at_local(cc), None)
    # Postfix's own fields name whom this copy is for.
    assert bcc.encode() not in mails[0] + mails[1]
    results = desk.records.row(record_id).recipient_results
    assert {r["result"] for r in results.values()} == {"accepted"}


def test_an_unknown_user_is_refused_while_the_others_get_theirs(desk: Desk, servers: Servers) -> None:
    known, unknown = servers.mailbox(), f"{postfix.UNKNOWN}-{servers.mailbox()}"
    record_id = accept(known, unknown)
    assert desk.deliver(record_id) == {"sent": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.error_code) == (SENT, "SMTP_550_5.1.1")
    assert row.recipient_results[at_local(known)]["result"] == "accepted"
    refused = row.recipient_results[at_local(unknown)]
    assert (refused["result"], refused["code"]) == ("refused", "SMTP_550_5.1.1")
    assert "User unknown in virtual mailbox table" in refused["text"]
    assert servers.read_one(known)["Subject"] == "Order 17"


def test_a_mail_to_an_unknown_user_alone_fails_at_once(desk: Desk, servers: Servers) -> None:
    record_id = accept(f"{postfix.UNKNOWN}-{servers.mailbox()}")
    assert desk.deliver(record_id) == {"failed": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.error_code, row.retry_count) == (FAILED, "SMTP_550_5.1.1", 0)


def test_a_mail_over_the_servers_limit_fails_with_both_figures(desk: Desk, servers: Servers) -> None:
    record_id = accept(servers.mailbox(), text_body="0123456789\n" * (postfix.MESSAGE_SIZE_LIMIT // 10))
    assert desk.deliver(record_id) == {"failed": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.error_code) == (FAILED, "SMTP_SIZE")
    assert f"at most {postfix.MESSAGE_SIZE_LIMIT}" in row.error_message


def test_a_greylisted_mail_waits_and_arrives_once(desk: Desk, servers: Servers) -> None:
    name = servers.mailbox()
    servers.postfix.greylist.left[at_local(name)] = 1
    record_id = accept(name)
    assert desk.deliver(record_id) == {"retry": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.error_code, row.retry_count) == (RETRY, "SMTP_450_4.2.0", 1)
    assert "Greylisted" in row.error_message
    assert desk.deliver(record_id) == {"sent": 1}
    assert servers.read_one(name)["Message-ID"] == row.message_id


def test_greylisting_of_one_recipient_does_not_send_twice_to_the_other(desk: Desk, servers: Servers) -> None:
    first, second = servers.mailbox(), servers.mailbox()
    servers.postfix.greylist.left[at_local(second)] = 1
    record_id = accept(first, second)
    assert desk.deliver(record_id) == {"retry": 1}
    assert desk.deliver(record_id) == {"sent": 1}
    for name in (first, second):
        servers.read_one(name)
    assert desk.records.row(record_id).error_code is None


@pytest.mark.parametrize("name", sorted(postfix.FORWARDED))
def test_what_bounces_after_it_was_taken_comes_to_the_envelope_sender(
    desk: Desk, servers: Servers, sender: str, name: str
) -> None:
    record_id = accept(name)
    assert desk.deliver(record_id) == {"sent": 1}
    row = desk.records.row(record_id)
    report = servers.read_one(sender.partition("@")[0])
    assert report["Return-Path"] == "<>"
    assert report.get_content_type() == "multipart/report"
    status, returned = list(report.iter_parts())[1:3]
    assert status.get_content_type() == "message/delivery-status"
    recipient = status.get_payload()[1]
    assert recipient["Original-Recipient"] == f"rfc822;{at_local(name)}"
    assert recipient["Final-Recipient"] == f"rfc822; {postfix.FORWARDED[name]}"
    assert recipient["Action"] == "failed"
    assert returned.get_payload(0)["Message-ID"] == row.message_id


def test_a_bounce_of_exim_comes_to_the_envelope_sender_too(desk: Desk, servers: Servers, sender: str) -> None:
    desk.run("UPDATE mail_send_server_config SET is_default = false, updated_at = now()")
    desk.add_server(port=servers.exim.port, from_address=sender)
    first, second = (f"{servers.mailbox()}@refusing.example" for _ in range(2))
    record_id = accept(first, second)
    assert desk.deliver(record_id) == {"sent": 1}
    report = servers.read_one(sender.partition("@")[0])
    assert set(report["X-Failed-Recipients"].replace(" ", "").split(",")) == {first, second}
    assert report["References"] == desk.records.row(record_id).message_id
    assert report.get_content_type() == "multipart/report"


PDF_NAME = "Prüfbericht – 漢字 (1).pdf"


def handed_over(servers: Servers, key: str, *to: str) -> bytes:
    """A signed mail with a file, sent to Postfix; what was sent."""
    content = mime.MailContent(
        message_id=f"<17.{secrets.token_hex(12)}@shop.example>",
        date=SIGNED_AT,
        from_address="shop@shop.example",
        from_name="Bücher & Größen",
        to=to,
        subject="Ihre Bestellung über 漢字 " * 6,
        body_mode=BodyMode.HTML_WITH_AUTHORED_PLAIN,
        body_html=HTML,
        body_text=TEXT,
    )
    file = AttachedFile(content=io.BytesIO(bytes(range(256)) * 400), file_name=PDF_NAME, content_type="application/pdf")
    message = mime.build(content, [file])
    field = dkim.sign(message, domain=DKIM_DOMAIN, selector=SELECTOR, private_key_pem=key, signed_at=SIGNED_AT)
    signed = message.after(field)
    transport = SmtpTransport(MailTransportSettings(), ehlo_name="shop.example")
    server = SmtpServer(1, 1, "127.0.0.1", servers.postfix.port, Security.PLAIN)
    limits = SendLimits(send_budget_seconds=240, send_max_seconds=120, reply_wait_seconds=60)
    try:
        gate = SendGate(time.monotonic(), limits, time.monotonic)
        results = transport.send(server, Envelope("shop@local.example", to), signed, gate)
    finally:
        transport.close_all()
    assert {result.status for result in results.values()} == {RecipientStatus.ACCEPTED}
    return b"".join(signed.chunks())


def test_a_relay_changes_no_octet_of_a_signed_mail_and_its_signature_still_passes(servers: Servers) -> None:
    name, key = servers.mailbox(), pem(rsa.generate_private_key(65537, 1024))
    sent = handed_over(servers, key, at_local(name))
    (got,) = servers.dovecot.read(name)
    assert got.endswith(sent)
    record = dkim.public_key_record(key)
    assert dkim_verifier.verify(got, domain=DKIM_DOMAIN, selector=SELECTOR, record=record) == "pass"
    mail = fast_mail_parser.parse_email(got)
    assert [(a.filename, bytes(a.content)) for a in mail.attachments] == [(PDF_NAME, bytes(range(256)) * 400)]


def test_a_receiving_server_verifies_an_ed25519_signature_behind_a_relay(servers: Servers) -> None:  # RFC 8463
    name, key = servers.mailbox(), pem(ed25519.Ed25519PrivateKey.generate())
    servers.exim.publish({f"{SELECTOR}._domainkey.{DKIM_DOMAIN}": dkim.public_key_record(key)})
    handed_over(servers, key, f"{name}@{exim.DOMAIN}")
    verdict = servers.read_one(name)["Authentication-Results"]
    assert f"dkim=pass header.d={DKIM_DOMAIN} header.s={SELECTOR} header.a=ed25519-sha256" in " ".join(verdict.split())


def test_everything_a_server_adds_and_everything_a_caller_attaches_arrives(
    desk: Desk, servers: Servers, sender: str
) -> None:
    name, key = servers.mailbox(), pem(rsa.generate_private_key(65537, 1024))
    add_signing_server(desk, servers.postfix.port, sender, key)
    logo, report = b"\x89PNG\r\n" + bytes(range(200)), bytes(range(256)) * 300
    record_id = accept(
        name,
        html_body='<p>Grüße</p><img src="cid:logo1">',
        text_body="Grüße",
        attachments=[
            Attachment(content=logo, file_name="logo.png", content_type="image/png", content_id="logo1"),
            Attachment(content=report, file_name=PDF_NAME, content_type="application/pdf"),
        ],
        unsubscribe_list="weekly news",
        headers={"References": "<1@shop.example>"},
    )
    assert desk.deliver(record_id) == {"sent": 1}
    (got,) = servers.dovecot.read(name)
    assert (
        dkim_verifier.verify(got, domain=DKIM_DOMAIN, selector=SELECTOR, record=dkim.public_key_record(key)) == "pass"
    )
    mail = parsed(got)
    covered = mail["DKIM-Signature"].replace(" ", "").partition("h=")[2].partition(";")[0].split(":")
    assert {"list-unsubscribe", "list-unsubscribe-post", "references"} <= set(covered)
    assert verp.read(mail["Return-Path"]) == record_id
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    link = mail["List-Unsubscribe"].strip("<>")
    assert link.startswith(f"{BASE_URL}/hooks/unsubscribe/")
    token = unsubscribe.read(link.rpartition("/")[2])
    assert token is not None
    assert (token.record_id, token.tenant_id) == (record_id, 0)
    assert token.is_about(list_name="weekly news", address=at_local(name))
    files = fast_mail_parser.parse_email(got).attachments
    assert {(file.filename, bytes(file.content)) for file in files} == {("logo.png", logo), (PDF_NAME, report)}


@pytest.mark.parametrize("through", ["postfix", "exim"])
def test_a_bounce_names_its_record_by_the_address_it_came_to(
    desk: Desk, servers: Servers, sender: str, through: str
) -> None:
    key = pem(ed25519.Ed25519PrivateKey.generate())
    add_signing_server(desk, getattr(servers, through).port, sender, key)
    record_ids = [accept(f"{servers.mailbox()}@refusing.example") for _ in range(3)]
    assert desk.deliver(*record_ids) == {"sent": 3}
    reports = servers.dovecot.read(sender.partition("@")[0], count=3)
    assert {verp.read(parsed(octets)["To"]) for octets in reports} == set(record_ids)
