"""A plain `httpx2.Client`: threads share one and post bodies that were finished beforehand, reading each reply's JSON.

`python -m benchmarks.opponents.plain_httpx2 URL COUNT THREADS` prints the seconds. Connecting is not in the time; there
is no queue, no record and no outcome: this is what calling a provider costs by itself.
"""

import json
import sys
import threading
import time

import httpx2

from benchmarks.harness.sms import HEADERS, number, ready_body


def post_all(url: str, count: int, threads: int) -> float:
    """Seconds for `count` messages by so many threads, each over a kept connection."""
    bodies = [ready_body(number(n)) for n in range(count)]
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=threads)
    gate = threading.Barrier(threads + 1)

    def post(client: httpx2.Client, own: list[bytes]) -> None:
        _post(client, url, own[0])
        gate.wait()
        for body in own[1:]:
            _post(client, url, body)

    with httpx2.Client(limits=limits, timeout=30) as client:
        workers = [
            threading.Thread(target=post, args=(client, [bodies[0], *bodies[n::threads]])) for n in range(threads)
        ]
        for worker in workers:
            worker.start()
        gate.wait()
        started = time.perf_counter()
        for worker in workers:
            worker.join()
        return time.perf_counter() - started


def _post(client: httpx2.Client, url: str, body: bytes) -> None:
    reply = client.post(url, content=body, headers=HEADERS)
    assert reply.status_code == 200
    assert json.loads(reply.content)["messages"][0]["messageId"]


if __name__ == "__main__":
    print(post_all(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
