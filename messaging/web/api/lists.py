"""Lists: by keyset where they grow with history, newest first; by page and sort where they are small.

A resource's filters are a subclass, taken as one query parameter model: `query: Annotated[TokenQuery, Query()]`.
"""

import base64
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from messaging.db import newest
from messaging.db.own_rows import MAX_ID
from messaging.web.api.shapes import Shown

#: Rows of one page.
MAX_SIZE = 200

_Item = TypeVar("_Item")
_Row = TypeVar("_Row")


def sealed(place: str) -> str:
    """A place in a list, in ASCII, as a cursor. It is not secret and not signed: what it says is checked."""
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def opened(cursor: str, prefix: str) -> list[int]:
    """The numbers of a cursor that was made of `prefix:1:2`. Raises: ValueError."""
    try:
        named, *numbers = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii").split(":")
    except ValueError:  # neither base64 nor ASCII
        named, numbers = "", []
    if named != prefix or not numbers or not all(n.isdecimal() and len(n) <= 19 and int(n) <= MAX_ID for n in numbers):
        raise ValueError("is no cursor that an answer gave")
    return [int(number) for number in numbers]


def _to_cursor(row_id: int) -> str:
    return sealed(f"id:{row_id}")


def _of_cursor(cursor: str) -> int:
    """Raises: ValueError."""
    row_id, *more = opened(cursor, "id")
    if more or row_id < 1:
        raise ValueError("is no cursor that an answer gave")
    return row_id


def _known(cursor: str) -> str:
    _of_cursor(cursor)
    return cursor


class Keyset(BaseModel):
    """Which part of a growing list; with its filters as further fields."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    size: int = Field(50, ge=1, le=MAX_SIZE)
    #: `next_cursor` of the answer before.
    cursor: Annotated[str, Field(max_length=100), AfterValidator(_known)] | None = None

    @property
    def before(self) -> int | None:
        """The id that the part lies below; None: the newest."""
        return None if self.cursor is None else _of_cursor(self.cursor)


class Part(Shown, Generic[_Item]):
    """A part of a growing list, newest first. Of a rare filter it may be short, even empty, and have a next one."""

    items: list[_Item]
    #: Asks for what comes after; null at the end.
    next_cursor: str | None


def part(rows: Sequence[_Row], query: Keyset, shape: Callable[[_Row], _Item], *, key: str = "id") -> Part[_Item]:
    """The answer of a list that was asked for one row more than `query.size`."""
    shown = rows[: query.size]
    has_more = len(rows) > query.size
    return Part(
        items=[shape(row) for row in shown], next_cursor=_to_cursor(getattr(shown[-1], key)) if has_more else None
    )


def part_of(lines: newest.Page[_Row], shape: Callable[[_Row], _Item]) -> Part[_Item]:
    """The answer of a list that says itself where it goes on."""
    following = None if lines.next_before is None else _to_cursor(lines.next_before)
    return Part(items=[shape(line) for line in lines], next_cursor=following)


class Numbered(BaseModel):
    """Which page of a small list; with its filters as further fields.

    `sort` is a column, with `-` before it for descending; a subclass names those it has:
    `sort: Literal["name", "-name", "id", "-id"] = "name"`.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    page: int = Field(1, ge=1, le=100_000)
    size: int = Field(50, ge=1, le=MAX_SIZE)
    sort: str = "id"


class Switched(Numbered):
    """Which page of a small list of what can be disabled or ended."""

    active: Literal["true", "false", "all"] = "true"

    @property
    def is_active(self) -> bool | None:
        """None: all."""
        return None if self.active == "all" else self.active == "true"


class Page(Shown, Generic[_Item]):
    """One page of a small list."""

    items: list[_Item]
    page: int
    size: int
    #: Rows of all pages.
    total: int


def page(session: Session, rows: Select[_Row], query: Numbered, shape: Callable[[_Row], _Item]) -> Page[_Item]:
    """The answer of a small list: the statement's rows, sorted and cut; `sort` names an attribute of its class."""
    kind: Any = rows.column_descriptions[0]["entity"]
    column = getattr(kind, query.sort.removeprefix("-"))
    order = column.desc() if query.sort.startswith("-") else column.asc()
    found = session.scalars(rows.order_by(order, kind.id).limit(query.size).offset((query.page - 1) * query.size))
    counted = select(func.count()).select_from(rows.subquery()).execution_options(**rows.get_execution_options())
    total = session.scalar(counted) or 0
    return Page(items=[shape(row) for row in found], page=query.page, size=query.size, total=total)
