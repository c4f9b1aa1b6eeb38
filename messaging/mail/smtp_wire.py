"""The octets of an SMTP connection: messages and commands written, replies read within bounds; not what they mean.

A server may send anything: lines and replies are bounded in length, in number and in time (RFC 5321, section 4.5.3).
"""

import contextlib
import math
import select
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from messaging.clock import Ticker
from messaging.mail.message import Message

#: Octets of one reply line. RFC 5321 allows 512, servers write more.
MAX_REPLY_LINE_BYTES = 8192
#: Lines of one reply: EHLO takes some twenty.
MAX_REPLY_LINES = 500

_READ_BYTES = 16384

#: A reply as it was read: code, and the text of its lines separated by LF.
RawReply = tuple[int, bytes]

#: Told of each line: `C` or `S` for who said it, and the octets.
Trace = Callable[[str, bytes], None]


class ConnectionEnded(OSError):
    """The server closed the connection, or the network did."""


class OutOfStep(OSError):
    """What was read is no reply, or not to what was asked: nothing more can be believed on this connection."""


class NotCrlf(ValueError):
    """The message holds a CR or an LF that is not part of a CRLF."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message as it goes over the wire: dot-stuffed (RFC 5321, section 4.5.2), without the line of the final dot."""

    #: As RFC 1870 counts: without stuffing and without the final dot.
    size: int
    is_ascii: bool
    #: Where the message is at hand as a whole.
    body: bytes | None
    _message: Message

    @classmethod
    def of(cls, message: Message) -> Self:
        """Raises: NotCrlf; what is still to be read is looked at on the way."""
        octets = message.whole
        if octets is None:
            return cls(message.size, message.is_ascii, None, message)
        _check_crlf(octets)
        if not octets.endswith(b"\r\n"):
            octets += b"\r\n"
        body = octets.replace(b"\r\n.", b"\r\n..")
        if body.startswith(b"."):
            body = b"." + body
        return cls(len(octets), octets.isascii(), body, message)

    def pieces(self) -> Iterator[bytes]:
        """All of it. Raises: NotCrlf, SourceFailed."""
        return _stuffed(self._message.chunks()) if self.body is None else iter((self.body,))


def _check_crlf(octets: bytes) -> None:
    lines = octets.count(b"\r\n")
    if octets.count(b"\n") != lines or octets.count(b"\r") != lines:
        raise NotCrlf("the message holds a CR or LF that is not part of a CRLF")


def _stuffed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Dots doubled wherever a line begins, also where CR, LF and dot come in different chunks."""
    held = b""
    at_line_start = True
    for chunk in chunks:
        octets = held + chunk
        held = b"\r" if octets.endswith(b"\r") else b""
        octets = octets.removesuffix(held)
        if not octets:
            continue
        _check_crlf(octets)
        body = octets.replace(b"\r\n.", b"\r\n..")
        yield b"." + body if at_line_start and body.startswith(b".") else body
        at_line_start = octets.endswith(b"\n")
    if held:
        raise NotCrlf("the message ends with a CR without its LF")
    if not at_line_start:
        yield b"\r\n"


class SmtpWire:
    """One connected socket, plain or encrypted. For one thread at a time.

    The socket never blocks: a call is tried and waited for where need be, half the system calls of one with a time-out.
    """

    def __init__(self, connected: socket.socket, ticker: Ticker) -> None:
        #: Told of each line, when set.
        self.trace: Trace | None = None
        self._socket = connected
        self._ticker = ticker
        self._unread = bytearray()
        self._is_plain = True
        self._input = select.poll()
        self._input.register(connected, select.POLLIN)
        connected.setblocking(False)

    @property
    def has_unread(self) -> bool:
        """Whether something was received that no reply was made of yet."""
        return bool(self._unread)

    def encrypt(self, context: ssl.SSLContext, host: str, timeout_seconds: float) -> None:
        """TLS from here on, with the certificate verified for `host`. Raises: ssl.SSLError, OSError."""
        self._socket.settimeout(timeout_seconds)
        # The dot that ends an absolute name is for the look-up alone: no certificate has it, no server may be told it
        # (RFC 6066, 3).
        name = host.removesuffix(".")
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=name)
        except ConnectionError as exc:
            raise ConnectionEnded(_words(exc)) from exc
        self._socket.setblocking(False)
        self._is_plain = False

    def write(self, octets: bytes, timeout: Callable[[], float], *, shown: bytes | None = None) -> None:
        """Send all; `timeout` is asked before each piece. The trace gets `shown` in place of the octets.

        Raises:
            OutOfStep: a reply waits that nothing was asked for.
            ConnectionEnded, TimeoutError, ssl.SSLError.
        """
        if self._unread:
            raise OutOfStep("a reply came that nothing was asked for")
        if self.trace:
            self.trace("C", octets if shown is None else shown)
        view = memoryview(octets)
        while view:
            seconds = timeout()
            try:
                view = view[self._socket.send(view) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait(select.POLLOUT, seconds)
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN, seconds)
            except OSError as exc:
                if _is_over(exc):
                    raise ConnectionEnded(_words(exc)) from exc
                raise

    def read_reply(self, timeout: Callable[[], float]) -> RawReply:
        """One reply, complete within the time, which is asked for once, if it is not there yet.

        Raises: OutOfStep, ConnectionEnded, TimeoutError, ssl.SSLError, and what `timeout` raises.
        """
        deadline: float | None = None
        texts: list[bytes] = []
        while True:
            line = self._next_line()
            if line is None:
                if deadline is None:
                    deadline = self._ticker() + timeout()
                self._receive(deadline)
                continue
            if self.trace:
                self.trace("S", line)
            code, separator = line[:3], line[3:4]
            if len(code) != 3 or not code.isdigit() or separator not in (b"", b" ", b"-", b"\t"):
                raise OutOfStep("what the server said is no reply")
            texts.append(line[4:].strip())
            if separator != b"-":
                return int(code), b"\n".join(texts)
            if len(texts) >= MAX_REPLY_LINES:
                raise OutOfStep("the reply does not end")

    def _next_line(self) -> bytes | None:
        """The next line of what was received; None while it is not there as a whole."""
        unread = self._unread
        end = unread.find(b"\n")
        if end > MAX_REPLY_LINE_BYTES or (end < 0 and len(unread) > MAX_REPLY_LINE_BYTES):
            raise OutOfStep("a line of the reply is too long")
        if end < 0:
            return None
        line = bytes(unread[:end]).rstrip(b"\r")
        del unread[: end + 1]
        return line

    def _receive(self, deadline: float) -> None:
        """Wait for more to read, and read it."""
        # A reply takes its time, so a plain socket is not asked before; of TLS a part of it may be at hand.
        events = select.POLLIN if self._is_plain else 0
        data: bytes | None = None
        while data is None:
            if events:
                self._wait(events, deadline - self._ticker())
            try:
                data = self._socket.recv(_READ_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError):
                events = select.POLLIN
            except ssl.SSLWantWriteError:
                events = select.POLLOUT
            except OSError as exc:
                if _is_over(exc):
                    raise ConnectionEnded(_words(exc)) from exc
                raise
        if not data:
            raise ConnectionEnded("the server closed the connection")
        self._unread += data

    def _wait(self, events: int, seconds: float) -> None:
        """Until the socket is ready. Raises: TimeoutError."""
        poll = self._input
        if events != select.POLLIN:
            poll = select.poll()
            poll.register(self._socket, events)
        if seconds <= 0 or not poll.poll(math.ceil(seconds * 1000)):
            raise TimeoutError("timed out")

    def has_input(self) -> bool:
        """Whether there is something to read, the end of the stream included; does not wait."""
        if self._unread:
            return True
        if self._is_plain and not self._input.poll(0):
            return False
        try:
            self._unread += self._socket.recv(_READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        """Close the socket as it is, without a word."""
        with contextlib.suppress(OSError):
            self._socket.close()


def _is_over(exc: OSError) -> bool:
    """Whether the connection is gone, as opposed to a time-out or a failure of TLS."""
    return isinstance(exc, ssl.SSLEOFError | ssl.SSLZeroReturnError) or not isinstance(exc, TimeoutError | ssl.SSLError)


def _words(exc: OSError) -> str:
    return exc.strerror or str(exc) or type(exc).__name__
