"""Lists that grow with history, newest first, a page at a time: what a page costs does not grow with them.

A page begins below where the one before ended (a keyset) and looks at no more than `SCAN_ROWS` rows, in an index's
order. Filters that an index answers narrow what is looked at; all others are asked of each row, so that a page of a
rare filter may have fewer rows than asked for, even none, and still say where to go on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, FromClause, Row, Select, and_, func, literal_column, or_, select, tuple_
from sqlalchemy.orm import Session

#: Rows that one page looks at: some 30 ms of work.
SCAN_ROWS = 10_000

#: Values of the columns that order a list, of one row.
Position: TypeAlias = tuple[Any, ...]
#: A condition on the columns of a row, which it is given by name.
Condition: TypeAlias = Callable[[Any], ColumnElement[bool]]


class Found(NamedTuple):
    """A page."""

    rows: list[Row[Any]]
    #: What the next one begins below, whether it is of this page or was only looked at; None at the end of the list.
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


def read(session: Session, asked: Newest, *, size: int, before: Position | None, scan_rows: int = SCAN_ROWS) -> Found:
    """The next `size` rows below a position, at most; None is the top. Whose rows they are, `within` says alone."""
    connection = session.connection(bind_arguments={"clause": asked.table})
    rows = list(connection.execute(page_of(asked, size=size, before=before, scan_rows=scan_rows)))
    fitting = [row for row in rows if row.fits]
    if len(fitting) > size:
        return Found(fitting[:size], fitting[size - 1])
    return Found(fitting, rows[-1] if rows and rows[-1].seen == scan_rows else None)


def page_of(asked: Newest, *, size: int, before: Position | None, scan_rows: int = SCAN_ROWS) -> Select[Any]:
    """The rows of a page and the one after it, or the last row looked at: `fits` tells it from those of the page."""
    rows = asked.table
    if asked.is_gathered:
        gathered = select(*(asked.table.c[name] for name in asked.columns)).where(*asked.within)
        rows = gathered.cte("gathered").prefix_with("MATERIALIZED")
    order = [rows.c[name] for name in asked.order]
    newest = [column.desc() for column in order]
    candidates = select(*(rows.c[name] for name in asked.columns)).order_by(*newest)
    if not asked.is_gathered:
        candidates = candidates.where(*asked.within)
    if before is not None:
        candidates = candidates.where(tuple_(*order) < tuple_(*before))
    if not asked.conditions:
        return candidates.add_columns(literal_column("true").label("fits"), literal_column("0").label("seen")).limit(
            size + 1
        )
    seen = func.row_number().over(order_by=newest).label("seen")
    c = candidates.add_columns(seen).limit(scan_rows).subquery("looked_at").c
    fits = and_(*(condition(c) for condition in asked.conditions))
    return (
        select(*(c[name] for name in asked.columns), fits.label("fits"), c.seen)
        .where(or_(fits, c.seen == scan_rows))
        .order_by(*(c[name].desc() for name in asked.order))
        .limit(size + 1)
    )
