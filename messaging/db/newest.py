"""Lists that grow with history, newest first, a page at a time: what a page costs does not grow with them.

A page begins below where the one before ended (a keyset) and looks at no more than `SCAN_ROWS` rows, in an index's
order. Filters that an index answers narrow what is looked at; all others are asked of each row, so that a page of a
rare filter may have fewer rows than asked for, even none, and still say where to go on.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, FromClause, Row, Select, Table, and_, func, literal_column, or_, select, tuple_
from sqlalchemy.orm import Session

from messaging.db.filters import reading_owner

#: Rows that one page looks at: some 30 ms of work.
SCAN_ROWS = 10_000

#: Values of the columns that order a list, of one row.
Position: TypeAlias = tuple[Any, ...]
#: A condition on the columns of a row, which it is given by name.
Condition: TypeAlias = Callable[[Any], ColumnElement[bool]]

LineT = TypeVar("LineT")


class Page(list[LineT]):
    """Lines of a list that is in order of ids. It may be short, even empty, and still not be the last one."""

    def __init__(self, lines: Iterable[LineT], next_before: int | None) -> None:
        super().__init__(lines)
        #: The id that the next page begins below; None at the end.
        self.next_before = next_before


class Found(NamedTuple):
    """A page."""

    #: Newest first.
    rows: list[Row[Any]]
    #: What the next one begins below (or above), whether it is of this page or was only looked at; None at the end.
    end: Row[Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """One question to a list."""

    table: FromClause
    #: What a row shows and what the conditions look at, `order` among them.
    columns: Sequence[str]
    #: What orders the list, each row in a place of its own.
    order: Sequence[str]
    #: Whose rows, and what else one index answers in that order: equalities of its first columns, a range of the next.
    within: Sequence[ColumnElement[bool]]
    #: What is asked of each row beside that.
    conditions: Sequence[Condition] = ()
    #: Whether an index answers `within` in another order. Only for what is few rows at any time: all are read.
    is_gathered: bool = False


def read(
    session: Session,
    asked: Newest,
    *,
    size: int,
    before: Position | None,
    after: Position | None = None,
    scan_rows: int = SCAN_ROWS,
) -> Found:
    """The next `size` rows below a position, at most; None is the top. Whose rows they are, `within` says alone.

    `after` instead: those next above a position.
    """
    connection = session.connection(bind_arguments={"clause": asked.table})
    rows = list(connection.execute(page_of(asked, size=size, before=before, after=after, scan_rows=scan_rows)))
    fitting = [row for row in rows if row.fits]
    end = rows[-1] if rows and rows[-1].seen == scan_rows else None
    if len(fitting) > size:
        fitting, end = fitting[:size], fitting[size - 1]
    return Found(fitting if after is None else fitting[::-1], end)


def page_by_id(
    session: Session,
    table: Table,
    columns: Sequence[str],
    line: Callable[[Row[Any]], LineT],
    *,
    within: Sequence[ColumnElement[bool]] = (),
    conditions: Sequence[Condition] = (),
    is_gathered: bool = False,
    size: int,
    before: int | None,
    scan_rows: int = SCAN_ROWS,
) -> Page[LineT]:
    """A page of the current tenant's rows of a table that has an index on `tenant_id, id`.

    Raises: TenantContextMissing.
    """
    owner = reading_owner()
    c = table.c
    # As a range: with an equality, the planner may go through the rows of all tenants by the primary key.
    whose = [] if owner is None else [c.tenant_id >= owner, c.tenant_id <= owner]
    question = Newest(
        table=table,
        columns=tuple(dict.fromkeys((*columns, "tenant_id", "id"))),
        order=("id",) if owner is None else ("tenant_id", "id"),
        within=(*whose, *within),
        conditions=conditions,
        is_gathered=is_gathered,
    )
    start = None if before is None else (before,) if owner is None else (owner, before)
    found = read(session, question, size=size, before=start, scan_rows=scan_rows)
    return Page(map(line, found.rows), None if found.end is None else found.end.id)


def page_of(
    asked: Newest, *, size: int, before: Position | None, after: Position | None = None, scan_rows: int = SCAN_ROWS
) -> Select[Any]:
    """The rows of a page and the one after it, or the last row looked at: `fits` tells it from those of the page.

    Nearest to the position first.
    """
    is_upward = after is not None
    rows = asked.table
    if asked.is_gathered:
        gathered = select(*(asked.table.c[name] for name in asked.columns)).where(*asked.within)
        rows = gathered.cte("gathered").prefix_with("MATERIALIZED")
    order = [rows.c[name] for name in asked.order]
    nearest = [column.asc() if is_upward else column.desc() for column in order]
    candidates = select(*(rows.c[name] for name in asked.columns)).order_by(*nearest)
    if not asked.is_gathered:
        candidates = candidates.where(*asked.within)
    if before is not None:
        candidates = candidates.where(tuple_(*order) < tuple_(*before))
    if after is not None:
        candidates = candidates.where(tuple_(*order) > tuple_(*after))
    if not asked.conditions:
        return candidates.add_columns(literal_column("true").label("fits"), literal_column("0").label("seen")).limit(
            size + 1
        )
    seen = func.row_number().over(order_by=nearest).label("seen")
    c = candidates.add_columns(seen).limit(scan_rows).subquery("looked_at").c
    fits = and_(*(condition(c) for condition in asked.conditions))
    return (
        select(*(c[name] for name in asked.columns), fits.label("fits"), c.seen)
        .where(or_(fits, c.seen == scan_rows))
        .order_by(*(c[name].asc() if is_upward else c[name].desc() for name in asked.order))
        .limit(size + 1)
    )
