"""How many records of each status fit a filter, without counting over history: exact while few, else "at least".

An index counts up to a cap. Where none answers, only the newest rows are looked at (`messaging.db.newest.SCAN_ROWS`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Select, String, and_, func, literal, select, true
from sqlalchemy.orm import Session

from messaging.db.newest import SCAN_ROWS
from messaging.delivery.lines import LineSource, RecordFilter
from messaging.delivery.status import SendStatus

#: Rows that are counted of one status.
MAX_COUNTED = 1000

#: States of which an index holds an owner's records, or those of all.
_BY_INDEX = (SendStatus.PENDING, SendStatus.SENDING, SendStatus.RETRY, SendStatus.FAILED, SendStatus.DEAD_LETTER)


@dataclass(frozen=True, slots=True)
class Tally:
    """How many there are."""

    count: int
    #: There may be more.
    is_at_least: bool


@dataclass(frozen=True, slots=True)
class Tallies:
    """How many there are of each status."""

    by_status: Mapping[SendStatus, Tally]
    #: Of what no index answers, this many of the newest records were looked at; None: all.
    newest: int | None


def tally(
    session: Session, source: LineSource, asked: RecordFilter, *, owner: int | None, scan_rows: int = SCAN_ROWS
) -> Tallies:
    """Count what fits the filter but for its status."""
    rest = replace(asked, status=None)
    connection = session.connection(bind_arguments={"clause": source.table})
    looked_at = 0
    counted = dict.fromkeys(SendStatus, 0)
    for status, fitting, seen in connection.execute(_in_newest(source, rest, owner=owner, scan_rows=scan_rows)):
        counted[SendStatus(status)] = fitting
        looked_at += seen
    is_part = looked_at >= scan_rows
    found = {status: Tally(min(n, MAX_COUNTED), is_part or n > MAX_COUNTED) for status, n in counted.items()}
    exact = [] if owner is None or rest != RecordFilter() or not is_part else _BY_INDEX
    for status in exact:
        n = connection.execute(_by_index(source, status, owner)).scalar_one()
        found[status] = Tally(min(n, MAX_COUNTED), n > MAX_COUNTED)
    return Tallies(found, scan_rows if is_part and not exact else None)


def _in_newest(source: LineSource, asked: RecordFilter, *, owner: int | None, scan_rows: int) -> Select[Any]:
    question = source.question(asked, owner=owner)
    c = source.table.c
    order = [c[name].desc() for name in question.order]
    rows = select(*(c[name] for name in question.columns)).where(*question.within).order_by(*order).limit(scan_rows)
    newest = rows.subquery("newest").c
    fits = _all(condition(newest) for condition in question.conditions)
    return select(newest.status, func.count().filter(fits), func.count()).group_by(newest.status)


def _by_index(source: LineSource, status: SendStatus, owner: int | None) -> Select[Any]:
    c = source.table.c
    # As a literal: a plan for any value cannot use an index of some.
    is_status = c.status == literal(status, String(), literal_execute=True)
    some = select(c.id).where(is_status, c.tenant_id == owner).limit(MAX_COUNTED + 1)
    return select(func.count()).select_from(some.subquery())


def _all(conditions: Iterable[ColumnElement[bool]]) -> ColumnElement[bool]:
    return and_(true(), *conditions)
