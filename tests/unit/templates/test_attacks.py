"""Hostile templates end in time, take little memory, reach nothing, and leave their neighbours alone.

Time is this thread's processor time, so that a busy machine changes nothing.
"""

import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from messaging.templates.filters import FILTERS
from messaging.templates.methods import TEXT_METHODS
from messaging.templates.render import Renderer, RenderError, Source, TemplateError, compile_check
from tests.unit.templates.attacks import EXHAUSTING, HARD_TO_COMPILE, REACHING, forever, variables

SECONDS = 0.1
#: What one operation may take, and compiling, on a slow machine.
OVERRUN_SECONDS = 0.4
COMPILE_SECONDS = 1.5
#: Of a rendering at its limits, while the output may have a million characters.
MAX_GROWTH_MB = 128

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


#: In a process of its own, as what others have taken before would hide what is taken here.
MEMORY = """
import resource, sys, time
from messaging.templates.filters import FILTERS
from messaging.templates.methods import TEXT_METHODS
from messaging.templates.render import Renderer, RenderError, Source
from tests.unit.templates.attacks import EXHAUSTING, HARD_TO_COMPILE, variables
UNIT = 1 if sys.platform == "darwin" else 1024
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT / 1e6
renderer = Renderer(max_chars=1_048_576, seconds=0.1, ticker=time.thread_time)
before = peak()
for name, text in {**EXHAUSTING, **HARD_TO_COMPILE}.items():
    try:
        renderer.render({"body": Source(text, escape=True, one_line=False)}, variables())
    except RenderError:
        pass
    grown = peak() - before
    if grown > int(sys.argv[1]):
        sys.exit(f"{name}: grown by {grown:.0f} MB")
"""


def test_a_template_that_would_take_memory_takes_little() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", MEMORY, str(MAX_GROWTH_MB)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_other_threads_render_meanwhile() -> None:
    renderer = Renderer(max_chars=1_048_576, seconds=1, ticker=time.monotonic)
    hostile = [forever("{{ n|sort|first }}", "{% set n = range(100000)|list %}"), EXHAUSTING["find"], forever("x")]
    outcomes: list[BaseException | None] = []

    def misbehave(text: str) -> None:
        try:
            renderer.render({"body": Source(text, escape=True, one_line=False)}, {})
        except RenderError as exc:
            outcomes.append(exc)

    threads = [threading.Thread(target=misbehave, args=(text,)) for text in hostile]
    for thread in threads:
        thread.start()
    rendered = 0
    while any(thread.is_alive() for thread in threads):
        source = Source("{% for i in items %}{{ i }}{% endfor %}{{ name|upper }}", escape=True, one_line=False)
        assert renderer.render({"body": source}, {"items": [1, 2], "name": "x"}).texts["body"] == "12X"
        rendered += 1
    assert len(outcomes) == len(hostile)
    assert rendered >= 10


# Generated attacks: every value, operator, method and filter applied to every other, large numbers preferred.

LARGE = st.sampled_from(["0", "-1", "3", "999", "100000", "2**600", "10**9", "10**19", "-10**9", "1e308", "1e-300"])
TEXTS = st.sampled_from(
    ["'x'", "'%s'", "'%1000d'", "'{:>999}'", "'<a&b>'", "'ß '", "t", "(t|safe)", "'a.' * 400", "name"]
)
LISTS = st.sampled_from(["[1, 2]", "n", "x", "range(100000)", "{'a': 1}", "d", "(1, t)", "nothing", "[t, t]", "none"])
FILTER_NAMES = st.sampled_from(sorted(FILTERS))
METHOD_NAMES = st.sampled_from([*sorted(TEXT_METHODS), "items", "keys", "append", "__class__", "encode", "format_map"])
OPERATORS = st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "~", "==", "<", "in", "not in", "and", "or"])


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    arguments = st.lists(inner, max_size=3).map(", ".join)
    return st.one_of(
        st.builds("({} {} {})".format, inner, OPERATORS, inner),
        st.builds("({})|{}({})".format, inner, FILTER_NAMES, arguments),
        st.builds("({})|map('{}', {})".format, inner, FILTER_NAMES, inner),
        st.builds("({}).{}({})".format, inner, METHOD_NAMES, arguments),
        st.builds("({})[{}:{}]".format, inner, inner, inner),
        st.builds("({})[{}]".format, inner, inner),
        st.builds("[{0}, {0}, {1}]".format, inner, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("{{'k': {}, 'l': {}}}".format, inner, inner),
    )


EXPRESSIONS = st.recursive(st.one_of(LARGE, TEXTS, LISTS), combined, max_leaves=6)
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
        st.builds("{{% filter {} %}}{}{{% endfilter %}}".format, FILTER_NAMES, inner),
        st.builds("{{% if {} %}}{}{{% endif %}}".format, EXPRESSIONS, inner),
        st.builds("{}{}".format, inner, inner),
    ),
    max_leaves=4,
)
BEFORE = (
    "{% set ns = namespace(x=1) %}{% set t = 'x<' * 50000 %}{% set n = range(5000)|list %}"
    "{% set d = {'a': t, 'b': n} %}{% set x = [1] %}" + "{% set x = [x, x] %}" * 30
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STATEMENTS)
def test_whatever_a_tenant_writes_ends_in_time_with_a_text_or_an_error(text: str) -> None:
    started = time.thread_time()
    outcome = attack(BEFORE + text)
    assert time.thread_time() - started < SECONDS + OVERRUN_SECONDS
    assert isinstance(outcome, RenderError) or "object at 0x" not in outcome
