"""The transport of httpx2 for providers and webhooks: kept HTTP/1.1 connections, and one exchange over one of them.

Requests and replies are httpx2's, the protocol is that of the connections below it (httpcore2). Of the transport that
httpx2 brings differ: connections are made within a bounded time, the look-up of a name included; a call can be refused
when its connection stands, which leaves that to the next; the whole reply is bounded, in time and in size; whether the
request was written is known. Nor is it used through `httpx2.Client`, which keeps cookies over accounts and logs
addresses, in which numbers of recipients can stand. What a failure means is for `client.py` to say.
Sources: RFC 9112; `sms.md` section 6.1.
"""

import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypedDict

import httpcore2
import httpx2

from messaging.clock import Ticker
from messaging.http.stream import Stream, Times
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


@dataclass(eq=False, slots=True)
class Connection:
    """One connection, used by one call at a time."""

    origin: httpcore2.Origin
    stream: Stream
    http: httpcore2.HTTP11Connection = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpcore2.HTTP11Connection(self.origin, self.stream)

    @property
    def is_reusable(self) -> bool:
        """Whether its call is over and left nothing behind."""
        return self.stream.is_clean and self.http.is_idle()


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
            httpcore2.RemoteProtocolError: what came is no reply.
            httpcore2.LocalProtocolError: the request is none; nothing is written.
        """
        assert isinstance(request.stream, httpx2.SyncByteStream)
        url = httpcore2.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        times: Times = request.extensions["times"]
        connection = self._connections.take(url.origin, times)
        try:
            request.extensions["before_body"]()
        except BaseException:
            self._connections.give_back(connection, is_new=True)
            raise
        try:
            asked = httpcore2.Request(request.method, url, content=request.stream)
            # As they are: the constructor would look at each of them again.
            asked.headers = request.headers.raw
            reply = connection.http.handle_request(asked)
            body = self._body(reply)
        except httpcore2.ConnectionNotAvailable as exc:
            self._connections.drop(connection)
            raise ConnectionAbortedError("closed before the request was written") from exc
        except BaseException as exc:
            self._connections.drop(connection)
            failure = connection.stream.write_failure
            if failure is not None and isinstance(exc, OSError | httpcore2.RemoteProtocolError):
                # Says more than that nothing is to be read.
                raise failure from exc
            raise
        self._connections.give_back(connection)
        return httpx2.Response(reply.status, headers=reply.headers, stream=httpx2.ByteStream(body))

    def close(self) -> None:
        """Close the connections. Calls that run fail; later ones connect anew."""
        self._connections.close()

    def _body(self, reply: httpcore2.Response) -> bytes:
        pieces: list[bytes] = []
        size = 0
        try:
            for piece in reply.iter_stream():
                pieces.append(piece)
                size += len(piece)
                if size > self._max_reply_bytes:
                    break
        finally:
            reply.close()
        return b"".join(pieces)[: self._max_reply_bytes]


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

    def take(self, origin: httpcore2.Origin, times: Times) -> Connection:
        """The connection that was used last, else a new one; it belongs to the caller until `give_back` or `drop`.

        Raises: OSError.
        """
        while (kept := self._pop(origin)) is not None:
            if not kept.stream.is_ended:
                kept.stream.begin(times)
                return kept
            self.drop(kept)
        made = Connection(origin, Stream(self._connect(origin, times), times))
        with self._lock:
            self._used.add(made)
        return made

    def give_back(self, connection: Connection, *, is_new: bool = False) -> None:
        """A call is over; `is_new`: nothing was written."""
        is_kept = is_new or connection.is_reusable
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
            each.http.close()

    def drop(self, connection: Connection) -> None:
        """A call failed."""
        with self._lock:
            self._used.discard(connection)
        connection.http.close()

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            ended = [*self._used, *(connection for _, connection in self._idle)]
            self._used.clear()
            self._idle.clear()
        for each in ended:
            each.http.close()

    def _pop(self, origin: httpcore2.Origin) -> Connection | None:
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
            each.http.close()
        return found

    def _connect(self, origin: httpcore2.Origin, times: Times) -> socket.socket:
        host = origin.host.decode("ascii")
        connected = self._connector.connect(host, origin.port, times.connecting_seconds())
        if origin.scheme != b"https":
            return connected
        try:
            connected.settimeout(times.connecting_seconds())
            return self._trusted().wrap_socket(connected, server_hostname=host)
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
