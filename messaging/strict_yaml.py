"""YAML as people write settings in it, and nothing more: one document of mappings, lists and plain values.

Refused: aliases and anchors (a few lines of them can stand for gigabytes), tags (which construct objects), keys twice,
deep nesting, several documents. `yes`, `no`, `on`, `off`, dates and fractions are texts, as in YAML 1.2; numbers are
whole.
"""

import re
from collections.abc import Hashable
from typing import Any

import yaml

#: Levels of mappings and lists within each other.
MAX_DEPTH = 20
#: Digits of a number; far above any id.
MAX_DIGITS = 19

_WHOLE_NUMBER = re.compile(rf"^[-+]?[0-9]{{1,{MAX_DIGITS}}}$")
_TRUE_OR_FALSE = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
#: Controls, and line ends that only some software takes for such; other styles than the quoted one change them.
_NEEDS_ESCAPES = re.compile("[\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ufeff]")
_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")


class YamlRefused(ValueError):
    """The text is not YAML, or more than this reads; says where."""


class _Loader(yaml.SafeLoader):
    """Composes and constructs what `_check_events` let through."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - how PyYAML is told


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", _TRUE_OR_FALSE, list("tTfF"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", _NULL, ["~", "n", "N", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _WHOLE_NUMBER, list("-+0123456789"))


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    made: dict[Hashable, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise YamlRefused(f"{_place(key_node.start_mark)}: a key is not text")
        if key in made:
            raise YamlRefused(f"{_place(key_node.start_mark)}: the key {key!r} stands there twice")
        made[key] = loader.construct_object(value_node, deep=True)
    return made


def _construct_int(_loader: _Loader, node: yaml.ScalarNode) -> int:
    return int(node.value)


_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, which can be read and compared."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    if _NEEDS_ESCAPES.search(text):
        style: str | None = '"'
    else:
        style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def load(text: str) -> dict[str, Any]:
    """The mapping that the text holds.

    Raises: YamlRefused, naming line and reason.
    """
    try:
        _check_events(text)
        value = yaml.load(text, _Loader)  # noqa: S506 - a subclass of SafeLoader
    except yaml.MarkedYAMLError as exc:
        problem = exc.problem or exc.context or "is not YAML"
        raise YamlRefused(f"{_place(exc.problem_mark or exc.context_mark)}: {problem}") from exc
    except yaml.YAMLError as exc:
        # A character that YAML does not allow; its words repeat it.
        raise YamlRefused("has a character that is not allowed in YAML") from exc
    if not isinstance(value, dict):
        raise YamlRefused("is not a mapping of keys and values")
    return value


def dump(values: dict[str, Any]) -> str:
    """The mapping as text that `load` reads to the same; keys in their order."""
    return yaml.dump(values, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10_000)


def _place(mark: Any) -> str:
    return "somewhere" if mark is None else f"line {mark.line + 1}"


def _check_events(text: str) -> None:
    """Refuse by the parser's events, before anything is built of them. The parser itself does not recurse."""
    depth = documents = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        place = _place(event.start_mark)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise YamlRefused(f"{place}: anchors and aliases are not read")
        if getattr(event, "tag", None) is not None:
            raise YamlRefused(f"{place}: tags are not read")
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise YamlRefused(f"{place}: a second document; one file holds one")
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise YamlRefused(f"{place}: nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
