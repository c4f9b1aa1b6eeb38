"""How one owner's records stand in each channel's line. Counts stop at a limit, ages come from partial indexes."""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Float, ScalarSelect, Table, func, literal_column, select

from messaging.delivery.gauges import measure_line, oldest_due_seconds
from messaging.delivery.record import LANE_HIGH, LANE_LOW, LANE_NORMAL

#: Counting stops here.
COUNT_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Standing:
    """One channel's open records."""

    #: In line; `COUNT_LIMIT` is as many or more, as for the others.
    due: int
    #: How long the first of them has been due; 0 without one.
    oldest_due_seconds: float
    #: In a worker's hands.
    sending: int
    #: In a worker's hands for longer than a sweep allows.
    stuck: int
    #: Wait for another attempt.
    waiting: int


def standing(connection: Connection, table: Table, *, owner: int | None, stale_seconds: float) -> Standing:
    """Of one owner's records, or (None) of all."""
    c = table.c
    whose = [] if owner is None else [c.tenant_id == owner]
    # As a literal: a plan for any value cannot use an index of some.
    is_sending = c.status == literal_column("'SENDING'")
    stale_since = func.now() - stale_seconds * literal_column("interval '1 second'")
    counts = (
        _capped(table, c.ready, *whose),
        _capped(table, is_sending, *whose),
        _capped(table, is_sending, c.claimed_at < stale_since, *whose),
        _capped(table, c.ready.is_(False), c.status == literal_column("'RETRY'"), *whose),
    )
    due, sending, stuck, waiting = connection.execute(select(*counts)).one()
    if owner is None:
        line = measure_line(connection, table)
        oldest = max(oldest_due_seconds(connection, table), line.oldest_overdue_seconds)
    else:
        heads = [
            select(c.next_attempt_at)
            .where(c.ready, c.tenant_id == owner, c.lane == lane)
            .order_by(c.next_attempt_at)
            .limit(1)
            .scalar_subquery()
            for lane in (LANE_HIGH, LANE_NORMAL, LANE_LOW)
        ]
        age = func.extract("epoch", func.now() - func.least(*heads)).cast(Float)
        oldest = connection.execute(select(age)).scalar_one() or 0.0
    return Standing(due, max(oldest, 0.0), sending, stuck, waiting)


def _capped(table: Table, *conditions: ColumnElement[bool]) -> ScalarSelect[int]:
    some = select(literal_column("1")).select_from(table).where(*conditions).limit(COUNT_LIMIT).subquery()
    return select(func.count()).select_from(some).scalar_subquery()
