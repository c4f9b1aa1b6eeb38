"""A thousand people who listen to their inboxes at one process: what they cost it, and how soon they hear.

Measured: resident memory of the HTTP application with nobody listening (after a first stream, so that all code is
loaded) and with a thousand streams, each of another person with a token of its own, each told something; then the time
from the commit of a notification to the moment its event has come in whole at the person's client: of single ones, one
after the other to people at random, and of a thousand, two batches of 500 in one transaction, until the last has heard.
Then what notifying costs its caller: a notification a transaction, over the bare insert of the same row, which tells
nobody.

What would make it lie: streams that were never told anything (their buffers are made when they are); clients in the
process that is measured (they are in this one, on the same two cores, so that the times are those of both); one person
with a thousand streams, for whom one look would do.
"""

import random
import statistics
import time
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from benchmarks.harness.database import Database
from benchmarks.harness.figure import Figure, at_most, compare, interleave, medians
from benchmarks.harness.listeners import Listeners
from benchmarks.harness.process import rss_mb
from benchmarks.harness.stand import Stand
from benchmarks.harness.web import tokens, web
from messaging import api
from messaging.inbox.models import INBOX_NOTIFICATION
from messaging.requests import SendInbox
from messaging.web.serve import allow_files

PEOPLE = 1_000
SINGLES = 200
BROADCASTS = 5
BATCH = 500
ACCEPTED, ROUNDS = 300, 5


def run(stand: Stand) -> Iterator[Figure]:
    allow_files()
    database = stand.database("inbox")
    made = tokens(database, range(PEOPLE + 1))
    with web(stand, "inbox") as application:
        first = Listeners(application.port, made[:1])
        first.open()
        first.wait_for(send(database, 0))
        idle = rss_mb(application.pid)
        listeners = Listeners(application.port, made[1:])
        listeners.open()
        broadcast(database, listeners)
        grown = rss_mb(application.pid)
        yield Figure(f"{PEOPLE:,} listeners, memory", grown - idle, "MB", bar=at_most(200))
        yield Figure(f"{PEOPLE:,} listeners, memory of the whole process", grown, "MB")

        milliseconds = []
        for _ in range(SINGLES):
            person = random.randint(1, PEOPLE)
            started = time.monotonic()
            ids = send(database, person)
            milliseconds.append((listeners.wait_for(ids) - started) * 1000)
            time.sleep(random.uniform(0.0, 0.02))
        milliseconds.sort()
        name = f"{PEOPLE:,} listeners, one is notified"
        yield Figure(f"{name}, median", statistics.median(milliseconds), "ms")
        yield Figure(f"{name}, 99 %", milliseconds[int(len(milliseconds) * 0.99)], "ms", bar=at_most(200))

        seconds = statistics.median(broadcast(database, listeners) for _ in range(BROADCASTS))
        yield Figure(
            f"{PEOPLE:,} listeners, all are notified at once, the last", seconds * 1000, "ms", bar=at_most(500)
        )
        for one in (listeners, first):
            one.close()
    yield accepting(database)


def request(person: int) -> SendInbox:
    return SendInbox(recipient_id=person, title="Leave", content="Please approve the leave of Ann Smith.")


def send(database: Database, person: int) -> list[int]:
    """Notify one person; committed."""
    database.use()
    return [api.send_inbox(request(person))]


def broadcast(database: Database, listeners: Listeners) -> float:
    """Seconds from the commit until everybody has heard."""
    with Session(database.engine) as session:
        ids = []
        for start in range(1, PEOPLE + 1, BATCH):
            ids += api.send_inbox_batch([request(n) for n in range(start, start + BATCH)], session=session)
        started = time.monotonic()
        session.commit()
    return listeners.wait_for(ids) - started


def accepting(database: Database) -> Figure:
    """Notifications a second of one caller, over the bare insert."""
    row: dict[str, Any] = {"recipient_id": 1, "title": request(1).title, "content": request(1).content}

    def ours() -> float:
        started = time.perf_counter()
        for _ in range(ACCEPTED):
            with Session(database.engine) as session:
                api.send_inbox(request(1), session=session)
                session.commit()
        return ACCEPTED / (time.perf_counter() - started)

    def bare() -> float:
        insert = sa.insert(INBOX_NOTIFICATION).returning(INBOX_NOTIFICATION.c.id)
        started = time.perf_counter()
        for _ in range(ACCEPTED):
            with database.engine.begin() as connection:
                connection.execute(insert, row).scalar_one()
        return ACCEPTED / (time.perf_counter() - started)

    results = medians(interleave({"ours": ours, "bare": bare}, rounds=ROUNDS))
    return compare(
        "notifications accepted, one a transaction",
        "notifications/s",
        results["ours"],
        results["bare"],
        "bare Core insert",
    )
