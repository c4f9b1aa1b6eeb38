"""Octets to text (receive.md 8)."""

import pytest

from messaging.receive.charsets import charset_of_html, codec_of, decode, storable


@pytest.mark.parametrize(
    ("octets", "charset", "text"),
    [
        ("né".encode(), "utf-8", "né"),
        ("né".encode(), " UTF_8 ", "né"),
        ("né".encode(), None, "né"),
        ("né".encode("latin-1"), None, "né"),
        ("né".encode("latin-1"), "utf-8", "né"),
        # read as the wider one
        (b"\x80 \x93q\x94", "iso-8859-1", "€ “q”"),
        (b"\x80 \x93q\x94", "US-ASCII", "€ “q”"),
        ("né".encode(), "us-ascii", "né"),
        ("né".encode(), "iso-8859-1", "nÃ©"),
        ("朱镕基".encode("gb18030"), "GB2312", "朱镕基"),
        ("㐀".encode("gb18030"), "gbk", "㐀"),
        ("똠방각하".encode("cp949"), "ks_c_5601-1987", "똠방각하"),
        ("똠방각하".encode("cp949"), "euc-kr", "똠방각하"),
        ("①髙".encode("cp932"), "Shift_JIS", "①髙"),
        ("ğ€".encode("cp1254"), "iso-8859-9", "ğ€"),
        # names that Python does not know
        ("né".encode(), "utf8mb4", "né"),
        ("né".encode("utf-7"), "unicode-1-1-utf-7", "né"),
        ("שלום".encode("iso8859_8"), "iso-8859-8-i", "שלום"),
        ("日本".encode("cp932"), "x-sjis", "日本"),
        ("中".encode("gb18030"), "x-gbk", "中"),
        ("привет".encode("koi8-r"), "KOI8-R", "привет"),
        ("привет".encode("cp1251"), "cp-1251", "привет"),
        # unknown, no charset at all, or nonsense
        ("né".encode(), "x-unknown", "né"),
        ("né".encode("latin-1"), "x-unknown", "né"),
        ("né".encode(), "punycode", "né"),
        ("né".encode(), "base64", "né"),
        ("né".encode(), "unicode_escape", "né"),
        ("né".encode(), "\x00\udcff" * 3, "né"),
        ("né".encode(), "x" * 1_000_000, "né"),
        # wrong or damaged
        (b"plain words", "utf-16", "plain words"),
        ("né".encode("utf-16"), "utf-16", "né"),
        ("déjà vu, été, où\xe9".encode()[:-1], "utf-8", "déjà vu, été, où\ufffd"),
        ("中文文本中文文本".encode("gb18030")[:-1], "gb2312", "中文文本中文文\ufffd"),
        ("né".encode(), "gb2312x", "né"),
        (b"\xef\xbb\xbfn", "utf-8", "n"),
        (b"\x81\x8d", "cp1252", "\ufffd\ufffd"),
    ],
)
def test_decode(octets: bytes, charset: str | None, text: str) -> None:
    assert decode(octets, charset) == text


def test_every_codec_named_decodes_anything() -> None:
    for name in ("utf_16", "utf_32_le", "hz", "iso2022_kr", "cp037", "big5", "utf_7", "iso2022_jp_2004", "ptcp154"):
        assert codec_of(name) is not None
        assert isinstance(decode(bytes(range(256)), name), str)


@pytest.mark.parametrize(
    ("octets", "charset"),
    [
        (b'<html><meta charset="koi8-r">', "koi8-r"),
        (b'<META http-equiv=Content-Type content="text/html; charset=gb2312">', "gb2312"),
        (b"<html>charset=gb2312", None),
        (b" " * 2000 + b"<meta charset=koi8-r>", None),
    ],
)
def test_charset_of_html(octets: bytes, charset: str | None) -> None:
    assert charset_of_html(octets) == charset


@pytest.mark.parametrize(("text", "stored"), [("a\x00b", "ab"), ("a\ud800b\udc80", "a\ufffdb\ufffd"), ("né😀", "né😀")])
def test_storable(text: str, stored: str) -> None:
    assert storable(text) == stored


def test_a_long_text_is_storable_too() -> None:
    assert storable("ä" * 70_000) == "ä" * 70_000
    assert storable("ä" * 70_000 + "\ud800") == "ä" * 70_000 + "\ufffd"
