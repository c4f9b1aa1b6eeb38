"""Drain over a server that answers 100 ms after the data: threads must be all that limits it.

Measured: mails a second from the accepting commit to the last SENT, over our own asyncio server with a delay of 100 ms
after the final dot; against threads / time per send, where the time per send is what bare `smtplib` needs for one mail
on one kept connection to the same server, measured in the same round.

What would make it lie: a server that is slow because it is busy (bare `smtplib` on one connection would not notice, so
its rate with as many connections as we have threads is reported too); so few mails that start and end are all there is.
"""

from collections.abc import Iterator
from functools import partial

from benchmarks.drain import Ours, bare_smtplib
from benchmarks.harness.figure import Figure, at_least, interleave, medians
from benchmarks.harness.stand import PROCESSES, Stand

DELAY_SECONDS = 0.1
MAILS = 2000
#: A process: the default of `celeryconfig`, since a slow server is what more threads are for.
THREADS = 8
CONCURRENCY = PROCESSES * THREADS


def run(stand: Stand) -> Iterator[Figure]:
    server = stand.timing_server(delay_seconds=DELAY_SECONDS)
    database = stand.database("slow_server", smtp_port=server.port)
    bare = partial(bare_smtplib, stand, port=server.port)
    with stand.system("slow_server", threads=THREADS) as system:
        system.pause()
        ours = Ours(server, database, system)
        ours(4 * CONCURRENCY)
        results = medians(
            interleave(
                {
                    "ours": partial(ours, MAILS),
                    "one connection": partial(bare, 20, threads=1),
                    "as many connections": partial(bare, 20 * CONCURRENCY, threads=CONCURRENCY),
                }
            )
        )
    limit = CONCURRENCY * results["one connection"]
    yield Figure(
        "slow server (100 ms)",
        results["ours"],
        "mails/s",
        against=f"{CONCURRENCY} threads / {1000 / results['one connection']:.1f} ms: {limit:.1f} mails/s",
        ratio=results["ours"] / limit,
        bar=at_least(0.9),
    )
    yield Figure(f"slow server, bare smtplib on {CONCURRENCY} connections", results["as many connections"], "mails/s")
