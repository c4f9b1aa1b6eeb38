"""What of an unprocessable message is stored, and whom it names (operate.md O31)."""

import base64
import json
from typing import Any

import pytest

from messaging.delivery.poison import (
    MAX_PAYLOAD_BYTES,
    find_record_id,
    find_tenant_id,
    storable_payload,
)


@pytest.mark.parametrize(
    ("body", "stored"),
    [
        (b"[[[[1, 2]]], {}, {}]", [[[[1, 2]]], {}, {}]),
        ('{"a": 1}', {"a": 1}),
        (b"not json", "not json"),
        ("", ""),
        (b"\xff\xfe", {"base64": "//4="}),
        ('"a\\u0000b"', "ab"),
        (b"raw\0text", "rawtext"),
        ('{"k\\u0000": ["\\u0000"]}', {"k": [""]}),
        ('"\\ud800"', "?"),  # a lone surrogate: jsonb refuses it
        ("NaN", "NaN"),  # JSON knows no such number
        ("[1e999]", "[1e999]"),
        ("null", "null"),  # the column is never null
        ([(1, 2), {"a": None}], [[1, 2], {"a": None}]),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_a_body_becomes_json_that_postgresql_takes(body: Any, stored: Any) -> None:
    assert storable_payload(body) == stored


def test_an_argument_of_a_type_of_its_own_is_stored_as_text() -> None:
    assert storable_payload([object, 1]) == "[<class 'object'>, 1]"


@pytest.mark.parametrize(
    "body",
    [b"\xff" * 1_000_000, "a" * 1_000_000, "€" * 300_000, json.dumps(["x" * 1_000_000]), '"' * 400_000, "\n" * 262_143],
    ids=["binary", "text", "three bytes each", "json", "quotes are escaped", "line ends are escaped"],
)
def test_no_payload_is_larger_than_the_limit_nor_much_smaller(body: Any) -> None:
    size = len(json.dumps(storable_payload(body), ensure_ascii=False).encode())
    assert MAX_PAYLOAD_BYTES - 10 <= size <= MAX_PAYLOAD_BYTES


def test_binary_is_cut_at_whole_bytes() -> None:
    stored = storable_payload(b"\xff" * 1_000_000)
    assert set(base64.b64decode(stored["base64"])) == {0xFF}


@pytest.mark.parametrize(
    ("payload", "record_id"),
    [
        ([[[[7, 3], [8, 1]]], {}, {}], 7),  # a delivery's pairs
        ([["42"], {}, {}], 42),
        ([[" 42 "], {}, {}], 42),
        ([[42, "x"], {}, {}], 42),
        ([[], {"record_id": "43"}, {}], 43),
        ([[1], {"record_id": 44}, {}], 44),
        ({"record_id": 45}, 45),
        ({"args": [46], "kwargs": {}}, 46),
        ({"args": [], "kwargs": {"record_id": "47"}}, 47),
        ([[{"record_id": 48}], {}, {}], 48),
        ([["mail"], {}, {}], None),
        ([[True], {}, {}], None),
        ([[0], {}, {}], None),
        ([[-5], {}, {}], None),
        ([[1.5], {}, {}], None),
        ([["4٢"], {}, {}], None),
        ([[2**63], {}, {}], None),
        ([["9" * 5000], {}, {}], None),
        ([[], {}, {}], None),
        ("text", None),
        ([], None),
        (5, None),
        ({"base64": "//4="}, None),
    ],
)
def test_the_record_is_found_among_the_arguments(payload: Any, record_id: int | None) -> None:
    assert find_record_id(payload) == record_id


@pytest.mark.parametrize(
    ("payload", "tenant_id"),
    [
        ({"tenant_id": "7"}, 7),
        ([[1], {"tenant_id": -1}, {}], -1),
        ([[{"tenant_id": 0}], {}, {}], 0),
        ([[1], {}, {}], None),
        ({"tenant_id": "seven"}, None),
    ],
)
def test_a_tenant_is_taken_from_the_message(payload: Any, tenant_id: int | None) -> None:
    assert find_tenant_id(payload) == tenant_id
