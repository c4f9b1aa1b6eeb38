"""One kept HTTP/1.1 connection to a server, and exchanges over it, each wait bounded by the time of its call.

The protocol is h11's, which is below httpx2's own connections as well. Those are not taken: what they do around it for
each call (traces, locks, bodies as generators) takes 75 us of the 600 that a whole delivery takes a worker, and they
neither bound a reply as a whole nor say whether a request was written. Sources: RFC 9112; `sms.md` section 6.1.
"""

import math
import select
import socket
import ssl
from dataclasses import dataclass
from typing import Protocol

import h11


class Times(Protocol):
    """How much time is left for each part of a call, in seconds. Each raises TimeoutError when it is over."""

    def connecting_seconds(self) -> float: ...
    def writing_seconds(self) -> float: ...
    def reading_seconds(self) -> float: ...
    def written(self) -> None:
        """The system took the whole request."""

    def reply_begun(self) -> None:
        """Something of the reply came."""


#: Octets of a reply's head.
MAX_HEAD_BYTES = 102_400
#: Octets that one read asks for.
READ_BYTES = 65_536

#: What a socket or TLS says when it must wait before it goes on.
_BUSY = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@dataclass(frozen=True, slots=True)
class Origin:
    """Whom a connection is to."""

    is_secure: bool
    #: Without brackets.
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply as it came; names in lower case."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


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

        Raises: OSError (TimeoutError, too), h11.RemoteProtocolError; h11.LocalProtocolError, where nothing is written.
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
