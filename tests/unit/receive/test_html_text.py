"""The text of received html (receive.md 8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.receive.html_text import text_of_html


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("", None),
        (" \n&nbsp;<br>", None),
        ("<img src=x alt=logo>", None),
        ("no markup", "no markup"),
        ("<p>Wel<b>co</b>me</p><p>back</p>", "Welcome\nback"),
        ("a<br>b<BR/>c<hr>d", "a\nb\nc\nd"),
        ("<div><div>a</div></div>\n\n<div>b</div>", "a\nb"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc"),
        ("a \n\t b&nbsp;\u00a0 c", "a b c"),
        ("<pre>550 5.1.1\n  unknown</pre>x\ny", "550 5.1.1\nunknown\nx y"),
        ("<head><title>T</title><style>p{a>b}</style></head>a<script>if (1<2) b('</p>')</script>b", "ab"),
        ("a<!-- <p>b</p> > -->c<!doctype html>d<?php e ?>f<![if !mso]>g<!-->h", "acdfgh"),
        ("&eacute;&#233;&#xe9; &lt;b&gt; &amp;lt;", "ééé <b> &lt;"),
        ("1 < 2 && 3 > 2 <3 <- x", "1 < 2 && 3 > 2 <3 <- x"),
        ("<a title='>' href=\"x>y\" x=z>a</a>", "a"),
        ("<a href=it's>a</a> don't", "a don't"),
        ('<a href="never ends>a</a> <b>b</b>', "a b"),
        ("<o:p>a</o:p><my-tag>b</my-tag>", "ab"),
        ("&#0;&#xd800;&#999999999999;&#xfffffffffff;a", "\ufffd\ufffd\ufffd\ufffda"),
        # cut off
        ("a<b", "a"),
        ("a<!-- b", "a"),
        ("a<script>b", "a"),
        ("a<", "a<"),
    ],
)
def test_text_of_html(source: str, text: str | None) -> None:
    assert text_of_html(source) == text


def test_a_number_of_many_digits() -> None:
    assert text_of_html("a&#" + "9" * 10_000 + ";b") == "a\ufffdb"


@given(
    st.lists(
        st.sampled_from(["<", ">", "a", '"', "'", "=", "<b", "</pre>", "<pre>", "<!--", "-->", "&#", "\n", "<script>"])
    )
)
def test_any_source_has_a_text(pieces: list[str]) -> None:
    text = text_of_html("".join(pieces))
    assert text is None or (text == text.strip() and "\x00" not in text)
