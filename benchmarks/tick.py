"""A tick of 500 beside 0, 1 and 5 million rows of history, and after 100,000 sends of churn.

Measured: the tick's statements as the product runs them, promote and then the lease of 500 due rows of 20 tenants, with
their commits. Left out is what does not depend on the table and would only hide a growth: reading the queue's depth and
publishing. Each case is a database of its own in the same server, and the cases take turns.

What would make it lie: history with no indexes or no statistics (it is loaded into the finished schema and vacuumed, as
autovacuum would have by then); a churn that was cleaned up (it is left as it is, autovacuum may come or not); due rows
that all cases would find at the same place (they are inserted anew before each run, and end as history after it).
"""

import time
from collections.abc import Iterator
from functools import partial

from benchmarks.harness.database import Database
from benchmarks.harness.figure import Figure, at_most, interleave, medians
from benchmarks.harness.stand import Stand
from messaging.delivery import due
from messaging.mail.models import MAIL_SEND_RECORD

ROWS = 500
ROUNDS = 11
CHURN = 100_000


def run(stand: Stand) -> Iterator[Figure]:
    million = stand.database("tick_1m")
    million.insert_history(1_000_000)
    million.run("VACUUM ANALYZE mail_send_record")
    million.stop()
    five = stand.database("tick_5m", template="tick_1m")
    five.insert_history(4_000_000)
    churned = stand.database("tick_churn")
    churn(churned, CHURN)
    cases = {
        "no history": stand.database("tick_0"),
        "1 million rows": million,
        "5 million rows": five,
        "100,000 sends of churn": churned,
    }
    five.run("VACUUM ANALYZE mail_send_record", "CHECKPOINT")
    for database in cases.values():
        for _ in range(6):  # psycopg prepares a statement when it has run five times
            tick(database)
    results = medians(interleave({name: partial(tick, d) for name, d in cases.items()}, rounds=ROUNDS))
    for name, milliseconds in results.items():
        yield Figure(f"tick of {ROWS}, {name}", milliseconds, "ms")
    slowest, fastest = max(results.values()), min(results.values())
    yield Figure(
        f"tick of {ROWS}, slowest over fastest",
        slowest,
        "ms",
        against=f"fastest: {fastest:.1f} ms",
        ratio=slowest / fastest,
        bar=at_most(1.5),
    )


def tick(database: Database) -> float:
    """Milliseconds of promote and lease; the rows are sent afterwards."""
    database.insert(ROWS, {"tenant_id": "n % 20"})
    engine = database.autocommit
    started = time.perf_counter()
    due.promote(engine, MAIL_SEND_RECORD, 1000, time.monotonic)
    leased = due.lease(engine, MAIL_SEND_RECORD, count=ROWS, lease_seconds=120, cursor=due.FIRST_CURSOR)
    milliseconds = (time.perf_counter() - started) * 1000
    assert len(leased) == ROWS, len(leased)
    database.run(
        "UPDATE mail_send_record SET status = 'SENT', version = version + 1, sent_at = now(), updated_at = now()"
        " WHERE NOT ready"
    )
    return milliseconds


def churn(database: Database, sends: int) -> None:
    """The whole life of so many sends, each move an UPDATE like the product's, in groups of a tick's size."""
    moves = (
        "UPDATE mail_send_record SET next_attempt_at = now() + interval '120 seconds', version = version + 1,"
        " updated_at = now() WHERE ready",
        "UPDATE mail_send_record SET status = 'SENDING', claimed_at = now(), claim_token = 1, version = version + 1,"
        " updated_at = now() WHERE NOT ready",
        "UPDATE mail_send_record SET prepared_at = now(), message_id = '<' || id || '@shop.example>',"
        " version = version + 1, updated_at = now() WHERE status = 'SENDING'",
        "UPDATE mail_send_record SET status = 'SENT', claimed_at = NULL, sent_at = now(), version = version + 1,"
        " updated_at = now() WHERE status = 'SENDING'",
    )
    for _ in range(sends // ROWS):
        database.insert(ROWS, {"tenant_id": "n % 20"})
        database.run(*moves)
