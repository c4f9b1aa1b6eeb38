"""Transfer encodings, whole and broken (RFC 2045, 6)."""

import base64

import pytest

from messaging.receive.transfer import undo

CONTENT = bytes(range(256)) * 3
LINES = base64.encodebytes(CONTENT)


@pytest.mark.parametrize(
    "encoding",
    ["base64", "BASE64", " base64 ", "base64;", '"base64"', "base64 (as usual)", "base64; charset=utf-8"],
)
def test_the_field_may_have_noise(encoding: str) -> None:
    assert undo(encoding, LINES) == CONTENT


@pytest.mark.parametrize("encoding", [None, "", ";", "7bit", "8bit", "binary", "x-none", "utf-8", "8-bit"])
def test_what_is_not_encoded_or_unknown_stays(encoding: str | None) -> None:
    assert undo(encoding, b"caf\xc3\xa9=20YQ==\r\n") == b"caf\xc3\xa9=20YQ==\r\n"


@pytest.mark.parametrize(
    ("octets", "content"),
    [
        (LINES.replace(b"\n", b"\r\n"), CONTENT),
        (LINES.replace(b"\n", b"\r"), CONTENT),
        (LINES.replace(b"\n", b"\n> "), CONTENT),
        (b"".join(b"%c!" % octet for octet in LINES), CONTENT),
        (LINES.replace(b"\n", b""), CONTENT),
        (b"YWJj", b"abc"),
        (b"YWI=", b"ab"),
        (b"YWI", b"ab"),
        (b"YWJjZ", b"abc"),
        (b"YQ====", b"a"),
        (b"YQ==\r\nYmM=\r\n", b"abc"),
        (b"YQ==YmM=", b"abc"),
        (b"YWJj\r\n=\r\n", b"abc"),
        (b"YQ==\r\n-- \r\nlist footer, unsubscribe: x@example.com\r\n", b"a"),
        (b"", b""),
        (b"====", b""),
        (b"!!!", b""),
    ],
)
def test_base64(octets: bytes, content: bytes) -> None:
    assert undo("base64", octets) == content


@pytest.mark.parametrize(
    ("octets", "content"),
    [
        (b"caf=C3=A9", b"caf\xc3\xa9"),
        (b"caf=c3=a9 =3D", b"caf\xc3\xa9 ="),
        (b"soft=\r\nbreak=\nhere", b"softbreakhere"),
        (b"soft=  \r\nbreak=\t\nhere", b"softbreakhere"),
        (b"soft=\rbreak\rhere", b"softbreak\rhere"),
        (b"100%=ZZ=", b"100%=ZZ"),
        (b"no escapes", b"no escapes"),
        (b"raw \xc3\xa9=20", b"raw \xc3\xa9 "),
    ],
)
def test_quoted_printable(octets: bytes, content: bytes) -> None:
    assert undo("quoted-printable", octets) == content


@pytest.mark.parametrize("encoding", ["x-uuencode", "uuencode", "X-UUE"])
@pytest.mark.parametrize(
    ("octets", "content"),
    [
        (b"begin 644 a.txt\n#86)C\n`\nend\n", b"abc"),
        (b"some words\r\n\r\nbegin 644 a.txt\r\n#86)C\r\n \r\nend\r\n", b"abc"),
        (b"begin 644 a.txt\n#86)C\n\n#86)C\nend\nmore", b"abcabc"),
        (b"begin 644 a.txt\n#86)CZZ\nend\n", b"abc"),
        (b"begin 644 a.txt\n#86)C\n\xff\xff\xff\n", b"abc"),
        (b"begin 644 a.txt", b""),
        (b"no such thing", b"no such thing"),
    ],
)
def test_uuencoded(encoding: str, octets: bytes, content: bytes) -> None:
    assert undo(encoding, octets) == content
