"""The three rules of bounces: what each answers, whom it names, and what it may be about."""

import base64
import json
import time
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from messaging.db import encryption
from messaging.mail import verp
from messaging.receive.classification import Classification
from messaging.receive.classify import dsn, keyword, mailer_daemon
from messaging.receive.classify.chain import classify
from messaging.receive.classify.references import bounce_references, receipt_references, verp_record_id
from messaging.receive.classify.report_fields import address, read_report
from messaging.receive.classify.summary import summarise
from messaging.receive.parse import ParseLimits, parse, parse_envelope
from messaging.receive.parsed import ParsedMail
from messaging.receive.vocabulary import BounceKind, BounceReason, MailType

HEAD = (
    "Return-Path: <>\r\nFrom: MAILER-DAEMON@far.example\r\nTo: bounces@shop.example\r\n"
    "Subject: Undelivered Mail Returned to Sender\r\nMessage-ID: <r1@far.example>\r\n"
)
GONE = "Final-Recipient: rfc822; gone@far.example\r\nAction: failed\r\nStatus: 5.1.1\r\n"
SIXTY_FOUR_KIB = 65_536


def read(raw: str) -> ParsedMail:
    return parse(raw.encode(), ParseLimits())


def report(fields: str, *, head: str = HEAD, returned: str = "Message-ID: <sent@shop.example>\r\n") -> ParsedMail:
    return read(
        head
        + 'MIME-Version: 1.0\r\nContent-Type: multipart/report; report-type=delivery-status; boundary="b"\r\n\r\n'
        + "--b\r\nContent-Type: text/plain\r\n\r\nIt failed.\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\n"
        + f"Reporting-MTA: dns; far.example\r\n\r\n{fields}\r\n--b\r\nContent-Type: text/rfc822-headers\r\n\r\n"
        + f"{returned}\r\n--b--\r\n"
    )


def text(body: str, *, head: str = HEAD) -> ParsedMail:
    return read(f"{head}\r\n{body}")


# receive.md R37
def test_a_failure_with_both_codes() -> None:
    found = classify(report(GONE + "Diagnostic-Code: smtp; 550 5.1.1 <gone@far.example>: no such user\r\n"))
    [one] = found.recipients
    assert (found.type, one.action, one.status, one.reply_code) == (MailType.BOUNCE, "failed", "5.1.1", "550")
    assert one.is_permanent
    assert one.is_hard_bounce
    assert one.diagnostic == "smtp; 550 5.1.1 <gone@far.example>: no such user"


# receive.md R38, bounce bounce-02
def test_a_delay_is_not_permanent() -> None:
    [one] = classify(
        report(
            "Final-Recipient: rfc822; slow@far.example\r\nAction: delayed\r\nStatus: 4.2.2\r\n"
            "Diagnostic-Code: smtp; 452 full\r\nWill-Retry-Until: Fri, 6 Mar 2026 10:00:00 +0000\r\n"
            "Last-Attempt-Date: Thu, 5 Mar 2026 10:00:00 +0000\r\nRemote-MTA: dns; mx.far.example\r\n"
        )
    ).recipients
    assert (one.kind, one.reply_code, one.remote_mta) == (BounceKind.DELAYED, "452", "mx.far.example")
    assert one.will_retry_until == "Fri, 6 Mar 2026 10:00:00 +0000"
    assert one.last_attempt == "Thu, 5 Mar 2026 10:00:00 +0000"
    assert not one.is_permanent


# receive.md R39, bounce bounce-01
def test_three_recipients_are_three_and_the_worst_counts() -> None:
    found = classify(
        report(
            "Final-Recipient: rfc822; c@far.example\r\nAction: delivered\r\nStatus: 2.0.0\r\n\r\n"
            "Final-Recipient: rfc822; b@far.example\r\nAction: delayed\r\nStatus: 4.2.2\r\n\r\n"
            "Final-Recipient: rfc822; a@far.example\r\nAction: failed\r\nStatus: 5.1.1\r\n"
        )
    )
    assert [one.kind for one in found.recipients] == [BounceKind.SUCCESS, BounceKind.DELAYED, BounceKind.HARD]
    assert [one.recipient for one in found.failed] == ["a@far.example"]
    assert found.worst is found.recipients[2]


# receive.md R40
def test_a_failure_of_class_4_is_soft() -> None:
    [one] = classify(report(GONE.replace("5.1.1", "4.4.7"))).recipients
    assert (one.kind, one.is_permanent, one.reason) == (BounceKind.SOFT, False, BounceReason.EXPIRED)


# receive.md R41, bounce bounce-03
def test_the_returned_header_names_the_message() -> None:
    assert classify(report(GONE)).original_message_id == "<sent@shop.example>"


# receive.md R42
def test_base64_folds_and_blank_lines_change_nothing() -> None:
    fields = GONE + "Diagnostic-Code: smtp; 550 5.1.1\r\n\t<gone@far.example>:\r\n  no such user\r\n"
    plain = classify(report(fields)).recipients
    doubled = classify(report(fields.replace("\r\n\t", " ").replace("\r\n  ", " ").replace("\r\n", "\r\n\r\n\r\n")))
    encoded = read(
        HEAD + 'MIME-Version: 1.0\r\nContent-Type: multipart/report; boundary="b"\r\n\r\n--b\r\n'
        "Content-Type: message/delivery-status\r\nContent-Transfer-Encoding: base64\r\n\r\n"
        + base64.encodebytes(f"Reporting-MTA: dns; far.example\r\n\r\n{fields}".encode()).decode()
        + "\r\n--b--\r\n"
    )
    assert classify(encoded).recipients == plain == doubled.recipients


# receive.md R43
def test_a_report_that_says_auto_replied_is_a_bounce() -> None:
    assert classify(report(GONE, head=HEAD + "Auto-Submitted: auto-replied\r\n")).type is MailType.BOUNCE


# receive.md R44
def test_a_daemons_text_is_a_bounce_with_both_codes() -> None:
    [one] = classify(text("<gone@far.example>: 550 5.1.1 User unknown")).recipients
    assert (one.recipient, one.reply_code, one.status, one.kind) == (
        "gone@far.example",
        "550",
        "5.1.1",
        BounceKind.HARD,
    )


# receive.md R45
def test_a_postmasters_report_without_ids_is_about_nothing_known() -> None:
    found = classify(
        read("From: postmaster@far.example\r\nSubject: Undeliverable\r\n\r\nIt could not be delivered.\r\n")
    )
    assert (found.type, found.reference_ids, found.original_message_id) == (MailType.BOUNCE, (), None)


# receive.md R46
@pytest.mark.parametrize(
    "subject", ["Delivery Status Notification (Failure)", "Undeliverable: x", "=?utf-8?b?5pyq6YCB6L6+?="]
)
def test_a_subject_of_mail_servers_from_a_machine_is_a_bounce(subject: str) -> None:
    found = classify(read(f"From: noreply@far.example\r\nSubject: {subject}\r\n\r\nHello.\r\n"))
    assert found.type is MailType.BOUNCE


# receive.md R47
@pytest.mark.parametrize("rule", [dsn.RULE, mailer_daemon.RULE, keyword.RULE])
def test_a_colleague_who_says_rejected_is_no_bounce(rule: keyword.Keyword) -> None:
    answer = read(
        "From: kim@far.example\r\nSubject: Re: your offer\r\nIn-Reply-To: <sent@shop.example>\r\n\r\n"
        "The board rejected it. > 550 5.1.1 user unknown\r\n"
    )
    assert rule.match(answer) is None


# receive.md R57
def test_references_count_last_first_and_after_what_came_back() -> None:
    raw = HEAD + "In-Reply-To: <answered@shop.example>\r\nReferences: <first@shop.example> <second@shop.example>\r\n"
    assert bounce_references(text("x", head=raw)) == (
        "<answered@shop.example>",
        "<second@shop.example>",
        "<first@shop.example>",
    )
    assert bounce_references(report(GONE, head=raw))[0] == "<sent@shop.example>"


def test_a_message_id_in_the_quoted_original_counts_and_the_reports_own_does_not() -> None:
    original = "--- Below this line is a copy of the message.\r\n\r\nMessage-ID: <sent@shop.example>\r\n"
    body = f"<gone@far.example>: no\r\n\r\n{original}"
    assert bounce_references(text(body)) == ("<sent@shop.example>",)
    assert bounce_references(report(GONE, returned="Message-ID: <r1@far.example>\r\n")) == ()


@pytest.mark.parametrize(
    "told",
    [
        "Message-ID: <sent@shop.example>",
        "    message-id:   <sent@shop.example>",
        "> > Message-ID: <sent@shop.example>",
        "Nachrichten-ID: <sent@shop.example>",
        "ID du message : <sent@shop.example>",
        "ID de mensaje: <sent@shop.example>",
        "Идентификатор сообщения: <sent@shop.example>",
        "メッセージ ID: <sent@shop.example>",
        "邮件ID：<sent@shop.example>",
        "메시지 ID: <sent@shop.example>",
    ],
)
def test_a_report_names_the_message_in_its_readers_language(told: str) -> None:
    head = HEAD + "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
    assert bounce_references(text(f"It failed for gone@far.example.\r\n{told}\r\n", head=head)) == (
        "<sent@shop.example>",
    )


def test_a_reports_own_header_may_name_the_message() -> None:
    head = HEAD + "X-Original-Message-ID: <sent@shop.example>\r\nIn-Reply-To: <other@shop.example>\r\n"
    assert bounce_references(text("It failed.", head=head)) == ("<sent@shop.example>", "<other@shop.example>")


def test_of_a_report_too_large_the_header_is_read() -> None:
    head = HEAD + "X-Failed-Recipients: gone@far.example\r\nIn-Reply-To: <sent@shop.example>\r\n"
    found = classify(
        parse_envelope(f"{head}Content-Type: multipart/report; boundary=b\r\n\r\n".encode(), ParseLimits())
    )
    assert found.type is MailType.BOUNCE
    assert [one.recipient for one in found.recipients] == ["gone@far.example"]
    assert found.original_message_id == "<sent@shop.example>"


def test_a_long_message_id_of_any_octets_is_hashed() -> None:
    raw = b"From: mailer-daemon@far.example\r\nIn-Reply-To: <" + b"\xff" * 300 + b"@shop.example>\r\n\r\nIt failed.\r\n"
    [found] = bounce_references(parse(raw, ParseLimits()))
    assert found.startswith("hashed:")


def test_a_receipt_is_about_what_its_fields_name_then_what_it_answers() -> None:
    receipt = read(
        "From: kim@far.example\r\nIn-Reply-To: <answered@shop.example>\r\nMIME-Version: 1.0\r\n"
        'Content-Type: multipart/report; report-type=disposition-notification; boundary="b"\r\n\r\n--b\r\n'
        "Content-Type: message/disposition-notification\r\n\r\nOriginal-Message-ID: <sent@shop.example>\r\n"
        "Disposition: manual-action/MDN-sent-manually; displayed\r\n\r\n--b--\r\n"
    )
    assert receipt_references(receipt) == ("<sent@shop.example>", "<answered@shop.example>")


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys for this test alone: others run in the same process."""
    monkeypatch.setattr(encryption, "_keys", None)
    encryption.use_keys((Fernet.generate_key().decode(),))


def test_without_keys_no_envelope_address_is_genuine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "_keys", None)
    assert verp_record_id(read("To: bounces+4711-0123abcd@shop.example\r\n\r\nx")) is None


# receive.md R68
@pytest.mark.parametrize("field", ["Delivered-To", "X-Original-To", "Envelope-To", "To"])
@pytest.mark.usefixtures("keys")
def test_an_envelope_address_names_the_record_by_a_right_mac_alone(field: str) -> None:
    address_ = verp.address("bounces@shop.example", 4711)
    wrong = address_.replace("4711", "4712")
    assert verp_record_id(read(f"{field}: {address_}\r\n\r\nx")) == 4711
    assert verp_record_id(read(f"{field}: {wrong}\r\n\r\nx")) is None
    assert (
        classify(text("gone", head=f"From: mailer-daemon@far.example\r\n{field}: {address_}\r\n")).verp_record_id
        == 4711
    )


@pytest.mark.parametrize(
    ("value", "bare"),
    [
        ("rfc822; <gone@far.example>", "gone@far.example"),
        ("RFC822;gone@far.example", "gone@far.example"),
        ("gone@far.example", "gone@far.example"),
        ("utf-8; j\\x{F6}rg@far.example", "jörg@far.example"),
        ("rfc822; gone+40far.example", "gone@far.example"),
        ('rfc822; "a b"@far.example', '"a b"@far.example'),
        ("x400; /G=Gone/S=Away/", None),
        ("rfc822; |/usr/bin/filter", None),
        ("", None),
        (None, None),
    ],
)
def test_an_address_of_a_field_is_bare(value: str | None, bare: str | None) -> None:
    assert address(value) == bare


def test_a_group_without_a_recipient_belongs_to_the_one_before() -> None:
    found = read_report(
        "Reporting-MTA: dns; x\n\nFinal-Recipient: rfc822;a@b.example\n\nAction: failed\n\nStatus: 5.1.1\n"
    )
    assert found.recipients == [{"final-recipient": "rfc822;a@b.example", "action": "failed", "status": "5.1.1"}]


# receive.md R67
@pytest.mark.parametrize(
    ("diagnostic", "is_hard_bounce", "is_permanent"),
    [
        ("smtp; 550 5.1.1 user unknown", True, True),
        ("smtp; 550 5.7.1 refused as spam", False, True),
        ("smtp; 550 5.1.1 too many recipients this hour", False, True),
    ],
)
def test_only_a_useless_address_is_a_hard_bounce(diagnostic: str, is_hard_bounce: bool, is_permanent: bool) -> None:
    status = diagnostic.split()[2]
    fields = GONE.replace("5.1.1", status) + f"Diagnostic-Code: {diagnostic}\r\n"
    [one] = classify(report(fields)).recipients
    assert (one.is_hard_bounce, one.is_permanent) == (is_hard_bounce, is_permanent)


def test_words_alone_name_the_reason_and_condemn_no_address() -> None:
    [one] = classify(text("<gone@far.example>: 550 user unknown")).recipients
    assert (one.reason, one.is_doubtful, one.is_hard_bounce) == (BounceReason.USER_UNKNOWN, True, False)
    [answer] = classify(text("<gone@far.example>: 550 user unknown (in reply to RCPT TO command)")).recipients
    assert answer.is_hard_bounce


@pytest.mark.parametrize(
    ("said", "is_hard_bounce"),
    [
        ("550 user unknown (in reply to end of DATA command)", False),
        ("550 5.1.1 user unknown (in reply to end of DATA command)", True),
        ("550 user unknown (in reply to MAIL FROM command)", False),
        ("550 5.1.1 mail refused", True),
        ("550 5.1.1 mailbox full", False),
        ("550 5.1.1 account is disabled", False),
        ("550 5.1.1 relaying denied", False),
        ("550 5.4.1 Recipient address rejected: Access denied", True),
        ("550 5.1.8 unknown user", False),
        ("450 4.1.2 domain does not exist", True),
        ("450 4.3.2 system not accepting network messages", False),
    ],
)
def test_what_was_answered_and_the_code_decide_beside_the_words(said: str, is_hard_bounce: bool) -> None:
    [one] = classify(text(f"<gone@far.example>: host mx.far.example[192.0.2.1] said: {said}")).recipients
    assert one.is_hard_bounce is is_hard_bounce


def test_a_providers_event_is_a_bounce_with_the_messages_own_id() -> None:
    event = {
        "notificationType": "Bounce",
        "bounce": {
            "bounceType": "Permanent",
            "bounceSubType": "General",
            "bouncedRecipients": [
                {
                    "emailAddress": "gone@far.example",
                    "action": "failed",
                    "status": "5.1.1",
                    "diagnosticCode": "smtp; 550 5.1.1 user unknown",
                }
            ],
        },
        "mail": {"messageId": "0100", "commonHeaders": {"messageId": "<sent@shop.example>"}},
    }
    body = json.dumps({"Type": "Notification", "Message": json.dumps(event)}, indent=2)
    found = classify(
        read(f"From: no-reply@sns.example\r\nSubject: AWS Notification Message\r\n\r\n{body}\r\n\r\n--\r\nstop")
    )
    assert summarise(found) == {
        "type": "bounce",
        "recipients": ["gone@far.example"],
        "status": "5.1.1",
        "reply_code": "550",
        "action": "failed",
        "hard_bounce": True,
        "reason": "USER_UNKNOWN",
        "original_message_id": "<sent@shop.example>",
        "flags": {},
    }


@pytest.mark.parametrize(
    "body", ['{"bouncedRecipients": ', '["bouncedRecipients"]', '{"bounce": {"bouncedRecipients": 1}}']
)
def test_what_only_looks_like_an_event_is_none(body: str) -> None:
    assert dsn.RULE.match(read(f"From: kim@far.example\r\n\r\n{body}")) is None


@pytest.mark.parametrize(
    "piece",
    [
        "<",
        " ",
        "5",
        ".",
        "@",
        "a@",
        "<a@",
        "a.",
        "5.1.1 ",
        "550 ",
        "> ",
        "a:\n",
        "to: ",
        "\t",
        "a@b.example ",
        "-",
        "x" * 63 + ".",
    ],
    ids=repr,
)
def test_a_text_made_to_be_slow_is_not(piece: str) -> None:
    body = piece * (SIXTY_FOUR_KIB // len(piece))
    mails = [text(body), text("x", head=HEAD + f"X-Failed-Recipients: {body.replace(chr(10), ' ')}\r\n"), report(body)]
    started = time.process_time()
    for mail in mails:
        for rule in (dsn.RULE, mailer_daemon.RULE, keyword.RULE):
            rule.match(mail)
    assert time.process_time() - started < 10  # a loaded machine; alone it is half a second


def test_a_report_of_a_thousand_recipients_takes_no_more_than_a_moment() -> None:
    one = "Final-Recipient: rfc822; gone{0}@far.example\r\nAction: failed\r\nStatus: 5.0.0\r\n\r\n"
    mail = report("".join(one.format(number) for number in range(1200)))
    started = time.process_time()
    found = dsn.RULE.match(mail)
    assert isinstance(found, Classification)
    assert len(found.recipients) == 1000
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[3] / "data" / "bounces").glob("*.eml")), ids=lambda path: path.stem
)
def test_what_postfix_and_exim_send_is_a_bounce_about_our_mail(path: Path) -> None:
    found = classify(parse(path.read_bytes(), ParseLimits()))
    assert found.type is MailType.BOUNCE
    assert all(one.recipient and one.recipient.endswith(".example") for one in found.recipients)
    assert found.original_message_id is not None
    assert found.original_message_id.endswith("@shop.example>")
