"""Compiling templates that hostile tenants wrote, into code that does nothing unbounded and reaches its data alone.

Jinja2 parses; what it would hand to Python's own operators, look-ups, calls and loops, the code made here hands to
`messaging.templates.values.Run`, which looks before it works. What has no place in a template that stands by itself is
refused when it is compiled, and so is what would take long to compile: nothing is calculated at that time.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from types import TracebackType
from typing import Any, Final

from jinja2 import TemplateSyntaxError, nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from messaging.templates.errors import Malformed
from messaging.templates.filters import CONDITIONS, FILTERS
from messaging.templates.functions import GLOBALS
from messaging.templates.generator import Generator
from messaging.templates.objects import Box
from messaging.templates.undefined import Missing
from messaging.templates.values import Run
from messaging.templates.writing import MAX_BITS

#: Characters of one template.
MAX_SOURCE_CHARS = 1_048_576
#: Names, signs and texts between `{{ }}` and `{% %}`: some thousand variables. Bounds the time of compiling.
MAX_TOKENS = 10_000
#: Expressions and statements within each other.
MAX_DEPTH = 40
MAX_NAME_CHARS = 200
MAX_NUMBER_CHARS = 1000
#: Jinja2's expression for a quoted text takes 250 octets for each.
MAX_BACKSLASHES = 50_000

_FILE: Final = "<template>"
_UNCOUNTED: Final = frozenset({"data", "whitespace"})
#: Tags that need other templates.
_TAGS: Final[Mapping[type[nodes.Node], str]] = {
    nodes.Extends: "extends",
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "from",
    nodes.Block: "block",
}
#: Looked for before Jinja2 reads the source: its own expression takes 300 octets for each digit. Each run of digits is
#: looked at from its start alone, so that the time is linear.
_LONG_NUMBER: Final = re.compile(
    rf"(?<![\d_])[\d_]{{{MAX_NUMBER_CHARS}}}|(?<![\da-fA-F_])0[xX][\da-fA-F_]{{{MAX_NUMBER_CHARS}}}"
)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A template ready to run, in any thread."""

    escapes: bool
    #: How much it holds on to, in rough octets.
    weight: int
    _namespace: dict[str, Any]
    #: Filter, and the line it stands in, to the variable it is applied to; None where there are several.
    _subjects: Mapping[tuple[str, int], str | None]
    #: The texts the template itself holds: those may be named in an error, while others may be a variable's value.
    own_texts: frozenset[str]

    def begin(self, variables: Mapping[str, Any], run: Run) -> "RunContext":
        """Names for one rendering; whoever asks for them releases them."""
        run.own_texts = self.own_texts
        return RunContext(_ENVIRONMENTS[self.escapes], variables, run)

    def pieces(self, context: "RunContext") -> Iterator[str]:
        """What it writes, piece by piece. Raises whatever its operations raise."""
        pieces: Iterator[str] = self._namespace["root"](context)
        return pieces

    def line_of(self, traceback: TracebackType | None) -> int | None:
        """The template's line at which an exception came up; None when it was not in its code."""
        line = None
        while traceback is not None:
            if traceback.tb_frame.f_globals is self._namespace:
                line = traceback.tb_lineno
            traceback = traceback.tb_next
        if line is None:
            return None
        pairs = [pair.split("=") for pair in self._namespace["debug_info"].split("&") if pair]
        return next((int(ours) for ours, generated in reversed(pairs) if int(generated) <= line), 1)

    def subject(self, operation: str | None, line: int | None) -> str | None:
        """The variable to which a filter is applied in a line."""
        return None if operation is None or line is None else self._subjects.get((operation, line))


class RunContext(Context):
    """The names of one rendering: what the template sets, the variables, the functions all templates have."""

    def __init__(self, environment: "TemplateEnvironment", variables: Mapping[str, Any], run: Run) -> None:
        super().__init__(environment, variables, None, {})  # type: ignore[arg-type]  # is only read
        self.run = run

    def resolve_or_missing(self, key: str) -> Any:
        if key in self.vars:
            return self.vars[key]
        if key in self.parent:
            return self.parent[key]
        return GLOBALS.get(key, missing)

    def release(self) -> None:
        """Let go of what the template has set. A macro refers to itself, and so may a namespace: what they hold would
        wait for the garbage collector, which counts objects and not their size.
        """
        self.vars.clear()
        self.run.release()


def compile_template(source: str, *, escape: bool) -> Compiled:
    """A template from its source. Takes well under a second, whatever the source.

    Raises: Malformed.
    """
    environment = _ENVIRONMENTS[escape]
    if len(source) > MAX_SOURCE_CHARS:
        raise Malformed(1, f"is longer than {MAX_SOURCE_CHARS:,} characters")
    if source.count("\\") > MAX_BACKSLASHES:
        raise Malformed(1, f"has more than {MAX_BACKSLASHES:,} backslashes")
    number = _LONG_NUMBER.search(source)
    if number is not None:
        line = source.count("\n", 0, number.start()) + 1
        raise Malformed(line, f"has a number of more than {MAX_NUMBER_CHARS:,} digits")
    try:
        tokens = _count_tokens(environment, source)
        tree = environment.parse(source)
        _check(tree)
        generator = Generator(environment, None, None, optimized=False)
        code = compile(generator.code_of(tree), _FILE, "exec", dont_inherit=True)
    except TemplateSyntaxError as exc:
        raise Malformed(exc.lineno, exc.message or "is no template") from None
    except (RecursionError, MemoryError):
        raise Malformed(1, "is nested too deeply") from None
    except (SyntaxError, ValueError, OverflowError) as exc:
        # Python's limits: loops within loops, a name given twice in a call, a number of thousands of digits.
        raise Malformed(1, f"cannot be compiled: {getattr(exc, 'msg', None) or exc}") from None
    namespace: dict[str, Any] = {"environment": environment, "__file__": _FILE}
    exec(code, namespace)  # noqa: S102 - made above, of operations that look before they work
    namespace["Namespace"] = Box
    own_texts = frozenset(node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str))
    return Compiled(escape, 4 * len(source) + 400 * tokens, namespace, generator.subjects, own_texts)


def _count_tokens(environment: "TemplateEnvironment", source: str) -> int:
    count = 0
    for line, kind, value in environment.lex(source):
        if kind in _UNCOUNTED:
            continue
        count += 1
        if count > MAX_TOKENS:
            raise Malformed(line, f"has more than {MAX_TOKENS:,} names and signs in its tags")
        if kind == "name" and len(value) > MAX_NAME_CHARS:
            raise Malformed(line, f"has a name of more than {MAX_NAME_CHARS} characters")
    return count


def _check(tree: nodes.Template) -> None:
    """Refuse what a template may not have."""
    pending: list[tuple[nodes.Node, int]] = [(tree, 0)]
    names: dict[str, str] = {}
    while pending:
        node, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise Malformed(node.lineno or 1, "is nested too deeply")
        reason = _objection(node) or _ambiguity(node, names)
        if reason is not None:
            raise Malformed(node.lineno or 1, reason)
        children = [(child, depth + 1) for child in node.iter_child_nodes()]
        pending += reversed(children)


def _objection(node: nodes.Node) -> str | None:
    match node:
        case nodes.Filter() if node.name not in FILTERS:
            return f"there is no filter {node.name!r}"
        case nodes.Test() if node.name not in CONDITIONS:
            return f"there is no test {node.name!r}"
        case nodes.Call() | nodes.Filter() | nodes.Test() if node.dyn_args or node.dyn_kwargs:
            return "a call takes its values one by one, not by * or **"
        case nodes.Const(value=int()) if node.value.bit_length() > MAX_BITS:
            return "has a number that is too large"
        case nodes.Const(value=float()) if not isfinite(node.value):
            return "has a number that is too large"
        case nodes.EvalContextModifier() if not all(isinstance(o.value, nodes.Const) for o in node.options):
            return "autoescape takes true or false"
        case _ if type(node) in _TAGS:
            return f"a template stands by itself: there is no tag {_TAGS[type(node)]!r}"
        case _:
            return None


def _ambiguity(node: nodes.Node, names: dict[str, str]) -> str | None:
    """Python takes names for one that agree in NFKC (PEP 3131), so that one variable would be written for another.

    `names`: those so far, by what Python makes of them.
    """
    match node:
        case nodes.Name() | nodes.Macro():
            other = names.setdefault(_as_python(node.name), node.name)
            if other != node.name:
                return f"cannot tell the names {other!a} and {node.name!a} apart"
        case nodes.Keyword() if _as_python(node.key) != node.key:
            return f"cannot hand over the name {node.key!a}; write {_as_python(node.key)!a}"
    return None


def _as_python(name: str) -> str:
    return name if name.isascii() else unicodedata.normalize("NFKC", name)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """Jinja2's immutable sandbox, with no loader and with our filters, tests and functions alone.

    Compiled code looks nothing up through it; what did would be told that nothing is safe.
    """

    code_generator_class = Generator

    def __init__(self, *, autoescape: bool) -> None:
        super().__init__(
            autoescape=autoescape, keep_trailing_newline=True, optimized=False, undefined=Missing, cache_size=0
        )
        self.filters = dict(FILTERS)
        self.tests = dict(CONDITIONS)
        self.globals = dict(GLOBALS)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return False

    def is_safe_callable(self, obj: Any) -> bool:
        return False


_ENVIRONMENTS: Final = {escape: TemplateEnvironment(autoescape=escape) for escape in (True, False)}
