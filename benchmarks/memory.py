"""Memory of a worker process, and what 100,000 due records cost.

Measured: resident memory (RSS, shared pages counted in full; PSS beside it) of the bigger mail worker after it has
delivered some thousand mails, since that is when pools, caches and compiled statements are there; then 100,000 records
become due, the system works on them for a while, and the growth of all our processes and of Valkey is reported, with
the room the records take in PostgreSQL.

What would make it lie: measuring an idle worker that never loaded its code; a backlog that is drained before it is
looked at (it is measured while most of it is still due).
"""

import time
from collections.abc import Iterator

import redis

from benchmarks.drain import Ours
from benchmarks.harness.figure import Figure, at_most
from benchmarks.harness.process import pss_mb, rss_mb
from benchmarks.harness.stand import Stand

WARM_UP = 5000
BACKLOG = 100_000
SECONDS = 10


def run(stand: Stand) -> Iterator[Figure]:
    database = stand.database("memory")
    with stand.system("memory") as system:
        system.pause()
        ours = Ours(stand.sink, database, system)
        for _ in range(2):
            ours(WARM_UP // 2)
        bigger = max((worker.pid for worker in system.workers), key=rss_mb)
        yield Figure("memory of a mail worker", rss_mb(bigger), "MB", bar=at_most(120))
        yield Figure("memory of a mail worker, its share (PSS)", pss_mb(bigger), "MB")
        yield Figure("memory of the control worker", rss_mb(system.control.pid), "MB")
        yield Figure("memory of beat", rss_mb(system.beat.pid), "MB")

        pids = [child.pid for child in system.children]
        valkey = redis.Redis.from_url(stand.valkey.url)
        size = database.scalar("SELECT pg_total_relation_size('mail_send_record')")
        ours_before, valkey_before = sum(map(rss_mb, pids)), valkey.info("memory")["used_memory"] / 1e6
        database.insert(BACKLOG, {})
        grown = database.scalar("SELECT pg_total_relation_size('mail_send_record')") - size
        ours_most = valkey_most = 0.0
        with system.running():
            for _ in range(SECONDS * 5):
                time.sleep(0.2)
                ours_most = max(ours_most, sum(map(rss_mb, pids)))
                valkey_most = max(valkey_most, valkey.info("memory")["used_memory"] / 1e6)
        left = database.scalar("SELECT count(*) FROM mail_send_record WHERE status <> 'SENT'")
    assert left > BACKLOG / 2, "the backlog was drained before it was measured"
    yield Figure("100,000 due records, growth of our processes", ours_most - ours_before, "MB")
    yield Figure("100,000 due records, growth of Valkey", valkey_most - valkey_before, "MB")
    yield Figure("100,000 due records, table and indexes", grown / 1e6, "MB")
