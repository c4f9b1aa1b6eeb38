"""Header-safe text (send.md 3.3) and the further headers a caller may set (send.md 2, A20, A24, sec-01)."""

import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messaging.mail.headers import HeaderError, check_headers, clean_text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("hello", "hello"),
        ("x\r\nBcc: e@e.com", "x Bcc: e@e.com"),  # A20
        ("hi\nBcc: victim@example.net\nX-A: 1", "hi Bcc: victim@example.net X-A: 1"),  # sec-01
        ("hi\rBcc: v@example.net", "hi Bcc: v@example.net"),  # sec-01
        ("a\t\x00\x0b\x1f\x7f\x85b", "a b"),
        ("a\u2028b\u2029c", "a b c"),
        (" \r\n a \r\n ", "a"),
        ("a \r\n b", "a   b"),
        ("\r\n", ""),
        ("Grüße 👋", "Grüße 👋"),
    ],
)
def test_controls_become_one_space(text: str, clean: str) -> None:
    assert clean_text(text) == clean


@given(st.text())
@settings(deadline=None)  # a busy machine is no failure
def test_clean_text_is_one_line_and_stable(text: str) -> None:
    clean = clean_text(text)
    assert len(clean.splitlines()) <= 1
    assert not any(unicodedata.category(char) == "Cc" for char in clean)
    assert clean_text(clean) == clean == clean.strip()


def test_allowed_headers_stay_literally() -> None:
    headers = {
        "References": "<a@example.com> <b@example.com>",
        "in-reply-to": "<a@example.com>",
        "LIST-ID": "News <news.example.com>",
        "Feedback-ID": "c:n:t:s",
        "Precedence": "bulk",
        "Organization": "Bücher & Söhne",
        "Keywords": "a, b",
        "Comments": "",
        "X-A": " 1 ",
        "x-tracking_id.9": "z" * 997,
        "X-Words": "z" * 499 + " " + "z" * 498,
    }
    assert check_headers(headers) == headers
    assert list(check_headers(headers)) == list(headers)
    assert check_headers({}) == {}


@pytest.mark.parametrize(
    "headers",
    [
        {"Bcc": "e@e.com"},  # A24
        {"X-A": "1\r\nBcc: e@e.com"},  # A24
        {"X-A": "1\nb"},
        {"X-A": "1\tb"},
        {"X-A": "1\x00"},
        {"X-A": "1\x85b"},
        {"X-A": "1\u2028b"},
        {"X-A": "\ud800"},
        {"X-A": "z" * 999},
        {"X-A": "z" * 998},  # no line can hold it
        {"X-A": "é" * 500},
        {"X-A": 1},
        {"X-A": None},
        {"X-A": b"1"},
        {1: "x"},
        {"": "x"},
        {"X-": "x"},
        {"X": "x"},
        {"X-A:": "x"},
        {"X-A b": "x"},
        {"X-Ä": "x"},
        {"X-A\n": "x"},
        {"X-A\r\nBcc": "x"},
        {"X-" + "a" * 75: "x"},
        {"X-Priority": "1"},
        {"x-msmail-priority": "High"},
        {"Importance": "High"},
        {"Subject": "x"},
        {"From": "x"},
        {"Reply-To": "x@y.com"},
        {"Message-ID": "<x@y>"},
        {"Auto-Submitted": "no"},
        {"List-Unsubscribe": "<https://x>"},
        {"DKIM-Signature": "x"},
        {"Content-Type": "text/html"},
        {"MIME-Version": "1.0"},
        {"Return-Path": "x@y.com"},
        {"References": "<ü@example.com>"},
        {"References": "<a@b>", "references": "<c@d>"},
        {f"X-{n}": "" for n in range(101)},
    ],
)
def test_any_other_header_is_rejected(headers: Any) -> None:
    with pytest.raises(HeaderError) as caught:
        check_headers(headers)
    assert caught.value.reason
