"""The code made of a template holds calls of our operations and nothing that Python would do by itself."""

import ast

import pytest
from jinja2 import TemplateSyntaxError

from messaging.templates.generator import OPERATIONS, Generator
from messaging.templates.sandbox import TemplateEnvironment
from tests.unit.templates.attacks import EXHAUSTING, REACHING
from tests.unit.templates.natural import NATURAL

#: Functions that code may call by name beside our operations and what it defines itself.
CALLED = {"Markup", "concat", "identity", "missing", "resolve", "isinstance", "TemplateRuntimeError"}
#: Functions it defines: macros, recursive loops, what chooses items of a loop.
DEFINED = {"root", "macro", "loop"}
#: Attributes it reads, and methods it calls, of the context, of buffers and of the environment.
ATTRIBUTES = {"run", "resolve_or_missing", "undefined", "concat", "filters", "tests", "vars", "exported_vars"}
ATTRIBUTES |= {"eval_ctx", "autoescape", "append", "extend", "add", "update", "save", "revert"}


def tree_of(text: str, *, escape: bool) -> ast.Module:
    environment = TemplateEnvironment(autoescape=escape)
    return ast.parse(Generator(environment, None, None, optimized=False).code_of(environment.parse(text)))


def compiles(text: str) -> bool:
    try:
        tree_of(text, escape=True)
    except TemplateSyntaxError:
        return False
    return True


WRITTEN = [*NATURAL, *(text for text in (*EXHAUSTING.values(), *REACHING.values()) if len(text) < 2000)]


@pytest.mark.parametrize("escape", [True, False], ids=["html", "text"])
def test_code_leaves_no_operator_look_up_or_call_to_python(escape: bool) -> None:
    seen = 0
    for text in filter(compiles, WRITTEN):
        if "{% block" in text or "{% include" in text or "import" in text or "{% extends" in text:
            continue  # refused before code is made
        seen += 1
        for node in ast.walk(tree_of(text, escape=escape)):
            where = f"{text}: {ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__}"
            match node:
                case ast.BinOp() | ast.AugAssign() | ast.JoinedStr() | ast.Lambda() | ast.While() | ast.With():
                    pytest.fail(where)
                case ast.ListComp() | ast.GeneratorExp() | ast.DictComp() | ast.SetComp() | ast.Starred():
                    pytest.fail(where)
                case ast.Compare():
                    assert all(isinstance(op, ast.Is) for op in node.ops), where
                case ast.Subscript(ctx=ast.Load()):
                    assert ast.unparse(node.value) in ("environment.filters", "environment.tests"), where
                case ast.Subscript(ctx=ast.Store()):
                    target = ast.unparse(node.value)
                    assert target in ("context.vars", "_loop_vars") or target.startswith("l_"), where
                case ast.Attribute():
                    assert node.attr in {*ATTRIBUTES, *OPERATIONS.values()}, where
                case ast.Call(func=ast.Name()):
                    name = node.func.id  # type: ignore[attr-defined]
                    assert name in CALLED | DEFINED | OPERATIONS.keys() or name.startswith("t_"), where
                case ast.Call():
                    assert isinstance(node.func, ast.Attribute | ast.IfExp), where
                case ast.For():
                    looped = ast.unparse(node.iter)
                    assert looped.startswith(("iterate(", "LoopContext(", "t_")) or looped in ("fiter", "reciter"), (
                        where
                    )
                case _:
                    pass
    assert seen > 150
