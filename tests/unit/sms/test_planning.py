"""Parameters by position (sms.md section 6.3)."""

from typing import Any

import pytest

from messaging.sms.planning import template_params


@pytest.mark.parametrize(
    ("content", "variables", "params"),
    [
        ("{{ code }} until {{ time }}", {"time": "5 pm", "code": "12"}, ["12", "5 pm"]),  # P25
        ("{{ b }}{{ a }}{{ b }}", {"a": "1", "b": "2"}, ["2", "1"]),
        ("{{ a }} {{ gone }}", {"a": "1"}, ["1", ""]),
        ("{{ a | upper }} {{ user.name }} {{ n + 1 }}", {"n": 2, "user": {"name": "Ada"}, "a": "x"}, ["x", "Ada", "2"]),
        ("{% for x in xs %}{{ x.y }}{{ loop.index }}{% endfor %}", {"xs": [{"y": 1}]}, ['[{"y":1}]']),
        ("{% if vip %}{{ name }}{% endif %}", {"name": "Ada", "vip": True}, ["true", "Ada"]),
        ("{% set a = b %}{{ a }}", {"a": 1, "b": 2}, ["2"]),
        ("no names", {"time": "5 pm", "code": 12}, ["5 pm", "12"]),
        ("{{ broken", {"b": None, "a": "ä"}, ["", "ä"]),
        (None, {"b": 1.5, "a": "x"}, ["1.5", "x"]),
        ("{{ xs[1] }}{{ xs[7] }}{{ name.upper() }}", {"xs": ["a", "b"], "name": "n"}, ["b", "", "n"]),
        ("{{ a }}", None, [""]),
    ],
)
def test_values_stand_in_the_order_in_which_the_text_names_them(
    content: str | None, variables: dict[str, Any] | None, params: list[str]
) -> None:
    assert template_params({"content": content}, variables) == params


def test_without_a_template_they_stand_in_the_callers_order() -> None:
    assert template_params(None, {"b": "2", "a": "1"}) == ["2", "1"]
    assert template_params(None, None) == []
