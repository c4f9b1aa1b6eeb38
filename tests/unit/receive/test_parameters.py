"""Content-Type and Content-Disposition (RFC 2045, 2183 and 2231)."""

import pytest

from messaging.receive.parameters import parse_content_type, parse_disposition, parse_parameters


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, (None, {})),
        ("", (None, {})),
        ("text", (None, {})),
        ("Text/HTML", ("text/html", {})),
        (" text / html ; Charset=UTF-8", ("text/html", {"charset": "UTF-8"})),
        ('text/plain; charset="utf-8"; format=flowed', ("text/plain", {"charset": "utf-8", "format": "flowed"})),
        ("text/plain; charset=us-ascii (Plain text)", ("text/plain", {"charset": "us-ascii"})),  # RFC 2045, 5.1
        ("text/plain charset=utf-8", ("text/plain", {"charset": "utf-8"})),
        ("charset=utf-8", (None, {"charset": "utf-8"})),
        ("text/plain;charset=utf-8;", ("text/plain", {"charset": "utf-8"})),
        ("text/plain;; charset = utf-8 ; ;", ("text/plain", {"charset": "utf-8"})),
        ("multipart/mixed; boundary==?utf-8?Q?a?=", ("multipart/mixed", {"boundary": "=?utf-8?Q?a?="})),
        ("application/vnd.ms-excel.sheet+xml; a=1; a=2", ("application/vnd.ms-excel.sheet+xml", {"a": "1"})),
    ],
)
def test_parse_content_type(value: str | None, expected: tuple[str | None, dict[str, str]]) -> None:
    assert parse_content_type(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, (None, {})),
        ("ATTACHMENT", ("attachment", {})),
        ("inline; filename=a.txt", ("inline", {"filename": "a.txt"})),
        ('"attachment"; filename=a.txt', ("attachment", {"filename": "a.txt"})),
        ("attachment filename=a.txt", ("attachment", {"filename": "a.txt"})),
        ("filename=a.txt", (None, {"filename": "a.txt"})),
        ("; filename=a.txt", (None, {"filename": "a.txt"})),
    ],
)
def test_parse_disposition(value: str | None, expected: tuple[str | None, dict[str, str]]) -> None:
    assert parse_disposition(value) == expected


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ("filename=my file.pdf", "my file.pdf"),
        ('filename="a;b=c.pdf"; size=3', "a;b=c.pdf"),
        (r'filename="a\"b.pdf"', 'a"b.pdf'),
        (r'filename="C:\temp\a.pdf"', r"C:\temp\a.pdf"),
        ('filename="a.pdf', "a.pdf"),
        ('filename="a.pdf; size=3', "a.pdf"),
        # RFC 2231
        ("filename*=utf-8'en'%e2%82%ac.pdf", "€.pdf"),
        ("filename*=\"utf-8''%e2%82%ac.pdf\"", "€.pdf"),
        ("filename*=''a%20b.pdf", "a b.pdf"),
        ("filename*=caf%C3%A9.pdf", "café.pdf"),
        ('filename*0="a "; filename*1=b.pdf', "a b.pdf"),
        ("filename*1=b.pdf; filename*0=a", "ab.pdf"),
        ("filename*0*=utf-8''%e2%82; filename*1*=%ac; filename*2=\"%20.pdf\"", "€%20.pdf"),
        ("filename*0=a; filename*2=c", "ac"),
        ("filename=plain.pdf; filename*=utf-8''%c3%a9.pdf", "é.pdf"),
        ("filename*=utf-8''%c3%a9.pdf; filename=plain.pdf", "é.pdf"),
        ("filename*=x-none''%c3%a9.pdf", "é.pdf"),
        ("filename*=utf-8''100%.pdf", "100%.pdf"),
        # encoded words, not allowed there and common
        ('filename="=?utf-8?Q?=C3=A9.pdf?="', "é.pdf"),
        ("filename==?utf-8?B?w6kucGRm?=", "é.pdf"),
        ('filename*0="=?utf-8?Q?=C3=A9"; filename*1=".pdf?="', "é.pdf"),
    ],
)
def test_file_names(parameters: str, name: str) -> None:
    assert parse_parameters(f"attachment; {parameters}")["filename"] == name


def test_octets_beyond_ascii_are_read() -> None:
    for octets in ("filename=é.pdf".encode(), "filename=é.pdf".encode("latin-1")):
        assert parse_parameters("x; " + octets.decode("ascii", "surrogateescape")) == {"filename": "é.pdf"}
