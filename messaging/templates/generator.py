"""From a parsed template to Python code whose every step is one of our own operations.

What Jinja2 would write as an operator, a look-up, a call or a loop of Python becomes a call of an operation of
`messaging.templates.values.Run`. This overrides what Jinja2 keeps to itself, hence its exact version; a test reads the
code that comes out.
"""

from collections.abc import Mapping
from typing import Any, Final

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame

from messaging.templates.undefined import COMPUTED

#: Local names in compiled code, and the operations of the run they stand for.
OPERATIONS: Final[Mapping[str, str]] = {
    "text": "text",
    "html": "html",
    "concat_values": "join",
    "new_buffer": "buffer",
    "attr": "attr",
    "item": "item",
    "part": "slice",
    "key": "key",
    "literal": "literal",
    "iterate": "iterate",
    "calculate": "calculate",
    "compare": "compare",
    "call": "call",
    "step": "step",
    # Jinja2's own names, for what it writes itself.
    "undefined": "undefined",
    "cond_expr_undefined": "nothing",
    "LoopContext": "loop",
    "Macro": "macro",
    "TemplateReference": "own_name",
}


def _path(node: nodes.Node | None) -> str | None:
    """A variable as the template wrote it, dotted; None for any other expression."""
    match node:
        case nodes.Name():
            return node.name
        case nodes.Getattr():
            return _below(_path(node.node), node.attr)
        case nodes.Getitem(arg=nodes.Const()):
            return _below(_path(node.node), str(node.arg.value))  # type: ignore[attr-defined]
        case nodes.Getitem():
            base = _path(node.node)
            return base and f"{base}[{_path(node.arg) or '...'}]"
        case nodes.Filter():
            return _path(node.node)
        case _:
            return None


def _below(path: str | None, name: str) -> str:
    return name if path is None else f"{path}.{name}"


def _ours(name: str, lineno: int, *args: nodes.Expr) -> nodes.Call:
    """A call of one of our own operations."""
    internal = object.__new__(nodes.InternalName)
    nodes.Node.__init__(internal, name, lineno=lineno)
    return nodes.Call(internal, list(args), [], None, None, lineno=lineno)


def _calculation(sign: str) -> Any:
    def visit(self: "Generator", node: nodes.BinExpr, frame: Frame) -> None:
        self.write(f"calculate({sign!r}, ")
        self.visit(node.left, frame)
        self.write(", ")
        self.visit(node.right, frame)
        self.write(f", {(_path(node.left), _path(node.right))!r})")

    return visit


class Generator(CodeGenerator):
    """Writes our operations where Jinja2's own generator writes Python's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.subjects: dict[tuple[str, int], str | None] = {}

    def code_of(self, tree: nodes.Template) -> str:
        """The code of a module with a function `root`, to which a context is handed."""
        self.visit(tree)
        code: str = self.stream.getvalue()  # type: ignore[attr-defined]
        return code

    visit_Add = _calculation("+")
    visit_Sub = _calculation("-")
    visit_Mul = _calculation("*")
    visit_Div = _calculation("/")
    visit_FloorDiv = _calculation("//")
    visit_Mod = _calculation("%")
    visit_Pow = _calculation("**")

    def write_commons(self) -> None:
        super().write_commons()
        self.writeline("run = context.run")
        for name, operation in OPERATIONS.items():
            self.writeline(f"{name} = run.{operation}")

    def buffer(self, frame: Frame) -> None:
        frame.buffer = self.temporary_identifier()
        self.writeline(f"{frame.buffer} = new_buffer()")

    # What is written

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if not isinstance(node, nodes.TemplateData):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        self.write("html(" if frame.eval_ctx.autoescape else "text(")

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        self.write(")")

    # Loops

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        step = _ours("step", node.lineno)
        looped = nodes.For(
            node.target,
            _ours("iterate", node.lineno, node.iter),  # type: ignore[arg-type]
            [nodes.ExprStmt(step, lineno=node.lineno), *node.body],
            node.else_,
            node.test and nodes.And(step, node.test, lineno=node.test.lineno),
            node.recursive,
            lineno=node.lineno,
        )
        super().visit_For(looped, frame)

    # Expressions

    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:
        if isinstance(node.node, nodes.InternalName):
            self.write(f"{node.node.name}(")
            for arg in node.args:
                self.visit(arg, frame)
        else:
            self.write("call(")
            self.visit(node.node, frame)
            self.signature(node, frame, {"caller": "caller"} if forward_caller else None)
        self.write(")")

    def visit_Filter(self, node: nodes.Filter, frame: Frame) -> None:
        subject = _path(node.node)
        place = (node.name, node.lineno)
        self.subjects[place] = subject if self.subjects.get(place, subject) == subject else None
        super().visit_Filter(node, frame)

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:
        self.write("attr(")
        self.visit(node.node, frame)
        self.write(f", {node.attr!r}, {_path(node)!r})")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if isinstance(node.arg, nodes.Slice):
            self.write("part(")
            self.visit(node.node, frame)
            for bound in (node.arg.start, node.arg.stop, node.arg.step):
                self.write(", ")
                self.visit(bound or nodes.Const(None, lineno=node.lineno), frame)
            self.write(")")
            return
        self.write("item(")
        self.visit(node.node, frame)
        self.write(", ")
        self.visit(node.arg, frame)
        self.write(f", {_path(node) or COMPUTED!r})")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        """`a < b < c` looks at `b` once, and at `c` only if the first holds."""
        self.write("(")
        left: nodes.Expr | str = node.expr
        for number, operand in enumerate(node.ops, 1):
            self.write(f"compare({operand.op!r}, ")
            if isinstance(left, str):
                self.write(left)
            else:
                self.visit(left, frame)
            self.write(", ")
            if number < len(node.ops):
                left = self.temporary_identifier()
                self.write(f"({left} := ")
                self.visit(operand.expr, frame)
                self.write(")) and ")
            else:
                self.visit(operand.expr, frame)
                self.write(")")
        self.write(")")

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("concat_values((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_List(self, node: nodes.List, frame: Frame) -> None:
        self.write("literal(")
        super().visit_List(node, frame)
        self.write(")")

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:
        made = node.ctx == "load" and not all(isinstance(part, nodes.Const) for part in node.items)
        if made:
            self.write("literal(")
        super().visit_Tuple(node, frame)
        if made:
            self.write(")")

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        self.write("literal({")
        for pair in node.items:
            self.write("key(")
            self.visit(pair.key, frame)
            self.write("): ")
            self.visit(pair.value, frame)
            self.write(", ")
        self.write("})")
