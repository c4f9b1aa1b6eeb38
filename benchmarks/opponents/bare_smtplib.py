"""Bare `smtplib`: threads with a kept connection each hand over bytes that were finished beforehand.

`python -m benchmarks.opponents.bare_smtplib PORT COUNT THREADS` prints the seconds. Connecting and building are not in
the time; there is no queue, no record and no outcome: this is the raw limit of sending from one Python process.
"""

import smtplib
import sys
import threading
import time

from benchmarks.harness.mail import SENDER, ready_bytes, recipient


def send_all(port: int, count: int, threads: int) -> float:
    """Seconds for `count` messages over `threads` connections."""
    mails = [(recipient(n), ready_bytes(recipient(n))) for n in range(count)]
    connections = [smtplib.SMTP("127.0.0.1", port) for _ in range(threads)]
    for connection in connections:
        connection.ehlo()

    def send(connection: smtplib.SMTP, own: list[tuple[str, bytes]]) -> None:
        for to, message in own:
            connection.sendmail(SENDER, [to], message)

    workers = [
        threading.Thread(target=send, args=(connection, mails[number::threads]))
        for number, connection in enumerate(connections)
    ]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - started
    for connection in connections:
        connection.quit()
    return seconds


if __name__ == "__main__":
    print(send_all(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
