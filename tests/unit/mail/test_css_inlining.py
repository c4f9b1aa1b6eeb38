"""CSS written into the elements: what is inlined, what is left as it is, and what is refused."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messaging.mail.css_inlining import MAX_NESTING, CssError, inline_css
from messaging.mail.nesting import nesting_bound

DOCTYPE = (
    '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" '
    '"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">'
)
STYLE = """<style type="text/css">
p { color: blue }
a:hover { color: red }
@media (max-width: 600px) { p { color: green !important } }
@font-face { font-family: X; src: url(https://example.com/x.woff) }
</style>"""
HEAD_CONDITION = "<!--[if mso]><style>.x{color:red}</style><xml><o:PixelsPerInch>96</o:PixelsPerInch></xml><![endif]-->"
BODY = """<!--[if mso | IE]><table><tr><td><![endif]-->
<p>Caf\u00e9 &amp; &lt;b&gt; <a href="https://example.com/?a=1&amp;b=2">x</a></p>
<!--[if !mso]><!--><span>for others</span><!--<![endif]-->
<![if !mso]><i>for others</i><![endif]>
<!--[if mso | IE]></td></tr></table><![endif]-->"""


def test_rules_are_written_into_elements_and_nothing_else_of_a_mail_changes() -> None:
    mail = f"{DOCTYPE}<html><head>{HEAD_CONDITION}{STYLE}</head><body>{BODY}</body></html>"
    assert inline_css(mail) == mail.replace("<p>", '<p style="color: blue;">')


def test_html_without_style_sheets_is_left_alone() -> None:
    html = "<P>as it is<br/><p style='color:red'>&eacute;"
    assert inline_css(html) is html


def test_an_elements_own_style_wins_and_the_result_is_the_same_each_time() -> None:
    html = "<style>p{color:blue;margin:0} .a{top:1px} .b{top:2px}</style><p class='b a' style='color:red'>x</p>"
    results = {inline_css(html) for _ in range(20)}
    assert len(results) == 1
    style = re.search(r'style="([^"]*)"', results.pop())
    assert style is not None
    assert sorted(style[1].replace(" ", "").strip(";").split(";")) == ["color:red", "margin:0", "top:2px"]


@pytest.mark.parametrize("form", ["{}", "file://{}", "http://127.0.0.1:9/x.css", "//127.0.0.1:9/x.css"])
def test_no_style_sheet_is_fetched_and_no_file_is_read(tmp_path: Path, form: str) -> None:
    sheet = tmp_path / "sheet.css"
    sheet.write_text("p { color: purple }")
    address = form.format(sheet)
    html = f'<link rel="stylesheet" href="{address}"><style>@import url("{address}"); i{{top:1px}}</style><p>x</p>'
    inlined = inline_css(html)
    assert "purple" not in inlined
    assert f'<link rel="stylesheet" href="{address}">' in inlined


@pytest.mark.parametrize(
    "nested",
    [
        "<div>" * 200_000,
        "<b>" * 200_000,
        "<div><a title='</div>'>" * 20_000,
        "<div><!--</div>-->" * 20_000,
        "<div><!--!></div>-->" * 20_000,
        "<!--<!--!>" + "<div>" * 200,
        "<div><!---!></div>-->" * 20_000,
        "<div><title></div></title>" * 20_000,
        "<div></span>" * 20_000,
        "<div x=\"</div>\" y='>'>" * 20_000,
        "<table><tr><td>" * 20_000,
        "<table><p><td></p>" * 20_000,
        "<tr><rb><rb></tr>" * 20_000,
        "<li><li></li><rp></li>" * 20_000,
        "<div><ul></div><li></ul></div><div><dl></div><dd></dl></div>" * 20_000,
        "<form><table></form></table></form>" * 20_000,
        "".join(f"<b id={i}><p></b>" for i in range(2_000)),
        "".join(f"<b id={i}><p></p></b><span></b></span>" for i in range(2_000)) + "<b>" * 200,
        "<svg><title><g></title>" * 20_000,
        '<div><p a ="></div>"></p>' * 20_000,
        "<p><b></p>" * 20_000,
        "<div><select></div></select>" * 20_000,
        "<div><?php </div> ?>" * 20_000 + "<div>" * 200,
    ],
)
def test_html_that_nests_too_deeply_is_refused_before_it_can_end_the_process(nested: str) -> None:
    with pytest.raises(CssError, match="nest more than"):
        inline_css("<style>p{color:red}</style>" + nested)


def test_html_of_many_rows_is_not_deep() -> None:
    left = "<td align=left><p>a<p>b<ul><li>x<li>y</li></ul><b>c</b><br><img src='cid:a'></td>"
    row = f"<tr>{left}<td><a href=x>y</a></td></tr>"
    html = "<style>td{color:red}</style><table>" + row * 1000 + "</table>"
    assert nesting_bound(html, limit=MAX_NESTING) < 12
    assert inline_css(html).count("color: red") == 2000


@pytest.mark.parametrize(
    "html",
    [
        "<style>" + "p{color:red}" * 20_000 + "</style>" + "<p>x</p>" * 12_000,
        "<style>p{" + "".join(f"a{i}:red;" for i in range(8_000)) + "}</style>" + "<p>x</p>" * 100,
        "<style>p{" + "".join(f"a{i}:r;" for i in range(500)) + "}</style>" + "<p style='a:b;c:d'>x</p>" * 1200,
        "<style>" + ",".join(["p"] * 200_000) + "{color:red}</style>" + "<p>x</p>" * 12_000,
    ],
)
def test_what_would_take_too_long_is_refused_at_once(html: str) -> None:
    started = time.process_time()
    with pytest.raises(CssError, match="too much to inline"):
        inline_css(html)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "unit", ["<!--", "<a ", "<", "</", "<!", "<title>", "<style", "</style>", "<p a='", '<p a="', "<?"]
)
def test_the_bound_is_found_in_time_in_proportion(unit: str) -> None:
    html = unit * (400_000 // len(unit))
    started = time.process_time()
    nesting_bound(html, limit=10**9)
    assert time.process_time() - started < 5


_TAGS = (
    "div",
    "p",
    "b",
    "a",
    "i",
    "table",
    "tr",
    "td",
    "tbody",
    "ul",
    "li",
    "span",
    "h1",
    "form",
    "title",
    "br",
    "button",
)
_PIECES = st.one_of(
    st.sampled_from([f"<{tag}>" for tag in _TAGS]),
    st.sampled_from([f"</{tag}>" for tag in _TAGS]),
    st.sampled_from(
        ["x", "<!--", "-->", "--!>", "<a x='", "'", '"', ">", "<!x", "<option>", "<select>", "<svg>", "<p/>"]
    ),
)


_WRITTEN = re.compile(r'<!--.*?-->|<(/?)([a-z][a-z0-9]*)(?:\s+[^\s>][^\s=>]*="[^"]*")*\s*>', re.DOTALL)


def written_depth(html: str) -> int:
    """Levels of what a parser wrote: every element but the void ones is closed, every value is in quotes."""
    depth = deepest = 0
    for closing, name in _WRITTEN.findall(html):
        if name in ("", "br", "img", "input"):
            continue
        depth += -1 if closing else 1
        deepest = max(deepest, depth)
    assert depth == 0
    return deepest


@settings(max_examples=300, deadline=None)
@given(st.lists(_PIECES, max_size=40))
def test_no_tree_is_deeper_than_twice_the_bound(pieces: list[str]) -> None:
    html = "<style>q{top:1px}</style>" + "".join(pieces)
    bound = nesting_bound(html, limit=10**9)
    assert written_depth(inline_css(html)) <= 2 * bound + 3
