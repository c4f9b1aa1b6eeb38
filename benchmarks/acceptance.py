"""Acceptance against the bare SQLAlchemy Core insert of the same row: one mail a transaction, and batches of 500.

Measured: `send_mail` in a session of the caller's and its commit, and `send_mail_batch` likewise, with the nudge on;
against `INSERT` of a row with the same values in a transaction of its own, and Core's insert of 500 such rows in one
call, which asks for no ids (psycopg pipelines it; `RETURNING` and a long `VALUES` were tried and are slower). Table,
indexes, engine and process are the same; commits wait for the disk in both.

What would make it lie: a bare row that leaves out columns the product writes (its values are read back from an accepted
record); address checks on one address that is cached (every mail has another recipient); a nudge that is off.
"""

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from benchmarks.harness.database import Database, mail_request
from benchmarks.harness.figure import Figure, at_least, compare, interleave, medians
from benchmarks.harness.mail import recipient
from benchmarks.harness.stand import Stand
from messaging import api
from messaging.mail.models import MAIL_SEND_RECORD

SINGLES = 300
BATCHES = 8
BATCH = 500
ROUNDS = 9
#: Written by the database in both: the id, the generated column, the three times of acceptance.
BY_DATABASE = ("id", "ready", "created_at", "updated_at", "next_attempt_at")


def run(stand: Stand) -> Iterator[Figure]:
    database = stand.database("acceptance")
    database.use()
    number = count()
    row = accepted_row(database)

    def bare_row() -> dict[str, Any]:
        return {**row, "to_addresses": [recipient(next(number))]}

    def accept_one() -> None:
        with Session(database.engine) as session:
            api.send_mail(mail_request(next(number)), session=session)
            session.commit()

    def insert_one() -> None:
        with database.engine.begin() as connection:
            connection.execute(sa.insert(MAIL_SEND_RECORD).returning(MAIL_SEND_RECORD.c.id), bare_row()).scalar_one()

    def accept_batch() -> None:
        with Session(database.engine) as session:
            api.send_mail_batch([mail_request(next(number)) for _ in range(BATCH)], session=session)
            session.commit()

    def insert_batch() -> None:
        with database.engine.begin() as connection:
            connection.execute(sa.insert(MAIL_SEND_RECORD), [bare_row() for _ in range(BATCH)])

    contenders = {
        "one": rate(accept_one, SINGLES, 1),
        "one, bare": rate(insert_one, SINGLES, 1),
        "batch": rate(accept_batch, BATCHES, BATCH),
        "batch, bare": rate(insert_batch, BATCHES, BATCH),
    }
    for contender in contenders.values():
        contender()
    results = medians(interleave(contenders, rounds=ROUNDS))
    for name, what, bar in (("one", "one a transaction", 0.7), ("batch", f"batches of {BATCH}", 0.6)):
        bare = "bare Core insert" if name == "one" else "bare Core multi-row insert"
        yield compare(f"acceptance, {what}", "mails/s", results[name], results[f"{name}, bare"], bare, at_least(bar))


def rate(action: Callable[[], None], times: int, mails: int) -> Callable[[], float]:
    """Mails a second of an action that is repeated."""

    def measure() -> float:
        started = time.perf_counter()
        for _ in range(times):
            action()
        return times * mails / (time.perf_counter() - started)

    return measure


def accepted_row(database: Database) -> dict[str, Any]:
    """Every value that acceptance writes, less those the database makes."""
    with Session(database.engine) as session:
        record = api.send_mail(mail_request(0), session=session)
        columns = [column for column in MAIL_SEND_RECORD.columns if column.name not in BY_DATABASE]
        found = session.execute(sa.select(*columns).where(MAIL_SEND_RECORD.c.id == record)).one()
        session.commit()
    return {name: value for name, value in found._mapping.items() if value is not None}
