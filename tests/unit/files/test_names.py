"""Names of files as data: send.md 3.3, case sec-04."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.files import clean_file_name
from messaging.files.names import MAX_NAME_CHARS


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("report.pdf", "report.pdf"),
        ("Prüfbericht Q1.pdf", "Prüfbericht Q1.pdf"),
        (" a\r\nBcc: e@e.com\t.pdf ", "a Bcc: e@e.com .pdf"),
        ("a\0b\x85c\u2028d.txt", "a b c d.txt"),
        ("../../etc/cron.d/x", ".._.._etc_cron.d_x"),  # sec-04
        ("/abs/path", "_abs_path"),  # sec-04
        ("a/b.txt", "a_b.txt"),  # sec-04
        (r"C:\Users\me\a.txt", "C:_Users_me_a.txt"),
        ("..", "attachment"),  # sec-04
        ("", "attachment"),  # sec-04
        (" . ", "attachment"),
        ("setup.exe. . ", "setup.exe"),
        ("\u3000setup.exe\u3000.\u00a0", "setup.exe"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("\u2066a\u2069.\u200fpdf\u061c", "a.pdf"),
        (".profile", ".profile"),
        ("👩‍👩‍👧.png", "👩‍👩‍👧.png"),
        ("می\u200cخواهم.pdf", "می\u200cخواهم.pdf"),
    ],
)
def test_a_name_names_a_file_and_no_folder(given: str, name: str) -> None:
    assert clean_file_name(given) == name


def test_a_long_name_keeps_its_extension() -> None:
    assert clean_file_name("x" * 300 + ".tar.pdf") == "x" * 251 + ".pdf"
    assert clean_file_name("x" * 240 + ".extremely-long-extension") == ("x" * 240 + ".extremely-long-extension")[:255]
    assert clean_file_name("y" * 300) == "y" * 255
    assert clean_file_name("a" + "." * 300 + "pdf") == "a.pdf"


@given(st.text(max_size=400) | st.text("ab./\\ \u202e\u3000\x85", max_size=400))
def test_a_clean_name_is_clean(text: str) -> None:
    name = clean_file_name(text)
    assert clean_file_name(name) == name
    assert 0 < len(name) <= MAX_NAME_CHARS
    assert not {"/", "\\", "\0", "\r", "\n", "\u202e"} & set(name)
    assert name == name.strip()
    assert not name.endswith(".")
