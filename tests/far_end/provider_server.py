"""An HTTP provider at the far end, under our control: it speaks one provider's API strictly and keeps what it was sent.

Real sockets, with or without TLS, in threads of the test. Which provider it is, an `Api` says, one file for each
(`twilio_api.py` and its like); `ProviderServer.next` has it answer something else once, or fail as networks do.
"""

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    method: str
    path: str
    query: Mapping[str, str]
    #: Names in lower case.
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def json(self) -> Any:
        """What the body says; None where it is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True, strict_parsing=bool(self.body)))


@dataclass(frozen=True)
class Reply:
    """One reply: bytes as they are, text, or anything else as JSON."""

    status: int
    said: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        match self.said:
            case bytes():
                return self.said
            case str():
                return self.said.encode()
            case _:
                return json.dumps(self.said).encode()


class Fault(Enum):
    """What networks and servers do instead of answering."""

    #: The whole request is read and nothing is answered.
    NO_REPLY = auto()
    #: The whole request is read, then the connection is reset.
    RESET_AFTER = auto()
    #: The whole request is read, then the connection is closed.
    CLOSE_AFTER = auto()
    #: The connection is closed in the middle of the reply's body.
    HALF_REPLY = auto()
    #: A reply that comes in drops and never ends.
    DRIP = auto()
    #: Something that is not HTTP.
    GARBAGE = auto()


@dataclass(frozen=True)
class Taken:
    """One message the provider accepted, as it understood it."""

    id: str | None
    #: Digits, without plus or zeros before the country code.
    number: str
    #: The text; of a provider that sends its own templates the template's id.
    text: str
    sender: str | None
    reference: str | None
    at: datetime = field(default_factory=lambda: datetime.now(UTC), compare=False)


class Api(Protocol):
    """One provider's API."""

    #: Messages accepted so far.
    taken: list[Taken]

    def answer(self, request: Request) -> Reply:
        """What the real one would say."""


class ProviderServer:
    """Serves an API until it is stopped."""

    def __init__(self, api: Api, tls: ssl.SSLContext | None = None) -> None:
        self.api = api
        #: What to do with the next requests instead of asking the API.
        self.next: deque[Reply | Fault] = deque()
        #: Requests that arrived whole.
        self.requests: list[Request] = []
        self.connections = 0
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self.stopping = threading.Event()
        self._server = _Server(self, tls)
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"{'http' if tls is None else 'https'}://{self.host}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; whoever waits for a reply gets none."""
        self.stopping.set()
        self._server.shutdown()
        self._thread.join()
        with self._lock:
            for connected in self._sockets:
                with contextlib.suppress(OSError):
                    connected.shutdown(socket.SHUT_RDWR)
        self._server.server_close()

    def connected(self, connection: socket.socket) -> None:
        with self._lock:
            self.connections += 1
            self._sockets.add(connection)

    def disconnected(self, connection: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(connection)

    def reply_to(self, request: Request) -> Reply | Fault:
        with self._lock:
            self.requests.append(request)
            return self.next.popleft() if self.next else self.api.answer(request)


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 64

    def __init__(self, provider: ProviderServer, tls: ssl.SSLContext | None) -> None:
        self.provider = provider
        super().__init__(("127.0.0.1", 0), _Handler)
        if tls is not None:
            # The handshake is the handler's: one that fails must not hold up the others.
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away, or refuses our certificate, is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    server: _Server
    connection: socket.socket

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.provider.connected(self.connection)

    def finish(self) -> None:
        self.server.provider.disconnected(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, *args: Any) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        parts = urlsplit(self.path)
        request = Request(
            self.command,
            parts.path,
            dict(parse_qsl(parts.query, keep_blank_values=True)),
            {name.lower(): value for name, value in self.headers.items()},
            body,
        )
        answer = self.server.provider.reply_to(request)
        if isinstance(answer, Fault):
            self._fail(answer)
        else:
            self._answer(answer)

    do_GET = do_POST  # noqa: N815

    def _answer(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if "Content-Type" not in reply.headers and reply.body:
            self.send_header("Content-Type", "text/html" if isinstance(reply.said, str) else "application/json")
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)
        self.wfile.flush()

    def _fail(self, fault: Fault) -> None:
        self.close_connection = True
        match fault:
            case Fault.NO_REPLY:
                self.server.provider.stopping.wait(30)
            case Fault.RESET_AFTER:
                # Closing with no time to linger sends RST.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            case Fault.HALF_REPLY:
                self.wfile.write(
                    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{"id":'
                )
            case Fault.DRIP:
                self._drip()
            case Fault.GARBAGE:
                self.wfile.write(b"220 mx.example.com ESMTP\r\n")
            case Fault.CLOSE_AFTER:
                pass

    def _drip(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n")
        while not self.server.provider.stopping.wait(0.02):
            self.wfile.write(b" ")
            self.wfile.flush()


@contextlib.contextmanager
def serving(api: Api, tls: ssl.SSLContext | None = None) -> Iterator[ProviderServer]:
    """A server for the time of a block."""
    server = ProviderServer(api, tls)
    try:
        yield server
    finally:
        server.stop()
