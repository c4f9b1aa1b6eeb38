"""HTTP calls to providers: kept connections, bounded in time and size, and an answer to "was the request written".

What a reply means is each provider's to say. Redirects are not followed, certificates are verified, nothing is logged.
On httpx2's connection layer, httpcore2: what the client above it adds (redirects, cookies, decoding, a log line with
every address, half as much time again) is not wanted here. Sources: RFC 9110, RFC 9112; `sms.md` sections 6.1, 6.2.
"""

import json
import math
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httpcore2
import httpx2

from messaging.category import ErrorCategory, MarkerCode
from messaging.clock import Clock, Ticker, boot_seconds, utc_now
from messaging.errors import DeliveryError, PreparationError
from messaging.settings import Settings
from messaging.tcp import Connector

#: Bytes of a reply that are read; what is longer is cut and so cannot be parsed.
MAX_REPLY_BYTES = 1_048_576
#: Seconds an idle connection is kept: less than the servers keep theirs, which is a minute or more as a rule.
KEEP_IDLE_SECONDS = 20.0
#: Idle connections kept, to all providers together.
MAX_IDLE_CONNECTIONS = 100
#: Sent where a provider's adapter does not say otherwise.
DEFAULT_HEADERS = {"User-Agent": "messaging", "Accept": "application/json"}
#: Longest text of a fault, in characters.
MAX_WORDS_CHARS = 500
#: Ports that `Host` does not name.
DEFAULT_PORT = {"http": 80, "https": 443}


class HttpFault(StrEnum):
    """`error_code` of a call that brought no reply."""

    #: Too slow before the request was written.
    HTTP_TIMEOUT = "HTTP_TIMEOUT"
    #: No connection, no such host, or reset before the request was written.
    HTTP_CONNECT = "HTTP_CONNECT"
    #: The request was written and no (whole) reply came: it may have been accepted.
    HTTP_NO_REPLY = "HTTP_NO_REPLY"
    #: The certificate cannot be verified.
    HTTP_TLS = "HTTP_TLS"

    @property
    def category(self) -> ErrorCategory:
        """What this fault says about trying again."""
        return ErrorCategory.AUTH if self is HttpFault.HTTP_TLS else ErrorCategory.TRANSIENT


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """How long each part of a call may take; all in seconds."""

    #: Connecting, name look-up and TLS handshake included.
    connect_seconds: float
    #: Writing, and between two pieces of a reply.
    read_seconds: float
    #: From the last byte of the request to the last byte of the reply.
    reply_seconds: float

    @classmethod
    def of(cls, settings: Settings) -> "HttpLimits":
        """As set."""
        transport = settings.sms.transport
        return cls(
            transport.connection_timeout_seconds,
            transport.read_timeout_seconds,
            settings.delivery.reply_wait_seconds,
        )


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A whole reply."""

    status: int
    #: Names in lower case; of a repeated one the last.
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    received_at: datetime

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as text; what is no UTF-8 is replaced."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """What the body says; None where it is no JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    @property
    def retry_after_seconds(self) -> float | None:
        """The wait of `Retry-After` (RFC 9110 section 10.2.3), seconds or a date; None where there is none."""
        stated = self.headers.get("retry-after", "").strip()
        if not stated:
            return None
        try:
            seconds = float(stated)
        except ValueError:
            at = _http_date(stated)
            if at is None:
                return None
            # By the server's own clock where it shows it.
            now = _http_date(self.headers.get("date", "")) or self.received_at
            seconds = (at - now).total_seconds()
        return seconds if math.isfinite(seconds) and seconds > 0 else None


def _nothing() -> None:
    """A call without a claim, such as a look-up."""


class HttpClient:
    """The calls of one process. May be used from any thread; each call takes the thread it is made in.

    `verify` is for servers whose authority the system does not know.
    """

    def __init__(
        self,
        limits: HttpLimits,
        *,
        ticker: Ticker = boot_seconds,
        clock: Clock = utc_now,
        verify: ssl.SSLContext | None = None,
        max_reply_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        self._limits = limits
        self._ticker = ticker
        self._clock = clock
        self._max_reply_bytes = max_reply_bytes
        self._verify = verify
        self._network = _Network(Connector(ticker))
        self._pool: httpcore2.ConnectionPool | None = None
        self._lock = threading.Lock()

    def post(
        self, url: str, *, headers: Mapping[str, str], body: bytes, before_body: Callable[[], None] = _nothing
    ) -> HttpReply:
        """One POST. `before_body` is called when a connection stands and nothing is written; what it raises passes, and
        nothing ever is.

        Raises:
            DeliveryError: no reply, with a code of `HttpFault`.
            PreparationError: address or headers cannot be written (PROVIDER_CONFIG_INVALID).
        """
        return self._call("POST", url, headers, body, before_body)

    def get(self, url: str, *, headers: Mapping[str, str]) -> HttpReply:
        """One GET, which changes nothing: a fault of it is never uncertain.

        Raises: as `post`.
        """
        return self._call("GET", url, headers, b"", _nothing)

    def close(self) -> None:
        """Close the kept connections. Calls that run fail; later ones connect anew."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _call(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, before_body: Callable[[], None]
    ) -> HttpReply:
        exchange = _Exchange(self._limits, self._ticker, body, before_body)
        request = _request(method, url, headers, exchange)
        self._network.begin(exchange)
        try:
            response = (self._pool or self._opened_pool()).handle_request(request)
            try:
                content = self._read(response)
            finally:
                response.close()
        except httpcore2.LocalProtocolError:
            # Its words repeat the header that cannot be written, which may be a key.
            raise _not_writable() from None
        except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as exc:
            raise _fault(exc, exchange, is_sending=method == "POST") from exc
        finally:
            self._network.end()
        found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        return HttpReply(response.status, found, content, self._clock())

    def _read(self, response: httpcore2.Response) -> bytes:
        assert isinstance(response.stream, Iterable)
        pieces = []
        size = 0
        for piece in response.stream:
            pieces.append(piece)
            size += len(piece)
            if size > self._max_reply_bytes:
                break
        return b"".join(pieces)[: self._max_reply_bytes]

    def _opened_pool(self) -> httpcore2.ConnectionPool:
        # The system's authorities are read when the first call is made, not when a worker starts.
        with self._lock:
            if self._pool is None:
                self._pool = httpcore2.ConnectionPool(
                    ssl_context=self._verify or httpx2.create_ssl_context(),
                    max_connections=None,
                    max_keepalive_connections=MAX_IDLE_CONNECTIONS,
                    keepalive_expiry=KEEP_IDLE_SECONDS,
                    network_backend=self._network,
                )
            return self._pool


class _Exchange:
    """One call: its body, and how much time is left. Iterated once, for the body."""

    def __init__(self, limits: HttpLimits, ticker: Ticker, body: bytes, before_body: Callable[[], None]) -> None:
        self._limits = limits
        self._ticker = ticker
        self.body = body
        self._before_body = before_body
        self._began_at = ticker()
        self._written_at: float | None = None
        #: Whether `before_body` let the request go; until then nothing of it is on its way.
        self.is_released = False
        self.has_reply_begun = False
        #: What the system said when the call failed.
        self.failure: OSError | None = None

    @property
    def is_written(self) -> bool:
        """Whether the system took the whole request: from here on the provider may act on it."""
        return self._written_at is not None

    def __iter__(self) -> Iterator[bytes]:
        self._before_body()
        self.is_released = True
        if self.body:
            # A write that fails or runs out of time never comes back here: what lacks a part is not acted on.
            yield self.body
        self._written_at = self._ticker()

    def failed(self, kind: type[Exception], failure: OSError) -> Exception:
        """The connection layer's name for what the system said. Kept here, as that layer drops the causes of errors."""
        self.failure = failure
        return kind(str(failure))

    def connecting_seconds(self) -> float:
        return self._left(self._began_at + self._limits.connect_seconds)

    def writing_seconds(self) -> float:
        return self._left(self._began_at + self._limits.connect_seconds + self._limits.read_seconds)

    def reading_seconds(self) -> float:
        if self._written_at is None:
            # The server hung up in the middle of the request, and may have said why.
            return self.writing_seconds()
        left = self._left(self._written_at + self._limits.reply_seconds)
        return min(left, self._limits.read_seconds) if self.has_reply_begun else left

    def _left(self, deadline: float) -> float:
        left = deadline - self._ticker()
        if left <= 0:
            raise TimeoutError("timed out")
        return left


class _Network(httpcore2.NetworkBackend):
    """Connects within the time of the call that this thread makes."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._thread = threading.local()

    def begin(self, exchange: _Exchange) -> None:
        self._thread.exchange = exchange

    def end(self) -> None:
        # A thread that idles keeps no message.
        del self._thread.exchange

    @property
    def exchange(self) -> _Exchange:
        exchange: _Exchange = self._thread.exchange
        return exchange

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        exchange = self.exchange
        try:
            connected = self._connector.connect(host.strip("[]"), port, exchange.connecting_seconds())
        except TimeoutError as exc:
            raise exchange.failed(httpcore2.ConnectTimeout, exc) from exc
        except OSError as exc:
            raise exchange.failed(httpcore2.ConnectError, exc) from exc
        return _Stream(connected, self)


class _Stream(httpcore2.NetworkStream):
    """One connection, over many calls. A request's head waits for its body: one packet, or none."""

    def __init__(self, connected: socket.socket, network: _Network) -> None:
        self._socket = connected
        self._network = network
        self._held = b""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        exchange = self._network.exchange
        try:
            self._socket.settimeout(exchange.reading_seconds())
            data = self._socket.recv(max_bytes)
        except TimeoutError as exc:
            raise exchange.failed(httpcore2.ReadTimeout, exc) from exc
        except OSError as exc:
            raise exchange.failed(httpcore2.ReadError, exc) from exc
        exchange.has_reply_begun = True
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        exchange = self._network.exchange
        self._held += buffer
        if not (exchange.is_released and self._held):
            return
        due, self._held = self._held, b""
        try:
            self._socket.settimeout(exchange.writing_seconds())
            self._socket.sendall(due)
        except TimeoutError as exc:
            raise exchange.failed(httpcore2.WriteTimeout, exc) from exc
        except OSError as exc:
            raise exchange.failed(httpcore2.WriteError, exc) from exc

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        exchange = self._network.exchange
        try:
            self._socket.settimeout(exchange.connecting_seconds())
            secured = ssl_context.wrap_socket(self._socket, server_hostname=server_hostname)
        except TimeoutError as exc:
            self.close()
            raise exchange.failed(httpcore2.ConnectTimeout, exc) from exc
        except OSError as exc:
            self.close()
            raise exchange.failed(httpcore2.ConnectError, exc) from exc
        return _Stream(secured, self._network)

    def close(self) -> None:
        self._socket.close()

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object" and isinstance(self._socket, ssl.SSLSocket):
            return self._socket
        if info == "is_readable":
            # Asked of an idle connection: whatever it says, the server has ended it.
            descriptor = self._socket.fileno()
            return descriptor < 0 or _has_something_to_read(descriptor)
        return None


def _has_something_to_read(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _request(method: str, url: str, headers: Mapping[str, str], exchange: _Exchange) -> httpcore2.Request:
    try:
        address, host = _address(url)
        lines = [(b"Host", host)]
        lines += [
            (name.encode("ascii"), value.encode("ascii")) for name, value in {**DEFAULT_HEADERS, **headers}.items()
        ]
        if exchange.body:
            lines.append((b"Content-Length", b"%d" % len(exchange.body)))
    except ValueError:
        raise _not_writable() from None
    return httpcore2.Request(method.encode("ascii"), address, headers=lines, content=exchange)


def host_header(url: str) -> str:
    """What `Host` says in a call of this address: without a port where that is the scheme's own. Some sign it."""
    return _address(url)[1].decode("ascii")


@lru_cache(maxsize=256)
def _address(url: str) -> tuple[httpcore2.URL, bytes]:
    """An address taken apart, and what `Host` says of it."""
    parts = urlsplit(url)
    host = (parts.hostname or "").encode("ascii")
    shown = b"[%b]" % host if b":" in host else host
    if parts.port is not None and parts.port != DEFAULT_PORT.get(parts.scheme):
        shown = b"%b:%d" % (shown, parts.port)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    address = httpcore2.URL(
        scheme=parts.scheme.encode("ascii"), host=host, port=parts.port, target=target.encode("ascii")
    )
    return address, shown


def _not_writable() -> PreparationError:
    return PreparationError(
        MarkerCode.PROVIDER_CONFIG_INVALID, "the provider's address or a credential cannot stand in a request"
    )


def _fault(exc: Exception, exchange: _Exchange, *, is_sending: bool) -> DeliveryError:
    failure = exchange.failure
    if exchange.is_written and is_sending:
        fault, words = HttpFault.HTTP_NO_REPLY, "the request was written and no reply came"
    elif isinstance(exc, httpcore2.TimeoutException):
        fault, words = HttpFault.HTTP_TIMEOUT, "no answer in time" if exchange.is_written else "not written in time"
    elif isinstance(failure, ssl.SSLCertVerificationError):
        fault, words = HttpFault.HTTP_TLS, "the certificate cannot be verified"
    else:
        fault, words = HttpFault.HTTP_CONNECT, "no connection, or it ended early"
    if failure is not None:
        detail = failure.verify_message if isinstance(failure, ssl.SSLCertVerificationError) else failure.strerror
        words = f"{words}: {detail or failure}"
    return DeliveryError(fault.category, fault, words[:MAX_WORDS_CHARS], is_uncertain=fault is HttpFault.HTTP_NO_REPLY)


def _http_date(text: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at
