"""The bytes of a message: send.md sections 3.3, 4.1, 8; cases mime-01, mime-02, mime-05, addr-01, smtp-03, sec-01.

What is written is read back by Python's parser and, independently of it, by fast-mail-parser.
"""

import dataclasses
import email
import re
from datetime import datetime, timedelta, timezone
from email.policy import SMTPUTF8
from typing import Any

import fast_mail_parser
import pytest
from hypothesis import example, given

from messaging.mail.addresses import Mailbox, from_canonical, parse_mailbox, parse_mailbox_list, parse_reply_to
from messaging.mail.headers import clean_text
from messaging.mail.mime import MailContent, MessageBuildError
from messaging.requests import BodyMode, Priority
from tests.unit.mail.mails import (
    BODY,
    HEADER_TEXT,
    MAILBOXES,
    PLAIN,
    both,
    build,
    check_wire_form,
    content,
    decoded_words,
    field,
    lines_ended,
    parsed,
    part_text,
)


@pytest.mark.parametrize("name", [None, "", "  "])
def test_without_a_name_from_is_the_bare_address(name: str | None) -> None:
    assert field(build(content(from_name=name)), "From") == "shop@shop.example"


def test_the_whole_message_as_written() -> None:
    raw = build(
        both(
            "<p>Hello</p>\n",
            "Hello\n",
            from_name="The Shop",
            to=["Kevin Lee <kevin@example.com>", "a@example.com"],
            cc=["c@example.com"],
            reply_to="help@shop.example, ops@shop.example",
            subject="Your order",
            priority=Priority.HIGH,
            read_receipt=True,
            headers={"X-Order": "4711"},
            date=datetime(2026, 3, 1, 11, 5, 7, tzinfo=timezone(timedelta(hours=2))),
        )
    )
    boundary = "=_" + re.findall(rb'boundary="=_(\w+)"', raw)[0].decode()
    assert raw.decode("ascii").split("\r\n") == [
        "From: The Shop <shop@shop.example>",
        "To: Kevin Lee <kevin@example.com>, a@example.com",
        "Cc: c@example.com",
        "Reply-To: help@shop.example, ops@shop.example",
        "Subject: Your order",
        "Date: Sun, 01 Mar 2026 09:05:07 +0000",
        "Message-ID: <17.9f3c@shop.example>",
        "Auto-Submitted: auto-generated",
        "Disposition-Notification-To: shop@shop.example",
        "Return-Receipt-To: shop@shop.example",
        "X-Priority: 1",
        "Importance: High",
        "X-MSMail-Priority: High",
        "X-Order: 4711",
        "MIME-Version: 1.0",
        "Content-Type: multipart/alternative;",
        f' boundary="{boundary}"',
        "",
        f"--{boundary}",
        'Content-Type: text/plain; charset="utf-8"',
        "Content-Transfer-Encoding: 7bit",
        "",
        "Hello",
        "",
        f"--{boundary}",
        'Content-Type: text/html; charset="utf-8"',
        "Content-Transfer-Encoding: 7bit",
        "",
        "<p>Hello</p>",
        "",
        f"--{boundary}--",
        "",
    ]


def test_equal_contents_make_equal_bytes() -> None:  # S19
    first = both("<p>ü</p>", "ü", subject="größe", headers={"X-A": "1", "X-B": "2"})
    later = dataclasses.replace(first, date=first.date.astimezone(timezone(timedelta(hours=-7))))
    assert build(first) == build(later)
    assert field(build(first), "Message-ID") == PLAIN.message_id


def test_the_boundary_follows_from_the_message_id() -> None:
    one = build(both("<p>x</p>", "x"))
    other = build(both("<p>y</p>", "y"))
    another = build(both("<p>x</p>", "x", message_id="<18.0000@shop.example>"))
    assert field(one, "Content-Type") == field(other, "Content-Type") != field(another, "Content-Type")


def test_a_body_that_holds_the_boundary_does_not_end_its_part() -> None:
    boundary = parsed(build(both("h", "t"))).get_boundary()
    message = parsed(build(both(f"--{boundary}--\n", f"a\n--{boundary}\nb\n")))
    assert [part_text(p) for p in message.iter_parts()] == [f"a\r\n--{boundary}\r\nb\r\n", f"--{boundary}--\r\n"]


def test_blind_recipients_are_in_no_header() -> None:  # mime-01, S16
    # The content has no place for them: a further header is the only way in, and it is shut.
    assert not any("bcc" in f.name for f in dataclasses.fields(MailContent))
    raw = build(content(to=["a@example.com"], cc=["c@example.com"]))
    assert b"\nbcc:" not in raw.lower()
    message = parsed(raw)
    assert (message["To"], message["Cc"]) == ("a@example.com", "c@example.com")


@pytest.mark.parametrize(
    "name", ["Bcc", "bcc", "To", "Subject", "Message-ID", "Content-Type", "Received", "X-Priority"]
)
def test_a_further_header_replaces_none_of_ours(name: str) -> None:  # A24
    with pytest.raises(MessageBuildError):
        build(content(headers={name: "e@e.example"}))


@pytest.mark.parametrize("name", ["X A", "X-A:", "X-A\r\nBcc", "", "X-Ä"])
def test_a_further_header_has_a_field_name(name: str) -> None:
    with pytest.raises(MessageBuildError):
        build(content(headers={name: "v"}))


@pytest.mark.parametrize("value", ["1\r\nBcc: e@e.com", "1\nX: 2", "1\r", "a\tb", "a\0b"])
def test_a_further_header_opens_no_other(value: str) -> None:  # A24
    with pytest.raises(MessageBuildError):
        build(content(headers={"X-A": value}))


def test_headers_that_preparation_adds_stand_after_the_callers_and_hold_one_line() -> None:  # send.md 8, RFC 8058
    link = f"<https://mail.example.com/hooks/unsubscribe/{'t' * 80}>"
    raw = build(
        content(
            headers={"List-Unsubscribe": link, "X-A": "1", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"},
        )
    )
    check_wire_form(raw)
    lines = f"X-A: 1\r\nList-Unsubscribe: {link}\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"
    assert lines.encode() in raw
    for value in ("<https://a>\r\nBcc: e@e.com", "<https://ä>"):
        with pytest.raises(MessageBuildError, match="List-Unsubscribe"):
            build(content(headers={"List-Unsubscribe": value}))


def test_long_references_stay_as_they_are() -> None:  # mime-05, A24
    ids = [f"<{c * 60}@mail.example.com>" for c in "abc"]
    raw = build(content(headers={"References": " ".join(ids), "In-Reply-To": ids[2]}))
    check_wire_form(raw)
    assert b"=?" not in raw
    assert field(raw, "References").split(" ") == ids
    assert f"\r\nReferences: {ids[0]}\r\n {ids[1]}\r\n {ids[2]}\r\n".encode() in raw
    assert parsed(raw)["References"].split() == ids
    assert field(raw, "In-Reply-To") == ids[2]


def test_a_message_id_longer_than_a_line_is_kept_whole() -> None:
    long_id = f"<{'a' * 900}@example.com>"
    raw = build(content(headers={"References": f"<1@example.com> {long_id} <2@example.com>"}))
    check_wire_form(raw)
    assert f"\r\n {long_id}\r\n".encode() in raw


def test_a_first_token_too_long_for_any_line_stays_beside_its_name_while_it_fits() -> None:
    assert f"X-A: {'a' * 993}\r\n".encode() in build(content(headers={"X-A": "a" * 993}))
    assert f"X-A:\r\n {'a' * 997}\r\n".encode() in build(content(headers={"X-A": "a" * 997}))
    with pytest.raises(MessageBuildError, match="998"):
        build(content(headers={"X-A": "a" * 998}))


@pytest.mark.parametrize("length", [60, 64])
def test_no_field_begins_with_an_empty_line(length: int) -> None:
    # Some verifiers of DKIM signatures stumble over `Reply-To:` CRLF, and some readers find nothing there.
    address = f"{'a' * length}@shop.example"
    raw = build(
        content(to=[address, "b@shop.example"], reply_to=address, headers={"References": f"<{address}> <1@a.b>"})
    )
    check_wire_form(raw)
    assert f"\r\nTo: {address},\r\n b@shop.example\r\n".encode() in raw
    assert f"\r\nReply-To: {address}\r\n".encode() in raw
    assert f"\r\nReferences: <{address}>\r\n <1@a.b>\r\n".encode() in raw


def test_a_further_header_is_literal_even_when_it_looks_encoded() -> None:
    raw = build(content(headers={"X-A": "=?utf-8?q?x?=  two  spaces", "X-Empty": ""}))
    assert b"\r\nX-A: =?utf-8?q?x?=  two  spaces\r\n" in raw
    assert b"\r\nX-Empty:\r\n" in raw


def test_every_space_of_a_long_literal_header_is_kept() -> None:
    value = "  ".join(["word"] * 40)
    raw = build(content(headers={"X-A": value}))
    check_wire_form(raw)
    assert field(raw, "X-A") == value


@pytest.mark.parametrize("name", ["Organization", "X-Note", "Comments", "Feedback-ID"])
def test_a_further_header_beyond_ascii_is_encoded(name: str) -> None:
    raw = build(content(headers={name: "Gemüse & Söhne" * 9}))
    check_wire_form(raw)
    assert raw.isascii()
    assert decoded_words(field(raw, name)) == "Gemüse & Söhne" * 9


def test_keywords_and_list_id_encode_their_phrases_only() -> None:
    raw = build(content(headers={"Keywords": "größe, b c, maß", "List-Id": "Gemüse <veg.shop.example>"}))
    assert field(raw, "Keywords") == "=?utf-8?b?Z3LDtsOfZQ==?= , b c , =?utf-8?b?bWHDnw==?="
    assert field(raw, "List-Id") == "=?utf-8?b?R2Vtw7xzZQ==?= <veg.shop.example>"


@pytest.mark.parametrize("subject", [None, "", "  "])
def test_without_a_subject_the_header_is_empty(subject: str | None) -> None:
    raw = build(content(subject=subject))
    assert b"\r\nSubject:\r\n" in raw
    assert parsed(raw)["Subject"] == ""


def test_a_mixed_subject_has_no_empty_encoded_word() -> None:  # mime-02
    subject = "Re: some few filler words here RE: Routeraustausch und übriggebliebene Glasfaser"
    raw = build(content(subject=subject))
    check_wire_form(raw)
    assert b"?q??=" not in raw.lower()
    assert b"?b??=" not in raw.lower()
    assert parsed(raw)["Subject"] == subject


@pytest.mark.parametrize(
    "subject", ["x\r\nBcc: e@e.com", "hi\nBcc: victim@example.net\nX-A: 1", "hi\r\nBcc: v@e.com", "hi\rBcc: v@e.com"]
)
def test_a_line_break_in_the_subject_opens_no_header(subject: str) -> None:  # A20, sec-01
    message = parsed(build(content(subject=subject)))
    assert message["Subject"] == clean_text(subject)
    assert "Bcc" not in message
    assert "X-A" not in message
    message = parsed(build(content(from_name=subject)))
    assert message["From"].addresses[0].display_name == clean_text(subject)
    assert "Bcc" not in message


@pytest.mark.parametrize("subject", ["=?utf-8?q?x?=", "a =?utf-8?b?eA==?= b", "=?", "x?= =?x", "=?utf-8?q??="])
def test_a_text_that_looks_encoded_decodes_to_itself(subject: str) -> None:
    raw = build(content(subject=subject, from_name=subject))
    assert f": {subject}\r\n".encode() not in raw
    assert parsed(raw)["Subject"] == subject
    assert parsed(raw)["From"].addresses[0].display_name == subject
    assert fast_mail_parser.parse_email(raw).subject == subject


def test_encoded_words_are_q_where_ascii_prevails_and_b_elsewhere() -> None:
    assert field(build(content(subject="Gemüse und Obst")), "Subject") == "=?utf-8?q?Gem=C3=BCse_und_Obst?="
    assert field(build(content(subject="漢字")), "Subject") == "=?utf-8?b?5ryi5a2X?="


@given(HEADER_TEXT)
@example("é" * 500)
@example("a" * 500)
@example("x" * 64 + " " + "y" * 65)
@example("😀" * 125)
@example("a  b")
def test_any_subject_comes_back(subject: str) -> None:
    raw = build(content(subject=subject))
    check_wire_form(raw)
    assert raw.isascii()
    assert parsed(raw)["Subject"] == clean_text(subject)
    assert decoded_words(field(raw, "Subject")) == clean_text(subject)
    assert fast_mail_parser.parse_email(raw).subject == clean_text(subject)


@given(HEADER_TEXT)
@example("Smith, John")
@example('He said "no" \\ yes')
@example("John Q. Public")
@example("a  b")
@example("ü" * 100)
def test_any_from_name_comes_back(name: str) -> None:
    raw = build(content(from_name=name))
    check_wire_form(raw)
    assert raw.isascii()
    value = field(raw, "From")
    assert "=?" not in "".join(re.findall(r'"(?:[^"\\]|\\.)*"', value))  # RFC 2047 section 5 rule 3
    assert parse_mailbox(value) == Mailbox(clean_text(name), "shop@shop.example")
    shown = fast_mail_parser.parse_email(raw).from_
    assert shown is not None
    assert (shown.display_name or "", shown.address) == (clean_text(name), "shop@shop.example")
    # Python's address parser leaves a space between two encoded-words (cpython#128110) and makes one of several.
    if value.count("=?") <= 1:
        (address,) = parsed(raw)["From"].addresses
        assert address.display_name == re.sub(" +", " ", clean_text(name))
        assert address.addr_spec == "shop@shop.example"


@given(MAILBOXES)
def test_any_recipients_come_back(mailboxes: list[Mailbox]) -> None:
    stored = [mailbox.canonical() for mailbox in mailboxes]
    raw = build(content(to=stored, cc=stored))
    check_wire_form(raw)
    assert raw.isascii()
    assert parse_mailbox_list(field(raw, "To")) == mailboxes
    assert [a.addr_spec for a in parsed(raw)["Cc"].addresses] == [m.address for m in mailboxes]
    # That parser knows no quoted local part.
    if not any('"' in mailbox.address for mailbox in mailboxes):
        found = fast_mail_parser.parse_email(raw).to
        assert [Mailbox(a.display_name or "", a.address) for a in found] == mailboxes


def test_a_quoted_name_with_a_comma_is_one_mailbox() -> None:  # addr-01
    stored = parse_mailbox('"Lee, Kevin" <kevin@example.com>').canonical()
    raw = build(content(to=[stored]))
    assert field(raw, "To") == '"Lee, Kevin" <kevin@example.com>'
    (address,) = parsed(raw)["To"].addresses
    assert (address.display_name, address.addr_spec) == ("Lee, Kevin", "kevin@example.com")


def test_a_long_recipient_list_is_folded_between_mailboxes() -> None:
    stored = [f"Person Number{n} <person{n}@example.com>" for n in range(100)]
    raw = build(content(to=stored))
    check_wire_form(raw)
    assert [str(a) for a in parsed(raw)["To"].addresses] == stored


@pytest.mark.parametrize(
    ("given", "field_value"),
    [
        ("help@example.com", "help@example.com"),
        ('"Smith, John" <j@x.com>, ops@x.com', '"Smith, John" <j@x.com>, ops@x.com'),  # A8
        ('"Smith, John" <j@x.com>; ops@x.com', '"Smith, John" <j@x.com>, ops@x.com'),  # A9
        ("Jörg <j@bücher.example>", "=?utf-8?b?SsO2cmc=?= <j@xn--bcher-kva.example>"),
        ("=?utf-8?q?J=C3=B6rg?= <j@x.com>", "=?utf-8?b?SsO2cmc=?= <j@x.com>"),
    ],
)
def test_a_reply_to_is_written(given: str, field_value: str) -> None:
    raw = build(content(reply_to=parse_reply_to(given)))
    assert field(raw, "Reply-To") == field_value


def test_a_long_reply_to_list_is_folded() -> None:
    given = ", ".join(f"Desk {n} <desk{n}@support.example.com>" for n in range(6))
    raw = build(content(reply_to=given))
    check_wire_form(raw)
    assert field(raw, "Reply-To") == given


def test_there_is_no_header_without_its_value() -> None:
    message = parsed(build(content(auto_submitted=False)))
    absent = ("Cc", "Reply-To", "Auto-Submitted", "Disposition-Notification-To", "X-Priority", "Importance", "Sender")
    assert not [name for name in absent if name in message]


@pytest.mark.parametrize(
    ("priority", "values"),
    [
        (Priority.HIGH, ("1", "High", "High")),  # S14
        (Priority.NORMAL, ("3", "Normal", "Normal")),
        (Priority.LOW, ("5", "Low", "Low")),
        (None, (None, None, None)),
    ],
)
def test_a_priority_is_three_headers(priority: Priority | None, values: tuple[str | None, ...]) -> None:
    message = parsed(build(content(priority=priority)))
    assert tuple(message[name] for name in ("X-Priority", "Importance", "X-MSMail-Priority")) == values


@pytest.mark.parametrize("read_receipt", [True, False])
def test_a_read_receipt_goes_to_the_bare_from_address(read_receipt: bool) -> None:  # S18
    message = parsed(build(content(from_name="The Shop", read_receipt=read_receipt)))
    expected = "shop@shop.example" if read_receipt else None
    assert message["Disposition-Notification-To"] == message["Return-Receipt-To"] == expected


@pytest.mark.parametrize(
    ("mode", "types"),
    [
        (BodyMode.HTML, ["text/html"]),
        (BodyMode.PLAIN, ["text/plain"]),
        (BodyMode.HTML_WITH_DERIVED_PLAIN, ["multipart/alternative", "text/plain", "text/html"]),
        (BodyMode.HTML_WITH_AUTHORED_PLAIN, ["multipart/alternative", "text/plain", "text/html"]),
    ],
)
def test_the_body_mode_decides_the_parts(mode: BodyMode, types: list[str]) -> None:  # send.md 4.1
    raw = build(content(body_mode=mode, body_html="<p>h</p>", body_text="t"))
    check_wire_form(raw)
    message = parsed(raw)
    assert [part.get_content_type() for part in message.walk()] == types
    assert all(p.get_content_charset() == "utf-8" for p in message.walk() if not p.is_multipart())


@pytest.mark.parametrize(
    ("mode", "changes"),
    [
        (BodyMode.PLAIN, {"body_text": None}),
        (BodyMode.HTML, {"body_html": None}),
        (BodyMode.HTML_WITH_AUTHORED_PLAIN, {"body_text": None, "body_html": "h"}),
        (BodyMode.HTML_WITH_DERIVED_PLAIN, {"body_text": "t", "body_html": None}),
    ],
)
def test_a_body_the_mode_needs_must_be_there(mode: BodyMode, changes: dict[str, Any]) -> None:
    with pytest.raises(MessageBuildError, match="body"):
        build(content(body_mode=mode, **changes))


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        pytest.param("plain\nlines\n", "7bit", id="plain"),
        pytest.param("tab\tinside\n", "7bit", id="tab"),
        pytest.param("..two\n.hidden line\n", "7bit", id="dots-that-stuffing-saves"),
        pytest.param("x" * 78, "7bit", id="line-of-78"),
        pytest.param("", "7bit", id="empty"),
        pytest.param("x" * 79, "quoted-printable", id="line-of-79"),
        pytest.param("x" * 1200, "quoted-printable", id="line-of-1200"),
        pytest.param("trailing \nspace", "quoted-printable", id="trailing-space"),
        pytest.param("trailing space ", "quoted-printable", id="trailing-space-at-the-end"),
        pytest.param("trailing\t\ntab", "quoted-printable", id="trailing-tab"),
        pytest.param("a\n.\nb", "quoted-printable", id="dot-line"),
        pytest.param(".\nb", "quoted-printable", id="dot-line-first"),
        pytest.param("a\n.", "quoted-printable", id="dot-line-last"),
        pytest.param("From here", "quoted-printable", id="from-line-first"),
        pytest.param("a\nFrom here", "quoted-printable", id="from-line"),
        pytest.param("a sentence of words\x0c and a form feed", "quoted-printable", id="control"),
        pytest.param("Die Größe der Gemüsekiste ist angegeben", "quoted-printable", id="some-umlauts"),
        pytest.param("漢字かな", "base64", id="no-ascii"),
    ],
)
def test_the_encoding_fits_the_text(text: str, encoding: str) -> None:
    raw = build(content(body_text=text))
    check_wire_form(raw)
    message = parsed(raw)
    assert message["Content-Transfer-Encoding"] == encoding
    assert part_text(message) == lines_ended(text).replace("\n", "\r\n")


@pytest.mark.parametrize(
    "text",
    [
        "From " + "x" * 71 + "ä and more of it\n" + "From \n" + "x" * 75 + "From here on\n" + "x" * 75 + ".\n",
        "".join("x" * n + blank + "\n" for n in range(70, 80) for blank in " \t"),
        "".join("From " + "x" * n + blank + "\n" for n in range(65, 75) for blank in " \t"),
        "".join("é" * 12 + "x" * n + " \n" for n in range(10)) + "x" * 4000 + "\n",
    ],
)
def test_an_encoded_line_stays_within_76_characters(text: str) -> None:  # RFC 2045 section 6.7 rule 5
    raw = build(content(body_text=text))
    check_wire_form(raw)
    message = parsed(raw)
    assert message["Content-Transfer-Encoding"] == "quoted-printable"
    body = raw.partition(b"\r\n\r\n")[2]
    assert max(map(len, body.split(b"\r\n"))) <= 76
    assert not any(line.endswith((b" ", b"\t")) for line in body.split(b"\r\n"))
    assert part_text(message) == text.replace("\n", "\r\n")


def test_lines_that_hold_dots_come_back() -> None:  # smtp-03
    text = "first\n.\n..two\n.hidden line\nlast\n"
    assert part_text(parsed(build(content(body_text=text)))).split("\r\n") == text.split("\n")


def test_line_ends_of_any_kind_become_crlf() -> None:
    raw = build(content(body_text="a\nb\rc\r\nd\n\re\r\r\nf"))
    assert raw.partition(b"\r\n\r\n")[2] == b"a\r\nb\r\nc\r\nd\r\n\r\ne\r\n\r\nf\r\n"


@given(html=BODY, text=BODY)
@example(html="From " * 40, text=".\n" * 40)
@example(html="x" * 75 + ".\r" + "y" * 75 + " ", text="é" + "x" * 73 + " \n" + "=" * 100)
def test_any_bodies_come_back(html: str, text: str) -> None:
    raw = build(both(html, text))
    check_wire_form(raw)
    assert raw.isascii()
    plain, rich = parsed(raw).iter_parts()
    assert part_text(plain) == lines_ended(text).replace("\n", "\r\n")
    assert part_text(rich) == lines_ended(html).replace("\n", "\r\n")
    other = fast_mail_parser.parse_email(raw)
    assert [lines_ended(t) for t in other.text_plain] == [lines_ended(text)]
    assert [lines_ended(t) for t in other.text_html] == [lines_ended(html)]


@given(BODY)
def test_any_single_body_comes_back(text: str) -> None:
    raw = build(content(body_text=text))
    check_wire_form(raw)
    assert part_text(parsed(raw)) == lines_ended(text).replace("\n", "\r\n")


def test_a_local_part_beyond_ascii_is_the_only_reason_for_8_bits() -> None:  # RFC 6532
    stored = parse_mailbox("Jörg <jörg@bücher.example>").canonical()
    raw = build(both("<p>ü</p>", "ü", to=[stored], from_name="Käse", subject="größe", reply_to="jörg@x.com"))
    check_wire_form(raw)
    eight_bit = [line for line in raw.split(b"\r\n") if not line.isascii()]
    assert [line.decode() for line in eight_bit] == [
        "To: =?utf-8?b?SsO2cmc=?= <jörg@xn--bcher-kva.example>",
        "Reply-To: jörg@x.com",
    ]
    message = email.message_from_string(raw.decode(), policy=SMTPUTF8)
    assert message["To"].addresses[0].addr_spec == "jörg@xn--bcher-kva.example"


def test_a_from_domain_beyond_ascii_becomes_a_labels() -> None:
    assert field(build(content(from_address="shop@bücher.example")), "From") == "shop@xn--bcher-kva.example"


@pytest.mark.parametrize(
    "changes",
    [
        {"body_text": "a\0b"},
        {"body_text": "\ud800"},
        {"subject": "\ud800"},
        {"from_name": "\udfff"},
        {"date": datetime(2026, 3, 1)},  # noqa: DTZ001
        {"message_id": "17.9f3c@shop.example"},
        {"message_id": "<17@shop.example>\r\nBcc: e@e.com"},
        {"message_id": "<ü@shop.example>"},
        {"to": ["a@example.com\r\nBcc: e@e.com"]},
        {"cc": ["A\nB <a@example.com>"]},
        {"from_address": "a@example.com\nBcc: e@e.com"},
        {"reply_to": "a@x.com\r\nBcc: e@e.com"},
        {"reply_to": "Jörg <nowhere>"},
        {"to": ['"broken <a@example.com>' + "x" * 80 + ">"]},
        {"headers": {"References": "<ü@example.com>"}},
    ],
)
def test_what_no_message_can_carry_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(MessageBuildError):
        build(content(**changes))


def test_the_stored_form_and_the_header_agree() -> None:
    stored = parse_mailbox('"Q. \\"Quote\\" =?utf-8?q?x?=" <q@example.com>').canonical()
    assert parse_mailbox(field(build(content(to=[stored])), "To")) == from_canonical(stored)
