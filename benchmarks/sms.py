"""Text messages through a provider that answers in 5 ms, against a plain `httpx2` client that has nothing else to do.

Measured: messages a second from the accepting commit to the last SENT, by one worker process of 16 threads with a
control worker and beat as an operator starts them; the far end speaks Infobip's API over kept connections. Against what
is lower: 16 threads / 5 ms, or a plain client of 16 threads in one process that posts ready bodies to the same far end.
Ours calls through httpx2, too, by a transport of its own (`messaging/http/transport.py`).
Then one thread of one process delivers chunks and reads its own processor time (not waiting) around each send: what is
between the claimed record and the recorded reply. The plain client's post is measured in the same way.

What would make it lie: a far end that is the bottleneck (one event loop; it answers several thousand a second); a plain
client that connects anew; counting what the far end took without asking what the records say (both are waited for);
messages that never get a provider (the counts say).
"""

import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import httpx2
from sqlalchemy import Engine

from benchmarks.breakdown import deliver_all
from benchmarks.drain import Ours, opponent
from benchmarks.harness.database import Database
from benchmarks.harness.far_end import SmsProvider
from benchmarks.harness.figure import Figure, at_least, exactly, interleave, medians
from benchmarks.harness.sms import HEADERS, number, ready_body
from benchmarks.harness.stand import Stand
from messaging.clock import boot_seconds, utc_now
from messaging.delivery.channel import Claim
from messaging.delivery.gate import Gate
from messaging.delivery.recipients import RecipientResult
from messaging.delivery.worker import DeliveryWorker
from messaging.http.client import HttpClient, HttpLimits
from messaging.settings import Settings
from messaging.sms.channel import SmsChannel
from messaging.sms.models import SMS_SEND_RECORD

DELAY_SECONDS = 0.005
#: Four chunks of 50 a thread: a last round of half the threads would measure the rounding.
MESSAGES = 3200
THREADS = 16
#: Sends whose processor time is read.
TIMED = 500


def run(stand: Stand) -> Iterator[Figure]:
    provider = stand.sms_provider(delay_seconds=DELAY_SECONDS)
    database = stand.database("sms")
    database.add_sms_provider(provider.url)
    yield from throughput(stand, provider, database)
    yield from own_time(provider, database)


def throughput(stand: Stand, provider: SmsProvider, database: Database) -> Iterator[Figure]:
    """Messages a second."""
    with stand.system("sms", queue="sms_send", processes=1, threads=THREADS) as system:
        system.pause()
        ours = Ours(provider, database, system, SMS_SEND_RECORD)
        ours(800)  # connections, compiled statements
        results = medians(
            interleave({"ours": partial(ours, MESSAGES), "plain": partial(plain_httpx2, provider, MESSAGES)})
        )
    limits = {
        f"{THREADS} threads / {DELAY_SECONDS * 1000:g} ms": THREADS / DELAY_SECONDS,
        "plain httpx2": results["plain"],
    }
    name = min(limits, key=limits.__getitem__)
    yield Figure(
        "SMS, provider that answers in 5 ms",
        results["ours"],
        "messages/s",
        against=f"{name}: {limits[name]:.0f} messages/s",
        ratio=results["ours"] / limits[name],
        bar=at_least(0.7),
    )
    yield Figure(
        "SMS provider count",
        ours.taken,
        "messages",
        against=f"records accepted: {ours.accepted}",
        ratio=ours.taken / ours.accepted,
        bar=exactly(1),
    )


def plain_httpx2(provider: SmsProvider, messages: int) -> float:
    """Messages a second of the plain client."""
    return messages / opponent("plain_httpx2", provider.messages_url, str(messages), str(THREADS))


class TimedChannel(SmsChannel):
    """The channel, with the processor time of each send by its thread."""

    def __init__(self, engine: Engine, settings: Settings, client: HttpClient) -> None:
        super().__init__(engine, settings, client, clock=utc_now, ticker=boot_seconds)
        self.seconds: list[float] = []

    def send(self, claim: Claim, recipients: Sequence[str], gate: Gate) -> Mapping[str, RecipientResult]:
        started = time.thread_time()
        results = super().send(claim, recipients, gate)
        self.seconds.append(time.thread_time() - started)
        return results


def own_time(provider: SmsProvider, database: Database) -> Iterator[Figure]:
    """Processor time of one thread a message: of the send alone, of the whole delivery, and of a plain post."""
    client = HttpClient(HttpLimits.of(database.settings))
    channel = TimedChannel(database.autocommit, database.settings, client)
    worker = DeliveryWorker(
        database.engine,
        channel,
        database.settings,
        worker_name="benchmark",
        clock=utc_now,
        ticker=boot_seconds,
        rng=random.Random(),
    )
    deliver_all(database, worker, 100, table=SMS_SEND_RECORD)
    channel.seconds.clear()
    started = time.thread_time()
    deliver_all(database, worker, TIMED, table=SMS_SEND_RECORD)
    delivery = (time.thread_time() - started) / TIMED
    worker.close(5)
    client.close()
    posts = plain_posts(provider, TIMED)
    yield Figure("SMS, our own time of a send, median", statistics.median(channel.seconds) * 1e6, "us")
    yield Figure("SMS, our own time of a whole delivery", delivery * 1e6, "us")
    yield Figure("SMS, a plain httpx2 post, median", statistics.median(posts) * 1e6, "us")


def plain_posts(provider: SmsProvider, count: int) -> list[float]:
    """Processor time of each post of a plain client."""
    seconds = []
    with httpx2.Client() as client:
        for n in range(count):
            body = ready_body(number(n))
            started = time.thread_time()
            client.post(provider.messages_url, content=body, headers=HEADERS).json()
            seconds.append(time.thread_time() - started)
    return seconds
