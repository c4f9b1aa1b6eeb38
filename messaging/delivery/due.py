"""Promote what has become due, then lease: one statement each; answers ids and versions. Nothing here publishes."""

from typing import NamedTuple

from sqlalchemy import Engine, Table

from messaging.clock import Ticker
from messaging.delivery import statements

#: Seconds a tick spends promoting at most: what is in line must not wait for what is not.
PROMOTE_BUDGET_SECONDS = 0.2

#: The cursor before anybody was served: every tenant is below it.
FIRST_CURSOR = 2**63 - 1


class Leased(NamedTuple):
    """One record handed out; a tuple, as a tick makes hundreds."""

    record_id: int
    version: int
    tenant_id: int
    #: Swept and without an attempt result since: it may have killed its worker, so it travels alone (C4).
    is_alone: bool
    #: Seconds for which it was due.
    waited_seconds: float


def promote(engine: Engine, table: Table, limit: int, ticker: Ticker) -> int:
    """Put in line what has become due, `limit` rows from each end at a time; answers how many. Commits its own."""
    promoted = 0
    started = ticker()
    while True:
        with engine.connect() as connection:
            moved = connection.execute(statements.promote(table), {"limit": limit}).rowcount
        promoted += moved
        if moved < 2 * limit or ticker() - started >= PROMOTE_BUDGET_SECONDS:
            return promoted


def lease(engine: Engine, table: Table, *, count: int, lease_seconds: float, cursor: int) -> list[Leased]:
    """Hand out at most `count` rows for `lease_seconds`, fair from `cursor` on; commits its own.

    Within a tenant in its order of dispatch. Fewer than `count` may come back although more are due.
    """
    with engine.connect() as connection:
        rows = connection.execute(
            statements.lease(table), {"n": count, "lease": lease_seconds, "after": cursor}
        ).fetchall()
    return [Leased._make(row) for row in rows]


def next_cursor(leased: list[Leased], count: int, cursor: int) -> int:
    """Where the next lease begins: after a full round of different tenants, the lowest one served before wrapping."""
    tenants = {row.tenant_id for row in leased}
    if len(tenants) < count:
        return min(tenants, default=cursor)
    wrapped = [t for t in tenants if t >= cursor]
    return min(wrapped) if wrapped else min(tenants)


def unlease(engine: Engine, table: Table, rows: list[Leased]) -> int:
    """Make rows whose message could not be published due again in 5 s (C18); commits its own."""
    with engine.connect() as connection:
        return connection.execute(
            statements.unlease(table), {"ids": [r.record_id for r in rows], "versions": [r.version for r in rows]}
        ).rowcount
