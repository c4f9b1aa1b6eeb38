"""TCP connections within a time, the look-up of the name included; not which server a message uses.

`getaddrinfo` knows no time-out, so each look-up runs in a thread of its own and only the waiting is bounded. Senders
that ask for the same name share one look-up, so a dead resolver costs one thread per name and not one per send.
"""

import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from messaging.clock import Ticker

#: What `socket.getaddrinfo` answers for a stream: family, type, protocol, canonical name, address.
AddressInfo = tuple[
    socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
]


#: Raises AddressRefused for an IP address that is not to be connected to.
CheckAddress = Callable[[str], None]


class AddressRefused(OSError):
    """We do not connect to this address."""


def any_address(address: str) -> None:
    """Every address may be connected to."""


class Connector:
    """Connects the sockets of one process. May be used from any thread.

    `check` is asked about each address before it is connected to: what a name resolved to before says nothing.
    """

    def __init__(self, ticker: Ticker, check: CheckAddress = any_address) -> None:
        self._ticker = ticker
        self._check = check
        self._lock = threading.Lock()
        self._running: dict[tuple[str, int], Future[Sequence[AddressInfo]]] = {}

    def connect(self, host: str, port: int, timeout_seconds: float) -> socket.socket:
        """A socket connected to one of the addresses of `host`, tried in the system's order of preference.

        Raises:
            TimeoutError: the look-up or the connecting takes longer.
            OSError: the name does not resolve (`socket.gaierror`), or what the last address said (AddressRefused: we
                do not connect to it).
        """
        deadline = self._ticker() + timeout_seconds
        found = self._addresses(host, port, timeout_seconds)
        failure: OSError = TimeoutError("timed out")
        for index, (family, kind, protocol, _, address) in enumerate(found):
            left = deadline - self._ticker()
            if left <= 0:
                break
            try:
                self._check(str(address[0]))
            except AddressRefused as exc:
                failure = exc
                continue
            connecting = socket.socket(family, kind, protocol)
            try:
                # A share for each address: one that swallows packets must not hide the next.
                connecting.settimeout(left / (len(found) - index))
                connecting.connect(address)
                # A short last line follows a long body and must not wait until the body is acknowledged.
                connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as exc:
                connecting.close()
                failure = exc
            else:
                return connecting
        raise failure

    def _addresses(self, host: str, port: int, timeout_seconds: float) -> Sequence[AddressInfo]:
        with self._lock:
            future = self._running.get((host, port))
            if future is None:
                future = self._running[host, port] = Future()
                threading.Thread(target=self._look_up, args=(host, port, future), name="dns", daemon=True).start()
        try:
            return future.result(timeout_seconds)
        except TimeoutError as exc:
            raise TimeoutError("timed out looking the name up") from exc

    def _look_up(self, host: str, port: int, future: Future[Sequence[AddressInfo]]) -> None:
        failure: OSError | None = None
        found: Sequence[AddressInfo] = []
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as exc:
            failure = exc
        except ValueError as exc:
            # "a..b.example": the idna codec refuses what no resolver could find either.
            failure = socket.gaierror(socket.EAI_NONAME, "not a host name")
            failure.__cause__ = exc
        finally:
            with self._lock:
                del self._running[host, port]
        if failure is None:
            future.set_result(found)
        else:
            future.set_exception(failure)
