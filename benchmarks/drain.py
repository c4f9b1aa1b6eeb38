"""Drain: due records to SENT by two worker processes over one server, against bare `smtplib` and two ways to queue.

Measured: all mails are accepted in one transaction; the clock starts before its commit and stops when no record is open
or being sent. Workers (two processes of 4 threads), a control worker and beat run as an operator starts them, with task
events on; nobody else runs meanwhile (whoever is not measured is stopped by SIGSTOP). Opponents: bare `smtplib` (ready
bytes, kept connections, 8 threads, no queue: the raw limit), django-post-office (2 processes of 8 threads, tuned), a
plain Celery task (2 processes of 8 threads, a connection a mail). Theirs is timed from a full queue, start-up left out.

What would make it lie: starting the clock after the first tick; counting what the sink took without asking what the
records say (both are waited for); fewer threads for the opponents; a far end that is the bottleneck for
everybody (bare `smtplib` says how much it takes); worker start-up in the opponents' time.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import sqlalchemy as sa
from sqlalchemy.orm import Session

from benchmarks.harness.database import Database
from benchmarks.harness.far_end import MessageCount
from benchmarks.harness.figure import Figure, at_least, compare, exactly, interleave, medians
from benchmarks.harness.mail import HTML, SENDER, SUBJECT, TEXT, recipient
from benchmarks.harness.process import ROOT, Child, Group
from benchmarks.harness.stand import OPPONENT_THREADS, PROCESSES, Stand, System, celery
from messaging.mail.models import MAIL_SEND_RECORD

MAILS = 8000
#: The plain task is slow: fewer mails say as much.
PLAIN_MAILS = 1500


def run(stand: Stand) -> Iterator[Figure]:
    database = stand.database("drain")
    post_office = PostOffice(stand)
    with stand.system("drain") as system, plain_celery(stand) as plain:
        ours = Ours(stand.sink, database, system)
        system.pause()
        ours(1000)  # connections, compiled statements
        results = medians(
            interleave(
                {
                    "ours": partial(ours, MAILS),
                    "bare smtplib": partial(bare_smtplib, stand, MAILS),
                    "django-post-office": partial(post_office, MAILS),
                    "plain Celery task": partial(plain, PLAIN_MAILS),
                }
            )
        )
    rate = results["ours"]
    unit = "mails/s"
    for name, bar in (("bare smtplib", 0.35), ("django-post-office", 1.4), ("plain Celery task", 4.0)):
        yield compare(f"drain vs {name}", unit, rate, results[name], name, at_least(bar))
    yield Figure(
        "drain sink count",
        ours.taken,
        "mails",
        against=f"records accepted: {ours.accepted}",
        ratio=ours.taken / ours.accepted,
        bar=exactly(1),
    )


class Ours:
    """Messages a second from the accepting commit to the last SENT; `accepted` and `taken` add up over all runs."""

    def __init__(
        self, server: MessageCount, database: Database, system: System, table: sa.Table = MAIL_SEND_RECORD
    ) -> None:
        self._server, self._database, self._system, self._table = server, database, system, table
        self.accepted = self.taken = 0

    def __call__(self, mails: int) -> float:
        return self.drain(self._database.accept(mails, self._table), mails)

    def drain(self, session: Session, mails: int) -> float:
        """Commit what was accepted in this session and wait for all of it."""
        before = self._server.count()
        with session, self._system.running():
            time.sleep(0.3)  # what waited for the pause to end is over
            started = time.perf_counter()
            session.commit()
            self._server.wait_for(before + mails, timeout=300)
            self._database.wait_until_sent(self._table, timeout=60)
            seconds = time.perf_counter() - started
            time.sleep(0.2)  # a mail sent twice would come now
        self.accepted += mails
        self.taken += self._server.count() - before
        return mails / seconds


def bare_smtplib(stand: Stand, mails: int, *, port: int | None = None, threads: int = OPPONENT_THREADS) -> float:
    """Mails a second from one process, to the sink or to another server."""
    before = stand.sink.count()
    seconds = opponent("bare_smtplib", str(port or stand.sink.port), str(mails), str(threads))
    assert port or stand.sink.count() - before == mails, "bare smtplib did not send every mail once"
    return mails / seconds


def opponent(name: str, *arguments: str, environment: Mapping[str, str] | None = None) -> float:
    """The seconds that an opponent's process prints."""
    argv = [sys.executable, "-m", f"benchmarks.opponents.{name}", *arguments]
    env = {**os.environ, **(environment or {})}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr[-3000:]}")
    return float(done.stdout)


class PostOffice:
    """Mails a second of django-post-office on a database of its own in the same server."""

    def __init__(self, stand: Stand) -> None:
        stand.postgres.create_database("post_office")
        self._sink = stand.sink
        self._environment = {
            "BENCH_DATABASE_URL": stand.postgres.url("post_office"),
            "BENCH_SMTP_PORT": str(stand.sink.port),
            "BENCH_THREADS": str(OPPONENT_THREADS),
        }

    def __call__(self, mails: int) -> float:
        before = self._sink.count()
        seconds = opponent("post_office", str(mails), str(PROCESSES), environment=self._environment)
        assert self._sink.count() - before == mails, "django-post-office did not send every mail once"
        return mails / seconds


@contextmanager
def plain_celery(stand: Stand) -> Iterator[Callable[[int], float]]:
    """The plain task's workers, paused but while they are measured; mails a second from a queue that is full."""
    os.environ.update({"BENCH_BROKER_URL": stand.valkey.url, "BENCH_SMTP_PORT": str(stand.sink.port)})
    from benchmarks.opponents.celery_plain import send_mail

    command = [*celery("benchmarks.opponents.celery_plain"), "worker", "-Q", "plain_mail", "-P", "threads"]
    command += ["-c", str(OPPONENT_THREADS)]
    workers = Group(
        [Child(f"plain{n}", [*command, "-n", f"plain{n}@%h"], stand.root / f"plain{n}.log") for n in range(PROCESSES)]
    )

    def drain(mails: int) -> float:
        before = stand.sink.count()
        for n in range(mails):
            send_mail.delay(SENDER, recipient(n), SUBJECT, TEXT, HTML)
        started = time.perf_counter()
        with workers.running():
            stand.sink.wait_for(before + mails, timeout=120)
            return mails / (time.perf_counter() - started)

    try:
        for worker in workers.children:
            worker.wait_for("plain worker ready.")
        workers.pause()
        yield drain
    finally:
        workers.stop()
