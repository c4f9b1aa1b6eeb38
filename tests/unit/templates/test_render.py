"""What templates may do, and what comes out: what Jinja2 writes, but for what is not given and for keys."""

import threading
import time
from collections.abc import Mapping
from typing import Any

import jinja2
import pytest
from markupsafe import Markup

from messaging.templates.render import (
    Rendered,
    RenderedTooLong,
    Renderer,
    RenderError,
    Source,
    TemplateError,
    compile_check,
)
from tests.unit.templates.natural import NATURAL, ORDER

RENDERER = Renderer(max_chars=100_000, seconds=20, ticker=time.thread_time)


def render(text: str, variables: Mapping[str, Any] | None = None, /, *, escape: bool = True, **more: Any) -> Rendered:
    return RENDERER.render({"body": Source(text, escape=escape, one_line=False)}, {**(variables or {}), **more})


def html(text: str, **variables: Any) -> str:
    return render(text, variables).texts["body"]


def plain(text: str, **variables: Any) -> str:
    return render(text, variables, escape=False).texts["body"]


def failure(text: str, **variables: Any) -> RenderError:
    with pytest.raises(RenderError) as caught:
        render(text, variables)
    assert caught.value.__context__ is None  # nor is the cause kept, which holds the values
    return caught.value


@pytest.mark.parametrize("escape", [True, False], ids=["html", "text"])
@pytest.mark.parametrize("number", range(len(NATURAL)))
def test_what_people_write_comes_out_as_jinja2_writes_it(number: int, escape: bool) -> None:
    bare = jinja2.Environment(
        autoescape=escape,
        keep_trailing_newline=True,
        undefined=jinja2.ChainableUndefined,
        finalize=lambda value: "" if value is None else value,
    )
    variables = {**ORDER, "tree_": ORDER["tree"]}
    expected = bare.from_string(NATURAL[number]).render(variables)
    assert render(NATURAL[number], variables, escape=escape).texts["body"] == expected


def test_values_are_escaped_in_html_unless_marked_safe() -> None:
    assert html("{{ x }}", x="<b>&'\"") == "&lt;b&gt;&amp;&#39;&#34;"  # send.md B12
    assert html("{{ x | safe }}", x="<b>&'\"") == "<b>&'\""
    stranger = html("<p>Hello {{ name }}</p>", name="<img src=x onerror=alert(1)>")  # tmpl-02
    assert stranger == "<p>Hello &lt;img src=x onerror=alert(1)&gt;</p>"


def test_subject_and_text_are_not_escaped() -> None:
    name = 'O\'Leary & "Sons" <x>'  # tmpl-03
    rendered = RENDERER.render(
        {
            "subject": Source("Offer for {{ n }}", escape=False, one_line=True),
            "body_text": Source("1 < 2 & {{ n }}", escape=False, one_line=False),
        },
        {"n": name},
    )
    assert rendered.texts == {"subject": f"Offer for {name}", "body_text": f"1 < 2 & {name}"}


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("{{ user.name }}", ("user.name",)),  # send.md B13
        ('<a href="{{ reset_url }}">reset</a>', ("reset_url",)),  # tmpl-04
        ("{{ b }}{{ a }}{{ b }}", ("b", "a")),
        ("{{ order.discount.percent }}{{ order['coupon'] }}{{ order.lines[9].name }}", None),
        ("{% for line in order.lines %}{{ line.colour }}{% endfor %}", ("line.colour",)),
        ("{% for x in guests %}{{ x }}{% endfor %}", ("guests",)),
        ("{% if vip %}x{% endif %}", ("vip",)),
        ("{{ 'x' if vip == 1 }}", ("vip",)),
        ("{{ name|upper }}{{ n|length }}{{ m|join }}{{ k|first }}", ("name", "n", "m", "k")),
        ("{{ a ~ b }}{{ '%s'|format(c) }}{{ '{}'.format(d) }}", ("a", "b", "c", "d")),
        ("{{ order.lines|map(attribute='weight')|join }}", ("weight",)),
        ("{% set x = y %}{{ x }}", ("y",)),
        ("{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z) }}", ("z",)),
        ("{{ [a, {'k': b}] }}{{ [c]|tojson }}", ("a", "b", "c")),
        ("{{ a|default(b) }}", ("b",)),
        ("{{ a|int }}{{ b|int(3) }}", ("a", "b")),
        ("{{ prices[currency] }}", ("prices[currency]",)),
        ("{{ order[key] }}", ("key", "order[key]")),
        ("{{ self }}", ("self",)),
        # Asked for, but what is not given is provided for.
        ("{{ a|default('x') }}{{ a.b|d('y') }}{{ c|default }}", ()),
        ("{% if a is defined %}{{ a }}{% endif %}{% if a.b is undefined %}x{% endif %}", ()),
        ("{% if a is defined and a.b %}x{% endif %}", ()),
        ("{% set x = y %}", ()),
        ("{{ order.note }}", ()),
        ("{% macro m(a, b) %}{{ b }}{% endmacro %}{{ m(1) }}", ()),
        ("{% for x in [1] %}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}", ()),
        ("{{ 'x' if false }}{{ []|first }}", ()),
    ],
)
def test_what_was_asked_for_and_not_given_is_noted(text: str, missing: tuple[str, ...] | None) -> None:
    if missing is None:
        missing = ("order.discount.percent", "order.coupon", "order.lines.9.name")
    assert render(text, {"order": ORDER["order"]}).missing == missing


def test_missing_names_keep_the_order_of_the_columns() -> None:
    columns = {
        "subject": Source("{{ b }}", escape=False, one_line=True),
        "body_html": Source("{{ a }}{{ b }}", escape=True, one_line=False),
        "body_text": Source("{{ c }}", escape=False, one_line=False),
    }
    assert RENDERER.render(columns, {}).missing == ("b", "a", "c")


def test_an_attribute_of_a_mapping_is_its_key_and_nothing_else() -> None:
    assert html("{{ order.items }}", order={"items": [1]}) == "[1]"  # send.md B14
    assert render("{{ order.items }}{{ order['keys'] }}", order={}).missing == ("order.items", "order.keys")
    assert html("{{ d.update }}{{ d._id }}{{ d.__class__ }}", d={"update": 1, "_id": 2}) == "12"
    assert failure("{{ d.items() }}", d={}).variable == "d.items"


def test_a_format_without_names_takes_a_mapping_as_its_one_value() -> None:
    assert plain("{{ '%s' % m }} {{ '100%%' % m }} {{ '%(a)s%%' % m }}", m={"a": 1}) == "{'a': 1} 100% 1%"


def test_a_format_fills_in_values_by_any_name() -> None:
    assert plain("{{ '%(run)s %(context)s %(name)s'|format(run=1, context=2, name=3) }}") == "1 2 3"


def test_a_name_stays_as_it_was_asked_for() -> None:
    given = {"\uff4eame": "wide", "签名人": "Li"}
    assert render("{{ \uff4eame }} {{ 签名人 }}", given).texts["body"] == "wide Li"


def test_a_subject_is_one_line_with_the_right_branch() -> None:
    subject = Source("{% if n > 1 %}{{ n }} items{% else %}1 item{% endif %}", escape=False, one_line=True)  # B15
    assert RENDERER.render({"subject": subject}, {"n": 3}).texts["subject"] == "3 items"
    assert RENDERER.render({"subject": subject}, {"n": 1}).texts["subject"] == "1 item"
    injected = Source("\n Hi {{ name }} \n", escape=False, one_line=True)
    name = "Ada\r\nBcc: all@shop.example\u2028x"
    assert RENDERER.render({"s": injected}, {"name": name}).texts["s"] == "Hi Ada Bcc: all@shop.example x"


def test_mappings_keep_their_order() -> None:
    assert plain("{% for k in v %}{{ k }}{% endfor %}{{ v }}", v={"b": 1, "a": 2}) == "ba{'b': 1, 'a': 2}"  # B19


def test_none_is_empty_wherever_it_is_written() -> None:
    assert html("{{ n }}|{{ n ~ 'x' }}|{{ n|upper }}|{{ [n]|join }}|{{ '%s'|format(n) }}", n=None) == "|x|||"


def test_trailing_newlines_are_kept() -> None:
    assert html("{{ x }}\n\n", x="a") == "a\n\n"


@pytest.mark.parametrize(
    ("text", "line", "variable"),
    [
        ("\n{{ total + 1 }}", 2, "total"),
        ("{{ 1 - order.discount }}", 1, "order.discount"),
        ("a\nb\n{{ order.discount * 2 }}", 3, "order.discount"),
        ("{{ -total }}", 1, "total"),
        ("{{ total < 5 }}", 1, "total"),
        ("{{ '%d'|format(total) }}", 1, None),
        ("{{ range(total)|list }}", 1, "total"),
        ("{{ 5 + secret }}", 1, "secret"),
        ("{{ secret * 1.5 }}", 1, "secret"),
        ("{% for x in [1] %}\n{{ 1 / zero }}{% endfor %}", 2, "zero"),
        ("{{ secret|round }}", 1, "secret"),
        ("{{ order.number|sum }}", 1, "order.number"),
        ("{{ secret() }}", 1, None),
        ("{{ total() }}", 1, "total"),
        ("{{ order[[secret]] }}", 1, None),
        ("{% for x in zero %}{% endfor %}", 1, None),
        ("{% macro m() %}\n\n{{ 1 / zero }}{% endmacro %}{{ m() }}", 3, "zero"),
        ("{{ {}[secret]['x']['y'] + 1 }}", 1, "x.y"),
        ("{{ '%(x)s' % {'y': secret} }}", 1, None),
        ("{{ '{x}'.format(y=secret) }}", 1, None),
        ("{{ [secret]|map(secret)|list }}", 1, None),
        ("{{ [secret]|select(secret)|list }}", 1, None),
        ("{{ ['x']|map(attribute='__' ~ secret)|list }}", 1, "(computed)"),
        ("{{ ''['__' ~ secret] }}", 1, None),
        ("{{ ('{0.__' ~ secret ~ '}').format('x') }}", 1, "(computed)"),
        ("{{ [order]|map(attribute=secret)|sum }}", 1, None),
        ("{{ 'x'.join(5) }}", 1, None),
        ("{{ secret.split(5) }}", 1, None),
        ("{{ secret.index('zzz') }}", 1, None),
        ("{{ secret.center(9, secret) }}", 1, None),
        ("{% set a, b = secret %}", 1, None),
        ("{{ secret|xmlattr }}", 1, "secret"),
        ("{{ {secret ~ ' ': 1}|xmlattr }}", 1, None),
        ("{{ secret|batch(secret) }}", 1, "secret"),
        ("{{ dict(secret) }}", 1, None),
        ("{{ loop.cycle }}{% for a in [1] %}{{ loop(secret) }}{% endfor %}", 1, None),
    ],
)
def test_an_error_names_line_and_variable_and_never_a_value(text: str, line: int, variable: str | None) -> None:
    exc = failure(text, secret="s3cr3t", zero=0, order={"number": "s3cr3t"})
    assert (exc.column, exc.line) == ("body", line)
    if variable is not None:
        assert exc.variable == variable
        assert f"({variable})" in str(exc)
    assert str(exc).startswith(f"body, line {line}: ")
    assert exc.reason
    assert "s3cr3t" not in f"{exc}{exc.reason}{exc.variable}{exc.args}"


def test_names_that_a_value_spelled_are_not_noted() -> None:
    rendered = render("{{ [order]|map(attribute=secret)|join }}", order={}, secret="s3cr3t")
    assert rendered.missing == ("(computed)",)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a\n{{ ", 2, "unexpected"),
        ("{% if x %}", 1, "end of template"),
        ("\n\n{% endif %}", 3, "endif"),
        ("{{ x|nofilter }}", 1, "'nofilter'"),
        ("{% if x %}\n{{ x|nofilter }}{% endif %}", 2, "'nofilter'"),
        ("{{ x is notest }}", 1, "'notest'"),
        ("{% include 'x' %}", 1, "'include'"),
        ("\n{% extends 'x' %}", 2, "'extends'"),
        ("{% from 'x' import y %}", 1, "'from'"),
        ("{% block x %}{% endblock %}", 1, "'block'"),
        ("{% for loop in x %}{% endfor %}", 1, "loop"),
        ("{{ dict(a=1, a=2) }}", 1, "repeated"),
        ("{{ dict(*x) }}", 1, "*"),
        ("{{ 'unclosed }}", 1, "unexpected char"),
        ("{{ 1e999 }}", 1, "too large"),
        # Python takes these for one name (PEP 3131), so that the value of one would be written for the other.
        ("{{ \ufb01rst }}\n{{ first }}", 2, r"the names '\ufb01rst' and 'first' apart"),
        ("{% set \uff4eame = 1 %}{{ name }}", 1, r"the names '\uff4eame' and 'name' apart"),
        ("{% macro \uff4d() %}{% endmacro %}{{ m }}", 1, r"the names '\uff4d' and 'm' apart"),
        ("{{ dict(\uff4e=1) }}", 1, r"the name '\uff4e'; write 'n'"),
    ],
)
def test_a_template_that_does_not_compile_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    columns = {
        "subject": Source("fine", escape=False, one_line=True),
        "body_html": Source(text, escape=True, one_line=False),
    }
    with pytest.raises(TemplateError) as refused:
        compile_check(columns)
    assert (refused.value.column, refused.value.line) == ("body_html", line)
    assert reason in refused.value.reason
    assert str(refused.value).startswith(f"body_html, line {line}: ")
    with pytest.raises(RenderError) as failed:  # as when it was saved by other means
        RENDERER.render(columns, {})
    assert (failed.value.column, failed.value.line, failed.value.reason) == ("body_html", line, refused.value.reason)


def test_output_up_to_the_limit_comes_out_and_no_more() -> None:
    renderer = Renderer(max_chars=1000, ticker=time.monotonic)
    source = Source("{{ x }}", escape=True, one_line=False)
    assert renderer.render({"body": source}, {"x": "y" * 1000}).texts["body"] == "y" * 1000
    with pytest.raises(RenderedTooLong, match="more than 1,000 characters"):
        renderer.render({"body": source}, {"x": "y" * 1001})
    with pytest.raises(RenderedTooLong):  # what counts is what comes out
        renderer.render({"body": source}, {"x": "<" * 500})
    each = {"subject": source, "body": source}
    assert renderer.render(each, {"x": "y" * 1000}).texts["subject"] == "y" * 1000


@pytest.mark.parametrize("wrapped", ["{% set s %}BODY{% endset %}{{ s }}", "{% filter upper %}BODY{% endfilter %}"])
def test_output_of_a_block_that_is_too_long_is_told_as_such(wrapped: str) -> None:
    with pytest.raises(RenderedTooLong):
        render(wrapped.replace("BODY", "{% for i in range(2000) %}" + "x" * 100 + "{% endfor %}"))


def test_all_columns_share_one_budget_of_time() -> None:
    now = [0.0]

    def tick() -> float:
        now[0] += 0.001
        return now[0]

    renderer = Renderer(max_chars=1000, seconds=1, ticker=tick)
    loop = Source("{% for i in range(600) %}{% endfor %}", escape=False, one_line=False)
    renderer.render({"a": loop}, {})
    with pytest.raises(RenderError, match=r"^b, line 1: took longer than 1 s"):
        renderer.render({"a": loop, "b": loop}, {})


def test_a_changed_template_is_another_one() -> None:
    for n in range(3):
        assert html(f"{n} {{{{ x }}}}", x=n) == f"{n} {n}"
    assert html("{{ x }}", x="<") == "&lt;"
    assert plain("{{ x }}", x="<") == "<"  # the same source, not the same kind


def test_templates_that_are_kept_are_bounded() -> None:
    renderer = Renderer(max_chars=2_000_000, ticker=time.monotonic)
    for n in range(10):
        renderer.render({"b": Source(f"{n}" + "x" * 1_000_000, escape=False, one_line=False)}, {})
    assert len(renderer._compiled._kept) <= 8


def test_threads_render_the_same_template_side_by_side() -> None:
    text = (
        "{% set ns = namespace(t='') %}{% for i in range(50) %}{% set ns.t = ns.t ~ x %}{% endfor %}{{ ns.t }}{{ y }}"
    )
    wrong: list[str] = []

    def work(n: int) -> None:
        for _ in range(20):
            rendered = render(text, x=n, **({"y": "!"} if n % 2 else {}))
            if rendered.texts["body"] != str(n) * 50 + "!" * (n % 2) or rendered.missing != (() if n % 2 else ("y",)):
                wrong.append(rendered.texts["body"])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_variables_are_left_as_they_were() -> None:
    variables = {"a": [3, 1, 2], "d": {"x": [1]}}
    html("{% set d = 5 %}{{ a|sort }}{{ a|reverse|list }}{{ a|batch(2, 0) }}{{ d }}{% set a = a + [4] %}", **variables)
    assert variables == {"a": [3, 1, 2], "d": {"x": [1]}}


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}, 1j, print])
def test_what_is_no_plain_value_is_not_written(value: object) -> None:
    assert "cannot be written" in failure("{{ x }}", x=value).reason


def test_values_marked_safe_by_the_caller_are_trusted() -> None:
    assert html("{{ x }}", x=Markup("<b>")) == "<b>"
