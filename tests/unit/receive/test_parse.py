"""Octets to a parsed mail: receive.md 7, 8 and 9; cases rmime-01, rmime-02, rmime-03, rmime-04, rmime-06, sec-04."""

import base64
from datetime import UTC, datetime
from typing import Any

import pytest

from messaging.receive.parse import ParseLimits, parse, parse_envelope
from messaging.receive.parsed import ParsedMail
from messaging.receive.vocabulary import TruncationReason
from messaging.requests import BodyMode

LIMITS = ParseLimits()
ENVELOPE = b"From: Ann <ann@example.com>\r\nTo: bo@example.org\r\nSubject: Hello\r\nMessage-ID: <1@example.com>\r\n"
PLAIN = b"Content-Type: text/plain\r\n\r\nplain words\r\n"
HTML = b"Content-Type: text/html\r\n\r\n<html><title>T</title><style>p{}</style><p>rich <b>words</b></p></html>\r\n"
PDF = b"Content-Type: application/pdf; name=a.pdf\r\nContent-Transfer-Encoding: base64\r\n\r\nJVBERi0=\r\n"


def multipart(*parts: bytes, subtype: bytes = b"mixed", boundary: bytes = b"cut") -> bytes:
    """A multipart entity, its fields first."""
    lines = b"".join(b"--" + boundary + b"\r\n" + part + b"\r\n" for part in parts)
    fields = b"Content-Type: multipart/" + subtype + b'; boundary="' + boundary + b'"\r\n\r\n'
    return fields + lines + b"--" + boundary + b"--\r\n"


def nested(depth: int) -> bytes:
    """A text part with `depth` multiparts around it."""
    entity = PLAIN
    for level in range(depth):
        entity = multipart(entity, boundary=b"level-%d" % level)
    return entity


def parsed(entity: bytes, limits: ParseLimits = LIMITS) -> ParsedMail:
    return parse(ENVELOPE + entity, limits)


class TestBodies:
    def test_plain_only(self) -> None:  # receive.md R5
        mail = parsed(PLAIN)
        assert (mail.body_mode, mail.body_text, mail.body_html) == (BodyMode.PLAIN, "plain words\r\n", None)

    def test_html_only_has_derived_text_free_of_tags(self) -> None:  # receive.md R5
        mail = parsed(HTML)
        assert (mail.body_mode, mail.body_text) == (BodyMode.HTML, "rich words")
        assert mail.body_html is not None
        assert mail.body_html.startswith("<html>")

    @pytest.mark.parametrize("parts", [(PLAIN, HTML), (HTML, PLAIN)])
    def test_alternatives_in_either_order(self, parts: tuple[bytes, bytes]) -> None:  # receive.md R5
        mail = parsed(multipart(*parts, subtype=b"alternative"))
        assert (mail.body_mode, mail.body_text) == (BodyMode.HTML_WITH_AUTHORED_PLAIN, "plain words\r\n")
        assert mail.body_html is not None
        assert mail.attachments == ()

    def test_an_attachment_alone_is_no_body(self) -> None:  # receive.md R5
        mail = parsed(multipart(PDF))
        assert (mail.body_mode, mail.body_text, mail.body_html) == (None, None, None)
        assert [one.file_name for one in mail.attachments] == ["a.pdf"]

    def test_a_body_may_say_inline(self) -> None:
        mail = parsed(b"Content-Disposition: inline\r\n" + PLAIN)
        assert mail.body_text == "plain words\r\n"

    @pytest.mark.parametrize("disposition", [b"attachment", b"inline; filename=notes.txt", b"x-unknown"])
    def test_a_named_or_attached_text_is_no_body(self, disposition: bytes) -> None:
        mail = parsed(multipart(b"Content-Disposition: " + disposition + b"\r\n" + PLAIN))
        assert mail.body_text is None
        assert len(mail.attachments) == 1

    def test_a_returned_message_is_never_searched_for_a_body(self) -> None:
        mail = parsed(multipart(b"Content-Type: message/rfc822\r\n\r\nSubject: inner\r\n" + PLAIN))
        assert mail.body_text is None
        assert [(one.file_name, one.content_type) for one in mail.attachments] == [
            ("attachment-1.eml", "message/rfc822")
        ]
        assert mail.attachments[0].content.startswith(b"Subject: inner\r\n")

    def test_a_blank_part_is_passed_over(self) -> None:
        mail = parsed(multipart(b"\r\n \r\n", PLAIN))
        assert mail.body_text == "plain words\r\n"

    def test_texts_that_all_have_names_are_bodies_unless_attached(self) -> None:
        named = [part.replace(b"\r\n\r\n", b"; name=body\r\n\r\n", 1) for part in (PLAIN, HTML)]
        mail = parsed(multipart(*named, subtype=b"alternative"))
        assert (mail.body_mode, mail.body_text) == (BodyMode.HTML_WITH_AUTHORED_PLAIN, "plain words\r\n")
        assert mail.attachments == ()
        mail = parsed(multipart(HTML, named[0]))
        assert (mail.body_mode, [one.file_name for one in mail.attachments]) == (BodyMode.HTML, ["body"])

    def test_an_empty_mail_has_no_body(self) -> None:
        mail = parsed(b"\r\n")
        assert (mail.body_mode, mail.body_text) == (None, None)


class TestLimits:
    @pytest.mark.parametrize(
        ("entity", "limits", "reason"),
        [
            (nested(12), ParseLimits(max_mime_depth=10), TruncationReason.MIME_DEPTH_EXCEEDED),
            (nested(11), ParseLimits(max_mime_depth=10), TruncationReason.MIME_DEPTH_EXCEEDED),
            (nested(10), ParseLimits(max_mime_depth=10), None),
            (multipart(*[PLAIN] * 50), ParseLimits(max_mime_parts=10), TruncationReason.MIME_PARTS_EXCEEDED),
            (multipart(*[PLAIN] * 11), ParseLimits(max_mime_parts=10), TruncationReason.MIME_PARTS_EXCEEDED),
            (multipart(*[PLAIN] * 10), ParseLimits(max_mime_parts=10), None),
        ],
    )
    def test_depth_and_parts(self, entity: bytes, limits: ParseLimits, reason: TruncationReason | None) -> None:
        mail = parsed(entity, limits)  # receive.md R6
        assert mail.truncation_reason == reason
        assert (mail.body_text is None) == (reason is not None)
        assert (mail.root is None) == (reason is not None)
        assert (mail.from_address, mail.subject) == ("ann@example.com", "Hello")

    def test_attachments_count_as_parts(self) -> None:  # receive.md R7
        assert parsed(multipart(*[PDF] * 100)).truncation_reason is None
        mail = parsed(multipart(*[PDF] * 101))
        assert (mail.truncation_reason, mail.attachments) == (TruncationReason.MIME_PARTS_EXCEEDED, ())

    def test_the_parts_of_a_returned_message_do_not_count(self) -> None:
        returned = b"Content-Type: message/rfc822\r\n\r\n" + multipart(*[PDF] * 200, boundary=b"inner")
        assert parsed(multipart(PLAIN, returned)).truncation_reason is None

    def test_a_large_attachment_is_left_out_alone(self) -> None:  # receive.md R11
        large = base64.encodebytes(bytes(25_000_000)).replace(b"\n", b"\r\n")
        large = b"Content-Type: application/zip; name=large.zip\r\nContent-Transfer-Encoding: base64\r\n\r\n" + large
        mail = parsed(multipart(PLAIN, large, PDF))
        assert mail.truncation_reason is TruncationReason.ATTACHMENT_TOO_LARGE
        assert [one.file_name for one in mail.attachments] == ["a.pdf"]
        assert mail.body_text == "plain words\r\n"

    def test_an_attachment_of_the_limit_is_kept(self) -> None:
        content = b"Content-Type: application/zip\r\nContent-Transfer-Encoding: 8bit\r\n\r\n" + b"x" * 1000
        assert parsed(content, ParseLimits(max_attachment_bytes=1000)).truncation_reason is None
        assert parsed(content, ParseLimits(max_attachment_bytes=999)).attachments == ()

    def test_too_many_parts_outweigh_a_large_attachment(self) -> None:
        mail = parsed(multipart(*[PDF] * 3), ParseLimits(max_attachment_bytes=1, max_mime_parts=2))
        assert mail.truncation_reason is TruncationReason.MIME_PARTS_EXCEEDED

    def test_a_message_too_large_keeps_its_envelope(self) -> None:
        raw = ENVELOPE + PLAIN
        assert parse(raw, ParseLimits(max_message_bytes=len(raw))).truncation_reason is None
        mail = parse(raw, ParseLimits(max_message_bytes=len(raw) - 1))
        assert (mail.truncation_reason, mail.root) == (TruncationReason.BODY_TOO_LARGE, None)
        assert (mail.from_address, mail.to_addresses) == ("ann@example.com", ("bo@example.org",))

    def test_an_envelope_is_read_from_header_fields_alone(self) -> None:
        mail = parse_envelope(ENVELOPE, LIMITS)
        assert (mail.truncation_reason, mail.subject) == (TruncationReason.BODY_TOO_LARGE, "Hello")
        assert (mail.body_mode, mail.attachments, list(mail.walk())) == (None, (), [])


class TestFields:
    def test_the_envelope(self) -> None:
        mail = parse(
            b"From: =?utf-8?Q?Ann_B=C3=B6?= <ann@example.com>, x@example.com\r\nTo: a@example.org, b@example.org\r\n"
            b"Cc: c@example.org\r\nSubject:  =?utf-8?B?w6Rw?=\r\nMessage-ID:  <1@example.com> \r\n"
            b"Date: Tue, 24 Jul 2007 18:55:07 +0200\r\n\r\nx",
            LIMITS,
        )
        assert (mail.from_address, mail.from_name) == ("ann@example.com", "Ann Bö")
        assert (mail.to_addresses, mail.cc_addresses) == (("a@example.org", "b@example.org"), ("c@example.org",))
        assert (mail.subject, mail.message_id) == ("äp", "<1@example.com>")
        assert mail.date_header == "Tue, 24 Jul 2007 18:55:07 +0200"
        assert mail.date == datetime(2007, 7, 24, 16, 55, 7, tzinfo=UTC)

    def test_what_is_missing_is_none(self) -> None:
        mail = parse(b"\r\nonly a body", LIMITS)
        assert (mail.from_address, mail.from_name, mail.subject, mail.message_id) == (None, None, None, None)
        assert (mail.date_header, mail.date, mail.to_addresses, mail.cc_addresses) == (None, None, (), ())
        assert mail.body_text == "only a body"

    def test_subject_and_name_are_one_line(self) -> None:
        mail = parse(
            b"From: =?utf-8?q?a=0D=0Ab?= <a@example.com>\r\nSubject: a\r\n\tb =?utf-8?q?c=0Ad=7F?=\r\n\r\n", LIMITS
        )
        assert (mail.from_name, mail.subject) == ("a b", "a b c d")

    def test_fields_are_as_long_as_their_columns(self) -> None:
        long = b"x" * 2000
        mail = parse(b"From: %b <%b@example.com>\r\nSubject: %b\r\nDate: %b\r\n\r\n" % (long, long, long, long), LIMITS)
        assert mail.from_address is not None
        assert mail.from_name is not None
        assert mail.subject is not None
        assert mail.date_header is not None
        lengths = [len(text) for text in (mail.from_address, mail.from_name, mail.date_header, mail.subject)]
        assert lengths == [255, 255, 255, 500]


class TestCases:
    def test_a_charset_that_does_not_exist(self) -> None:  # receive/mime rmime-01; receive.md R16
        raw = ENVELOPE + b"Content-Type: text/plain; charset=x-bogus\r\n\r\nhello \xc3\xa9\r\n"
        assert parse(raw, LIMITS).body_text == "hello é\r\n"
        assert parse(raw.replace(b"\xc3\xa9", b"\xe9"), LIMITS).body_text == "hello é\r\n"

    def test_a_comma_inside_an_encoded_name(self) -> None:  # receive/mime rmime-02
        mail = parse(b"From: =?iso-8859-1?Q?Last=DFlName=2C_FirstName?= <f@example.com>\r\n\r\nt\r\n", LIMITS)
        assert (mail.from_address, mail.from_name) == ("f@example.com", "LastßlName, FirstName")

    @pytest.mark.parametrize(
        ("header", "date"),
        [
            ("Tue Jul 24 18:55:07 2007", None),
            ("Wed, 14 Jun 100 05:41:34 -0700", datetime(2000, 6, 14, 12, 41, 34, tzinfo=UTC)),
            ("17 June , 2022", None),
            ("Mon, 31 Dec 9999 23:59:59 +9999", None),
            ("Mon, 3 Nov 2025 18:23:00 -0000", datetime(2025, 11, 3, 18, 23, tzinfo=UTC)),
            ("", None),
        ],
    )
    def test_a_date_without_a_zone_or_beyond_reason(self, header: str, date: datetime | None) -> None:
        mail = parse(f"Date: {header}\r\n\r\n".encode(), LIMITS)  # receive/mime rmime-03
        assert (mail.date_header, mail.date) == (header or None, date)

    @pytest.mark.parametrize("field", [b"", b"Message-ID:\r\n", b"Message-ID:   \r\n"])
    def test_no_message_id(self, field: bytes) -> None:  # receive/mime rmime-04; receive.md R13
        assert parse(field + b"From: a@example.com\r\nSubject: one\r\n\r\nfirst\r\n", LIMITS).message_id is None

    def test_nul_in_subject_and_body(self) -> None:  # receive/mime rmime-06; receive.md R16
        mail = parse(
            b"Subject: a\x00b =?utf-8?q?a=00b?=\r\nContent-Type: text/plain; charset=utf-8; name*=utf-8''a%00b\r\n"
            b"Content-Transfer-Encoding: quoted-printable\r\n\r\nx=00y\x00z\r\n",
            LIMITS,
        )
        assert (mail.subject, mail.body_text) == ("ab ab", "xyz\r\n")
        assert mail.root is not None
        assert mail.root.file_name == "ab"

    def test_a_lone_surrogate_in_the_subject(self) -> None:  # receive.md R16
        mail = parse(b"Subject: =?utf-16-be?B?2AAAeA==?= =?utf-7?Q?+2AA-?=\r\n\r\n", LIMITS)
        assert mail.subject is not None
        assert mail.subject.encode()

    @pytest.mark.parametrize(
        ("name", "kept"),
        [
            ("../../etc/cron.d/x", "x"),
            ("/abs/path", "path"),
            ("..", "attachment-1.bin"),
            ("", "attachment-1.bin"),
            ("a/b.txt", "b.txt"),
            (r"C:\\temp\\b.txt", "b.txt"),
        ],
    )
    def test_a_name_that_walks_up_the_tree(self, name: str, kept: str) -> None:  # security sec-04
        field = f'Content-Type: application/x-thing\r\nContent-Disposition: attachment; filename="{name}"\r\n\r\nx'
        assert [one.file_name for one in parsed(field.encode()).attachments] == [kept]


class TestRuleText:
    def test_it_is_the_own_text_without_markup(self) -> None:
        returned = b"Content-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\nreturned words\r\n"
        attached = b"Content-Disposition: attachment\r\n" + PLAIN.replace(b"plain", b"attached")
        mail = parsed(multipart(PLAIN, HTML, attached, returned))
        assert mail.rule_text.splitlines() == ["plain words", "", "rich words"]

    def test_html_beside_its_plain_twin_is_left_out(self) -> None:
        alternative = multipart(PLAIN, multipart(HTML, subtype=b"related", boundary=b"r"), subtype=b"alternative")
        assert parsed(alternative).rule_text.strip() == "plain words"

    def test_html_beside_a_blank_twin_is_read(self) -> None:
        mail = parsed(multipart(b"\r\n\xa0\r\n", HTML, subtype=b"alternative"))
        assert (mail.body_text, mail.body_mode) == ("rich words", BodyMode.HTML)

    def test_it_has_at_most_64_kib(self) -> None:
        long = b"Content-Type: text/plain\r\n\r\n" + b"x" * 50_000
        mail = parsed(multipart(long, long))
        assert len(mail.rule_text) == 65_536
        assert mail.body_text is not None
        assert len(mail.body_text) == 50_000


class Breaking(bytes):
    """A message that breaks whatever reads on from an offset."""

    broken_from: int

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice) and (key.start or 0) >= self.broken_from:
            raise RuntimeError("broken")
        return super().__getitem__(key)


@pytest.mark.parametrize(("broken_from", "subject"), [(len(ENVELOPE), "Hello"), (0, None)])
def test_a_message_that_cannot_be_parsed_leaves_what_can(
    broken_from: int, subject: str | None, caplog: pytest.LogCaptureFixture
) -> None:  # receive.md R17
    raw = Breaking(ENVELOPE + PLAIN)
    raw.broken_from = broken_from
    mail = parse(raw, LIMITS)
    assert (mail.truncation_reason, mail.subject) == (TruncationReason.PARSE_FAILED, subject)
    assert "mail cannot be parsed" in caplog.text
    assert "Hello" not in caplog.text
