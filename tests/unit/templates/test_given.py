"""Variables as callers give them: what is kept as it is, and what is refused by its path (send.md 2, B19)."""

import json
from collections import OrderedDict
from datetime import date
from decimal import Decimal
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest

from messaging.templates.given import MAX_DEPTH, VariableError, to_json


def test_b19_the_order_of_keys_is_kept() -> None:
    assert to_json({"b": 1, "a": {"z": 1, "y": 2}}) == '{"b":1,"a":{"z":1,"y":2}}'


def test_all_that_json_knows_comes_back_as_it_was() -> None:
    given = {"t": "ü\n\u2028", "n": 2**70, "f": 1.5, "yes": True, "no": None, "l": [1, [2]], "m": {}, "e": []}
    assert json.loads(to_json(given)) == given


def test_what_is_like_a_json_type_is_written_as_that() -> None:
    class Text(str):
        """As `markupsafe.Markup`."""

        __slots__ = ()

        def __str__(self) -> str:
            return "something else"

    class Level(IntEnum):
        HIGH = 3

    class Colour(StrEnum):
        RED = "red"

    given = OrderedDict({"m": MappingProxyType({"t": Text("x")}), Colour.RED: (Level.HIGH, Colour.RED)})
    assert to_json(given) == '{"m":{"t":"x"},"red":[3,"red"]}'


def test_the_same_value_may_stand_in_several_places() -> None:
    shared = {"a": 1}
    assert to_json({"x": shared, "y": [shared, shared]}) == '{"x":{"a":1},"y":[{"a":1},{"a":1}]}'


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def _loop() -> Any:
    loop: list[Any] = [1]
    loop.append({"again": loop})
    return loop


@pytest.mark.parametrize(
    ("variables", "path", "reason"),
    [
        (["a"], "", "mapping"),
        ("text", "", "mapping"),
        ({"a": float("nan")}, "a", "finite"),
        ({"a": {"b": [1, float("-inf")]}}, "a.b[1]", "finite"),
        ({"a": {5: "x"}}, "a", "key"),
        ({5: "x"}, "", "key"),
        ({None: "x"}, "", "key"),
        ({"a": date(2026, 1, 1)}, "a", "date"),
        ({"a": [Decimal(1)]}, "a[0]", "Decimal"),
        ({"a": {1, 2}}, "a", "set"),
        ({"a": b"x"}, "a", "bytes"),
        ({"a": object()}, "a", "object"),
        ({"order": {"lines": [{"name": "a\x00"}]}}, "order.lines[0].name", "NUL"),
        ({"a": "\ud800"}, "a", "surrogate"),
        ({"a": {"\ud800": 1}}, "a", "surrogate"),
        ({"a\x00": 1}, "", "NUL"),
        ({"a": 10**5000}, "a", "digits"),
        ({"a": _nested(MAX_DEPTH)}, "a" + "[0]" * (MAX_DEPTH - 1), "deeper"),
        ({"a": _loop()}, "a[1].again", "itself"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_path(variables: Any, path: str, reason: str) -> None:
    with pytest.raises(VariableError, match=reason) as caught:
        to_json(variables)
    assert caught.value.path == path


def test_the_deepest_that_is_allowed() -> None:
    assert to_json({"a": _nested(MAX_DEPTH - 1)}).count("[") == MAX_DEPTH - 1
