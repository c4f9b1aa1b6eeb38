"""The HTTP client of providers: kept connections, times, sizes, and whether a request was written."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import httpx2
import pytest
import trustme

from messaging.category import MarkerCode
from messaging.errors import DeliveryError, PreparationError
from messaging.http.client import HttpClient, HttpLimits
from tests.far_end.provider_server import Fault, ProviderServer, Reply, Request, Taken, serving

LIMITS = HttpLimits(connect_seconds=5, read_seconds=5, reply_seconds=5)


class Echo:
    """Answers 200 to everything."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []

    def answer(self, request: Request) -> Reply:
        return Reply(200, {"path": request.path})


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with serving(Echo()) as server:
        yield server


@cache
def authorities() -> ssl.SSLContext:
    """As a client reads them for itself, but once: that takes longer than most tests."""
    return httpx2.create_ssl_context()


@contextlib.contextmanager
def client_of(limits: HttpLimits = LIMITS, verify: ssl.SSLContext | None = None) -> Iterator[HttpClient]:
    client = HttpClient(limits, verify=verify or authorities())
    try:
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def raw_server(serve: Callable[[socket.socket], object]) -> Iterator[str]:
    """One connection served by hand."""

    def run() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listening.accept()
            with connection:
                connection.settimeout(10)
                serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/x"
        finally:
            thread.join()


def test_a_request_is_whole_and_plain(server: ProviderServer) -> None:
    with client_of() as client:
        reply = client.post(f"{server.url}/a/b?c=d%20e", headers={"Content-Type": "text/x"}, body="é".encode())

    (request,) = server.requests
    assert (request.method, request.path, request.query, request.body) == ("POST", "/a/b", {"c": "d e"}, "é".encode())
    assert request.headers == {
        "host": server.host,
        "user-agent": "messaging",
        "accept": "application/json",
        "content-type": "text/x",
        "content-length": "2",
    }
    assert (reply.status, reply.json()) == (200, {"path": "/a/b"})
    assert reply.headers["content-type"] == "application/json"


def test_an_adapter_may_say_who_it_is(server: ProviderServer) -> None:
    with client_of() as client:
        client.get(server.url, headers={"User-Agent": "twilio-python", "Accept": "*/*"})

    assert (server.requests[0].headers["user-agent"], server.requests[0].headers["accept"]) == ("twilio-python", "*/*")
    assert server.requests[0].path == "/"


def test_head_and_body_are_one_packet_and_none_comes_before_the_check() -> None:
    arrived: list[bytes] = []
    before: list[int] = []

    def serve(connection: socket.socket) -> None:
        arrived.append(connection.recv(65536))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with raw_server(serve) as url, client_of() as client:
        client.post(url, headers={}, body=b"x" * 1000, before_body=lambda: before.append(len(arrived)))

    assert before == [0]
    assert len(arrived) == 1
    assert arrived[0].endswith(b"\r\n\r\n" + b"x" * 1000)


def test_a_check_that_refuses_leaves_nothing_on_the_wire() -> None:
    arrived: list[bytes] = []

    def refuse() -> None:
        raise LookupError

    with raw_server(lambda connection: arrived.append(connection.recv(10))) as url, client_of() as client:
        with pytest.raises(LookupError):
            client.post(url, headers={}, body=b"x", before_body=refuse)

    assert arrived == [b""]


def test_threads_share_connections(server: ProviderServer) -> None:
    threads = 16
    with client_of() as client, ThreadPoolExecutor(threads) as pool:
        replies = list(pool.map(lambda n: client.post(f"{server.url}/{n}", headers={}, body=b"x"), range(200)))

    assert [reply.json() for reply in replies] == [{"path": f"/{n}"} for n in range(200)]
    assert server.connections <= threads


def test_each_thread_has_the_time_of_its_own_call(server: ProviderServer) -> None:
    server.next.append(Fault.NO_REPLY)
    with client_of(HttpLimits(5, 5, 0.3)) as client, ThreadPoolExecutor(2) as pool:
        lost = pool.submit(client.post, server.url, headers={}, body=b"x")
        deadline = time.monotonic() + 5
        while not server.requests and time.monotonic() < deadline:
            time.sleep(0.005)
        for _ in range(20):
            client.post(server.url, headers={}, body=b"x")
        with pytest.raises(DeliveryError, match="HTTP_NO_REPLY"):
            lost.result(5)


def test_drops_that_keep_coming_do_not_extend_the_time(server: ProviderServer) -> None:
    server.next.append(Fault.DRIP)
    began = time.monotonic()
    with client_of(HttpLimits(5, 5, 0.2)) as client, pytest.raises(DeliveryError, match="HTTP_NO_REPLY"):
        client.post(server.url, headers={}, body=b"x")

    assert time.monotonic() - began < 3


def test_a_pause_within_a_reply_has_a_time_of_its_own() -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
        connection.recv(1)

    began = time.monotonic()
    with raw_server(serve) as url, client_of(HttpLimits(5, 0.2, 60)) as client:
        with pytest.raises(DeliveryError, match="HTTP_NO_REPLY"):
            client.post(url, headers={}, body=b"x")

    assert time.monotonic() - began < 5


def test_a_body_nobody_reads_was_not_written() -> None:
    stop = threading.Event()
    with raw_server(lambda _: stop.wait(10)) as url:
        with client_of(HttpLimits(0.2, 0.2, 5)) as client, pytest.raises(DeliveryError) as raised:
            client.post(url, headers={}, body=b"x" * 50_000_000)
        stop.set()

    assert (raised.value.code, raised.value.is_uncertain) == ("HTTP_TIMEOUT", False)


def test_a_reply_before_the_whole_body_is_a_reply() -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            while connection.recv(1_000_000):
                pass

    with raw_server(serve) as url, client_of() as client:
        assert client.post(url, headers={}, body=b"x" * 5_000_000).status == 413


def test_a_look_up_that_gets_no_reply_is_not_uncertain(server: ProviderServer) -> None:
    server.next.extend([Fault.RESET_AFTER, Fault.NO_REPLY, Fault.RESET_AFTER])
    for code, reply_seconds in (("HTTP_CONNECT", 30), ("HTTP_TIMEOUT", 0.2)):
        with client_of(HttpLimits(5, 30, reply_seconds)) as client, pytest.raises(DeliveryError) as raised:
            client.get(server.url, headers={})
        assert (raised.value.code, raised.value.is_uncertain) == (code, False)
    with client_of(HttpLimits(5, 30, 30)) as client, pytest.raises(DeliveryError) as raised:
        client.post(server.url, headers={}, body=b"x", is_reading=True)
    assert (raised.value.code, raised.value.is_uncertain) == ("HTTP_CONNECT", False)


def test_a_name_that_does_not_resolve_is_no_connection() -> None:
    with client_of() as client, pytest.raises(DeliveryError) as raised:
        client.post("http://a..b.invalid/x", headers={}, body=b"x")

    assert (raised.value.code, raised.value.is_uncertain) == ("HTTP_CONNECT", False)


def test_a_server_that_takes_no_connection_is_a_time_out() -> None:
    """A full backlog swallows what comes after it, as a dead host does."""
    with socket.socket() as full, contextlib.ExitStack() as waiting:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            caller = waiting.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(full.getsockname())
        with client_of(HttpLimits(0.2, 5, 5)) as client, pytest.raises(DeliveryError) as raised:
            client.post(f"http://127.0.0.1:{full.getsockname()[1]}/", headers={}, body=b"x")

    assert (raised.value.code, raised.value.is_uncertain) == ("HTTP_TIMEOUT", False)


def test_certificates_are_for_the_host_asked_for() -> None:
    authority = trustme.CA()
    serving_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("somebody.example").configure_cert(serving_context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with serving(Echo(), serving_context) as server, client_of(verify=trusting) as client:
        with pytest.raises(DeliveryError, match="HTTP_TLS"):
            client.post(server.url, headers={}, body=b"x")

    assert not server.requests


def test_a_server_without_tls_is_no_connection(server: ProviderServer) -> None:
    with client_of() as client, pytest.raises(DeliveryError) as raised:
        client.post(f"https://{server.host}/", headers={}, body=b"x")

    assert (raised.value.code, raised.value.is_uncertain) == ("HTTP_CONNECT", False)


@pytest.mark.parametrize(("path", "value"), [("/a b", "x"), ("/é", "x"), ("/", "key\r\nY: z"), ("/", "clé")])
def test_what_cannot_be_written_is_the_configurations_fault(server: ProviderServer, path: str, value: str) -> None:
    with client_of() as client, pytest.raises(PreparationError) as raised:
        client.post(f"{server.url}{path}", headers={"X": value}, body=b"x")

    assert raised.value.marker is MarkerCode.PROVIDER_CONFIG_INVALID
    assert value not in str(raised.value)
    assert raised.value.__cause__ is None
    assert not server.requests


def test_an_address_of_another_protocol_is_the_configurations_fault() -> None:
    with client_of() as client, pytest.raises(PreparationError) as raised:
        client.post("ftp://127.0.0.1/", headers={}, body=b"x")

    assert raised.value.marker is MarkerCode.PROVIDER_CONFIG_INVALID


def test_a_closed_client_connects_anew(server: ProviderServer) -> None:
    with client_of() as client:
        client.post(server.url, headers={}, body=b"x")
        client.close()
        client.close()
        client.post(server.url, headers={}, body=b"x")

    assert (len(server.requests), server.connections) == (2, 2)
