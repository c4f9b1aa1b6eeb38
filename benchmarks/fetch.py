"""A fetch of 1,000 small mails over a local Dovecot, and a tick's fetch of a folder in which 100,000 are known.

Measured: `Receiver.fetch_mailbox` from the look-up of the mailbox to LOGOUT, with parsing, classifying and a row for
each mail in PostgreSQL, against a loop of imapclient that logs in, searches, downloads each mail by its UID and keeps
none of it. Both read the same folder over connections of their own; rows and watermark are deleted before each run.
The known folder is read to its end by its watermark, as after many fetches; its mails have no rows, which none of its
statements would look at.

What would make it lie: mails that are all alike (each has another text, and its own Message-ID); a batch limit that
ends a fetch early (it is set to 1,000, so that both do everything in one connection); a server that must first index
the folder (a round of each runs before).
"""

import gc
import imaplib
import time
from collections.abc import Iterator
from functools import partial

import sqlalchemy as sa
from imapclient import IMAPClient  # type: ignore[import-untyped]

from benchmarks.harness.database import Database
from benchmarks.harness.figure import Figure, at_most, compare, interleave, medians
from benchmarks.harness.mail import TEXT
from benchmarks.harness.stand import Stand
from messaging.files import FileStore
from messaging.receive.classify.chain import classify
from messaging.receive.fetch import Receiver
from messaging.receive.models import MAIL_RECEIVE_SERVER_CONFIG
from messaging.receive.parse import ParseLimits, parse
from messaging.settings import MailFetchSettings, MailSettings
from tests.far_end.dovecot import PASSWORD, Dovecot

MAILS, KNOWN = 1000, 100_000
ROUNDS = 5
#: Messages of one APPEND (RFC 3502).
_APPENDED = 1000


def run(stand: Stand) -> Iterator[Figure]:
    database = stand.database("fetch")
    mail = MailSettings(fetch=MailFetchSettings(batch_limit=MAILS))
    settings = database.settings.model_copy(update={"mail": mail})
    receiver = Receiver(database.engine, settings, FileStore(database.engine, settings))
    with Dovecot(stand.root / "dovecot").start() as dovecot:
        fill(dovecot, "ann", MAILS)
        fill(dovecot, "ben", KNOWN)
        contenders = {
            "fetch": partial(fetched, receiver, database, mailbox(database, dovecot, "ann")),
            "bare": partial(downloaded, dovecot, "ann"),
        }
        for contender in contenders.values():
            contender()
        gc.freeze()  # as a worker does at its start
        results = medians(interleave(contenders, rounds=ROUNDS))
        what = "imapclient alone, one mail a command"
        yield compare(f"fetch of {MAILS} small mails", "s", results["fetch"], results["bare"], what, at_most(1.5))
        yield Figure(f"of it to parse and classify {MAILS} mails", medians({"": understood()})[""], "s")
        known = mailbox(database, dovecot, "ben")
        database.run(
            "INSERT INTO mail_fetch_imap_watermark (server_config_id, folder_name, last_seen_uid)"
            f" VALUES ({known}, 'INBOX', {KNOWN})"
        )
        tick = partial(nothing_new, receiver, known)
        tick()
        seconds = medians(interleave({"tick": tick}, rounds=ROUNDS))["tick"]
        yield Figure(f"fetch with {KNOWN:,} known and none new", seconds * 1000, "ms", bar=at_most(50))


def fill(dovecot: Dovecot, user: str, count: int) -> None:
    with imaplib.IMAP4("127.0.0.1", dovecot.port, timeout=60) as client:
        client.login(user, PASSWORD)
        for start in range(0, count, _APPENDED):
            client.send(b"a APPEND INBOX")
            for number in range(start, min(count, start + _APPENDED)):
                octets = small_mail(number)
                client.send(b" {%d+}\r\n%s" % (len(octets), octets))
            client.send(b"\r\n")
            while not (line := client.readline()).startswith(b"a "):
                pass
            assert line.startswith(b"a OK"), line


def small_mail(number: int) -> bytes:
    lines = [
        "Return-Path: <customer@customers.example>",
        "Received: from out.customers.example (out.customers.example [192.0.2.7])",
        f"\tby mx.shop.example with ESMTPS id {number:08x}; Mon, 2 Mar 2026 10:00:00 +0100 (CET)",
        f"From: Customer {number} <customer{number}@customers.example>",
        "To: Shop <orders@shop.example>",
        f"Subject: Order {number}",
        "Date: Mon, 2 Mar 2026 10:00:00 +0100",
        f"Message-ID: <{number}.order@customers.example>",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=utf-8",
        "",
        f"Where is order {number}?",
        *TEXT.splitlines(),
        "",
    ]
    return "\r\n".join(lines).encode()


def mailbox(database: Database, dovecot: Dovecot, user: str) -> int:
    values = {"name": user, "protocol": "IMAP", "host": "127.0.0.1", "port": dovecot.port, "username": user}
    statement = sa.insert(MAIL_RECEIVE_SERVER_CONFIG).values(password=PASSWORD, **values)
    with database.engine.begin() as connection:
        return int(connection.execute(statement.returning(MAIL_RECEIVE_SERVER_CONFIG.c.id)).scalar_one())


def fetched(receiver: Receiver, database: Database, config_id: int) -> float:
    database.run("DELETE FROM mail_receive_record", "DELETE FROM mail_fetch_imap_watermark")
    started = time.perf_counter()
    assert receiver.fetch_mailbox(config_id) == MAILS
    return time.perf_counter() - started


def downloaded(dovecot: Dovecot, user: str) -> float:
    started = time.perf_counter()
    with IMAPClient("127.0.0.1", dovecot.port, ssl=False, timeout=30) as client:
        client.login(user, PASSWORD)
        client.select_folder("INBOX", readonly=True)
        octets = [client.fetch([uid], ["BODY.PEEK[]"])[uid][b"BODY[]"] for uid in client.search("ALL")]
    assert len(octets) == MAILS
    return time.perf_counter() - started


def understood() -> list[float]:
    """Seconds, in each round, of what every mail is read for; no other part of a fetch is measured."""
    mails = [small_mail(number) for number in range(MAILS)]
    rounds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for octets in mails:
            classify(parse(octets, ParseLimits()))
        rounds.append(time.perf_counter() - started)
    return rounds


def nothing_new(receiver: Receiver, config_id: int) -> float:
    started = time.perf_counter()
    assert receiver.fetch_mailbox(config_id) == 0
    return time.perf_counter() - started
