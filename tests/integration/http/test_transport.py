"""Kept connections: which are used again, and that one reply is never taken for another's."""

import gzip
import logging
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from messaging.errors import DeliveryError
from messaging.http import connection, transport
from messaging.http.client import HttpClient, HttpLimits

LIMITS = HttpLimits(connect_seconds=5, read_seconds=5, reply_seconds=5)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


class Clock:
    """Time that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Server:
    """Answers each request of each connection with the next of its replies."""

    def __init__(self, *replies: bytes) -> None:
        self._replies = iter(replies)
        self.connections = 0
        self.requests: list[bytes] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.connections += 1
                self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(10)
            while asked := connection.recv(10_000):
                self.requests.append(asked)
                connection.sendall(next(self._replies))

    def stop(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join()


@contextmanager
def serving(*replies: bytes) -> Iterator[tuple[Server, HttpClient, Clock]]:
    server, clock = Server(*replies), Clock()
    client = HttpClient(LIMITS, ticker=clock)
    try:
        yield server, client, clock
    finally:
        client.close()
        server.stop()


def post(client: HttpClient, server: Server) -> bytes:
    return client.post(server.url, headers={}, body=b"x").body


def test_a_connection_is_used_again_until_it_has_idled_for_too_long() -> None:
    with serving(*(OK + b"%02d" % n for n in range(3))) as (server, client, clock):
        assert post(client, server) == b"00"
        clock.now += transport.KEEP_IDLE_SECONDS - 1
        assert post(client, server) == b"01"
        assert server.connections == 1
        clock.now += transport.KEEP_IDLE_SECONDS
        assert post(client, server) == b"02"
        assert server.connections == 2


@pytest.mark.parametrize("more", [OK + b"zz", b"x"], ids=["a-whole-reply", "a-piece"])
def test_what_follows_a_reply_is_not_the_next_one(more: bytes) -> None:
    with serving(OK + b"00" + more, OK + b"01") as (server, client, _):
        assert post(client, server) == b"00"
        assert post(client, server) == b"01"
        assert server.connections == 2


def test_replies_on_the_way_are_passed_over() -> None:
    with serving(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + OK + b"00") as (server, client, _):
        assert post(client, server) == b"00"


def test_a_check_that_refuses_leaves_the_connection_to_the_next_call() -> None:
    class TooLate(Exception):
        pass

    def refuse() -> None:
        raise TooLate

    with serving(OK + b"00") as (server, client, _):
        with pytest.raises(TooLate):
            client.post(server.url, headers={}, body=b"x", before_body=refuse)
        assert post(client, server) == b"00"
        assert server.connections == 1


def test_a_head_without_an_end_is_not_read_for_ever() -> None:
    with serving(b"HTTP/1.1 200 OK\r\nX: " + b"x" * (connection.MAX_HEAD_BYTES + 1)) as (
        server,
        client,
        _,
    ):
        with pytest.raises(DeliveryError) as raised:
            post(client, server)
        assert (raised.value.code, raised.value.is_uncertain) == ("HTTP_NO_REPLY", True)


def test_cookies_are_not_kept() -> None:
    """Accounts share the connections of a process."""
    with serving(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 2\r\n\r\n00", OK + b"01") as (
        server,
        client,
        _,
    ):
        post(client, server)
        post(client, server)
        assert b"cookie" not in server.requests[1].lower()


def test_a_reply_comes_as_it_was_written() -> None:
    """What a packed one unpacks to has no bound, and none was asked for."""
    packed = gzip.compress(b"x" * 1_000_000)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    with serving(head + packed) as (server, client, _):
        assert post(client, server) == packed


def test_a_reply_in_chunks_leaves_its_connection_to_the_next_call() -> None:
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n00\r\n1\r\n0\r\n0\r\n\r\n"
    with serving(chunks, OK + b"01", chunks + b"0", OK + b"02") as (server, client, _):
        assert [post(client, server) for _ in range(2)] == [b"000", b"01"]
        assert server.connections == 1
        assert [post(client, server) for _ in range(2)] == [b"000", b"02"]
        assert server.connections == 2


def test_the_environment_names_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    with serving(OK + b"00") as (server, client, _):
        assert post(client, server) == b"00"


def test_a_call_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), serving(OK + b"00") as (server, client, _):
        client.get(f"{server.url}?To=%2B15005550006", headers={})
    assert not caplog.records


def test_closing_ends_a_call_that_runs() -> None:
    with (
        serving(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n0") as (server, client, _),
        ThreadPoolExecutor(1) as pool,
    ):
        running = pool.submit(post, client, server)
        deadline = time.monotonic() + 10
        while not server.requests and time.monotonic() < deadline:
            time.sleep(0.005)
        client.close()
        with pytest.raises(DeliveryError) as raised:
            running.result(4)
    assert (raised.value.code, raised.value.is_uncertain) == ("HTTP_NO_REPLY", True)


def test_closing_before_a_request_is_written_leaves_it_unsent() -> None:
    with serving() as (server, client, _):
        with pytest.raises(DeliveryError) as raised:
            client.post(server.url, headers={}, body=b"x", before_body=client.close)
        assert (raised.value.code, raised.value.is_uncertain) == ("HTTP_CONNECT", False)
        assert not server.requests
