"""Mails with files: send.md 3.3, 4.1 and 8, S17; cases mime-01, mime-03, mime-04, sec-01, sec-04.

What is written is read back by Python's parser and, independently of it, by fast-mail-parser.
"""

import io
import re
from collections.abc import Sequence
from typing import Any

import fast_mail_parser
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from messaging.category import ErrorCategory, MarkerCode
from messaging.errors import PreparationError
from messaging.files import clean_file_name
from messaging.mail.addresses import Mailbox, parse_mailbox_list
from messaging.mail.attached_files import AttachedFile
from messaging.mail.headers import clean_text
from messaging.mail.mime import MailContent, MessageBuildError
from messaging.mail.mime import build as build_message
from messaging.requests import BodyMode
from tests.unit.mail.mails import (
    BODY,
    HEADER_TEXT,
    MAILBOXES,
    both,
    check_wire_form,
    content,
    decoded_words,
    field,
    header_block,
    lines_ended,
    parsed,
    part_text,
)

EML = b"From: a@example.com\r\nSubject: inner\r\n\r\nhello\r\n"


def a_file(
    octets: bytes = b"1", name: str = "report.pdf", kind: str | None = "application/pdf", cid: str | None = None
) -> AttachedFile:
    return AttachedFile(content=io.BytesIO(octets), file_name=name, content_type=kind, content_id=cid)


def build(mail: MailContent, *files: AttachedFile) -> bytes:
    message = build_message(mail, files)
    octets = b"".join(message.chunks())
    assert message.size == len(octets)
    assert b"".join(message.chunks()) == octets  # read again
    return octets


def shape(raw: bytes) -> str:
    """The tree of types."""

    def walk(part: Any) -> str:
        if part.get_content_maintype() != "multipart":
            return str(part.get_content_type())
        return f"{part.get_content_subtype()}({', '.join(walk(p) for p in part.iter_parts())})"

    return walk(parsed(raw))


def part_fields(raw: bytes) -> list[bytes]:
    """The header blocks of the parts that are files."""
    return re.findall(rb"\r\n--=_\w+\r\n((?:[^\r]+\r\n)*Content-Disposition:(?:[^\r]+\r\n)*)\r\n", raw)


def the_file(raw: bytes) -> Any:
    (part,) = parsed(raw).iter_attachments()
    return part


# Structure


def test_an_attachment_makes_the_mail_mixed() -> None:  # S17
    raw = build(content(), a_file(b"%PDF", "report.pdf"))
    check_wire_form(raw)
    assert shape(raw) == "mixed(text/plain, application/pdf)"
    part = the_file(raw)
    assert (part.get_filename(), part.get_content_disposition()) == ("report.pdf", "attachment")
    assert part.get_content() == b"%PDF"
    assert b'Content-Type: application/pdf;\r\n name="report.pdf"\r\n' in raw
    assert b'Content-Disposition: attachment;\r\n filename="report.pdf"\r\n' in raw


def test_an_inline_image_stands_beside_the_html() -> None:  # mime-04
    mail = both('<img src="cid:logo1">', "hello")
    raw = build(mail, a_file(b"%PDF", "a.pdf"), a_file(b"\x89PNG", "logo.png", "image/png", "logo1"))
    check_wire_form(raw)
    assert shape(raw) == "mixed(alternative(text/plain, related(text/html, image/png)), application/pdf)"
    (image,) = [part for part in parsed(raw).walk() if part.get_content_maintype() == "image"]
    assert (image["Content-ID"], image.get_content_disposition()) == ("<logo1>", "inline")
    assert [part.get_content_disposition() for part in parsed(raw).walk()].count("attachment") == 1
    (related,) = [part for part in parsed(raw).walk() if part.get_content_subtype() == "related"]
    assert related.get_param("type") == "text/html"  # RFC 2387, 3.1


@pytest.mark.parametrize(
    ("mode", "tree"),
    [
        (BodyMode.HTML, "related(text/html, image/png, image/gif)"),
        (BodyMode.HTML_WITH_DERIVED_PLAIN, "alternative(text/plain, related(text/html, image/png, image/gif))"),
        (BodyMode.PLAIN, "mixed(text/plain, image/png, image/gif)"),
    ],
)
def test_without_html_an_inline_image_is_an_ordinary_attachment(mode: BodyMode, tree: str) -> None:  # send.md 4.1
    mail = content(body_mode=mode, body_html="<p>h</p>", body_text="t")
    raw = build(mail, a_file(b"1", "a.png", "image/png", "a"), a_file(b"2", "b.gif", "image/gif", "b@shop.example"))
    check_wire_form(raw)
    assert shape(raw) == tree
    expected = [None, None] if mode is BodyMode.PLAIN else ["<a>", "<b@shop.example>"]
    images = [part for part in parsed(raw).walk() if part.get_content_maintype() == "image"]
    assert [part["Content-ID"] for part in images] == expected
    assert {part.get_content_disposition() for part in images} == {"attachment" if mode is BodyMode.PLAIN else "inline"}


def test_the_order_is_kept() -> None:
    names = [f"{n}.txt" for n in (3, 1, 2, 10)]
    raw = build(content(), *(a_file(name.encode(), name, "text/plain") for name in names))
    assert [part.get_filename() for part in parsed(raw).iter_attachments()] == names
    assert [a.filename for a in fast_mail_parser.parse_email(raw).attachments] == names


def test_equal_mails_make_equal_bytes() -> None:  # S19
    mail = both("<p>ü</p>", "ü")
    assert build(mail, a_file(b"x" * 100_000, "ü.pdf")) == build(mail, a_file(b"x" * 100_000, "ü.pdf"))


def test_no_boundary_is_the_beginning_of_another_or_stands_in_the_content() -> None:
    first = build(both("h", "t"), a_file(b"1", cid="x"), a_file(b"2"))
    boundaries = re.findall(rb'boundary="([^"]+)"', first)
    assert len(set(boundaries)) == 3
    assert not any(a != b and a.startswith(b) for a in boundaries for b in boundaries)
    # The Message-ID decides them: contents that hold them are encoded.
    lines = b"".join(b"--" + b + b"--\r\n--" + b + b"\r\n" for b in boundaries)
    mail = both(lines.decode(), lines.decode())
    files = [a_file(lines, cid="x"), a_file(lines), a_file(EML + lines, "m.eml", "message/rfc822")]
    raw = build(mail, *files)
    assert all(raw.count(b"\r\n--" + b + b"--\r\n") == 1 for b in boundaries)
    assert shape(raw) == (
        "mixed(alternative(text/plain, related(text/html, application/pdf)), application/pdf, application/octet-stream)"
    )
    assert [a.content for a in fast_mail_parser.parse_email(raw).attachments] == [lines, lines, EML + lines]


# Content ids


@pytest.mark.parametrize("cid", ["a\r\nBcc: e@e.com", "a b", "<a>", "ü", "a\0", "x" * 251])
def test_a_content_id_that_no_field_can_hold_is_refused(cid: str) -> None:
    with pytest.raises(MessageBuildError, match="content_id"):
        build(both("h", "t"), a_file(cid=cid))


def test_two_images_of_one_content_id_are_refused() -> None:
    with pytest.raises(MessageBuildError, match="'logo'"):
        build(both("h", "t"), a_file(cid="logo"), a_file(cid="logo"))
    build(content(), a_file(cid="logo"), a_file(cid="logo"))  # ordinary attachments both


# Names


def test_a_name_beyond_ascii_is_extended() -> None:  # mime-03
    raw = build(content(), a_file(name="Prüfbericht Q1.pdf"))
    check_wire_form(raw)
    assert raw.isascii()
    assert b"Content-Disposition: attachment;\r\n filename*=utf-8''Pr%C3%BCfbericht%20Q1.pdf\r\n" in raw
    # For those that know no RFC 2231, where these look for it.
    assert b'Content-Type: application/pdf;\r\n name="=?utf-8?q?Pr=C3=BCfbericht_Q1=2Epdf?="\r\n' in raw
    assert the_file(raw).get_filename() == "Prüfbericht Q1.pdf"
    assert fast_mail_parser.parse_email(raw).attachments[0].filename == "Prüfbericht Q1.pdf"


def test_a_long_name_is_continued_in_extended_sections_of_whole_characters() -> None:  # RFC 2231, 3 and 4.1
    name = "漢字かな交じりの長い名前" * 8 + ".pdf"
    raw = build(content(), a_file(name=name))
    check_wire_form(raw)
    numbers = re.findall(rb"\r\n filename\*(\d+)\*=([^;\r]+)", raw)
    assert [int(number) for number, _ in numbers] == list(range(len(numbers)))
    assert len(numbers) > 10
    for _, section in numbers:
        assert (len(re.findall(rb"%[89AB][0-9A-F]", section)) - 2 * section.count(b"%E")) == 0
    assert the_file(raw).get_filename() == name


@pytest.mark.parametrize(
    "name", ['say "no".pdf', "a=?utf-8?q?b?=.pdf", "100%.pdf", "it's; a=b, (c) [d].pdf", "a*b'c.pdf"]
)
def test_a_name_that_readers_take_apart_comes_back(name: str) -> None:
    raw = build(content(), a_file(name=name))
    check_wire_form(raw)
    assert the_file(raw).get_filename() == name
    assert fast_mail_parser.parse_email(raw).attachments[0].filename == name


@pytest.mark.parametrize(
    "name", ["x\r\nBcc: victim@example.net", 'x"\r\n\r\n<script>', "x\nContent-Type: text/html", "a\0b", "../../x"]
)
def test_a_name_opens_no_header_and_no_folder(name: str) -> None:  # sec-01, sec-04
    raw = build(content(), a_file(name=name))
    check_wire_form(raw)
    assert the_file(raw).get_filename() == clean_file_name(name)
    assert not set(clean_file_name(name)) & set("\r\n\0/")
    assert "Bcc" not in the_file(raw)
    assert the_file(raw).get_content_type() == "application/pdf"


# Types


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (None, "application/octet-stream"),
        ("", "application/octet-stream"),
        ("application/pdf", "application/pdf"),
        ("Image/PNG", "image/png"),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document",) * 2,
        ("text/calendar; method=REQUEST; charset=utf-8", "text/calendar; method=REQUEST; charset=utf-8"),
        ('text/csv;header="a b"', 'text/csv; header="a b"'),
        ("text/plain; name=other.txt; boundary=x; name*=utf-8''y", "text/plain"),
        ("multipart/mixed; boundary=x", "application/octet-stream"),
        ("multipart/x", "application/octet-stream"),
        ("message/external-body; access-type=URL", "application/octet-stream"),
        ("message/partial; id=x; number=1", "application/octet-stream"),
        ("message/delivery-status", "application/octet-stream"),
        ("pdf", "application/octet-stream"),
        ("application/", "application/octet-stream"),
        ("application/pdf; x", "application/octet-stream"),
        ("application/pdf\r\nBcc: e@e.com", "application/octet-stream"),
        ('text/plain; a="b\r\nc"', "application/octet-stream"),
        ("text/plain\n", "application/octet-stream"),
        ("text/plain; a=😀", "application/octet-stream"),
        ("töxt/plain", "application/octet-stream"),
        ("x" * 200 + "/y", "application/octet-stream"),
        ("a/b" + "; c=d" * 100, "application/octet-stream"),
    ],
)
def test_a_type_is_passed_on_where_it_is_one_and_harms_nobody(given: str | None, written: str) -> None:
    raw = build(content(), a_file(kind=given))
    check_wire_form(raw)
    (fields,) = part_fields(raw)
    value = re.findall(rb"Content-Type: ([^\r]*(?:\r\n [^\r]*)*)", fields)[0].replace(b"\r\n", b"").decode()
    assert value == f'{written}; name="report.pdf"'
    assert the_file(raw).get_payload(decode=True) == b"1"


# Mails as attachments (RFC 2046, 5.2.1)


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(EML, id="crlf"),
        pytest.param(EML.replace(b"\r\n", b"\n"), id="lf"),
        pytest.param(EML + b"x" * 998 + b"\r\n", id="longest-line"),
        pytest.param(EML + b"no line end", id="no-line-end"),
        pytest.param(EML + b" trailing \r\n..\r\n>From \r\n", id="looks-odd"),
        pytest.param(EML * 5000, id="several-chunks"),
    ],
)
def test_a_mail_is_attached_as_it_is(octets: bytes) -> None:
    raw = build(content(), a_file(octets, "inner.eml", "message/rfc822"))
    assert shape(raw) == "mixed(text/plain, message/rfc822)"
    part = the_file(raw)
    assert (part["Content-Transfer-Encoding"], part.get_filename()) == ("7bit", "inner.eml")
    assert part.get_payload(0)["Subject"] == "inner"
    expected = octets.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    assert fast_mail_parser.parse_email(raw).attachments[0].content in (expected, expected + b"\r\n")
    assert b"\r\n\r\n" + expected + b"\r\n--" in raw


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(b"", id="empty"),
        pytest.param(EML + "ü".encode(), id="8-bit"),
        pytest.param(EML + b"a\0b", id="nul"),
        pytest.param(EML + b"a\rb", id="bare-cr"),
        pytest.param(EML + b"a\r\r\n", id="cr-before-the-end"),
        pytest.param(EML + b"a\r", id="cr-at-the-end"),
        pytest.param(EML + b"x" * 999 + b"\r\n", id="long-line"),
        pytest.param(EML + b"x" * 5000, id="very-long-line"),
        pytest.param(EML + b".\r\nx", id="dot-line"),
        pytest.param(EML + b"From the start\r\n", id="from-line"),
        pytest.param(b"From a@b Mon Jan 1\n" + EML, id="mbox"),
        pytest.param(b"%PDF\xff\xfe", id="no-mail"),
    ],
)
def test_a_mail_that_would_not_arrive_unchanged_is_a_file_like_others(octets: bytes) -> None:
    raw = build(content(), a_file(octets, "inner.eml", "message/rfc822"))
    check_wire_form(raw)
    assert shape(raw) == "mixed(text/plain, application/octet-stream)"
    assert the_file(raw).get_filename() == "inner.eml"
    assert the_file(raw).get_content() == octets


# What cannot be


def test_a_name_of_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(MessageBuildError):
        build(content(), a_file(name="\ud800.pdf"))


def test_a_file_that_cannot_be_looked_through_is_unavailable() -> None:
    class Broken(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    broken = AttachedFile(content=Broken(EML), file_name="m.eml", content_type="message/rfc822")
    with pytest.raises(PreparationError, match="Input/output error") as caught:
        build_message(content(), [broken])
    assert caught.value.marker == MarkerCode.ATTACHMENT_UNAVAILABLE
    assert caught.value.category is ErrorCategory.TRANSIENT


# All of it


SCRIPTS = st.sampled_from(
    [
        "Größe",
        "Ελληνικά",
        "Кириллица",
        "עברית",
        "العربية",
        "हिन्दी",
        "ไทย",
        "漢字かな",
        "한국어",
        "👩‍👩‍👧🏽",
        "é",
        "naïve café",
    ]
)
NAMES = st.text(max_size=300) | st.lists(
    SCRIPTS | st.sampled_from([" ", ".", "-", '"', "=?", "'", "%41"]), max_size=40
).map("".join)
FILE_NAMES = NAMES.filter(lambda name: not re.search("[\ud800-\udfff]", name))
OCTETS = st.binary(max_size=300) | st.sampled_from([bytes(range(256)) * 20, b".\r\n--=_\r\nFrom "])
KINDS = st.sampled_from([None, "application/pdf", "text/plain; charset=utf-8", "text/html", "multipart/x"])
FILES = st.lists(st.tuples(OCTETS, FILE_NAMES, KINDS), max_size=3)
IMAGES = st.lists(st.tuples(OCTETS, FILE_NAMES, st.sampled_from(["image/png", None])), max_size=2)


def attachments_of(raw: bytes) -> list[tuple[str, bytes, str]]:
    found = []
    for part in parsed(raw).walk():
        if part.get_content_disposition():
            octets = part.get_payload(decode=True)
            assert isinstance(octets, bytes)
            assert not part.defects
            # `get_filename` would take angle brackets around a name away.
            name = part["Content-Disposition"].params.get("filename")
            found.append((str(name), octets, str(part.get_content_disposition())))
    return found


# The machine may be busy: what is tested is not how long a mail takes.
@settings(deadline=None, max_examples=60)
@given(subject=HEADER_TEXT, name=HEADER_TEXT, mailboxes=MAILBOXES, html=BODY, text=BODY, files=FILES, inline=IMAGES)
@example(
    subject="x\r\nBcc: e@e.com",
    name="a\nb",
    mailboxes=[Mailbox("", "a@example.com")],
    html="",
    text="",
    files=[(b"", "<a>.pdf", None), (b"", "<>", None)],
    inline=[(b"", "<>", "image/png")],
)
def test_whatever_is_given_comes_back_and_nothing_else(
    subject: str,
    name: str,
    mailboxes: list[Mailbox],
    html: str,
    text: str,
    files: Sequence[tuple[bytes, str, str | None]],
    inline: Sequence[tuple[bytes, str, str | None]],
) -> None:  # S16, S17, mime-01, sec-01
    stored = [mailbox.canonical() for mailbox in mailboxes]
    mail = both(html, text, subject=subject, from_name=name, to=stored, cc=stored[:1])
    attached = [a_file(octets, file_name, kind) for octets, file_name, kind in files]
    images = [a_file(octets, file_name, kind, f"image{n}") for n, (octets, file_name, kind) in enumerate(inline)]
    raw = build(mail, *attached, *images)

    check_wire_form(raw)
    assert raw.isascii()
    given_names = [
        line.partition(b":")[0].decode() for line in header_block(raw).split(b"\r\n") if line[:1] not in (b" ", b"")
    ]
    assert given_names == [
        *("From", "To", "Cc", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version", "Content-Type")
    ]
    for block in part_fields(raw):
        for line in block.split(b"\r\n"):
            assert len(line) <= 78  # RFC 5322, 2.1.1
            assert all(len(word) <= 75 for word in re.findall(rb"=\?[^?]*\?[bq]\?[^?]*\?=", line))  # RFC 2047, 2

    expected = [(clean_file_name(n), octets, "inline") for octets, n, _ in inline]
    expected += [(clean_file_name(n), octets, "attachment") for octets, n, _ in files]
    assert attachments_of(raw) == expected
    assert decoded_words(field(raw, "Subject")) == clean_text(subject)
    assert parse_mailbox_list(field(raw, "To")) == mailboxes
    plain, rich = (
        p for p in parsed(raw).walk() if p.get_content_maintype() == "text" and not p.get_content_disposition()
    )
    assert [part_text(p) for p in (plain, rich)] == [lines_ended(t).replace("\n", "\r\n") for t in (text, html)]

    other = fast_mail_parser.parse_email(raw)
    assert [(a.filename, a.content, a.disposition) for a in other.attachments] == expected
    assert other.subject == clean_text(subject)
    assert ([lines_ended(t) for t in other.text_plain], [lines_ended(t) for t in other.text_html]) == (
        [lines_ended(text)],
        [lines_ended(html)],
    )
    assert not other.bcc
