"""Cursors of growing lists: opaque, checked, and what a part of a list says of the next."""

import base64
from dataclasses import dataclass

import pytest
from pydantic import ValidationError

from messaging.web.api.lists import Keyset, part


@dataclass(frozen=True)
class Row:
    id: int


def shape(row: Row) -> int:
    return row.id


def test_a_cursor_leads_to_what_lies_below_the_last_row_shown() -> None:
    first = part([Row(9), Row(7), Row(4)], Keyset(size=2), shape)

    assert first.items == [9, 7]
    assert Keyset(size=2, cursor=first.next_cursor).before == 7


def test_the_last_part_has_no_cursor() -> None:
    assert part([Row(9), Row(7)], Keyset(size=2), shape).next_cursor is None
    assert part([], Keyset(size=2), shape).next_cursor is None


def sealed(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "é", "=", "a" * 101]
    + [sealed(text) for text in ("7", "id:", "id:0", "id:-1", "id:1:2", "id:9223372036854775808", "id:1;--", "id:١")],
)
def test_what_is_no_cursor_of_ours_is_refused(cursor: str) -> None:
    with pytest.raises(ValidationError):
        Keyset(cursor=cursor)


@pytest.mark.parametrize("size", [0, 201, -1])
def test_a_part_has_bounds(size: int) -> None:
    with pytest.raises(ValidationError):
        Keyset(size=size)
