"""Derived plain text (send.md 4.4, B2)."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messaging.mail.derived_text import derive_text


@pytest.mark.parametrize(
    ("body_html", "text"),
    [
        # blank
        ("", None),
        (" \r\n\t\u00a0", None),
        ("<p> &nbsp; </p>", None),
        ("<img src='x' alt='logo'>", None),
        ("<!-- only -->", None),
        ("<!--", None),
        # inline tags have no effect
        ("<p>Welcome <b>back</b></p>", "Welcome back"),  # B2
        ("Wel<i>co</i>me <span>b</span><em>ack</em>", "Welcome back"),
        ("no markup at all", "no markup at all"),
        ("<q>a</q>", "a"),
        # dropped with their content
        ("<head><title>T</title><style>p{}</style></head><p>x</p>", "x"),
        ("a<script>if (1<2) b()</script>c<style>d{}</style>e<template>f</template>g<noscript>h</noscript>i", "acegi"),
        ("a<!-- <p>b</p> -->c<?php d ?>", "ac"),
        # whitespace
        ("<p>a \n\t  b&nbsp;&nbsp; c\u00a0d</p>", "a b c d"),
        ("<p> a </p>\n\n  <p> b </p>", "a\n\nb"),
        # entities, decoded once
        ("&eacute; &#233; &#xe9; &lt;b&gt; &amp; &quot;", 'é é é <b> & "'),
        ("&amp;lt;b&amp;gt; &amp;amp; &amp;nbsp;", "&lt;b&gt; &amp; &nbsp;"),
        ("1 < 2 & 3 > 2", "1 < 2 & 3 > 2"),
        # line breaks
        ("a<br>b<br/>c", "a\nb\nc"),
        ("a<br><br>b<br><br><br><br>c", "a\n\nb\n\nc"),
        ("<div>a</div><div>b<div>c</div>d</div>", "a\nb\nc\nd"),
        ("a<hr>b", "a\nb"),
        ("<h1>T</h1>a<h6>U</h6>b", "T\n\na\n\nU\n\nb"),
        ("a<blockquote>b</blockquote>c<section>d</section><article>e</article>", "a\nb\nc\nd\ne"),
        ("<header>a</header>b<footer>c</footer>", "a\nb\nc"),
        ("<p>a</p><p></p><p></p><div></div><p>b</p>", "a\n\nb"),
        ("a<pre>b\n  c</pre>d", "a\nb\nc\nd"),
        ("<pre>a\r\nb\rc</pre>", "a\nb\nc"),
        # lists
        ("<ul><li>a</li><li>b</li></ul>", "- a\n- b"),
        ("<ol><li>a<li>b</ol>c", "- a\n- b\nc"),
        ("<ul><li>a<ul><li>b</li></ul></li><li><div>c</div></li></ul>", "- a\n- b\n- c"),
        ("<li>alone</li>", "- alone"),
        # tables: cells separated by one space, no padding
        ("<table><tr><th>a</th><th>b</th></tr><tr><td>long one</td><td>d</td></tr></table>", "a b\nlong one d"),
        ("<table><tr><td>a<td>b<tr><td>c</table>", "a b\nc"),
        ("<table><tr><td><table><tr><td>a</td><td>b</td></tr></table></td><td>c</td></tr></table>", "a b\nc"),
        ("a<table><tr><td>b</td></tr></table>c", "a\nb\nc"),
        # links
        ("<a href='https://e.example/x?a=1&amp;b=2'>Docs</a>!", "Docs (https://e.example/x?a=1&b=2)!"),
        ("<a href='HTTP://e.example/'>Docs</a>", "Docs (HTTP://e.example/)"),
        ("<a href='mailto:a@e.example'>Write</a>", "Write (mailto:a@e.example)"),
        ("<a href='https://e.example'>https://e.example</a>", "https://e.example"),
        ("<a href='https://e.example/'> <b>https://e.example</b> </a>", "https://e.example"),
        ("<a href='mailto:a@e.example'>a@e.example</a>", "a@e.example"),
        ("<a href='https://e.example'><img src='x'></a>", "https://e.example"),
        ("<a href='javascript:alert(1)'>a</a> <a href='/b'>b</a> <a href='#c'>c</a> <a>d</a>", "a b c d"),
        ("<a href=' https://e.example/a\n b '>x</a>", "x (https://e.example/a%20b)"),
        # what the html says about itself is not asked
        ("<?xml version='1.0' encoding='utf-16'?><p>ü</p>", "ü"),
        ("<meta charset='iso-8859-1'><p>ü – 日本</p>", "ü – 日本"),
        ("<p style='display:block;margin-top:100000em;white-space:pre;padding-left:9999em'>a  b</p>", "a b"),
        ("<html><body><p>a</body></html>trailing", "a\n\ntrailing"),
        ("<p>a\x0bb\x0cc\x01d</p>", "a b c d"),
        (
            "<td>a\x1f&amp;&#1;</td><a href='https://e.example/\x02&#3;'>b\x0b</a>&#4;&amp;",
            "a & b (https://e.example/ ) &",
        ),
        ("\ufffe<td>&#xffff;x</td>&amp;\uffff", "x &"),
    ],
)
def test_derived_text(body_html: str, text: str | None) -> None:
    assert derive_text(body_html) == text


TAGS = st.sampled_from(
    ["p", "div", "b", "i", "a", "ul", "ol", "li", "table", "tr", "td", "th", "pre", "br", "hr", "h1", "span", "style",
     "script", "title", "head", "body", "html", "template", "noscript", "blockquote", "x-y", "svg", "plaintext", "xmp"]
)  # fmt: skip
MARKUP = st.lists(
    st.one_of(
        TAGS.map("<{}>".format),
        TAGS.map("</{}>".format),
        st.sampled_from(["<a href='https://x.example/'>", "<!--", "-->", "<", ">", "&", "&amp;", "&#0;", "&nbsp;"]),
        st.just("&#1;"),
        st.just("<![CDATA["),
        st.sampled_from(["a", " ", "\n", "\r\n", "\u00a0", "ü", "\x00", "\x1f", "\ufffe", "word"]),
        st.text(max_size=3),
    ),
    max_size=40,
).map("".join)  # fmt: skip


@given(MARKUP)
@settings(deadline=None)  # a busy machine is no failure
def test_any_html_gives_trimmed_lines_with_single_spaces(body_html: str) -> None:
    text = derive_text(body_html)
    if text is None:
        return
    assert text == text.strip() != ""
    assert "\n\n\n" not in text
    assert not set(text) & set("\r\t\x00\x0b\x0c\u00a0")
    for line in text.split("\n"):
        assert line == line.strip()
        assert "  " not in line


@given(st.lists(st.sampled_from(["alpha", "beta", "gamma", "ü"]), min_size=1, max_size=8), st.data())
@settings(deadline=None)  # a busy machine is no failure
def test_words_keep_their_order_in_any_nesting(words: list[str], data: st.DataObject) -> None:
    html = ""
    for word in words:
        tag = data.draw(st.sampled_from(["div", "blockquote", "section", "article"]))
        html = f"{html}<{tag}>{word}</{tag}>" if data.draw(st.booleans()) else f"<{tag}>{html}<b>{word}</b></{tag}>"
    text = derive_text(html)
    assert text is not None
    # Blocks that may stand in each other: of others (p, li) the parser closes the outer one, as browsers do.
    assert [w for w in text.replace("-", " ").split() if w] == words


@pytest.mark.parametrize(
    "hostile",
    [
        "<div>" * 200_000 + "x",
        "<b>x</b>" * 60_000,
        "<i>" * 1_000 + "<b>y</b>" * 50_000,
        "<table><tr><td>" * 30_000,
        "<table>" + "<tr><td>x<td>y" * 10_000 + "z" * 100_000,
        "<ul><li>" * 50_000,
        "<a href='https://x.example'>" * 15_000,
        "<a href='https://x.example/" + "y" * 400_000 + "'>" + "<b>z</b>" * 1_000,
        ("<div>" * 1_500 + "</div>" * 1_500) * 20,
        "".join(f"<t{n}>x" for n in range(30_000)),
        "<p " + "a=b " * 100_000 + ">x",
        "<" * 400_000,
        "&" * 400_000,
        "<!--" * 100_000,
        "<p>" + "\u00a0" * 400_000 + "x",
    ],
    ids=lambda html: html[:20],
)
def test_hostile_html_is_bounded_in_time_and_output(hostile: str) -> None:
    started = time.process_time()
    text = derive_text(hostile)
    assert time.process_time() - started < 10
    assert len(text or "") <= 2 * len(hostile)


def test_deep_nesting_keeps_words_apart() -> None:
    assert derive_text("<div>" * 300 + "a<p>b</p>c" + "</div>" * 300 + "d") == "a b c\nd"


def test_threads_do_not_write_into_each_others_text() -> None:
    def derive(n: int) -> bool:
        html = f"<p>{n}</p>" * 200
        return all(derive_text(html) == "\n\n".join([str(n)] * 200) for _ in range(5))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(derive, range(16)))
