"""Rendering templates under one budget of time and memory (`send.md` section 5.3).

Bounded in time, output and memory inside the process, with no signal and no other process: a hostile template takes
its two seconds like any busy thread, and its neighbours go on.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import TemplateRuntimeError

from messaging.clock import Ticker
from messaging.header_text import clean_text
from messaging.templates.errors import Malformed, Refused, RenderedTooLong, RenderError, TemplateError, TooLong
from messaging.templates.meter import Meter
from messaging.templates.sandbox import Compiled, compile_template
from messaging.templates.values import Run

__all__ = ["RenderError", "Rendered", "RenderedTooLong", "Renderer", "Source", "TemplateError", "compile_check"]

#: Rough octets of the compiled templates that a process keeps.
MAX_COMPILED_OCTETS = 32 * 1024 * 1024
MAX_VARIABLE_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Source:
    """One column of a template."""

    text: str
    #: Whether values are escaped for html, unless marked safe.
    escape: bool
    #: Whether what comes out is made one line, as a header wants it.
    one_line: bool


@dataclass(frozen=True, slots=True)
class Rendered:
    """What came out."""

    #: By column.
    texts: dict[str, str]
    #: Names that were asked for and not given, dotted as the template has them, in order of first use.
    missing: tuple[str, ...]


class Renderer:
    """Renders templates; one a process, any thread."""

    def __init__(self, *, max_chars: int, seconds: float = 2.0, ticker: Ticker) -> None:
        """`max_chars`: characters of one column's output. `seconds`: of all columns of one rendering together."""
        self._max_chars = max_chars
        self._seconds = seconds
        self._ticker = ticker
        self._compiled = _CompiledTemplates()

    def render(self, columns: Mapping[str, Source], variables: Mapping[str, Any]) -> Rendered:
        """The columns filled in, in their order. `variables` are JSON values: None, numbers, texts, lists, mappings.

        Raises: RenderError; RenderedTooLong when a column comes out with more than `max_chars`.
        """
        meter = Meter(max_chars=self._max_chars, seconds=self._seconds, ticker=self._ticker)
        noted: dict[str, None] = {}
        texts: dict[str, str] = {}
        for column, source in columns.items():
            outcome = self._render_column(column, source, variables, Run(meter, noted, escapes=source.escape))
            if isinstance(outcome, RenderError):
                # Raised here and not where it was found: what it came from holds the template's values.
                raise outcome
            texts[column] = clean_text(outcome) if source.one_line else outcome
        return Rendered(texts, tuple(noted))

    def _render_column(self, column: str, source: Source, variables: Mapping[str, Any], run: Run) -> str | RenderError:
        try:
            compiled = self._compiled.get(source)
        except Malformed as exc:
            return RenderError(column, exc.line, None, exc.reason)
        try:
            run.meter.check()
            return self._write(compiled, variables, run)
        except Exception as exc:  # noqa: BLE001 - whatever a template can bring about is its own fault
            return _explain(column, compiled, exc)

    def _write(self, compiled: Compiled, variables: Mapping[str, Any], run: Run) -> str:
        pieces: list[str] = []
        chars = 0
        context = compiled.begin(variables, run)
        try:
            for piece in compiled.pieces(context):
                if piece:
                    chars += len(piece)
                    if chars > self._max_chars:
                        raise TooLong(f"comes out with more than {self._max_chars:,} characters")
                    pieces.append(piece)
        finally:
            context.release()
        return "".join(pieces)


def compile_check(columns: Mapping[str, Source]) -> None:
    """Refuse a template that does not compile, when it is saved.

    Raises: TemplateError, for the first column that does not.
    """
    for column, source in columns.items():
        try:
            compile_template(source.text, escape=source.escape)
        except Malformed as exc:
            raise TemplateError(column, exc.line, exc.reason) from None


def _explain(column: str, compiled: Compiled, exc: Exception) -> RenderError:
    """The error of a rendering: of an exception's words only those that name kinds of values, never a value."""
    line = compiled.line_of(exc.__traceback__)
    match exc:
        case TooLong():
            return RenderedTooLong(column, line, None, exc.reason)
        case Refused():
            variable = exc.variable or compiled.subject(exc.operation, line)
            return RenderError(column, line, variable and variable[:MAX_VARIABLE_CHARS], exc.reason)
        case RecursionError():
            reason = "calls are nested too deeply"
        case MemoryError():
            reason = "needs too much memory"
        case TypeError() | ArithmeticError() | TemplateRuntimeError():
            reason = str(exc)
        case _:
            reason = "a value does not fit what is done with it"
    return RenderError(column, line, None, reason)


class _CompiledTemplates:
    """The templates used last. Found by their text: one that was changed is another one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, bool], Compiled] = OrderedDict()
        self._weight = 0

    def get(self, source: Source) -> Compiled:
        key = (source.text, source.escape)
        with self._lock:
            compiled = self._kept.get(key)
            if compiled is not None:
                self._kept.move_to_end(key)
                return compiled
        compiled = compile_template(source.text, escape=source.escape)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = compiled
                self._weight += compiled.weight
            while self._weight > MAX_COMPILED_OCTETS and len(self._kept) > 1:
                _, dropped = self._kept.popitem(last=False)
                self._weight -= dropped.weight
        return compiled
