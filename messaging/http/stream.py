"""The bytes of one kept connection to a server, each wait for them bounded by the time of the call that uses it.

Sources: RFC 9112; `sms.md` section 6.1.
"""

import math
import select
import socket
import ssl
from typing import Protocol

import httpcore2


class Times(Protocol):
    """How much time is left for each part of a call, in seconds. Each raises TimeoutError when it is over."""

    def connecting_seconds(self) -> float: ...
    def writing_seconds(self) -> float: ...
    def reading_seconds(self) -> float: ...
    def written(self) -> None:
        """The system took the whole request."""

    def reply_begun(self) -> None:
        """Something of the reply came."""


#: What a socket or TLS says when it must wait before it goes on.
_BUSY = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Stream(httpcore2.NetworkStream):
    """One connected socket, used by one call at a time.

    Its times are those of the call (`begin`) and not the time-out of a single read: that bounds no reply which comes in
    drops. Failures are those of the socket (OSError).
    """

    def __init__(self, connected: socket.socket, times: Times) -> None:
        # Waited for by `poll`, and only where there is something to wait for: a socket with a time-out of its own asks
        # the system twice as often, and each time the other threads take the interpreter.
        connected.setblocking(False)
        self._socket = connected
        self._readable, self._writable = _poll(connected, select.POLLIN), _poll(connected, select.POLLOUT)
        self._times = times
        self._unsent: list[bytes] = []
        self._held = b""
        #: Why the request could not be written whole.
        self.write_failure: OSError | None = None

    def begin(self, times: Times) -> None:
        """The next call."""
        self._times = times

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Kept until the reply is asked for, so that head and body are one packet."""
        self._unsent.append(buffer)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What has come, once something has; empty at the end.

        The last octet of it comes by itself, when the parser asks for more: one that it never asked for belongs to no
        reply of ours.
        """
        if self._unsent:
            self._send()
        if self._held:
            last, self._held = self._held, b""
            return last
        data = self._receive(max_bytes)
        self._times.reply_begun()
        if len(data) > 1:
            self._held = data[-1:]
            return data[:-1]
        return data

    @property
    def is_clean(self) -> bool:
        """Whether the request was written whole, and nothing came after the reply that was read."""
        return self.write_failure is None and not self._held

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

    def _send(self) -> None:
        """A server that hung up in the middle may have said why, so its reply is read all the same."""
        rest = memoryview(b"".join(self._unsent))
        self._unsent.clear()
        _ = self._times.writing_seconds()
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except _BUSY as exc:
                is_read = isinstance(exc, ssl.SSLWantReadError)
                _wait(self._readable if is_read else self._writable, self._times.writing_seconds())
            except OSError as exc:
                self.write_failure = exc
                return
        self._times.written()

    def _receive(self, max_bytes: int) -> bytes:
        # What TLS has read already no poll sees.
        is_there = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0
        awaited = self._readable
        while True:
            if not is_there:
                _wait(awaited, self._times.reading_seconds())
            try:
                return self._socket.recv(max_bytes)
            except _BUSY as exc:
                is_there = False
                awaited = self._writable if isinstance(exc, ssl.SSLWantWriteError) else self._readable


def _poll(connected: socket.socket, event: int) -> "select.poll":
    poll = select.poll()
    poll.register(connected.fileno(), event)
    return poll


def _wait(poll: "select.poll", seconds: float) -> None:
    """Raises: TimeoutError."""
    if not poll.poll(math.ceil(seconds * 1000)):
        raise TimeoutError("timed out")
