"""Mails to classify, from their text."""

from messaging.receive.classification import Classification
from messaging.receive.classify.chain import classify
from messaging.receive.parse import ParseLimits, parse
from messaging.receive.parsed import ParsedMail

#: The mail that answers are about.
ORIGINAL_ID = "<42.7f3a@mail.shop.example>"
IS_ANSWER = f"In-Reply-To: {ORIGINAL_ID}"


def mail(*header_lines: str, body: str = "I am away until Monday.", sender: str = "kim@customer.example") -> ParsedMail:
    """A mail with these header lines beside its usual ones."""
    head = [f"From: {sender}", "To: orders@shop.example", "Message-ID: <m1@customer.example>", *header_lines]
    return parse("\r\n".join([*head, "", body]).encode(), ParseLimits())


def type_of(message: ParsedMail) -> str:
    return classify(message).type.lower()


def classified(raw: bytes) -> Classification:
    return classify(parse(raw, ParseLimits()))
