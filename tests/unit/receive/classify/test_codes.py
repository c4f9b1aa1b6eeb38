"""Codes in free text, and what they say alone (RFC 3463; RFC 5321, 4.2)."""

import pytest

from messaging.receive.classify.codes import enhanced_code, finer, is_dialogue, reply_code
from messaging.receive.classify.kinds import kind
from messaging.receive.classify.reasons import from_codes, from_text, reason
from messaging.receive.vocabulary import BounceKind, BounceReason


# receive.md R55
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("421 then later 550", "421"),
        ("code 200", None),
        ("", None),
        ("1550 users", None),
        ("5501", None),
        ("from 192.0.2.550.7", None),
        ("550-5.1.1 The account\n550 5.1.1 does not exist", "550"),
        ("host mx.far.example said: 554 no", "554"),
        ("smtp;552 over quota", "552"),
        ("(450) later", "450"),
        ("<<< 553 no", "553"),
        ("SMTP error code 571", "571"),
        ("it holds 550 bytes", None),
        ("call 555-1234", None),
        ("at first 450 of us, then 550 5.7.1 refused", "550"),
    ],
)
def test_a_reply_code_is_found_where_a_server_wrote_one(text: str, code: str | None) -> None:
    assert reply_code(text) == code


# receive.md R55, R56
@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("550 5.1.1 unknown", "5.1.1"),
        ("4.2.2", "4.2.2"),
        ("5.9.9", "5.9.9"),
        ("3.1.1", None),
        ("from 192.5.1.1", None),
        ("from 5.1.1.192", None),
        ("no mailbox here (#5.1.1)", "5.1.1"),
        ("said: 550 5.1.1.", "5.1.1"),
        ("Exim 4.92.3 says 550 5.7.1 no", "5.7.1"),
        ("Exim 4.92.3", None),
        ("5.0.0 and 5.2.1", "5.2.1"),
        ("mx-5.1.1.far.example", None),
        ("550 5.7.606 banned", "5.7.606"),
    ],
)
def test_an_enhanced_code_is_no_address_and_no_version(text: str, status: str | None) -> None:
    assert enhanced_code(text) == status


def test_of_two_codes_of_one_class_the_one_that_says_more_counts() -> None:
    assert finer("5.0.0", ("5.1.1",)) == "5.1.1"
    assert finer("5.1.0", ("5.1.1",)) == "5.1.1"
    assert finer("5.1.1", ("5.2.2",)) == "5.1.1"
    assert finer("5.0.0", ("4.2.2", None)) == "5.0.0"
    assert finer(None, (None, "4.2.2")) == "4.2.2"


# receive.md R56
@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("5.1.1", BounceReason.USER_UNKNOWN),
        ("4.2.2", BounceReason.MAILBOX_FULL),
        ("5.9.9", BounceReason.OTHER),
        ("5.1.10", BounceReason.HOST_UNKNOWN),
        ("4.4.4", BounceReason.OTHER),
        ("4.4.7", BounceReason.EXPIRED),
        ("5.6.3", BounceReason.CONTENT),
        ("5.7.606", BounceReason.POLICY),
        (None, BounceReason.OTHER),
    ],
)
def test_a_code_alone_gives_a_reason(status: str | None, told: BounceReason) -> None:
    assert from_codes(status, None) is told


# receive.md R67, bounce bounce-04
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("550 5.1.1 User unknown", BounceReason.USER_UNKNOWN),
        ("550 5.1.1 192.0.2.7 has sent to too many recipients this hour", BounceReason.RATE),
        ("550 5.1.1 refused as spam", BounceReason.SPAM),
        ("550 5.1.1 the mailbox of this user is full", BounceReason.MAILBOX_FULL),
        ("550-5.1.1 The email account that you tried to reach does\n550-5.1.1 not exist.", BounceReason.USER_UNKNOWN),
        ("550 5.1.8 Sender address rejected: Domain not found", BounceReason.POLICY),
        ("550 5.1.1 x", BounceReason.USER_UNKNOWN),
    ],
)
def test_the_text_is_asked_before_the_code(text: str, told: BounceReason) -> None:
    assert reason((text,), "5.1.1", "550") is told


def test_a_domain_that_takes_no_mail_for_now_is_not_useless() -> None:
    assert from_text("The system is not accepting messages") is BounceReason.HOST_UNKNOWN
    assert reason(("The system is not accepting messages",), "4.3.2", None) is BounceReason.OTHER


@pytest.mark.parametrize(
    ("action", "status", "told"),
    [
        ("failed", "5.1.1", BounceKind.HARD),
        ("failed", None, BounceKind.HARD),
        ("failed", "4.4.7", BounceKind.SOFT),
        ("delayed", "5.1.1", BounceKind.DELAYED),
        ("relayed", None, BounceKind.SUCCESS),
        (None, "5.1.1", BounceKind.HARD),
        (None, "4.2.2", BounceKind.DELAYED),
        (None, "2.0.0", BounceKind.SUCCESS),
        (None, None, BounceKind.HARD),
    ],
)
def test_the_kind_follows_the_action_then_the_class(action: str | None, status: str | None, told: BounceKind) -> None:
    assert kind(action, status, None) is told


def test_a_price_is_no_dialogue() -> None:
    assert is_dialogue("host said: 550 5.1.1 unknown")
    assert is_dialogue("RCPT TO: 550 unknown")
    assert not is_dialogue("Total: 550 EUR, order 4.2.1")
