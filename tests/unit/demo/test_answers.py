"""The mails that come back in the demo are what their standards say, and are recognised as that."""

from datetime import UTC, datetime

import pytest

from messaging.demo.answers import Answer, Taken, compose
from messaging.receive.classification import Classification
from messaging.receive.classify.chain import classify
from messaging.receive.parse import ParseLimits, parse
from messaging.receive.parsed import ParsedMail
from messaging.receive.vocabulary import BounceKind, BounceReason, MailType

AT = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
SENDER, RECIPIENT = "orders@shop.example.com", "ann@moved.example.net"
HEADERS = [
    "From: Shop <orders@shop.example.com>",
    f"To: {RECIPIENT}",
    "Subject: =?utf-8?q?Your_order_=C3=BC?=",
    "Message-ID: <1.2@shop.example.com>",
]
ASKS = "Disposition-Notification-To: receipts@shop.example.com"


def come_back(answer: Answer, *fields: str) -> tuple[ParsedMail, Classification]:
    content = "\r\n".join([*HEADERS, *fields, "", "Thank you.", ""]).encode()
    mail = compose(answer, Taken(SENDER, RECIPIENT, content, AT))
    assert mail is not None
    parsed = parse(mail, ParseLimits())
    return parsed, classify(parsed)


@pytest.mark.parametrize(
    ("answer", "fields", "mail_type", "from_address", "to"),
    [
        (Answer.BOUNCED, (), MailType.BOUNCE, "MAILER-DAEMON@mx.moved.example.net", SENDER),
        (Answer.READ, (ASKS,), MailType.READ_RECEIPT, RECIPIENT, "receipts@shop.example.com"),
        (Answer.REPLIED, (), MailType.AUTO_REPLY, RECIPIENT, SENDER),
    ],
)
def test_each_is_recognised_and_names_the_mail_it_is_about(
    answer: Answer, fields: tuple[str, ...], mail_type: MailType, from_address: str, to: str
) -> None:
    mail, found = come_back(answer, *fields)
    assert found.type is mail_type
    assert found.reference_ids == ("<1.2@shop.example.com>",)
    assert mail.from_address == from_address
    assert mail.to_addresses == (to,)


def test_a_bounce_says_who_is_unknown_with_both_codes() -> None:
    _, found = come_back(Answer.BOUNCED)
    (one,) = found.recipients
    assert (one.recipient, one.reply_code, one.status, one.action) == (RECIPIENT, "550", "5.1.1", "failed")
    assert (one.kind, one.reason) == (BounceKind.HARD, BounceReason.USER_UNKNOWN)


def test_a_receipt_says_displayed_and_a_reply_repeats_the_subject() -> None:
    receipt, found = come_back(Answer.READ, ASKS)
    assert found.detail == "displayed"
    assert receipt.subject == "Read: Your order ü"
    reply, _ = come_back(Answer.REPLIED)
    assert reply.subject == "Auto: Your order ü"


def test_nobody_confirms_who_was_not_asked() -> None:
    content = "\r\n".join([*HEADERS, "", "Thank you.", ""]).encode()
    assert compose(Answer.READ, Taken(SENDER, RECIPIENT, content, AT)) is None
