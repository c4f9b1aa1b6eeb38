"""The transport of httpx2 for providers and webhooks: kept HTTP/1.1 connections, and one exchange over one of them.

Requests and replies are httpx2's, connections are those of `connection.py`. Of the transport that httpx2 brings differ:
connections are made within a bounded time, the look-up of a name included; a call can be refused
when its connection stands, which leaves that to the next; the whole reply is bounded, in time and in size; whether the
request was written is known. Nor is it used through `httpx2.Client`, which keeps cookies over accounts and logs
addresses, in which numbers of recipients can stand. What a failure means is for `client.py` to say.
Sources: RFC 9112; `sms.md` section 6.1.
"""

import socket
import ssl
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import TypedDict

import h11
import httpx2

from messaging.clock import Ticker
from messaging.http.connection import Connection, Origin, Times
from messaging.tcp import CheckAddress, Connector, any_address

#: Seconds an idle connection is kept: less than the servers keep theirs, which is a minute or more as a rule.
KEEP_IDLE_SECONDS = 20.0
#: Idle connections kept, to all servers together.
MAX_IDLE_CONNECTIONS = 100


class Call(TypedDict):
    """The `extensions` of a request."""

    times: Times
    #: Called when a connection stands and nothing is written; what it raises passes, and nothing ever is.
    before_body: Callable[[], None]


@lru_cache(maxsize=512)
def _head(method: str, target: bytes, headers: tuple[tuple[bytes, bytes], ...]) -> h11.Request:
    """A request's head, checked; it is the same in most calls of an account. Raises: h11.LocalProtocolError."""
    return h11.Request(method=method, target=target, headers=list(headers))


@lru_cache(maxsize=512)
def _origin(url: httpx2.URL) -> Origin:
    is_secure = url.scheme == "https"
    return Origin(is_secure, url.raw_host.decode("ascii"), url.port or (443 if is_secure else 80))


class KeptTransport(httpx2.BaseTransport):
    """The connections of one process. May be used from any thread; each call takes the thread it is made in.

    `verify`: None means the system's authorities. `max_reply_bytes`: what is longer is cut. `check_address` is asked
    about each address before it is connected to.
    """

    def __init__(
        self,
        ticker: Ticker,
        verify: ssl.SSLContext | None,
        max_reply_bytes: int,
        check_address: CheckAddress = any_address,
    ) -> None:
        self._connections = Connections(ticker, verify, check_address)
        self._max_reply_bytes = max_reply_bytes

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Write a request, whose `extensions` are a `Call`, and read the whole reply.

        Raises:
            OSError: no connection, or it ended (TimeoutError: too slow).
            h11.RemoteProtocolError: what came is no reply.
            h11.LocalProtocolError: the request is none; nothing is written.
        """
        assert isinstance(request.stream, httpx2.SyncByteStream)
        head = _head(request.method, request.url.raw_path, tuple(request.headers.raw))
        body = b"".join(request.stream)
        times: Times = request.extensions["times"]
        connection = self._connections.take(_origin(request.url), times)
        try:
            request.extensions["before_body"]()
        except BaseException:
            self._connections.give_back(connection, is_new=True)
            raise
        try:
            answer = connection.talk(head, body, times, max_reply_bytes=self._max_reply_bytes)
        except BaseException:
            self._connections.drop(connection)
            raise
        self._connections.give_back(connection)
        return httpx2.Response(answer.status, headers=answer.headers, stream=httpx2.ByteStream(answer.body))

    def close(self) -> None:
        """Close the connections. Calls that run fail; later ones connect anew."""
        self._connections.close()


class Connections:
    """The connections of one process: those that idle, and those in use. Any thread may ask."""

    def __init__(
        self, ticker: Ticker, verify: ssl.SSLContext | None, check_address: CheckAddress = any_address
    ) -> None:
        self._ticker = ticker
        self._connector = Connector(ticker, check_address)
        self._lock = threading.Lock()
        self._context = verify
        #: With the time at which each began to idle, that one first which has idled longest.
        self._idle: list[tuple[float, Connection]] = []
        self._used: set[Connection] = set()

    def take(self, origin: Origin, times: Times) -> Connection:
        """The connection that was used last, else a new one; it belongs to the caller until `give_back` or `drop`.

        Raises: OSError.
        """
        while (kept := self._pop(origin)) is not None:
            if not kept.is_ended:
                return kept
            self.drop(kept)
        made = Connection(self._connect(origin, times), origin)
        with self._lock:
            self._used.add(made)
        return made

    def give_back(self, connection: Connection, *, is_new: bool = False) -> None:
        """A call is over; `is_new`: nothing was written."""
        is_kept = is_new or connection.renew()
        ended: list[Connection] = []
        with self._lock:
            if is_kept and connection in self._used:
                self._used.discard(connection)
                self._idle.append((self._ticker(), connection))
                if len(self._idle) > MAX_IDLE_CONNECTIONS:
                    ended.append(self._idle.pop(0)[1])
            else:
                self._used.discard(connection)
                ended.append(connection)
        for each in ended:
            each.close()

    def drop(self, connection: Connection) -> None:
        """A call failed."""
        with self._lock:
            self._used.discard(connection)
        connection.close()

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            ended = [*self._used, *(connection for _, connection in self._idle)]
            self._used.clear()
            self._idle.clear()
        for each in ended:
            each.close()

    def _pop(self, origin: Origin) -> Connection | None:
        found: Connection | None = None
        with self._lock:
            oldest = self._ticker() - KEEP_IDLE_SECONDS
            expired = [connection for at, connection in self._idle if at <= oldest]
            del self._idle[: len(expired)]
            for position in range(len(self._idle) - 1, -1, -1):
                if self._idle[position][1].origin == origin:
                    found = self._idle.pop(position)[1]
                    self._used.add(found)
                    break
        for each in expired:
            each.close()
        return found

    def _connect(self, origin: Origin, times: Times) -> socket.socket:
        connected = self._connector.connect(origin.host, origin.port, times.connecting_seconds())
        if not origin.is_secure:
            return connected
        try:
            connected.settimeout(times.connecting_seconds())
            return self._trusted().wrap_socket(connected, server_hostname=origin.host)
        except BaseException:
            connected.close()
            raise

    def _trusted(self) -> ssl.SSLContext:
        # The system's authorities are read when the first call is made, not when a worker starts.
        with self._lock:
            if self._context is None:
                self._context = httpx2.create_ssl_context()
            self._context.set_alpn_protocols(["http/1.1"])
            return self._context
