"""Which mailboxes are due for a fetch; the tick takes them, workers fetch them. Across all tenants (`receive.md` 2)."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import (
    ColumnClause,
    Connection,
    Engine,
    Integer,
    Select,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    update,
)

from messaging.receive.models import MAIL_RECEIVE_SERVER_CONFIG

_t = MAIL_RECEIVE_SERVER_CONFIG.c
_SECOND: ColumnClause[timedelta] = literal_column("interval '1 second'")

#: What workers that fetch are registered by.
MAIL_FETCH = "mail_fetch"

#: Mailboxes that one tick takes; the rest waits for the next one.
TICK_LIMIT = 1000

#: Seconds by which beat's ticks come early or late, or wait for a worker: without them a mailbox that is fetched with
#: every tick would miss each one that comes a moment early.
TICK_PLAY_SECONDS = 1


@dataclass(frozen=True, slots=True)
class DueMailbox:
    """A mailbox that is to be fetched now."""

    config_id: int
    #: A fetch that nobody began by then is dropped: the next tick asks again.
    interval_seconds: int


def take_due(engine: Engine, *, default_interval_seconds: int, limit: int = TICK_LIMIT) -> list[DueMailbox]:
    """Move the next fetch of the mailboxes that are due one interval ahead, and answer them in the order of polling.

    One statement, so that of two ticks at once each mailbox is in one's answer only.
    """
    with engine.begin() as connection:
        return [
            DueMailbox(row.id, row.interval_seconds)
            for row in connection.execute(
                take_due_statement(), {"default_interval": default_interval_seconds, "batch": limit}
            )
        ]


def take_due_statement() -> Select[tuple[int, int]]:
    """The statement of `take_due`; parameters `default_interval`, in seconds, and `batch`."""
    interval = func.coalesce(_t.fetch_interval_seconds, bindparam("default_interval", type_=Integer))
    is_due = or_(_t.next_fetch_at.is_(None), _t.next_fetch_at <= func.now() + TICK_PLAY_SECONDS * _SECOND)
    due = (
        select(_t.id)
        .where(_t.active, is_due)
        .order_by(_t.sequence, _t.id)
        .limit(bindparam("batch", type_=Integer))
        .with_for_update(skip_locked=True)
        .cte("due")
    )
    moved = (
        update(MAIL_RECEIVE_SERVER_CONFIG)
        .where(_t.id == due.c.id)
        .values(next_fetch_at=func.now() + interval * _SECOND, updated_at=_t.updated_at)
        .returning(_t.id, _t.sequence, interval.label("interval_seconds"))
        .cte("moved")
    )
    return select(moved.c.id, moved.c.interval_seconds).order_by(moved.c.sequence, moved.c.id)


def give_back(engine: Engine, config_ids: Collection[int]) -> None:
    """Make mailboxes due at once that a tick took and nobody was told of, or nobody begins."""
    if not config_ids:
        return
    # Who changed a mailbox last is an operator, not the tick.
    due_now = update(MAIL_RECEIVE_SERVER_CONFIG).values(next_fetch_at=func.now(), updated_at=_t.updated_at)
    with engine.begin() as connection:
        connection.execute(due_now.where(_t.id.in_(config_ids)))


def find_polled(connection: Connection, config_id: int) -> str | None:
    """The protocol of a mailbox that is still polled; None where it was deleted or disabled meanwhile."""
    found: str | None = connection.execute(
        select(_t.protocol).where(_t.id == config_id, _t.active)
    ).scalar_one_or_none()
    return found
