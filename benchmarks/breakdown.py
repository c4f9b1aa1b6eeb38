"""Where the time of one mail goes: processor time by process during a drain, and by module inside a worker's thread.

Measured: processor time (not waiting) of every process of the system while it drains a backlog, divided by the mails;
then one thread of one process delivers chunks of 50 under `cProfile`, which counts the thread's own processor time, and
that is summed by the package the code belongs to. A report with no bars: it says what to work on.

What would make it lie: the profiler makes small Python functions look dearer than they are, so its shares are shares
of a slower run; a worker's committer and Celery's own threads are not in the second part, only in the first.
"""

import cProfile
import pstats
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from benchmarks.drain import Ours
from benchmarks.harness.database import Database, chunks
from benchmarks.harness.figure import Figure
from benchmarks.harness.process import cpu_seconds
from benchmarks.harness.stand import Stand
from messaging.clock import boot_seconds, utc_now
from messaging.delivery import due
from messaging.delivery.worker import DeliveryWorker
from messaging.mail.models import MAIL_SEND_RECORD
from tasks import logs
from tasks.channels import BUILDERS

MAILS = 6000
PROFILED = 2000
CHUNK = 50


def run(stand: Stand) -> Iterator[Figure]:
    yield from by_process(stand)
    yield from by_module(stand)


def by_process(stand: Stand) -> Iterator[Figure]:
    """Processor time of a drain by process."""
    database = stand.database("by_process")
    with stand.system("by_process") as system:
        processes: dict[str, list[int]] = {
            "mail workers": [worker.pid for worker in system.workers],
            "control worker": [system.control.pid],
            "beat": [system.beat.pid],
            "PostgreSQL": [stand.postgres.pid or 0],
            "Valkey": [stand.valkey.pid or 0],
            "smtp-sink": [stand.sink.child.pid],
        }
        system.pause()
        ours = Ours(stand.sink, database, system)
        ours(1000)
        session = database.accept(MAILS)
        before = {name: sum(map(cpu_seconds, pids)) for name, pids in processes.items()}
        rate = ours.drain(session, MAILS)
        after = {name: sum(map(cpu_seconds, pids)) for name, pids in processes.items()}
    yield Figure("breakdown: one mail in a drain, wall", 1e6 / rate, "us")
    for name in processes:
        yield Figure(f"breakdown: processor, {name}", (after[name] - before[name]) / MAILS * 1e6, "us a mail")


def by_module(stand: Stand) -> Iterator[Figure]:
    """Time of one delivering thread by the package whose code runs."""
    database = stand.database("by_module")
    built = BUILDERS["mail"](database.autocommit, database.settings)
    worker = DeliveryWorker(
        database.engine,
        built.channel,
        database.settings,
        worker_name="benchmark",
        clock=utc_now,
        ticker=boot_seconds,
        rng=random.Random(),
    )
    logs.configure("INFO", str(stand.root / "by_module.log"))
    deliver_all(database, worker, 200)
    profile = cProfile.Profile(time.thread_time)
    profile.enable()
    deliver_all(database, worker, PROFILED, profile)
    profile.disable()
    worker.close(5)
    built.close_all()
    spent: Counter[str] = Counter()
    for (file, _, function), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        spent[package(file, function)] += own
    for name, seconds in spent.most_common(14):
        yield Figure(f"breakdown: one thread, {name}", seconds / PROFILED * 1e6, "us a mail")


def deliver_all(
    database: Database,
    worker: DeliveryWorker,
    messages: int,
    profile: cProfile.Profile | None = None,
    *,
    table: sa.Table = MAIL_SEND_RECORD,
) -> None:
    """Accept so many messages, lease them, and deliver them in this thread; only the delivery is profiled."""
    if profile:
        profile.disable()
    with database.accept(messages, table) as session:
        session.commit()
    leased: list[due.Leased] = []
    while len(leased) < messages:
        leased += due.lease(database.autocommit, table, count=500, lease_seconds=120, cursor=due.FIRST_CURSOR)
    pairs = [(row.record_id, row.version) for row in leased]
    if profile:
        profile.enable()
    for chunk in chunks(pairs, CHUNK):
        assert worker.deliver(chunk)["sent"] == len(chunk)


def package(file: str, function: str) -> str:
    """What a function belongs to: a module of ours, a package of others, or what the interpreter spends itself."""
    path = Path(file)
    if "messaging" in path.parts and "site-packages" not in path.parts:
        return ".".join(path.with_suffix("").parts[path.parts.index("messaging") :])
    if "site-packages" in path.parts:
        return path.parts[path.parts.index("site-packages") + 1]
    if path.is_absolute():
        return "stdlib " + (path.parent.name if path.parent.name in ("email", "json", "logging") else path.stem)
    return "sockets" if any(word in function for word in ("socket", "poll", "select")) else "built-in functions"
