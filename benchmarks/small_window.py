"""20,000 due mails behind a server of 60 a minute: what waiting costs once each has been refused and given its place.

Measured: after the first wave, in which workers meet every mail, prepare it and find the window full, some seconds of
the line: processor time of all our processes and of the servers, transactions, rows and log written in PostgreSQL,
tasks taken, all scaled to a minute; against as many mails that become due one after the other while nobody waits. The
floor of places is one second instead of five minutes, so that the line begins with the next minute; what waiting costs
does not depend on it.

What would make it lie: a line that has not begun, or mails that are refused again and again (what was sent is reported,
and the moves of those mails are counted).
"""

import time
from collections.abc import Iterator
from typing import NamedTuple

import redis

from benchmarks.harness.database import Database
from benchmarks.harness.figure import Figure, at_most, compare
from benchmarks.harness.process import cpu_seconds
from benchmarks.harness.stand import Stand, System

MAILS = 20_000
PER_MINUTE = 60
SECONDS = 20
#: Places of a minute lie in its first 50 seconds.
PLACE_SECONDS = 50 / PER_MINUTE
#: Of a mail that is refused once: lease, claim, prepared, refused; promote, lease, claim, sent.
MOVES = 8


class Cost(NamedTuple):
    """What was spent up to a moment, or between two of them."""

    processor_seconds: float
    transactions: float
    rows_updated: float
    wal_kilobytes: float
    tasks: float
    sent: float

    def since(self, before: "Cost", seconds: float) -> "Cost":
        """A minute's share of what was spent since then."""
        return Cost(*((now - then) * 60 / seconds for now, then in zip(self, before, strict=True)))


def run(stand: Stand) -> Iterator[Figure]:
    database = stand.database("small_window")
    database.run(f"UPDATE mail_send_server_config SET rate_limit_per_minute = {PER_MINUTE}")
    client = redis.Redis.from_url(stand.valkey.url)
    with stand.system("small_window", variables={"MESSAGING_RETRY__QUOTA_FLOOR_SECONDS": "1"}) as system:
        due_at = f"now() + (2 + n * {PLACE_SECONDS}) * interval '1 second'"
        database.insert(round(SECONDS / PLACE_SECONDS), {"next_attempt_at": due_at})
        time.sleep(2)
        alone = per_minute(stand, database, system, client)
        started = time.monotonic()
        database.insert(MAILS, {})
        wait_for_line(database)
        wave_seconds = time.monotonic() - started
        time.sleep(60 - time.time() % 60)
        line_began = time.time()
        line = per_minute(stand, database, system, client)
        moves = database.scalar(
            "SELECT coalesce(avg(version), 0) FROM mail_send_record"
            f" WHERE status = 'SENT' AND sent_at > to_timestamp({line_began})"
        )
    yield Figure(f"small window, first wave of {MAILS:,}", wave_seconds, "s")
    yield Figure("small window, a mail sent from the line", moves, "moves", bar=at_most(MOVES + 0.5))
    yield compare(
        "small window, processor a minute",
        "ms",
        1000 * line.processor_seconds,
        1000 * alone.processor_seconds,
        "nobody waiting",
        at_most(2),
    )
    for name, unit, ours, theirs in (
        ("sent", "mails", line.sent, alone.sent),
        ("tasks", "tasks", line.tasks, alone.tasks),
        ("transactions", "transactions", line.transactions, alone.transactions),
        ("rows updated", "rows", line.rows_updated, alone.rows_updated),
        ("log written", "kB", line.wal_kilobytes, alone.wal_kilobytes),
    ):
        yield compare(f"small window, {name} a minute", unit, ours, theirs, "nobody waiting")


def per_minute(stand: Stand, database: Database, system: System, client: redis.Redis) -> Cost:
    """A minute's cost, from so many seconds as are measured."""
    before, started = spent(stand, database, system, client), time.monotonic()
    time.sleep(SECONDS)
    return spent(stand, database, system, client).since(before, time.monotonic() - started)


def spent(stand: Stand, database: Database, system: System, client: redis.Redis) -> Cost:
    """Everything up to now. Its own queries are in it, a handful."""
    pids = [child.pid for child in system.children] + [stand.postgres.pid or 0, stand.valkey.pid or 0]
    return Cost(
        processor_seconds=sum(map(cpu_seconds, pids)),
        transactions=database.scalar("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"),
        rows_updated=database.scalar("SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'mail_send_record'"),
        wal_kilobytes=database.scalar("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn") / 1000,
        tasks=float(client.hget("msg:dispatch:mail", "taken") or 0),
        sent=stand.sink.count(),
    )


def wait_for_line(database: Database, *, timeout: float = 120) -> None:
    """Until every mail was met: it is sent, or waits at its place."""
    deadline = time.monotonic() + timeout
    while database.scalar(
        "SELECT EXISTS (SELECT 1 FROM mail_send_record WHERE prepared_at IS NULL OR status = 'SENDING')::int"
    ):
        if time.monotonic() > deadline:
            raise TimeoutError("not every mail was refused or sent")
        time.sleep(0.1)
