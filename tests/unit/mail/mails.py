"""Mails to build, what may be in them, and what reads them back."""

import dataclasses
import email
import email.header
import re
from datetime import UTC, datetime
from email.message import EmailMessage, MIMEPart
from email.policy import default
from typing import Any

from hypothesis import strategies as st

from messaging.mail.addresses import Mailbox
from messaging.mail.headers import clean_text
from messaging.mail.mime import MailContent
from messaging.mail.mime import build as build_message
from messaging.requests import BodyMode

PLAIN = MailContent(
    message_id="<17.9f3c@shop.example>",
    date=datetime(2026, 3, 1, 9, 5, 7, tzinfo=UTC),
    from_address="shop@shop.example",
    from_name=None,
    to=["a@example.com"],
    subject="s",
    body_mode=BodyMode.PLAIN,
    body_text="t",
)

#: No surrogates, as they are no characters; no controls, as they are cleaned or refused before.
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029"), max_size=300)
WORDS = st.lists(
    st.sampled_from(["Re:", "a", "=?utf-8?q?x?=", "?=", "größe", "漢字", "😀", '"', "\\", "x" * 80]), max_size=20
)
HEADER_TEXT = TEXT | WORDS.map(" ".join) | st.text("ab =?_é", max_size=120)
BODY_PIECES = st.lists(
    st.sampled_from(
        [
            "\n",
            "\r",
            "\r\n",
            ".",
            "..",
            "From ",
            " ",
            "\t",
            "=",
            "a",
            "x" * 75,
            "x" * 76,
            "x" * 1200,
            "é",
            "漢",
            "--=_",
            "\x0c",
        ]
    ),
    max_size=40,
).map("".join)
BODY = BODY_PIECES | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=400)


NAMES = HEADER_TEXT.map(lambda text: clean_text(text)[:100].strip())
MAILBOXES = st.lists(
    st.builds(
        Mailbox, NAMES, st.sampled_from(["a@example.com", '"x y"@example.com', f"{'l' * 64}@{'d' * 60}.example"])
    ),
    min_size=1,
    max_size=12,
)


def build(content: MailContent) -> bytes:
    """The octets of a message without files, which are in one piece."""
    message = build_message(content)
    (octets,) = message.chunks()
    assert message.size == len(octets)
    return octets


def content(**changes: Any) -> MailContent:
    return dataclasses.replace(PLAIN, **changes)


def both(html: str, text: str, **changes: Any) -> MailContent:
    return content(body_mode=BodyMode.HTML_WITH_AUTHORED_PLAIN, body_html=html, body_text=text, **changes)


def parsed(raw: bytes) -> EmailMessage:
    message = email.message_from_bytes(raw, policy=default)
    assert not message.defects
    return message


def header_block(raw: bytes) -> bytes:
    return raw.partition(b"\r\n\r\n")[0] + b"\r\n"


def field(raw: bytes, name: str) -> str:
    """The raw value of the one field with this name, unfolded."""
    found = re.findall(rb"(?mi)^%s:((?:[^\r]|\r\n[ ])*)\r\n" % name.encode(), header_block(raw))
    assert len(found) == 1, (name, found)
    return str(found[0].replace(b"\r\n", b"").decode().strip(" "))


def decoded_words(raw_value: str) -> str:
    return str(email.header.make_header(email.header.decode_header(raw_value)))


def lines_ended(text: str) -> str:
    text = re.sub(r"\r\n|\r", "\n", text)
    return text if not text or text.endswith("\n") else text + "\n"


def part_text(part: MIMEPart) -> str:
    octets = part.get_payload(decode=True)
    assert isinstance(octets, bytes)
    return octets.decode()


def check_wire_form(raw: bytes) -> None:
    """What holds for every message, whatever it holds."""
    assert raw.endswith(b"\r\n")
    assert b"\r" not in raw.replace(b"\r\n", b"")
    assert b"\n" not in raw.replace(b"\r\n", b"")
    assert b"\0" not in raw
    lines = raw.split(b"\r\n")
    assert max(map(len, lines)) <= 998
    assert b"." not in lines
    assert not any(line.startswith(b"From ") for line in lines)
    fields, _, body = raw.partition(b"\r\n\r\n")
    for line in fields.split(b"\r\n"):
        assert line.strip()
        assert line == line.rstrip()
        # Longer only where there is no space to break at, but the one after the field's name.
        assert len(line.decode()) <= 78 or b" " not in re.sub(rb"^[!-9;-~]+: |^ ", b"", line)
        for word in re.findall(rb"=\?utf-8\?[bq]\?[^?]*\?=", line):
            assert 12 < len(word) <= 75
            assert len(line) <= 76  # RFC 2047, 2
    # A media type cannot be broken.
    assert all(len(line) <= 78 or re.fullmatch(rb"Content-Type: [^ ]+", line) for line in body.split(b"\r\n"))
