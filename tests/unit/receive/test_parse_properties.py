"""Nothing raises out of the parser, whatever it is given, and what it says can be stored (receive.md 7 and 8)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messaging.receive.parse import ParseLimits, parse, parse_envelope
from messaging.receive.parsed import ParsedMail
from messaging.receive.vocabulary import TruncationReason

LIMITS = ParseLimits()
DATA = Path(__file__).parents[2] / "data"
CORPUS = Path(__file__).parents[4] / "shared" / "corpus"
OWN = sorted(DATA.glob("*/**/*.eml"))
#: Beyond this the mutations of one mail would take their time.
MAX_MUTATED_BYTES = 50_000

PIECES = [
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b" ",
        b"\t",
        b";",
        b":",
        b",",
        b'"',
        b"\\",
        b"<",
        b">",
        b"(",
        b")",
        b"=",
        b"?",
    ),
    *(
        b"--b",
        b"--b--",
        b"--",
        b"Content-Type: ",
        b"multipart/mixed",
        b"multipart/alternative",
        b"; boundary=b",
        b"text/html",
    ),
    *(
        b"message/rfc822",
        b"Content-Transfer-Encoding: ",
        b"base64",
        b"quoted-printable",
        b"x-uuencode",
        b"begin 644 x\n",
    ),
    *(
        b"Content-Disposition: ",
        b"attachment",
        b"; filename*0*=utf-8''%c3",
        b"; filename=",
        b"=?utf-8?B?",
        b"=?utf-16?Q?",
    ),
    *(
        b"?=",
        b"From: ",
        b"To: ",
        b"Date: ",
        b"Subject: ",
        b"a@b.c",
        b"\x00",
        b"\xff",
        b"\xc3\xa9",
        b"charset=",
        b"utf-7",
    ),
    *(b"YWJj", b"=20", b"+2AA-", b"<p>", b"<script>", b"&#0;", b"Mon, 3 Nov 2025 12:00:01 +0000", b"%00"),
]


def strings(mail: ParsedMail) -> Iterator[str]:
    """Everything that is stored as text."""
    yield from (text for text in (mail.message_id, mail.from_address, mail.from_name, mail.subject) if text is not None)
    yield from (text for text in (mail.date_header, mail.body_text, mail.body_html, mail.rule_text) if text is not None)
    yield from (*mail.to_addresses, *mail.cc_addresses)
    for name in mail.headers:
        yield from mail.headers.all(name)
    for attachment in mail.attachments:
        yield from (attachment.file_name, attachment.content_type, attachment.content_id or "")
    for part in mail.walk():
        yield from (part.content_type, part.disposition or "", part.file_name or "", part.content_id or "", part.text())
        yield from (*part.parameters, *part.parameters.values())


def check(raw: bytes, limits: ParseLimits = LIMITS) -> ParsedMail:
    mail = parse(raw, limits)
    assert mail.truncation_reason is not TruncationReason.PARSE_FAILED
    for text in strings(mail):
        assert "\x00" not in text
        text.encode()
    assert (mail.body_mode is None) == (mail.body_text is None and mail.body_html is None)
    assert all(0 < len(attachment.file_name) <= 255 for attachment in mail.attachments)
    assert all("/" not in attachment.file_name and "\\" not in attachment.file_name for attachment in mail.attachments)
    assert mail.date is None or mail.date.tzinfo is not None
    assert len(mail.rule_text) <= 65_536
    return mail


def mutated(raw: bytes, draw: st.DataObject) -> bytes:
    """A mail with a few of its octets cut out, doubled or replaced."""
    for _ in range(draw.draw(st.integers(1, 6))):
        start = draw.draw(st.integers(0, len(raw)))
        end = min(len(raw), start + draw.draw(st.integers(0, 200)))
        middle = draw.draw(st.sampled_from([b"", raw[start:end] * 2, raw[:end], *PIECES]) | st.binary(max_size=20))
        raw = raw[:start] + middle + raw[end:]
    return raw[:MAX_MUTATED_BYTES]


@given(st.binary(max_size=500))
def test_any_octets(raw: bytes) -> None:
    check(raw)
    parse_envelope(raw, LIMITS)


@given(st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join))
@settings(max_examples=300)
def test_any_pieces_of_mails(raw: bytes) -> None:
    check(raw)
    check(raw, ParseLimits(max_mime_parts=1, max_mime_depth=1, max_attachment_bytes=1))


@given(st.data())
@settings(max_examples=200)
def test_mutations_of_our_samples(data: st.DataObject) -> None:
    check(mutated(data.draw(st.sampled_from(OWN)).read_bytes(), data))


def corpus() -> list[Path]:
    return sorted(path for path in CORPUS.glob("*/*") if path.parent.name != "LICENSES")


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the collection of mails of others is not on this machine")
def test_every_mail_of_the_collection_is_read() -> None:
    mails = {path: check(path.read_bytes()) for path in corpus()}
    assert len(mails) >= 394
    assert {path.name for path, mail in mails.items() if mail.truncation_reason is not None} == set()


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the collection of mails of others is not on this machine")
@given(st.data())
@settings(max_examples=200)
def test_mutations_of_the_collection(data: st.DataObject) -> None:
    check(mutated(data.draw(st.sampled_from(corpus())).read_bytes(), data))
