"""Which of its variables a template names, in the order in which their values appear in it.

Read from its syntax tree, so that `{{ name | upper }}` names `name`; what an input form asks for is said by
`messaging.templates.variables`, which also reads what does not compile.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, nodes

#: Built by Jinja2 itself where a template asks for them.
_OWN_NAMES = frozenset({"loop", "caller", "varargs", "kwargs", "range", "dict", "namespace", "cycler", "joiner"})


@lru_cache(maxsize=256)
def named_variables(source: str) -> tuple[tuple[str, ...], ...]:
    """Each variable once, as the names that lead to it: `user.name` is `("user", "name")`.

    Names that the template binds itself are no variables. Empty where nothing is named, or the source does not compile.
    """
    try:
        tree = Environment(autoescape=False).parse(source)  # noqa: S701 - parsed only; nothing is rendered
    except (TemplateSyntaxError, RecursionError):
        return ()
    bound = {node.name for node in tree.find_all(nodes.Name) if node.ctx != "load"}
    bound |= {macro.name for macro in tree.find_all(nodes.Macro)} | _OWN_NAMES
    found = dict.fromkeys(_paths(tree))
    return tuple(path for path in found if path[0] not in bound)


def value_at(variables: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value that these names lead to; None where one leads nowhere."""
    value: Any = variables
    for name in path:
        if isinstance(value, list) and name.isdigit():
            value = value[int(name)] if int(name) < len(value) else None
        else:
            value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _paths(node: nodes.Node) -> Iterator[tuple[str, ...]]:
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
        # `name.upper()`: a method of the value.
        yield from _paths(node.node.node)
        for argument in (*node.args, *node.kwargs):
            yield from _paths(argument)
        return
    path = _path(node)
    if path is not None:
        yield path
        return
    for child in node.iter_child_nodes():
        yield from _paths(child)


def _path(node: nodes.Node) -> tuple[str, ...] | None:
    """The names a plain look-up goes by; None for anything else."""
    match node:
        case nodes.Name(ctx="load"):
            return (node.name,)
        case nodes.Getattr():
            base, step = _path(node.node), node.attr
        case nodes.Getitem(arg=nodes.Const()):
            base, step = _path(node.node), str(node.arg.value)  # type: ignore[attr-defined]
        case _:
            return None
    return None if base is None else (*base, step)
