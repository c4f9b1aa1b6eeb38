"""HTTP calls of ours: kept connections, bounded in time and size, and an answer to "was the request written".

What a reply means is for the caller to say. Redirects are not followed, certificates are verified, nothing is logged.
The calls go through httpx2, over the transport of `transport.py`. Sources: RFC 9110; `sms.md` sections 6.1, 6.2.
"""

import json
import math
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

import h11
import httpx2

from messaging.category import ErrorCategory, MarkerCode
from messaging.clock import Clock, Ticker, boot_seconds, utc_now
from messaging.errors import DeliveryError, PreparationError
from messaging.http.transport import Call, KeptTransport
from messaging.settings import Settings
from messaging.tcp import AddressRefused, CheckAddress, any_address

#: Bytes of a reply that are read; what is longer is cut and so cannot be parsed.
MAX_REPLY_BYTES = 1_048_576
#: Sent where a provider's adapter does not say otherwise.
DEFAULT_HEADERS = {"User-Agent": "messaging", "Accept": "application/json"}
#: Longest text of a fault, in characters.
MAX_WORDS_CHARS = 500
#: Protocols that are spoken.
SCHEMES = frozenset({"http", "https"})
#: RFC 3986 section 2: an address has neither blanks nor letters beyond ASCII.
_VISIBLE = re.compile(r"[\x21-\x7e]+")
#: RFC 9110 sections 5.1, 5.5: a field's name, and its value (of ASCII).
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?")


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
    #: The address is one that we do not connect to.
    HTTP_ADDRESS_REFUSED = "HTTP_ADDRESS_REFUSED"

    @property
    def category(self) -> ErrorCategory:
        """What this fault says about trying again."""
        needs_operator = self in (HttpFault.HTTP_TLS, HttpFault.HTTP_ADDRESS_REFUSED)
        return ErrorCategory.AUTH if needs_operator else ErrorCategory.TRANSIENT


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
        """Those of calls to providers, as set."""
        transport = settings.sms.transport
        return cls(
            transport.connection_timeout_seconds,
            transport.read_timeout_seconds,
            settings.delivery.reply_wait_seconds,
        )

    @classmethod
    def of_webhooks(cls, settings: Settings) -> "HttpLimits":
        """Those of calls to webhooks, as set: their answer says nothing but that they heard."""
        transport = settings.webhooks.transport
        return cls(
            transport.connection_timeout_seconds,
            transport.read_timeout_seconds,
            min(transport.read_timeout_seconds, settings.delivery.reply_wait_seconds),
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


def nothing() -> None:
    """A call without a claim, such as a look-up."""


class HttpClient:
    """The calls of one process. May be used from any thread; each call takes the thread it is made in.

    `verify` is for servers whose authority the system does not know; `check_address` is asked about each address before
    it is connected to.
    """

    def __init__(
        self,
        limits: HttpLimits,
        *,
        ticker: Ticker = boot_seconds,
        clock: Clock = utc_now,
        verify: ssl.SSLContext | None = None,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        check_address: CheckAddress = any_address,
    ) -> None:
        self._limits = limits
        self._ticker = ticker
        self._clock = clock
        self._transport = KeptTransport(ticker, verify, max_reply_bytes, check_address)

    def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        before_body: Callable[[], None] = nothing,
        is_reading: bool = False,
    ) -> HttpReply:
        """One POST. `before_body` is called when a connection stands and nothing is written; what it raises passes, and
        nothing ever is. One that `is_reading` changes nothing at the provider, like a GET.

        Raises:
            DeliveryError: no reply, with a code of `HttpFault`.
            PreparationError: address or headers cannot be written (PROVIDER_CONFIG_INVALID).
        """
        return self._call("POST", url, headers, body, before_body, is_sending=not is_reading)

    def get(self, url: str, *, headers: Mapping[str, str]) -> HttpReply:
        """One GET, which changes nothing: a fault of it is never uncertain.

        Raises: as `post`.
        """
        return self._call("GET", url, headers, b"", nothing, is_sending=False)

    def close(self) -> None:
        """Close the kept connections. Calls that run fail; later ones connect anew."""
        self._transport.close()

    def _call(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        before_body: Callable[[], None],
        *,
        is_sending: bool,
    ) -> HttpReply:
        head = _head(url, tuple(headers.items()), len(body))
        exchange = _Exchange(self._limits, self._ticker)
        call: Call = {"times": exchange, "before_body": before_body}
        request = httpx2.Request(
            method, head.url, headers=head.headers, stream=httpx2.ByteStream(body), extensions=call
        )
        try:
            reply = self._transport.handle_request(request)
        except h11.LocalProtocolError:
            raise _not_writable() from None
        except (OSError, h11.RemoteProtocolError) as exc:
            raise _fault(exc, exchange, is_sending=is_sending) from exc
        found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in reply.headers.raw}
        assert isinstance(reply.stream, httpx2.SyncByteStream)
        # As it came: no encoding is asked for, and what one unpacks to has no bound.
        return HttpReply(reply.status_code, found, b"".join(reply.stream), self._clock())


class _Exchange:
    """How much time one call has left, and how far it came."""

    def __init__(self, limits: HttpLimits, ticker: Ticker) -> None:
        self._limits = limits
        self._ticker = ticker
        self._began_at = ticker()
        self._written_at: float | None = None
        self._has_reply_begun = False

    @property
    def is_written(self) -> bool:
        """Whether the system took the whole request: from here on the provider may act on it.

        A write that fails or runs out of time is none: what lacks a part is not acted on.
        """
        return self._written_at is not None

    def written(self) -> None:
        self._written_at = self._ticker()

    def reply_begun(self) -> None:
        self._has_reply_begun = True

    def connecting_seconds(self) -> float:
        return self._left(self._began_at + self._limits.connect_seconds)

    def writing_seconds(self) -> float:
        return self._left(self._began_at + self._limits.connect_seconds + self._limits.read_seconds)

    def reading_seconds(self) -> float:
        if self._written_at is None:
            # The server hung up in the middle of the request, and may have said why.
            return self.writing_seconds()
        left = self._left(self._written_at + self._limits.reply_seconds)
        return min(left, self._limits.read_seconds) if self._has_reply_begun else left

    def _left(self, deadline: float) -> float:
        left = deadline - self._ticker()
        if left <= 0:
            raise TimeoutError("timed out")
        return left


@dataclass(frozen=True, slots=True)
class _Head:
    """What is the same in most calls of an account, which differ by their bodies only."""

    url: httpx2.URL
    headers: httpx2.Headers


@lru_cache(maxsize=512)
def _head(url: str, headers: tuple[tuple[str, str], ...], body_octets: int) -> _Head:
    """Raises: PreparationError."""
    address = _address(url)
    stated = {**DEFAULT_HEADERS, **dict(headers)}
    # The words of whoever else refuses them repeat the header that cannot be written, which may be a key.
    if not all(_NAME.fullmatch(name) and _VALUE.fullmatch(value) for name, value in stated.items()):
        raise _not_writable()
    lines = {"Host": host_header(url), **stated}
    if body_octets:
        lines["Content-Length"] = str(body_octets)
    return _Head(address, httpx2.Headers(lines))


def host_header(url: str) -> str:
    """What `Host` says in a call of this address: without a port where that is the scheme's own. Some sign it."""
    return _address(url).netloc.decode("ascii")


@lru_cache(maxsize=256)
def _address(url: str) -> httpx2.URL:
    """Raises: PreparationError."""
    # httpx2 would write another address than the one that is set.
    if not _VISIBLE.fullmatch(url):
        raise _not_writable()
    try:
        address = httpx2.URL(url)
    except httpx2.InvalidURL:
        raise _not_writable() from None
    if address.scheme not in SCHEMES or not address.host or not 0 <= (address.port or 0) < 65_536:
        raise _not_writable()
    return address


def _not_writable() -> PreparationError:
    return PreparationError(
        MarkerCode.PROVIDER_CONFIG_INVALID,
        "the address or a header, which may be a credential, cannot stand in a request",
    )


def _fault(failure: Exception, exchange: _Exchange, *, is_sending: bool) -> DeliveryError:
    if exchange.is_written and is_sending:
        fault, words = HttpFault.HTTP_NO_REPLY, "the request was written and no reply came"
    elif isinstance(failure, TimeoutError):
        fault, words = HttpFault.HTTP_TIMEOUT, "no answer in time" if exchange.is_written else "not written in time"
    elif isinstance(failure, AddressRefused):
        fault, words = HttpFault.HTTP_ADDRESS_REFUSED, "not connected"
    elif isinstance(failure, ssl.SSLCertVerificationError):
        fault, words = HttpFault.HTTP_TLS, "the certificate cannot be verified"
    else:
        fault, words = HttpFault.HTTP_CONNECT, "no connection, or it ended early"
    if isinstance(failure, OSError):
        detail = failure.verify_message if isinstance(failure, ssl.SSLCertVerificationError) else failure.strerror
        words = f"{words}: {detail or failure}"
    return DeliveryError(fault.category, fault, words[:MAX_WORDS_CHARS], is_uncertain=fault is HttpFault.HTTP_NO_REPLY)


def _http_date(text: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at
