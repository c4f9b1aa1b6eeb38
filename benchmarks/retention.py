"""Pruning beside a history of a million sent mails with their attempts: how fast, what it costs the claim, what weighs.

Measured: the product's pruning of bodies and of records, 20,000 rows each, without its rests; that of bodies once more
where it has half of the history behind it; the fair lease of 500 rows while pruning goes on at its pace, in turn with
leases while it does not; the octets of a record on the disk, in its table and in its indexes.

What would make it lie: a history that is all in memory (it is more than the server's buffers hold; bodies are cut to
500 characters, so of long ones fewer fit a page); rows that were pruned before (each round goes on where the last one
ended); a lease with nothing due (there are 60,000 rows of 1,000 tenants, as in `fair_claim`).
"""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.fair_claim import DUE, TENANTS, FairClaim
from benchmarks.harness.database import Database
from benchmarks.harness.figure import Figure, at_least, at_most, compare
from benchmarks.harness.stand import Stand
from messaging.clock import boot_seconds
from messaging.files import FileStore
from messaging.retention.kinds import PruneKind
from messaging.retention.prune import prune
from messaging.settings import RetentionSettings

HISTORY = 1_000_000
PRUNED = 20_000
#: Leases of one round, and rounds with pruning and without.
LEASES, ROUNDS = 5, 5

_ATTEMPTS = """
    INSERT INTO send_attempt (channel, record_id, attempt_no, started_at, ended_at, outcome, provider, config_id,
        worker_name)
    SELECT 'mail', id, 1, sent_at, sent_at, 'SENT', 'smtp', 1, 'mail@worker-1' FROM mail_send_record
    WHERE status = 'SENT'"""


def run(stand: Stand) -> Iterator[Figure]:
    database = stand.database("pruned")
    database.insert_history(HISTORY)
    database.run(_ATTEMPTS, "VACUUM ANALYZE mail_send_record", "VACUUM ANALYZE send_attempt", "CHECKPOINT")
    yield from _weights(database)
    at_first = _rate(database, PruneKind.BODIES)
    database.run(f"UPDATE prune_progress SET last_id = last_id + {HISTORY // 2} WHERE kind = 'bodies/mail'")
    behind = _rate(database, PruneKind.BODIES)
    name = f"pruning: bodies of mails, {HISTORY // 2:,} of them behind it"
    yield compare(name, "rows/s", behind, at_first, "none behind it", at_least(0.6))
    yield Figure("pruning: records with their attempts", _rate(database, PruneKind.RECORDS), "rows/s")
    database.insert(DUE, {"tenant_id": f"n % {TENANTS}"})
    database.run("ANALYZE mail_send_record")
    beside, alone = _leases(database)
    yield compare("lease of 500 while pruning goes on", "ms", beside, alone, "without", at_most(1.5))


def _weights(database: Database) -> Iterator[Figure]:
    """Octets of one record, in a table that nobody has updated much."""
    for table in ("mail_send_record", "send_attempt"):
        for what, function in (("heap", "pg_table_size"), ("indexes", "pg_indexes_size")):
            octets = database.scalar(f"SELECT {function}('{table}')") / HISTORY
            yield Figure(f"{table}, a row: {what}", octets, "bytes")


def _rate(database: Database, kind: PruneKind) -> float:
    """Rows a second, without rests."""
    began = time.perf_counter()
    rows = _prune(database, kind, rows=PRUNED, is_resting=False)
    return rows / (time.perf_counter() - began)


def _prune(
    database: Database, kind: PruneKind, *, rows: int, is_resting: bool, end: threading.Event | None = None
) -> int:
    """One run of a kind, ended after so many rows, or when told."""
    days = {f"{kind.lower()}_days": 0.001}
    settings = database.settings.model_copy(update={"retention": RetentionSettings(**days)})
    done: list[int] = [0]
    pruned = prune(
        database.engine,
        settings,
        FileStore(database.engine, settings),
        kinds=[kind],
        is_stopping=lambda: done[0] >= rows or (end is not None and end.is_set()),
        rest=(end or threading.Event()).wait if is_resting else (lambda seconds: None),
        ticker=boot_seconds,
        on_batch=lambda name, so_far: done.__setitem__(0, max(done[0], so_far)),
    )
    return sum(one.rows for one in pruned)


def _leases(database: Database) -> tuple[float, float]:
    """The median lease in milliseconds with pruning beside it, and without, taken in turn."""
    lease = FairClaim(database)
    for _ in range(6):
        lease()
    beside: list[float] = []
    alone: list[float] = []
    for _ in range(ROUNDS):
        alone += [lease() for _ in range(LEASES)]
        with _pruning(database):
            beside += [lease() for _ in range(LEASES)]
    return statistics.median(beside), statistics.median(alone)


@contextmanager
def _pruning(database: Database) -> Iterator[None]:
    end = threading.Event()
    thread = threading.Thread(target=lambda: _prune(database, PruneKind.BODIES, rows=HISTORY, is_resting=True, end=end))
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
