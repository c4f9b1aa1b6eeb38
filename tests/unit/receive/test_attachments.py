"""What is kept as a file, and its name (receive.md 9)."""

import pytest

from messaging.receive.parse import ParseLimits, parse
from messaging.receive.parsed import ParsedAttachment


def attachments(*parts: bytes) -> tuple[ParsedAttachment, ...]:
    body = b"".join(b"--b\r\n" + part + b"\r\n" for part in parts)
    return parse(b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + body + b"--b--\r\n", ParseLimits()).attachments


@pytest.mark.parametrize(
    ("part", "file_name", "content_type"),
    [
        (b"Content-Type: application/pdf; name=a.pdf\r\n\r\nx", "a.pdf", "application/pdf"),
        (b"Content-Type: image/png\r\nContent-Disposition: inline\r\n\r\nx", "attachment-1.png", "image/png"),
        (b"Content-Type: text/plain\r\nContent-Disposition: attachment\r\n\r\nx", "attachment-1.txt", "text/plain"),
        (b"Content-Type: text/csv; name=a.csv\r\n\r\nx", "a.csv", "text/csv"),
        (b"Content-Disposition: inline; filename=a.txt\r\n\r\nx", "a.txt", "text/plain"),
        (b"Content-Type: text/calendar; method=REQUEST\r\n\r\nx", "attachment-1.ics", "text/calendar"),
        # the disposition's name before the type's
        (
            b"Content-Type: image/png; name=b.png\r\nContent-Disposition: attachment; filename=a.png\r\n\r\nx",
            "a.png",
            "image/png",
        ),
        # unknown types
        (b"Content-Type: nonsense; name=a.x\r\n\r\nx", "a.x", "application/octet-stream"),
        (b"Content-Type: x/y\r\n\r\nx", "attachment-1.bin", "x/y"),
        (b"Content-Type: x/" + b"y" * 300 + b"\r\n\r\nx", "attachment-1.bin", "application/octet-stream"),
        # messages and TNEF
        (b"Content-Type: message/rfc822\r\n\r\nSubject: y\r\n\r\nx", "attachment-1.eml", "message/rfc822"),
        (b"Content-Type: message/rfc822; name=Re: you\r\n\r\nSubject: y\r\n\r\nx", "Re: you.eml", "message/rfc822"),
        (b"Content-Type: message/rfc822; name=a.EML\r\n\r\nSubject: y\r\n\r\nx", "a.EML", "message/rfc822"),
        (b"Content-Type: application/ms-tnef; name=winmail.dat\r\n\r\nx", "winmail.dat", "application/ms-tnef"),
        (b"Content-Type: message/delivery-status\r\n\r\nx", "attachment-1.txt", "message/delivery-status"),
    ],
)
def test_an_attachment(part: bytes, file_name: str, content_type: str) -> None:
    (one,) = attachments(part)
    assert (one.file_name, one.content_type) == (file_name, content_type)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        (b"../../etc/passwd", "passwd"),
        (b"..\\\\..\\\\evil.exe", "evil.exe"),
        (b". . .", "attachment-1.bin"),
        (b"/", "attachment-1.bin"),
        (b"a\x01\x7fb\tc.txt", "abc.txt"),
        (b"invoice\xe2\x80\xaefdp.exe", "invoicefdp.exe"),
        (b"=?utf-8?Q?..=2F=00a.txt?=", "a.txt"),
        (b"x" * 300 + b".pdf", "x" * 251 + ".pdf"),
    ],
)
def test_names_are_cleaned(name: bytes, kept: str) -> None:  # security sec-04
    (one,) = attachments(b'Content-Disposition: attachment; filename="' + name + b'"\r\nContent-Type: x/y\r\n\r\nx')
    assert one.file_name == kept


def test_texts_that_are_no_data_and_have_no_name_are_none() -> None:
    assert (
        attachments(*(b"Content-Type: text/" + kind + b"\r\n\r\nx" for kind in (b"plain", b"html", b"enriched"))) == ()
    )


def test_a_long_name_of_a_message_keeps_its_extension() -> None:
    (one,) = attachments(b"Content-Type: message/rfc822; name=" + b"x" * 300 + b"\r\n\r\nx")
    assert one.file_name == "x" * 200 + ".eml"


def test_nameless_ones_are_numbered_in_their_order() -> None:
    png, named = b"Content-Type: image/png\r\n\r\nx", b"Content-Type: image/png; name=a.png\r\n\r\nx"
    assert [one.file_name for one in attachments(png, named, png)] == ["attachment-1.png", "a.png", "attachment-3.png"]


def test_a_root_that_is_no_text_is_an_attachment() -> None:
    mail = parse(b"Content-Type: application/pdf\r\nContent-ID: <p@example.com>\r\n\r\n%PDF-", ParseLimits())
    assert mail.attachments == (ParsedAttachment("attachment-1.pdf", "application/pdf", "p@example.com", b"%PDF-"),)
    assert (mail.body_text, mail.body_mode) == (None, None)


def test_a_root_that_is_text_is_a_body_even_with_a_name() -> None:
    mail = parse(b"Content-Type: text/plain; name=mail.txt\r\n\r\nwords", ParseLimits())
    assert (mail.body_text, mail.attachments) == ("words", ())
    mail = parse(b"Content-Disposition: attachment; filename=a.txt\r\n\r\nwords", ParseLimits())
    assert (mail.body_text, [one.file_name for one in mail.attachments]) == (None, ["a.txt"])
