"""YAML that people write, read strictly, and written so that it reads back to the same."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.strict_yaml import YamlRefused, dump, load


def test_mappings_lists_and_plain_values_are_read() -> None:
    text = "a: text\nb: |\n  two\n  lines\nc: [1, -2, true, null]\nd: {e: ~}\nf:\n"
    assert load(text) == {"a": "text", "b": "two\nlines\n", "c": [1, -2, True, None], "d": {"e": None}, "f": None}


def test_what_looks_like_a_text_is_one() -> None:
    text = "a: no\nb: on\nc: 2024-01-01\nd: 1.5\ne: 0x1f\nf: 1_000\ng: 12:30\nh: .inf\ni: =\nj: 1e3\n"
    assert load(text) == dict(
        zip("abcdefghij", ["no", "on", "2024-01-01", "1.5", "0x1f", "1_000", "12:30", ".inf", "=", "1e3"], strict=True)
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &x [1]\nb: *x", "line 1: anchors"),
        ("a: 1\nb: *x", "line 2: anchors"),
        ("a: !!python/object/apply:os.system ['id']", "line 1: tags"),
        ("a: !!binary aGk=", "line 1: tags"),
        ("a: !env HOME", "line 1: tags"),
        ("a: 1\nb: 2\na: 3", "line 3: the key 'a' stands there twice"),
        ("a: {b: 1, b: 2}", "line 1: the key 'b' stands there twice"),
        ("1: a", "line 1: a key is not text"),
        ("[a]: b", "line 1: a key is not text"),
        ("<<: {a: 1}\n<<: {b: 1}", "line 2: the key '<<' stands there twice"),
        ("a: " + "[" * 30, "nested deeper"),
        ("a: " + "{b: " * 30, "nested deeper"),
        ("a: 1\n---\nb: 2", "a second document"),
        ("- a", "is not a mapping"),
        ("", "is not a mapping"),
        ("a: 'open", "line 1"),
        ("a: b: c", "line 1"),
        ("\ta: 1", "line 1"),
        ("a: \x00", "character"),
        ("a: \ud800", "character"),
    ],
)
def test_what_is_refused_is_told_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(YamlRefused, match=reason):
        load(text)


@pytest.mark.parametrize("text", ["a: " + "[" * 100_000, "a: " + "{" * 100_000, "- " * 100_000, "? " * 100_000])
def test_deep_nesting_is_refused_at_once(text: str) -> None:
    started = time.process_time()
    with pytest.raises(YamlRefused):
        load(text)
    assert time.process_time() - started < 5


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(_TEXT, _VALUES, max_size=4))
def test_what_is_written_is_read_back_to_the_same(values: dict[str, object]) -> None:
    read = load(dump(values))
    assert read == values
    assert list(read) == list(values)
    assert dump(read) == dump(values)
