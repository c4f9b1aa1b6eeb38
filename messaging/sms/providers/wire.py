"""Kept HTTP/1.1 connections to providers, and exchanges over them. What a failure means is for `http.py` to say.

Bytes are read and written by h11, the parser below httpx2, and not by httpx2 itself: processor time of one thread for a
POST and its reply is 98 us here, 203 us by the connection pool below httpx2, 251 us by its transport with requests made
by hand and 314 us by its client (medians of 3,000 calls of one run, of a server that answers at once), where a whole
delivery takes a worker about 600 us. Nor does the transport bound a reply that comes in drops as a whole. Sources:
RFC 9112; `sms.md` section 6.1.
"""

import math
import select
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import Protocol

import h11
import httpx2

from messaging.clock import Ticker
from messaging.tcp import Connector

#: Seconds an idle connection is kept: less than the servers keep theirs, which is a minute or more as a rule.
KEEP_IDLE_SECONDS = 20.0
#: Idle connections kept, to all providers together.
MAX_IDLE_CONNECTIONS = 100
#: Octets of a reply's head.
MAX_HEAD_BYTES = 102_400
#: Octets that one read asks for.
READ_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Origin:
    """Whom a connection is to."""

    is_secure: bool
    #: Without brackets.
    host: str
    port: int


class Times(Protocol):
    """How much time is left for each part of a call, in seconds. Each raises TimeoutError when it is over."""

    def connecting_seconds(self) -> float: ...
    def writing_seconds(self) -> float: ...
    def reading_seconds(self) -> float: ...
    def written(self) -> None:
        """The system took the whole request."""

    def reply_begun(self) -> None:
        """Something of the reply came."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply as it came; names in lower case."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


#: What a socket or TLS says when it must wait before it goes on.
_BUSY = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Connection:
    """One connection, used by one call at a time."""

    def __init__(self, connected: socket.socket, origin: Origin) -> None:
        self.origin = origin
        # Waited for by `poll`, and only where there is something to wait for: a socket with a time-out of its own asks
        # the system twice as often, and each time the other threads take the interpreter.
        connected.setblocking(False)
        self._socket = connected
        self._readable, self._writable = _poll(connected, select.POLLIN), _poll(connected, select.POLLOUT)
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)

    def talk(self, request: h11.Request, body: bytes, times: Times, *, max_reply_bytes: int) -> Answer:
        """Write a request and read its reply; what is longer than `max_reply_bytes` is cut.

        Raises: OSError (TimeoutError, too), h11.RemoteProtocolError.
        """
        parser = self._parser
        head = parser.send(request)
        content = parser.send(h11.Data(data=body)) if body else b""
        end = parser.send(h11.EndOfMessage())
        unwritten = self._write((head or b"") + (content or b"") + (end or b""), times)
        try:
            return self._read(times, max_reply_bytes)
        except (OSError, h11.RemoteProtocolError) as exc:
            if unwritten is not None:
                # Says more than that nothing is to be read.
                raise unwritten from exc
            raise

    def _write(self, data: bytes, times: Times) -> OSError | None:
        """One packet. A server that hung up in the middle may have said why, so its reply is read all the same."""
        _ = times.writing_seconds()
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except _BUSY as exc:
                is_read = isinstance(exc, ssl.SSLWantReadError)
                _wait(self._readable if is_read else self._writable, times.writing_seconds())
            except OSError as exc:
                return exc
        times.written()
        return None

    def _receive(self, times: Times) -> bytes:
        """What has come, once something has; empty at the end."""
        # What TLS has read already no poll sees.
        is_there = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0
        awaited = self._readable
        while True:
            if not is_there:
                _wait(awaited, times.reading_seconds())
            try:
                return self._socket.recv(READ_BYTES)
            except _BUSY as exc:
                is_there = False
                awaited = self._writable if isinstance(exc, ssl.SSLWantWriteError) else self._readable

    def _read(self, times: Times, max_bytes: int) -> Answer:
        response: h11.Response | None = None
        pieces: list[bytes] = []
        size = 0
        while size <= max_bytes:
            event = self._parser.next_event()
            if event is h11.NEED_DATA:
                data = self._receive(times)
                times.reply_begun()
                self._parser.receive_data(data)
            elif isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
                size += len(event.data)
            elif isinstance(event, h11.Response):
                response = event
            elif isinstance(event, h11.EndOfMessage):
                break
            elif not isinstance(event, h11.InformationalResponse):
                raise h11.RemoteProtocolError(f"unexpected {event}")
        if response is None:
            raise h11.RemoteProtocolError("no reply")
        return Answer(response.status_code, list(response.headers), b"".join(pieces)[:max_bytes])

    def renew(self) -> bool:
        """Get ready for another call; answers whether it can be."""
        parser = self._parser
        # More than the reply came: what follows is no reply to what we ask next.
        if not (parser.our_state is parser.their_state is h11.DONE) or parser.trailing_data[0]:
            return False
        parser.start_next_cycle()
        return True

    @property
    def is_ended(self) -> bool:
        """Whether an idle connection has something to read: whatever it says, the server has ended it."""
        return self._socket.fileno() < 0 or bool(self._readable.poll(0))

    def close(self) -> None:
        """Also under a call that runs, which then fails."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed, or was never whole
        self._socket.close()


def _poll(connected: socket.socket, event: int) -> "select.poll":
    poll = select.poll()
    poll.register(connected.fileno(), event)
    return poll


def _wait(poll: "select.poll", seconds: float) -> None:
    """Raises: TimeoutError."""
    if not poll.poll(math.ceil(seconds * 1000)):
        raise TimeoutError("timed out")


class Connections:
    """The connections of one process: those that idle, and those in use. Any thread may ask."""

    def __init__(self, ticker: Ticker, verify: ssl.SSLContext | None) -> None:
        self._ticker = ticker
        self._connector = Connector(ticker)
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
