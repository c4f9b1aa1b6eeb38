"""Which values a template asks for (send.md 5.4, test points V1 to V10)."""

import time

import pytest

from messaging.templates.variables import VariableKind, extract_variables

VARIABLE, COLLECTION, EXPRESSION = VariableKind


def found(
    body_html: str | None = None, *, subject: str | None = None, text: str | None = None
) -> list[tuple[str, VariableKind]]:
    return [(entry.name, entry.kind) for entry in extract_variables(subject, body_html, text)]


def test_all_columns_are_read_in_their_order_and_each_name_is_told_once() -> None:
    assert found(  # V1
        "Hi {{ name }}, {{ activationUrl }}", subject="Welcome, {{ name }}!", text="Write to {{ supportEmail }}"
    ) == [("name", VARIABLE), ("activationUrl", VARIABLE), ("supportEmail", VARIABLE)]


def test_a_dotted_name_is_one_variable_and_anything_computed_an_expression() -> None:
    assert found("{{ a + b }}", subject="{{ user.name }}") == [("user.name", VARIABLE), ("a + b", EXPRESSION)]  # V2
    assert found("{{ name | upper }}") == [("name | upper", EXPRESSION)]


def test_names_of_any_script_are_names() -> None:
    assert found("{{ 数量 + 1 }}", subject="{{ 签名人 }}") == [("签名人", VARIABLE), ("数量 + 1", EXPRESSION)]  # V3
    assert found("{{ नाम }}{% for मूल्य in सूची %}{{ मूल्य }}{% endfor %}") == [("नाम", VARIABLE), ("सूची", COLLECTION)]


def test_what_a_loop_binds_is_no_input_and_what_it_runs_over_is_a_collection() -> None:
    source = "{% for item in items %}{{ item.name }}{{ loop.index }}{% endfor %}{{ footerNote }}"
    assert found(source) == [("items", COLLECTION), ("footerNote", VARIABLE)]  # V4


def test_a_later_loop_makes_a_variable_a_collection_and_nothing_makes_it_one_again() -> None:
    assert found("{{ items }}{% for i in items %}{{ i }}{% endfor %}") == [("items", COLLECTION)]  # V5
    assert found("{% for i in items %}{% endfor %}{{ items }}") == [("items", COLLECTION)]


def test_a_loop_over_anything_computed_is_an_expression_and_what_is_set_is_no_input() -> None:
    source = "{% set greeting = 'Hi' %}{{ greeting }}{% for u in users[:3] %}{{ u.mail }}{% endfor %}"
    assert found(source) == [("users[:3]", EXPRESSION)]  # V6


def test_only_a_bare_name_in_a_condition_is_an_input() -> None:
    assert found("{% if isVip %}…{% endif %}{% if count > 3 %}…{% endif %}") == [("isVip", VARIABLE)]  # V7
    assert found("{% if a %}{% elif user.vip %}{% elif not b %}{% endif %}") == [
        ("a", VARIABLE),
        ("user.vip", VARIABLE),
    ]


def test_no_columns_and_no_tokens_ask_for_nothing() -> None:
    assert found() == []  # V9
    assert found("<p>{ name } 100 %}</p>", subject="", text="{{ }}{{--}}{% %}") == []


def test_comments_are_skipped_and_marks_that_trim_space_are_no_part_of_a_name() -> None:
    assert found("{# {{ hidden }} #}{{- shown -}}") == [("shown", VARIABLE)]  # V10
    assert found("{%- if a +%}{{+ b -}}{%- endif -%}") == [("a", VARIABLE), ("b", VARIABLE)]
    assert found("{{ -x }}") == [("-x", EXPRESSION)]


@pytest.mark.parametrize(
    "source",
    [
        "{% raw %}{{ hidden }}{% endraw %}{{ shown }}",
        "{%- raw -%}{% for x in hidden %}{%- endraw -%}{{ shown }}",
        "{{\n  shown\n}}",
        "{% with a = shown.x, b = f(c=1) %}{{ a }}{{ b }}{% endwith %}{{ shown }}",
        "{% macro row(a, b=2) %}{{ a }}{{ b }}{{ caller() }}{% endmacro %}{{ row(1) }}{{ shown }}",
        "{% call(user) each(users) %}{{ user.name }}{% endcall %}{{ shown }}",
        "{% set a, b = pair %}{{ a }}{{ b | upper }}{{ shown }}",
        "{% set text | upper %}x{% endset %}{{ text }}{{ shown }}",
        "{% set ns = namespace(n=0) %}{% set ns.n = 1 %}{{ ns.n }}{{ shown }}",
    ],
)
def test_what_the_template_binds_itself_or_does_not_run_is_no_input(source: str) -> None:
    assert found(source) == [("shown", VARIABLE)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{% for k, v in pairs %}{{ k }}{{ v }}{% endfor %}", [("pairs", COLLECTION)]),
        ("{% for (k, (v, w)) in pairs %}{{ k }}{{ w }}{% endfor %}", [("pairs", COLLECTION)]),
        ("{% for x in items if x.open %}{{ x }}{% endfor %}", [("items", COLLECTION)]),
        ("{% for x in order.items recursive %}{{ loop(x) }}{% endfor %}", [("order.items", COLLECTION)]),
        ("{% for x in (a if b else c) %}{% endfor %}", [("(a if b else c)", EXPRESSION)]),
        ("{% for x in ['if', y] if x %}{% endfor %}", [("['if', y]", EXPRESSION)]),
        ("{% for x in xs %}{% for y in x.parts %}{{ y }}{% endfor %}{% endfor %}", [("xs", COLLECTION)]),
        ("{% for x in xs %}{{ x | upper }}{% if x %}{% endif %}{% endfor %}", [("xs", COLLECTION)]),
    ],
)
def test_loops(source: str, expected: list[tuple[str, VariableKind]]) -> None:
    assert found(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('{{ "}}" }}{{ x }}', [('"}}"', EXPRESSION), ("x", VARIABLE)]),
        ("{{ {'a': {'b': y}} }}", [("{'a': {'b': y}}", EXPRESSION)]),
        (r"{{ 'it\'s }}' ~ x }}", [(r"'it\'s }}' ~ x", EXPRESSION)]),
        ("{{ f(x)['k'] }}", [("f(x)['k']", EXPRESSION)]),
        ("{{ true }}{% if none %}{% endif %}", [("true", EXPRESSION)]),
    ],
)
def test_strings_and_brackets_do_not_end_a_token(source: str, expected: list[tuple[str, VariableKind]]) -> None:
    assert found(source) == expected


def test_a_body_has_no_name_that_starts_with_a_digit() -> None:
    assert found("{{ 2nd }}", subject="{{ 1st }}") == [("1st", VARIABLE), ("2nd", EXPRESSION)]
    assert found("{{ items.0 }}{{ a. }}{{ a..b }}") == [
        ("items.0", VARIABLE),
        ("a.", EXPRESSION),
        ("a..b", EXPRESSION),
    ]


def test_a_local_of_one_body_is_none_of_the_other_nor_of_the_subject() -> None:
    assert found("{% for item in xs %}{% endfor %}", subject="{{ item.name }}{{ loop.index }}", text="{{ item }}") == [
        ("xs", COLLECTION)
    ]


def test_a_local_of_the_subject_is_an_input_of_the_bodies() -> None:
    subject = "{% set n = items | length %}{{ n }} items"
    assert found("{{ n }}", subject=subject) == [("n", VARIABLE)]
    assert found("", subject=subject) == []


@pytest.mark.parametrize(
    "source",
    [
        "{{ open {{ x }}",
        "{% if a {{ x }}",
        "{{ f( {{ x }}",
        "{{ x }}{{ don't }",
        "{% for %}{% for in %}{% set %}{% macro %}{% call %}{% with %}{{ x }}",
        "{{ x }}{# never closed {{ y }}",
        "{{ x }}{% raw %}{{ y }}",
        "}} %} {{ x }} #}",
    ],
)
def test_a_broken_template_tells_what_can_be_read_of_it(source: str) -> None:
    assert [entry for entry in found(source) if entry[0] != "y"] == [("x", VARIABLE)]


#: Far more than any template takes, and far less than quadratic time takes for 200,000 characters.
PATIENCE_SECONDS = 5.0


@pytest.mark.parametrize(
    "unit",
    [
        *("{{", "{%", "{#", "{{ ' ", "{{ \\' ", "{% raw ", "{%     ", "{{ ( ", "'\\'", "}}", "{{x}}"),
        *("{{ '\\'\\'", "{% set '\\'\\' %}", "{% for a in ' ", "{% with a = ( ", "{% macro f(a, ", "{{ a | "),
    ],
)
def test_much_of_anything_takes_time_in_proportion(unit: str) -> None:
    for tail in ("", " %}", " }}"):
        source = unit * (200_000 // len(unit)) + tail
        started = time.process_time()
        extract_variables(None, source, None)
        assert time.process_time() - started < PATIENCE_SECONDS


@pytest.mark.parametrize("head", ["{{ ", "{% for x in ", "{% set ", "{% macro f(", "{% with "])
def test_one_long_token_takes_time_in_proportion(head: str) -> None:
    for unit in ("\\'", "'", "a ", " ", "(", ")", "a, ", "in ", "a.", "if "):
        source = head + unit * (200_000 // len(unit)) + (" %}" if "%" in head else " }}")
        started = time.process_time()
        extract_variables(None, source, None)
        assert time.process_time() - started < PATIENCE_SECONDS


def test_a_megabyte_of_openings_is_read_at_once() -> None:
    started = time.process_time()
    assert found("{{" * 500_000) == []
    assert time.process_time() - started < PATIENCE_SECONDS
