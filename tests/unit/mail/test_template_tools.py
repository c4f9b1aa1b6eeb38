"""The editor's switch of a template's mode (send.md 4.5)."""

import time

import pytest

from messaging.mail.template_tools import switch_body_mode
from messaging.requests import BodyMode

HTML = "<p>Hello <b>{{ name }}</b></p>"
TEXT = "Hello {{ name }}"


@pytest.mark.parametrize(
    ("mode", "html", "text", "changes"),
    [
        # section 16, editor helper
        ("HTML_WITH_AUTHORED_PLAIN", HTML, None, {"body_text": TEXT}),
        ("HTML_WITH_AUTHORED_PLAIN", HTML, "own", None),
        ("PLAIN", HTML, None, {"body_text": TEXT, "body_html": None}),
        (
            *("HTML", None, "1 < 2 & so\n\nsecond\nline"),
            {"body_html": "<p>1 &lt; 2 &amp; so</p><p>second<br>line</p>", "body_text": None},
        ),
        ("HTML_WITH_DERIVED_PLAIN", HTML, "own", {"body_text": None}),
        ("MARKDOWN", HTML, TEXT, None),
        (None, HTML, TEXT, None),
        ("HTML", HTML, None, None),
        # the rest of the table
        ("PLAIN", HTML, "own", {"body_html": None}),
        ("PLAIN", None, "own", None),
        ("PLAIN", "", " ", None),
        ("PLAIN", "<img src='cid:a'>", None, {"body_html": None}),
        ("HTML", " ", "a", {"body_html": "<p>a</p>", "body_text": None}),
        ("HTML_WITH_DERIVED_PLAIN", None, "a", {"body_html": "<p>a</p>", "body_text": None}),
        ("HTML_WITH_DERIVED_PLAIN", HTML, None, None),
        ("HTML_WITH_AUTHORED_PLAIN", None, "a", {"body_html": "<p>a</p>"}),
        ("HTML_WITH_AUTHORED_PLAIN", None, None, None),
        ("HTML_WITH_AUTHORED_PLAIN", "<img src='cid:a'>", "", None),
        (BodyMode.PLAIN, HTML, None, {"body_text": TEXT, "body_html": None}),
    ],
)
def test_switching_a_mode(
    mode: str | None, html: str | None, text: str | None, changes: dict[str, str | None] | None
) -> None:
    assert switch_body_mode(mode, html, text) == changes


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a\r\nb\r\n\r\n\r\nc\rd", "<p>a<br>b</p><p>c<br>d</p>"),
        ("\n\n a \n \t \nb\n", "<p>a</p><p>b</p>"),
        ("{% if n > 1 & m < 2 %}{{ n }} > 1{% endif %}", "<p>{% if n > 1 & m < 2 %}{{ n }} &gt; 1{% endif %}</p>"),
        ("{{ a\n\n+ b }} {# <> #} {{ '<' }}", "<p>{{ a\n\n+ b }} {# <> #} {{ '<' }}</p>"),
        ("{{ open < & {{ x }}", "<p>{{ open &lt; &amp; {{ x }}</p>"),
        ('"quoted"', '<p>"quoted"</p>'),
    ],
)
def test_text_becomes_html_and_what_jinja_reads_stays_as_it_is(text: str, html: str) -> None:
    assert switch_body_mode("HTML_WITH_AUTHORED_PLAIN", None, text) == {"body_html": html}


def test_html_becomes_text_and_what_jinja_reads_stays_as_it_is() -> None:
    html = (
        "<ul>{% for i in items if i.n > 1 and i.n<b %}<li>{{ i.name or '<none>' }} &lt; {{ i.n }}</li>{% endfor %}</ul>"
    )
    changes = switch_body_mode("HTML_WITH_AUTHORED_PLAIN", html, None)
    assert changes is not None
    text = changes["body_text"] or ""
    assert "{% for i in items if i.n > 1 and i.n<b %}" in text
    assert "{{ i.name or '<none>' }} < {{ i.n }}" in text
    assert "{% endfor %}" in text


@pytest.mark.parametrize("unit", ["{{", "{%", "{#", "{{ a }}", "\n", "\n \n", "\ue0001\ue001", " ", "\r"])
def test_a_switch_takes_time_in_proportion(unit: str) -> None:
    started = time.process_time()
    switch_body_mode("HTML", None, "x" + unit * (200_000 // len(unit)) + "x")
    assert time.process_time() - started < 5
