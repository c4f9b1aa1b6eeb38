"""Time and memory that hostile mails take (receive.md 7; R8). The bounds are a multiple of what it takes here."""

import time
import tracemalloc
from pathlib import Path

import pytest

from messaging.receive.parse import ParseLimits, parse
from messaging.receive.vocabulary import TruncationReason

LIMITS = ParseLimits()
HEAD = b"From: a@example.com\r\nSubject: x\r\n"
MIXED = HEAD + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"
HTML = HEAD + b"Content-Type: text/html\r\n\r\n"
BASE64 = HEAD + b"Content-Transfer-Encoding: base64\r\n\r\n"
QUOTED_PRINTABLE = HEAD + b"Content-Transfer-Encoding: quoted-printable\r\n\r\n"
N = 100_000
#: A square of it would be seen.
M = 20_000

NESTS = {
    "each with its boundary": HEAD
    + b"".join(b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(3000)),
    "each boundary a prefix of the next": HEAD
    + b"".join(
        b"Content-Type: multipart/mixed; boundary=%b\r\n\r\n--%b\r\n" % ((b"b" * n,) * 2) for n in range(1, 999)
    ),
    "closed": HEAD
    + b"".join(b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(3000))
    + b"\r\nx\r\n"
    + b"".join(b"--b%d--\r\n" % n for n in reversed(range(3000))),
}
FLAT = {
    "parts": MIXED + b"--b\r\n\r\nx\r\n" * N,
    "delimiters": MIXED + b"--b\r\n" * N,
    "one boundary at every depth": HEAD + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n" * 3000,
    "lines like delimiters": MIXED + b"--bx\r\n" * N,
}
HOSTILE = {
    "a huge field": HEAD + b"X: " + b"a" * 50 * M + b"\r\n\r\nx",
    "a million tiny fields": HEAD + b"a:b\n" * 10 * M + b"\r\nx",
    "a million folds": HEAD + b"X: a\n" + b" b\n" * 10 * M + b"\r\nx",
    "tiny fields in each part": MIXED + (b"--b\r\n" + b"a:b\n" * 5000 + b"\nx\r\n") * 99,
    "encoded words": b"Subject: " + b"=?utf-8?b?YQ==?= " * M + b"\r\n\r\nx",
    "encoded words of two charsets": b"Subject: " + b"=?utf-8?q?a?= =?koi8-r?q?b?= " * M + b"\r\n\r\nx",
    "encoded words without an end": b"Subject: " + b"=?utf-8?q?a" * M + b"\r\n\r\nx",
    "charsets that nobody knows": b"Subject: " + b"".join(b"=?x-%d?q?a?= " % n for n in range(M)) + b"\r\n\r\nx",
    "addresses": b"To: " + b"a@b.c, " * 2 * M + b"\r\n\r\nx",
    "names without an address": b"To: " + b"Aa," * 2 * M + b"\r\n\r\nx",
    "commas": b"To: " + b"," * 5 * M + b"\r\n\r\nx",
    "commas and spaces": b"To: " + b"a, " * 2 * M + b"\r\n\r\nx",
    "quotes": b"To: " + b'"' * 5 * M + b"\r\n\r\nx",
    "quotes without an end": b"To: " + b'"\\' * 2 * M + b"\r\n\r\nx",
    "comments without an end": b"To: " + b"(" * 5 * M + b"\r\n\r\nx",
    "comments in comments": b"To: " + b"(" * 2 * M + b")" * 2 * M + b"\r\n\r\nx",
    "brackets without an end": b"To: " + b'<"\\' * M + b"\r\n\r\nx",
    "literals without an end": b"To: " + b"[" * 5 * M + b"\r\n\r\nx",
    "at signs": b"To: " + b"@ " * 2 * M + b"\r\n\r\nx",
    "spaces": b"To: " + b" " * 5 * M + b"x\r\n\r\nx",
    "fields of spaces": (b"To: " + b" " * 3900 + b"x\r\n") * 100 + b"\r\nx",
    "fields of short words": (b"To: " + b"a " * 1900 + b"\r\n") * 100 + b"\r\nx",
    "an encoded address without an end": b"To: "
    + b"=?utf-8?q?<"
    + b"@" * 3900
    + b"?= "
    + b"=?utf-8?q?@?= " * M
    + b"\r\n\r\nx",
    "half encoded words": b"To: " + b"=?" * 2 * M + b"\r\n\r\nx",
    "colons": b"To: " + b"a:" * 2 * M + b"\r\n\r\nx",
    "message ids": b"Message-ID: " + b"<" * 5 * M + b"\r\n\r\nx",
    "a long date": b"Date: " + b"1 " * 2 * M + b"\r\n\r\nx",
    "parameters": HEAD + b"Content-Type: text/plain" + b";a=b" * M + b"\r\n\r\nx",
    "semicolons": HEAD + b"Content-Type: text/plain" + b";" * 5 * M + b"\r\n\r\nx",
    "parameters without an end": HEAD + b"Content-Type: text/plain" + b';a="\\' * M + b"\r\n\r\nx",
    "continuations": HEAD + b"Content-Type: text/plain" + b"".join(b";a*%d*=%%41" % n for n in range(M)) + b"\r\n\r\nx",
    "parameters of spaces": HEAD + b"Content-Type: text/plain; a" + b" " * 5 * M + b"\r\n\r\nx",
    "no boundary": HEAD + b"Content-Type: multipart/mixed\r\n\r\n" + (b"--" + b" " * 200 + b"\r\n") * 20_000,
    "boundaries never used": MIXED
    + b"".join(b"--b\nContent-Type: multipart/mixed; boundary=z%d\n\nx\n" % n for n in range(99))
    + b"x" * 50 * M,
    "padding": MIXED + (b"--b" + b" " * 999 + b"x\r\n") * 5000,
    "base64 of all octets": BASE64 + bytes(range(256)) * 20_000,
    "base64 with padding everywhere": BASE64 + b"YQ==" * 5 * M,
    "base64 of padding": BASE64 + b"=" * 50 * M,
    "base64 and noise": BASE64 + b"a!" * 20 * M,
    "quoted-printable of breaks": QUOTED_PRINTABLE + b"=\r" * 20 * M,
    "quoted-printable of spaced breaks": QUOTED_PRINTABLE + b"= \r\n" * 5 * M,
    "quoted-printable of spaces": QUOTED_PRINTABLE + b"=" + b" " * 50 * M,
    "uuencoded lines": HEAD + b"Content-Transfer-Encoding: uue\r\n\r\nbegin 644 x\n" + b"#YQYQ\n" * 5 * M,
    "nul": b"\x00" * 50 * M,
    "cr": b"\r" * 50 * M,
    "lf": b"\n" * 50 * M,
    "cr, cr, lf": b"a:b\r\r\n" * 5 * M,
    "mixed line ends": b"a: b\r\n\rc: d\n\n\re\r\r" * M,
    "html of tags": HTML + b"<b>a" * 5 * M,
    "html of blocks": HTML + b"<p>" * 5 * M,
    "html of opening brackets": HTML + b"<" * 50 * M,
    "html of quotes": HTML + b'<a b=">"' * 2 * M,
    "html of quotes without an end": HTML + b"<a b='\"" * 2 * M,
    "html of comments": HTML + b"<!--" * 5 * M,
    "html of scripts": HTML + b"<script></script>" * 2 * M,
    "html of entities": HTML + b"&#9999999999;&amp;&" * 2 * M,
    "html of digits": HTML + b"&#" + b"9" * 50 * M,
    "html of preformatted lines": HTML + b"<pre>" + b"\n" * 20 * M,
    "html that tells no charset": HTML + b"<meta " * 5 * M,
    "text of another charset": HEAD + b"Content-Type: text/plain; charset=utf-8\r\n\r\n" + b"\xc3a" * 10 * M,
    "text that shifts": HEAD + b"Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n" + b'\x1b$B$"\x1b(B' * 5 * M,
}


def seconds(raw: bytes) -> float:
    began = time.process_time()
    parse(raw, LIMITS)
    return time.process_time() - began


@pytest.mark.parametrize("name", NESTS)
def test_a_nest_of_3000_levels_ends_at_the_limit(name: str) -> None:  # receive.md R8
    began = time.process_time()
    mail = parse(NESTS[name], LIMITS)
    assert time.process_time() - began < 1
    assert mail.truncation_reason is TruncationReason.MIME_DEPTH_EXCEEDED
    assert mail.from_address == "a@example.com"


@pytest.mark.parametrize("name", FLAT)
def test_100_000_flat_parts_end_at_the_limit(name: str) -> None:  # receive.md R8
    began = time.process_time()
    mail = parse(FLAT[name], LIMITS)
    assert time.process_time() - began < 1
    assert mail.truncation_reason is TruncationReason.MIME_PARTS_EXCEEDED
    assert mail.from_address == "a@example.com"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_mail_takes_bounded_time(name: str) -> None:
    assert seconds(HOSTILE[name]) < 5


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_mail_takes_a_small_multiple_of_its_size(name: str) -> None:
    raw = HOSTILE[name][:100_000]
    tracemalloc.start()
    try:
        parse(raw, LIMITS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(raw) + 1_500_000


def test_typical_mails_are_read_at_600_a_second() -> None:
    mails = [path.read_bytes() for path in sorted((Path(__file__).parents[2] / "data").glob("*/**/*.eml"))]
    began = time.process_time()
    for raw in mails * 3:
        parse(raw, LIMITS)
    assert 3 * len(mails) / (time.process_time() - began) > 600


def test_large_attachments_take_a_small_multiple_of_their_size() -> None:
    line = b"QUJD" * 19 + b"\r\n"
    part = b"--b\r\nContent-Type: application/zip\r\nContent-Transfer-Encoding: base64\r\n\r\n" + line * 60_000
    raw = MIXED + part * 4 + b"--b--\r\n"
    tracemalloc.start()
    try:
        mail = parse(raw, LIMITS)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(mail.attachments) == 4
    assert kept < len(raw)
    assert peak < 1.5 * len(raw)


@pytest.mark.parametrize("piece", [b"x", b"line of text\r\n", b"caf\xc3\xa9 ", b"=41"])
def test_a_large_body_takes_a_small_multiple_of_its_size(piece: bytes) -> None:
    raw = QUOTED_PRINTABLE + piece * (5_000_000 // len(piece))
    tracemalloc.start()
    try:
        mail = parse(raw, LIMITS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert mail.body_text is not None
    assert peak < 5 * len(raw)
