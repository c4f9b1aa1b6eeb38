"""What the database tells of mailboxes: those that no tick takes, and those that no fetch reads to its end."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnClause, Connection, Row, Select, func, literal_column, or_, select

from messaging.doctor.findings import MAX_NAMED, Finding, Findings, Level
from messaging.receive.models import MAIL_FETCH_WATERMARK, MAIL_RECEIVE_SERVER_CONFIG
from messaging.settings import MailFetchSettings, Settings

#: Seconds after which a mailbox that is due counts as forgotten: four of beat's ticks.
OVERDUE_SECONDS = 60

#: Intervals without a fetch that went well after which a mailbox counts as failing: one failure passes.
MISSED_INTERVALS = 3

_NOW = func.now()
_SECOND: ColumnClause[timedelta] = literal_column("interval '1 second'")


def look_at_mailboxes(settings: Settings, connection: Connection) -> Findings:
    """One finding where there is no mailbox; else whether they are taken, and whether they are read."""
    rows = connection.execute(_statement(settings.mail.fetch)).all()
    if not rows:
        yield Finding("mailboxes", Level.OK, "none is configured, so no mail is fetched")
        return
    yield _overdue(rows)
    yield _failing(rows)


def _statement(fetch: MailFetchSettings) -> Select[Any]:
    """Every active mailbox, the one that went without a fetch for longest first."""
    t, w = MAIL_RECEIVE_SERVER_CONFIG.c, MAIL_FETCH_WATERMARK.c
    read = (
        select(
            w.server_config_id,
            func.max(w.last_fetched_at).label("fetched_at"),
            func.max(w.in_progress_since).label("busy_since"),
        )
        .group_by(w.server_config_id)
        .subquery()
    )
    interval = func.coalesce(t.fetch_interval_seconds, fetch.interval_seconds)
    # One that was added or changed a moment ago was not fetched since then.
    since = func.greatest(read.c.fetched_at, t.updated_at)
    is_due = t.next_fetch_at < _NOW - OVERDUE_SECONDS * _SECOND
    is_new = (t.next_fetch_at.is_(None)) & (t.updated_at < _NOW - OVERDUE_SECONDS * _SECOND)
    is_busy = func.coalesce(read.c.busy_since > _NOW - fetch.lease_timeout_seconds * _SECOND, False)
    is_stale = since < _NOW - (MISSED_INTERVALS * interval + OVERDUE_SECONDS) * _SECOND
    return (
        select(
            t.id,
            t.tenant_id,
            read.c.fetched_at,
            func.coalesce(or_(is_due, is_new), False).label("is_overdue"),
            func.extract("epoch", _NOW - func.coalesce(t.next_fetch_at, t.updated_at)).label("due_seconds"),
            (is_stale & ~is_busy).label("is_failing"),
            func.extract("epoch", _NOW - since).label("silent_seconds"),
        )
        .outerjoin(read, read.c.server_config_id == t.id)
        .where(t.active)
        .order_by(since, t.id)
    )


def _overdue(rows: Sequence[Row[Any]]) -> Finding:
    check = "mailboxes: due"
    overdue = [row for row in rows if row.is_overdue]
    if not overdue:
        return Finding(check, Level.OK, f"{len(rows)} are polled, and none waits for a tick")
    longest = max(row.due_seconds for row in overdue)
    return Finding(
        check,
        Level.FAIL,
        f"{len(overdue)} of {len(rows)} are due and no tick took them, the longest for {longest:.0f} s",
        "see that beat and a worker on the control queue run",
    )


def _failing(rows: Sequence[Row[Any]]) -> Finding:
    """Overdue ones are told of by the finding before."""
    check = "mailboxes: fetched"
    failing = [row for row in rows if row.is_failing and not row.is_overdue]
    if not failing:
        newest = max((row.fetched_at for row in rows if row.fetched_at is not None), default=None)
        detail = "none was fetched so far" if newest is None else f"the last fetch ended at {newest:%Y-%m-%d %H:%M:%S}Z"
        return Finding(check, Level.OK, detail)
    named = ", ".join(f"{row.id} (for {row.silent_seconds:.0f} s)" for row in failing[:MAX_NAMED])
    tenant = "" if failing[0].tenant_id == 0 else f" --tenant {failing[0].tenant_id}"
    return Finding(
        check,
        Level.WARN,
        f"{len(failing)} of {len(rows)} were not read to their end for {MISSED_INTERVALS} intervals and more: {named}",
        f"messaging mailbox test {failing[0].id}{tenant} says why; see that a worker takes the queue of fetches",
    )
