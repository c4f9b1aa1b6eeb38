"""Mails accepted over HTTP by 16 clients, against the library's own acceptance of the same mails.

Measured: `POST /mail/messages`, one mail a request and a transaction, over 16 kept connections to one process as an
operator starts it, with token, checks and JSON; against `send_mail` and commit in one process by 16 threads, and by
one. The same database, one after the other and interleaved; commits wait for the disk in all.

What would make it lie: the library measured with one caller only, who waits for the disk while nobody else works (the
better of the two counts); mails that are not the same; a client so slow that it is what is measured (requests are made
beforehand and answers read as octets); a rate limit that holds the one token back (it is raised).
"""

import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

from sqlalchemy.orm import Session

from benchmarks.harness.database import Database, mail_request
from benchmarks.harness.figure import Figure, at_least, compare, interleave, medians
from benchmarks.harness.stand import Stand
from benchmarks.harness.web import tokens, web
from messaging import api

CLIENTS = 16
MAILS = 800
ROUNDS = 5


def run(stand: Stand) -> Iterator[Figure]:
    database = stand.database("http")
    (token,) = tokens(database, range(1))
    number = count()
    with web(stand, "http", {"MESSAGING_API__RATE_PER_SECOND": "100000"}) as application:

        def over_http() -> float:
            # Anew in each round: what idles while others are measured is closed.
            clients = [Client(application.port, token) for _ in range(CLIENTS)]
            for client in clients:
                client.prepare(number, MAILS // CLIENTS)
            measured = rate([client.send for client in clients])
            for client in clients:
                client.close()
            return measured

        def by_threads() -> float:
            return rate([lambda: accept(database, number, MAILS // CLIENTS)] * CLIENTS)

        def by_one() -> float:
            return rate([lambda: accept(database, number, MAILS)])

        contenders: dict[str, Callable[[], float]] = {"http": over_http, "16 threads": by_threads, "one": by_one}
        for contender in contenders.values():
            contender()
        results = medians(interleave(contenders, rounds=ROUNDS))
    best = max(("16 threads", "one"), key=lambda name: results[name])
    name = f"POST /mail/messages, {CLIENTS} clients"
    yield compare(name, "mails/s", results["http"], results[best], f"send_mail, {best}", at_least(0.5))


def accept(database: Database, number: Iterator[int], mails: int) -> None:
    """So many mails, each in a transaction."""
    for _ in range(mails):
        with Session(database.engine) as session:
            api.send_mail(mail_request(next(number)), session=session)
            session.commit()


def rate(jobs: list[Callable[[], None]]) -> float:
    """Mails a second of jobs that run at once and send `MAILS` together."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        started = time.perf_counter()
        running = [pool.submit(job) for job in jobs]
        for one in running:
            one.result()
        return MAILS / (time.perf_counter() - started)


class Client:
    """One kept connection."""

    def __init__(self, port: int, token: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._token = token
        self._requests: list[bytes] = []

    def prepare(self, number: Iterator[int], mails: int) -> None:
        """Make so many requests, to be sent."""
        self._requests = [self._request(next(number)) for _ in range(mails)]

    def _request(self, number: int) -> bytes:
        mail = mail_request(number)
        fields: dict[str, Any] = {
            name: value
            for name in ("to", "subject", "text_body", "html_body")
            if (value := getattr(mail, name)) is not None
        }
        body = json.dumps(fields).encode()
        head = (
            "POST /api/v1/mail/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {self._token}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def send(self) -> None:
        """One after the other, each when the one before is answered."""
        for request in self._requests:
            self._socket.sendall(request)
            answer = b""
            while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
                octets = self._socket.recv(65536)
                assert octets, "the connection has ended"
                answer += octets
            assert answer.startswith(b"HTTP/1.1 202"), answer[:500]

    def close(self) -> None:
        self._socket.close()
