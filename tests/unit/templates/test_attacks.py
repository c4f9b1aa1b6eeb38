"""Hostile templates end in time and reach nothing.

Time is this thread's processor time, so that a busy machine changes nothing.
"""

import time
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from messaging.templates.filters import FILTERS
from messaging.templates.list_filters import LIST_FILTERS
from messaging.templates.methods import TEXT_METHODS
from messaging.templates.render import Renderer, RenderError, Source, TemplateError, compile_check
from messaging.templates.text_filters import TEXT_FILTERS
from tests.unit.templates.attacks import EXHAUSTING, HARD_TO_COMPILE, REACHING, variables

SECONDS = 0.05
#: What one operation may take, and compiling, on a slow machine.
OVERRUN_SECONDS = 3.0
COMPILE_SECONDS = 4.0

RENDERER = Renderer(max_chars=1_048_576, seconds=SECONDS, ticker=time.thread_time)


def attack(text: str) -> str | RenderError:
    try:
        return RENDERER.render({"body": Source(text, escape=True, one_line=False)}, variables()).texts["body"]
    except RenderError as exc:
        return exc


@pytest.mark.parametrize("name", EXHAUSTING)
def test_a_template_that_would_go_on_ends_in_time(name: str) -> None:
    started = time.thread_time()
    attack(EXHAUSTING[name])
    assert time.thread_time() - started < SECONDS + OVERRUN_SECONDS


@pytest.mark.parametrize("name", HARD_TO_COMPILE)
def test_a_template_that_is_hard_to_compile_is_refused_in_time(name: str) -> None:
    source = Source(HARD_TO_COMPILE[name], escape=True, one_line=False)
    started = time.thread_time()
    with suppress(TemplateError):
        compile_check({"body": source})
    assert time.thread_time() - started < COMPILE_SECONDS
    attack(source.text)


MARKS = ("class '", "function", "object at", "<module", "Environment", "jinja2", "bound method", "root:", "s3cr3t")


@pytest.mark.parametrize("name", REACHING)
def test_a_template_reaches_nothing_but_its_variables(name: str) -> None:
    given_variables = variables()  # send.md B16
    try:
        text = RENDERER.render({"body": Source(REACHING[name], escape=False, one_line=False)}, given_variables).texts[
            "body"
        ]
    except RenderError as exc:
        text = str(exc)
    assert not any(mark in text for mark in MARKS)
    assert given_variables == variables()


def test_a_template_that_would_start_a_process_fails_with_a_security_error() -> None:
    body = (  # tmpl-01
        "{% for c in ''.__class__.__mro__[1].__subclasses__() %}{% if c.__name__=='Popen' %}"
        "{{ c(['id'],stdout=-1).communicate() }}{% endif %}{% endfor %}"
    )
    failed = attack(body)
    assert isinstance(failed, RenderError)
    assert failed.reason.startswith("security:")
    assert failed.line == 1


# Generated attacks: every value, operator, method and filter applied to every other, large numbers preferred.

NUMBERS = st.sampled_from(["0", "-1", "3", "999", "100000", "2**600", "10**9", "10**19", "-10**9", "1e308", "1e-300"])
TEXTS = st.sampled_from(
    [
        "'x'",
        "'%s'",
        "'%1000d'",
        "'{:>999}'",
        "'<a&b>'",
        "'ß '",
        "'\n'",
        "''",
        "t",
        "(t|safe)",
        "'a.' * 400",
        "u",
        "name",
    ]
)
LISTS = st.sampled_from(["[1, 2]", "n", "x", "range(100000)", "{'a': 1}", "d", "(1, t)", "nothing", "[t, u]", "m"])
OF_NUMBERS = st.sampled_from(["abs", "round", "int", "float", "filesizeformat", "string"])
OF_TEXTS = st.sampled_from(sorted(TEXT_FILTERS))
OF_LISTS = st.sampled_from(sorted(LIST_FILTERS))
METHODS = st.sampled_from([*sorted(TEXT_METHODS), "items", "append", "__class__", "encode", "format_map"])
SIGNS = st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "~", "==", "<", "in", "not in", "and", "or"])
ATTRIBUTES = st.sampled_from(["'a'", "0", "'a.b'", "'__class__'", "'a,b'"])


def _arguments(arguments: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(arguments, max_size=3).map(", ".join)


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    any_arguments = _arguments(st.one_of(NUMBERS, TEXTS, inner))
    return st.one_of(
        st.builds("({} {} {})".format, inner, SIGNS, inner),
        st.builds("({} {} {})".format, TEXTS, st.sampled_from("+*%~"), st.one_of(inner, NUMBERS)),
        st.builds("({}|string)|{}({})".format, inner, OF_TEXTS, _arguments(NUMBERS)),
        st.builds("({}|string)|{}({})".format, inner, OF_TEXTS, any_arguments),
        st.builds("([{}, {}] + n)|{}({})".format, inner, inner, OF_LISTS, any_arguments),
        st.builds("({})|{}({})".format, LISTS, OF_LISTS, any_arguments),
        st.builds("({})|{}(attribute={})".format, LISTS, OF_LISTS, ATTRIBUTES),
        st.builds("({})|{}({})".format, inner, OF_NUMBERS, _arguments(NUMBERS)),
        st.builds("({})|map('{}', {})|list".format, LISTS, st.sampled_from(sorted(FILTERS)), inner),
        st.builds("({}|string).{}({})".format, inner, METHODS, _arguments(NUMBERS)),
        st.builds("({}|string).{}({})".format, inner, METHODS, _arguments(TEXTS)),
        st.builds("({}).{}({})".format, inner, METHODS, any_arguments),
        st.builds("({})[{}:{}]".format, inner, NUMBERS, NUMBERS),
        st.builds("({})[{}]".format, inner, inner),
        st.builds("[{0}, {0}, {1}]".format, inner, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("{{'k': {}, 'l': {}}}".format, inner, inner),
    )


EXPRESSIONS = st.recursive(st.one_of(NUMBERS, TEXTS, LISTS), combined, max_leaves=6)
STATEMENTS = st.recursive(
    st.one_of(
        EXPRESSIONS.map("{{{{ {} }}}}".format),
        EXPRESSIONS.map("{{% set ns.x = [ns.x, {}] %}}".format),
        EXPRESSIONS.map("{{% set ns.x = ns.x ~ ({}) %}}".format),
    ),
    lambda inner: st.one_of(
        st.builds("{{% for a in {} %}}{}{{% endfor %}}".format, EXPRESSIONS, inner),
        st.builds("{{% for a in range(100000) %}}{}{{% endfor %}}".format, inner),
        st.builds("{{% for a in [1, 2] recursive %}}{}{{{{ loop([1, 2]) }}}}{{% endfor %}}".format, inner),
        st.builds("{{% macro m() %}}{}{{{{ m() }}}}{{% endmacro %}}{{{{ m() }}}}".format, inner),
        st.builds("{{% set s %}}{}{{% endset %}}{{{{ s }}}}".format, inner),
        st.builds("{{% filter {} %}}{}{{% endfilter %}}".format, OF_TEXTS, inner),
        st.builds("{{% if {} %}}{}{{% endif %}}".format, EXPRESSIONS, inner),
        st.builds("{}{}".format, inner, inner),
    ),
    max_leaves=4,
)
BEFORE = (
    "{% set ns = namespace(x=1) %}{% set t = 'x<' * 50000 %}{% set n = range(5000)|list %}"
    "{% set u = 'x<' * 49999 ~ 'y' %}{% set m = [['a', t], ['b', u]] * 1000 %}"
    "{% set d = {'a': t, 'b': n} %}{% set x = [1] %}" + "{% set x = [x, x] %}" * 30
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STATEMENTS)
def test_whatever_a_tenant_writes_ends_in_time_with_a_text_or_an_error(text: str) -> None:
    started = time.thread_time()
    outcome = attack(BEFORE + text)
    assert time.thread_time() - started < SECONDS + OVERRUN_SECONDS
    assert isinstance(outcome, RenderError) or "object at 0x" not in outcome
