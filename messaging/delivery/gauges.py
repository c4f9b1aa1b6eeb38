"""How a channel's line stands: what is due, what is overdue and for how long; and how old the oldest snapshot is.

Counts stop at a limit and ages come from the partial indexes: measuring costs the same at any backlog.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, Table, exists, func, literal_column, select, text

from messaging.delivery import statements

#: Counting stops here.
COUNT_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Line:
    """One channel's records that are due."""

    #: In line, at most `COUNT_LIMIT`.
    due_count: int
    #: Due, but no tick has put them in line yet; at most `COUNT_LIMIT`.
    overdue_count: int
    #: Age of the oldest of these; 0 without one.
    oldest_overdue_seconds: float


def measure_line(connection: Connection, table: Table) -> Line:
    """How many records of a channel are due; milliseconds."""
    found = connection.execute(statements.depth(table), {"cap": COUNT_LIMIT}).one()
    return Line(found.due, found.overdue, found.oldest_overdue or 0.0)


def oldest_due_seconds(connection: Connection, table: Table) -> float:
    """Age of the oldest record in line, 0 without one. Slower the more tenants wait: 2 ms at 200, 130 at 10,000."""
    return float(connection.execute(statements.oldest_due(table)).scalar_one() or 0.0)


def stuck_count(connection: Connection, table: Table, stale_seconds: float) -> int:
    """Records that have been SENDING for longer than the sweep allows, counted up to `COUNT_LIMIT`."""
    c = table.c
    since = func.now() - stale_seconds * literal_column("interval '1 second'")
    stuck = select(c.id).where(c.status == literal_column("'SENDING'"), c.claimed_at < since).limit(COUNT_LIMIT)
    return int(connection.execute(select(func.count()).select_from(stuck.subquery())).scalar_one())


def has_handed_out(connection: Connection, table: Table, lease_seconds: float) -> bool:
    """Whether a record waits for no longer than a lease lasts: it was handed out and not claimed, or is nearly due."""
    c = table.c
    until = func.now() + lease_seconds * literal_column("interval '1 second'")
    return bool(connection.execute(select(exists().where(c.ready.is_(False), c.next_attempt_at <= until))).scalar_one())


def oldest_transaction_seconds(connection: Connection) -> float:
    """Age of the oldest open transaction of this database that the user may see, prepared ones too; 0 without one."""
    opened = text("""
        SELECT extract(epoch FROM clock_timestamp() - min(began_at))::float8 FROM (
            SELECT xact_start AS began_at FROM pg_stat_activity
            WHERE pid <> pg_backend_pid() AND datname = current_database() AND state <> 'idle'
            UNION ALL
            SELECT prepared FROM pg_prepared_xacts WHERE database = current_database()) opened
    """)
    return float(connection.execute(opened).scalar_one() or 0.0)
