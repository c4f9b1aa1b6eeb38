"""What one caller may cost: the size and time of a request, and how many requests an address or a token may make.

The buckets live in the process, not in Redis: a flood then costs no round trip and does not touch the Redis that sends
depend on, and receipts are taken while Redis is away. With n processes the bound is n times as high, which is still a
bound; it is there against floods, and no business rule hangs on it.
"""

import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from ipaddress import ip_address

from messaging.clock import Ticker

#: Octets of the network part of an IPv6 address that count as one caller: whoever has one address has the network.
_IPV6_NETWORK_OCTETS = 8


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests of one caller."""

    #: In the long run.
    per_second: float
    #: At once, after a time without.
    burst: int


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one process."""

    #: Octets of a request's body: a batch of a thousand receipts.
    max_body_octets: int = 512 * 1024
    #: Seconds for a body to come in whole.
    body_seconds: float = 10.0
    #: A provider tells everything from a few addresses, two or three times a message.
    per_address: Rate = Rate(per_second=200, burst=2000)
    #: One provider's configuration, or one unsubscribe link.
    per_token: Rate = Rate(per_second=200, burst=2000)
    #: Callers remembered at once; who is forgotten begins with a full bucket.
    max_callers: int = 10_000
    #: Requests worked on at once; the others wait for a thread.
    threads: int = 16


class Buckets:
    """A token bucket for each caller. Any thread may ask."""

    def __init__(self, rate: Rate, *, max_callers: int, ticker: Ticker) -> None:
        self._rate = rate
        self._max_callers = max_callers
        self._ticker = ticker
        self._lock = threading.Lock()
        #: What a caller had left, and when; least recently seen first.
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, caller: Hashable) -> float:
        """Count one request; answers 0, or the seconds until there is room for one, which is then not counted."""
        now = self._ticker()
        with self._lock:
            left, at = self._left.get(caller, (float(self._rate.burst), now))
            left = min(self._rate.burst, left + (now - at) * self._rate.per_second)
            has_room = left >= 1
            self._left[caller] = (left - 1 if has_room else left, now)
            self._left.move_to_end(caller)
            if len(self._left) > self._max_callers:
                self._left.popitem(last=False)
        return 0.0 if has_room else (1 - left) / self._rate.per_second


class Slots:
    """So many at once, and fewer of one caller. Any thread may ask."""

    def __init__(self, in_all: int, *, of_one: int) -> None:
        self._in_all, self._of_one = in_all, of_one
        self._lock = threading.Lock()
        self._taken: Counter[Hashable] = Counter()

    def take(self, caller: Hashable) -> bool:
        """Whether there was one, which the caller now has until it is given back."""
        with self._lock:
            has_one = self._taken[caller] < self._of_one and self._taken.total() < self._in_all
            self._taken[caller] += has_one
            self._taken += Counter()  # whoever has none is forgotten
        return has_one

    def give_back(self, caller: Hashable) -> None:
        """One that was taken is free."""
        with self._lock:
            self._taken[caller] -= 1
            self._taken += Counter()


def caller_of(host: str | None) -> Hashable:
    """Whom a request of this address counts for: the address, or its /64 network."""
    try:
        address = ip_address(host or "")
    except ValueError:
        return host
    if address.version == 6:
        return address.ipv4_mapped or address.packed[:_IPV6_NETWORK_OCTETS]
    return address


def retry_after(seconds: float) -> dict[str, str]:
    """The header that tells a caller to wait."""
    return {"retry-after": str(math.ceil(seconds))}
