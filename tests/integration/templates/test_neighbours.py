"""What hostile templates leave to others: the process its memory, other threads their share of the time."""

import gc
import subprocess
import sys
import threading
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from messaging.templates.render import Renderer, RenderError, Source
from tests.unit.templates.attacks import EXHAUSTING, forever

#: Of all renderings at their limits, one after the other, while the output may have a million characters.
MAX_GROWTH_MB = 128

#: In a process of its own, as what others have taken before would hide what is taken here.
MEMORY = """
import resource, sys, time
from messaging.templates.render import Renderer, RenderError, Source
from tests.unit.templates.attacks import EXHAUSTING, HARD_TO_COMPILE, variables
UNIT = 1 if sys.platform == "darwin" else 1024
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT / 1e6
short, long = (Renderer(max_chars=1_048_576, seconds=s, ticker=time.thread_time) for s in (0.05, 1))
before = peak()
for name, text in {**EXHAUSTING, **HARD_TO_COMPILE}.items():
    renderer = long if "kept" in name else short
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


KEPT = "{% set ns.x = ('x' * 900000 ~ i) %}"
CIRCULAR = {
    "namespace": "{% set ns = namespace() %}{% set ns.me = [ns] %}" + KEPT,
    "namespaces": "{% set ns = namespace() %}{% set other = namespace(x=ns) %}{% set ns.other = other %}" + KEPT,
    "macro": "{% set ns = namespace() %}{% set t = 'x' * 900000 ~ i %}"
    "{% macro m(n) %}{{ t|length }}{{ m(n - 1) if n }}{{ ns.x }}{% endmacro %}{{ m(2) }}",
    "macros": "{% set t = 'x' * 900000 ~ i %}{% macro a(n) %}{{ t|length }}{{ b(n) }}{% endmacro %}"
    "{% macro b(n) %}{{ t|length }}{{ a(n - 1) if n }}{% endmacro %}{{ a(2) }}",
    "caller": "{% set t = 'x' * 900000 ~ i %}{% macro m() %}{{ caller() }}{% endmacro %}"
    "{% call m() %}{% macro n() %}{{ t|length }}{{ n }}{% endmacro %}{{ n() }}{% endcall %}",
    "recursive loop": "{% set t = 'x' * 900000 ~ i %}{% for a in [[[], []]] recursive %}"
    "{% macro m() %}{{ loop.index }}{{ t|length }}{{ m }}{% endmacro %}{{ m()|length }}{{ loop(a) }}{% endfor %}",
    "failure": "{% set ns = namespace() %}{% set ns.me = [ns] %}" + KEPT + "{{ 1 / 0 }}",
    "failure in a macro": "{% set t = 'x' * 900000 ~ i %}{% macro m(n) %}{{ t|length }}{{ 1 / n }}{{ m(n - 1) }}"
    "{% endmacro %}{{ m(3) }}",
}


@pytest.mark.parametrize("name", CIRCULAR)
def test_what_a_template_kept_is_free_at_once(name: str) -> None:
    renderer = Renderer(max_chars=1_048_576, ticker=time.thread_time)
    source = {"body": Source(CIRCULAR[name], escape=True, one_line=False)}
    gc.disable()
    tracemalloc.start()
    try:
        for i in range(12):
            with suppress(RenderError):
                renderer.render(source, {"i": i})
        assert tracemalloc.get_traced_memory()[0] < 3_000_000
    finally:
        tracemalloc.stop()
        gc.enable()
