"""Host names to socket addresses within a time; not which server a mail uses.

`getaddrinfo` knows no time-out, so each look-up runs in a thread of its own and only the waiting is bounded. Senders
that ask for the same name share one look-up, so a dead resolver costs one thread per name and not one per send.
"""

import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future

#: What `socket.getaddrinfo` answers for a stream: family, type, protocol, canonical name, address.
AddressInfo = tuple[
    socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
]


class NameLookup:
    """Look-ups of one process. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[tuple[str, int], Future[Sequence[AddressInfo]]] = {}

    def addresses(self, host: str, port: int, timeout_seconds: float) -> Sequence[AddressInfo]:
        """The addresses of `host`, in the system's order of preference; at least one.

        Raises:
            TimeoutError: the look-up takes longer; it goes on, and a later call may profit.
            OSError: the name does not resolve (`socket.gaierror`).
        """
        with self._lock:
            future = self._running.get((host, port))
            if future is None:
                future = self._running[host, port] = Future()
                threading.Thread(target=self._run, args=(host, port, future), name="name-lookup", daemon=True).start()
        return future.result(timeout_seconds)

    def _run(self, host: str, port: int, future: Future[Sequence[AddressInfo]]) -> None:
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
