"""Well-formed mails read as another parser reads them, one that shares no code with ours or Python's."""

from email.message import EmailMessage
from email.policy import SMTP

import fast_mail_parser
from hypothesis import given, settings
from hypothesis import strategies as st

from messaging.receive.parse import ParseLimits, parse

LETTERS = st.characters(codec="utf-8", categories=["L", "N"])
WORDS = st.lists(st.text(LETTERS, min_size=1, max_size=15), min_size=1, max_size=12).map(" ".join)
LINES = st.lists(WORDS, min_size=1, max_size=8).map(lambda lines: "\n".join(lines) + "\n")
NAMES = st.builds("{}.{}".format, WORDS, st.sampled_from(["pdf", "txt", "bin"]))
FILES = st.lists(st.tuples(NAMES, st.binary(min_size=1, max_size=300)), max_size=3)


def message(subject: str, text: str | None, html: str | None, files: list[tuple[str, bytes]], charset: str) -> bytes:
    mail = EmailMessage(policy=SMTP)
    mail["From"] = "Ann <ann@example.com>"
    mail["To"] = "bo@example.org, Cy <cy@example.org>"
    mail["Subject"] = subject
    if text is not None:
        mail.set_content(text, charset=charset)
    if html is not None and text is not None:
        mail.add_alternative(f"<p>{html}</p>\n", subtype="html", charset=charset)
    elif html is not None:
        mail.set_content(f"<p>{html}</p>\n", subtype="html", charset=charset)
    for name, content in files:
        mail.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
    return mail.as_bytes()


def text_of(bodies: list[str]) -> str:
    """A body as the other parser gives it, its line ends as ours."""
    return "".join(bodies).replace("\r\n", "\n").strip()


@given(WORDS, st.none() | LINES, st.none() | LINES, FILES, st.sampled_from(["utf-8", "gb18030", "utf-7"]))
@settings(max_examples=150)
def test_both_read_the_same(
    subject: str, text: str | None, html: str | None, files: list[tuple[str, bytes]], charset: str
) -> None:
    raw = message(subject, text, html, files, charset)
    ours, theirs = parse(raw, ParseLimits()), fast_mail_parser.parse_email(raw)
    assert ours.subject == theirs.subject
    assert theirs.from_ is not None
    assert ours.from_address == theirs.from_.address
    assert list(ours.to_addresses) == [one.address for one in theirs.to]
    if text is not None:
        assert text_of([ours.body_text or ""]) == text_of(theirs.text_plain)
    if html is not None:
        assert text_of([ours.body_html or ""]) == text_of(theirs.text_html)
    assert [one.file_name for one in ours.attachments] == [one.filename for one in theirs.attachments]
    assert [one.content for one in ours.attachments] == [one.content for one in theirs.attachments]
