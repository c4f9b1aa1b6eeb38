"""Lists of configurations, whatever their kind: enabled or all, searched, sorted, by pages. No secret is read.

Runs in the caller's transaction and tenant.
"""

import re
from collections.abc import Collection
from enum import StrEnum
from typing import Any, TypedDict, TypeVar

from sqlalchemy import ColumnElement, SQLColumnExpression, func, or_, select
from sqlalchemy.orm import Session

from messaging.config_kinds import Kind, LineT
from messaging.db.active import with_disabled
from messaging.errors import RecordNotFound, shown_value

_T = TypeVar("_T")

#: Rows of a page at most.
MAX_PAGE_SIZE = 200
#: Largest number of a page: what comes before it is counted in a bigint.
MAX_PAGE = 2**31 - 1
#: Characters of a search.
MAX_SEARCH_CHARS = 200

#: What PostgreSQL or UTF-8 cannot hold.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Active(StrEnum):
    """Which rows of a list are meant."""

    #: Enabled ones.
    TRUE = "true"
    #: Disabled ones.
    FALSE = "false"
    ALL = "all"


class ListFields(TypedDict, total=False):
    """Which part of a list is asked for, and in which order; nothing given is all enabled rows in the list's order."""

    #: `true`, `false` or `all`.
    active: Active | str
    #: From 1.
    page: int
    #: Rows of a page, 1 to 200; None: all.
    size: int | None
    #: A field of the lines, with `-` in front from its end; None: the list's own order.
    sort: str | None
    #: A part of a name or a code, in any case.
    search: str | None


class Lines(list[_T]):
    """The lines of a list's page."""

    def __init__(self, lines: Collection[_T], total: int) -> None:
        super().__init__(lines)
        #: How many there are on all pages.
        self.total = total


def listed(session: Session, kind: Kind[LineT], asked: ListFields, *conditions: ColumnElement[bool]) -> Lines[LineT]:
    """Lines of the tenant's rows. Raises: ValueError, TypeError, naming what was asked and what is allowed."""
    found = rows(session, kind, asked, *conditions)
    return Lines([kind.line(**row) for row in found], found.total)


def shown(session: Session, kind: Kind[LineT], row_id: object) -> LineT:
    """One of them, disabled or not. Raises: RecordNotFound, also for a row of the platform."""
    return kind.line(**one(session, kind, row_id))


def one(session: Session, kind: Kind[Any], row_id: object) -> dict[str, Any]:
    """As `shown`, by the names of its columns."""
    if not isinstance(row_id, int) or isinstance(row_id, bool):
        raise TypeError(f"a {kind.what} id is an int, not {shown_value(row_id)}")
    if 1 <= row_id < 2**63:
        for row in rows(session, kind, {"active": Active.ALL}, kind.model.id == row_id):
            return row
    raise RecordNotFound(f"no {kind.what} {shown_value(row_id)}")


def rows(
    session: Session, kind: Kind[Any], asked: ListFields, *conditions: ColumnElement[bool]
) -> Lines[dict[str, Any]]:
    """As `listed`, each by the names of its columns."""
    unknown = sorted(set(asked) - set(ListFields.__annotations__))
    if unknown:
        raise TypeError(f"a list has no {unknown[0]!r}; it has {', '.join(ListFields.__annotations__)}")
    size, page = asked.get("size"), asked.get("page", 1)
    _check_number("page", page, MAX_PAGE)
    if size is not None:
        _check_number("size", size, MAX_PAGE_SIZE)
    statement = with_disabled(select(*_columns(kind))).where(*_narrowed(kind, asked), *conditions)
    ordered = statement.order_by(*_order(kind, asked.get("sort")), kind.model.id)
    if size is None:
        found = [dict(row._mapping) for row in session.execute(ordered)]
        return Lines(found, len(found))
    total = session.scalar(statement.with_only_columns(func.count(kind.model.id)))
    found = [dict(row._mapping) for row in session.execute(ordered.limit(size).offset((page - 1) * size))]
    return Lines(found, total or 0)


def sortable(kind: Kind[Any]) -> tuple[str, ...]:
    """The fields by which a list of them can be sorted."""
    return tuple(name for name in kind.line.__dataclass_fields__ if name in kind.table.c)


def _columns(kind: Kind[Any]) -> list[SQLColumnExpression[Any]]:
    columns: list[SQLColumnExpression[Any]] = []
    for name in kind.line.__dataclass_fields__:
        if name in kind.computed:
            columns.append(kind.computed[name].label(name))
        elif name.removeprefix("has_") in kind.secrets:
            columns.append(getattr(kind.model, name.removeprefix("has_")).is_not(None).label(name))
        elif name in kind.table.c:
            columns.append(getattr(kind.model, name))
    return columns


def _narrowed(kind: Kind[Any], asked: ListFields) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    active: object = asked.get("active", Active.TRUE)
    search: object = asked.get("search")
    if active not in list(Active):
        raise ValueError(f"active is {shown_value(active)}; allowed: {', '.join(Active)}")
    if active != Active.ALL and "active" in kind.table.c:
        conditions.append(kind.model.active.is_(active == Active.TRUE))
    if search is not None and kind.searched:
        if not isinstance(search, str) or len(search) > MAX_SEARCH_CHARS or _UNSTORABLE.search(search):
            raise ValueError(f"search is {shown_value(search)}; allowed: {MAX_SEARCH_CHARS} characters of a text")
        conditions.append(
            or_(*(getattr(kind.model, name).icontains(search, autoescape=True) for name in kind.searched))
        )
    return conditions


def _order(kind: Kind[Any], sort: object) -> list[ColumnElement[Any]]:
    """The column that is asked for, then the list's own order."""
    ordered = [getattr(kind.model, name).asc() for name in kind.order]
    if sort is None:
        return ordered
    name = sort.removeprefix("-") if isinstance(sort, str) else ""
    if not isinstance(sort, str) or name not in sortable(kind):
        raise ValueError(f"sort is {shown_value(sort)}; allowed: {', '.join(sortable(kind))}, each with or without -")
    column: ColumnElement[Any] = getattr(kind.model, name)
    return [column.desc().nulls_last() if sort.startswith("-") else column.asc().nulls_last(), *ordered]


def _check_number(name: str, value: object, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is {shown_value(value)}; it is of type int")
    if not 1 <= value <= most:
        raise ValueError(f"{name} is {shown_value(value)}; allowed: 1 to {most}")
