"""The fair lease of 500 over 1,000 tenants, beside a million rows for next week, against a plain one on an empty table.

Measured: the product's lease statement on 60,000 due rows of 1,000 tenants, with the cursor moving on, and a FIFO claim
of the same shape (oldest first, SKIP LOCKED, one index on the due time) on a table that holds the same due rows and
nothing else. Both update and return the same columns, prepared, in a connection that stays. Reported beside it, without
a bar: the same FIFO claim where the table holds no more than the 500 it takes, so that every index is one leaf.

The due rows are new in both, as due rows are: a checkpoint between their insert and their lease would add a page image
for each page (8 KB of WAL), and only to the side that was not just inserted.

What would make it lie: rows for next week of other tenants only (they belong to the same 1,000); a plain claim that has
to keep the fair one's index up to date as well (its table has only its own).
"""

import time
from collections.abc import Callable, Iterator

import sqlalchemy as sa

from benchmarks.harness.database import Database
from benchmarks.harness.figure import Figure, at_most, compare, interleave, medians
from benchmarks.harness.stand import Stand
from messaging.delivery import due
from messaging.mail.models import MAIL_SEND_RECORD

ROWS = 500
ROUNDS = 15
TENANTS = 1000
#: More than all rounds and the warm-up take.
DUE = 60 * TENANTS

PLAIN = sa.text("""
    UPDATE mail_send_record SET next_attempt_at = now() + :lease * interval '1 second', version = version + 1,
        updated_at = now()
    WHERE id = ANY (ARRAY(
        SELECT id FROM mail_send_record WHERE ready ORDER BY next_attempt_at LIMIT :n FOR UPDATE SKIP LOCKED))
    RETURNING id, version, tenant_id, swept_at IS NOT NULL, 0
""")


def run(stand: Stand) -> Iterator[Figure]:
    fair = stand.database("fair")
    fair.insert(
        1_000_000,
        {
            "tenant_id": f"n % {TENANTS}",
            "next_attempt_at": "now() + interval '7 days' + n * interval '1 ms'",
            "body_html": "'<p>Hello</p>'",
            "body_text": "'Hello'",
        },
    )
    fair.run("VACUUM ANALYZE mail_send_record", "CHECKPOINT")
    fair.insert(DUE, {"tenant_id": f"n % {TENANTS}"})
    fair.run("ANALYZE mail_send_record")
    plain = _plain_table(stand, "plain")
    plain.insert(DUE, {"tenant_id": f"n % {TENANTS}"})
    plain.run("ANALYZE mail_send_record")
    contenders: dict[str, Callable[[], float]] = {
        "fair": FairClaim(fair),
        "plain": PlainClaim(plain),
        "alone": LonelyClaim(_plain_table(stand, "alone")),
    }
    for claim in contenders.values():
        for _ in range(6):  # psycopg prepares a statement when it has run five times
            claim()
    results = medians(interleave(contenders, rounds=ROUNDS))
    name = f"fair claim of {ROWS} over {TENANTS} tenants"
    yield compare(name, "ms", results["fair"], results["plain"], "plain claim on an empty table", at_most(2.0))
    yield compare(name, "ms", results["fair"], results["alone"], f"plain claim of all there is, {ROWS} rows")


def _plain_table(stand: Stand, name: str) -> Database:
    """An empty table with the FIFO claim's index in the place of the fair one's."""
    database = stand.database(name)
    database.run(
        "DROP INDEX ix_mail_send_ready", "CREATE INDEX plain ON mail_send_record (next_attempt_at) WHERE ready"
    )
    return database


class FairClaim:
    """The product's; one call leases the next 500."""

    def __init__(self, database: Database) -> None:
        self._engine = database.autocommit
        self._cursor = due.FIRST_CURSOR

    def __call__(self) -> float:
        started = time.perf_counter()
        leased = due.lease(self._engine, MAIL_SEND_RECORD, count=ROWS, lease_seconds=120, cursor=self._cursor)
        milliseconds = (time.perf_counter() - started) * 1000
        assert len(leased) == ROWS, len(leased)
        self._cursor = due.next_cursor(leased, ROWS, self._cursor)
        return milliseconds


class PlainClaim:
    """First in, first out; one call leases the next 500."""

    def __init__(self, database: Database) -> None:
        self._engine = database.autocommit

    def __call__(self) -> float:
        started = time.perf_counter()
        with self._engine.connect() as connection:
            rows = connection.execute(PLAIN, {"n": ROWS, "lease": 120.0}).fetchall()
        milliseconds = (time.perf_counter() - started) * 1000
        assert len(rows) == ROWS, len(rows)
        return milliseconds


class LonelyClaim(PlainClaim):
    """The same, where the table holds what one call claims and nothing else."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._database = database

    def __call__(self) -> float:
        self._database.run("TRUNCATE mail_send_record")
        self._database.insert(ROWS, {"tenant_id": f"n % {TENANTS}"})
        return super().__call__()
