"""From the accepting commit to the first byte of the mail at the SMTP server, while nothing else is going on.

Measured: the clock starts before `commit()` of one mail in a transaction and stops when the server, with a kept
connection or a new one, gets the first byte after its last reply; both read the machine's monotonic clock. In between
lie the nudge, the tick, the task, the claim and the preparation. Mails come one at a time with random pauses around
the beat's half second, so that no rhythm helps; workers, control worker and beat as an operator starts them.

What would make it lie: starting the clock after the commit; the beat's tick taking the mail by chance (it does for some
mails, as in life: the pauses are random); a connection that is always kept (with two workers of eight threads and a
mail a second some mails open a new one).
"""

import random
import statistics
import time
from collections.abc import Iterator

from benchmarks.harness.figure import Figure, at_most
from benchmarks.harness.stand import Stand

MAILS = 100


def run(stand: Stand) -> Iterator[Figure]:
    server = stand.timing_server()
    database = stand.database("first_byte", smtp_port=server.port)
    with stand.system("first_byte"):
        for _ in range(3):  # the nudge's thread, compiled statements
            with database.accept(1) as session:
                session.commit()
            time.sleep(0.7)
        server.wait_for(3, timeout=30)
        milliseconds = []
        for sent in range(3, MAILS + 3):
            with database.accept(1) as session:
                started = time.monotonic()
                session.commit()
            server.wait_for(sent + 1, timeout=30)
            milliseconds.append((server.first_bytes()[-1] - started) * 1000)
            time.sleep(random.uniform(0.2, 1.2))
    milliseconds.sort()
    yield Figure("commit to first byte, median", statistics.median(milliseconds), "ms", bar=at_most(50))
    yield Figure("commit to first byte, 95 %", milliseconds[int(len(milliseconds) * 0.95)], "ms", bar=at_most(150))
