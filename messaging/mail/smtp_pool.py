"""SMTP connections kept between sends, per server config; not how one is opened, used or ended.

A connection belongs to one thread while it is taken. What has idled too long, has something to say (a 421, the end of
the stream, a late reply) or was opened under an older revision of its config is closed instead of being handed out.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from messaging.clock import Ticker

#: Connections kept by a process, of all configs: each is an open file, of which a process often has 1,024.
MAX_IDLE_CONNECTIONS = 250


class Keepable(Protocol):
    """What the pool asks of a connection."""

    def is_quiet(self) -> bool:
        """Whether nothing waits to be read: no reply, no end of the stream."""

    def end(self) -> None:
        """Say goodbye without waiting, and close. Never raises."""


C = TypeVar("C", bound=Keepable)


@dataclass(slots=True)
class _Shelf(Generic[C]):
    """The idle connections of one config, most recently used last, each with when it was given back."""

    revision: object
    idle: list[tuple[float, C]] = field(default_factory=list)


class ConnectionPool(Generic[C]):
    """Idle connections by config id. Every method may be called from any thread.

    A background thread closes what idles too long; it lives only while something is kept.
    """

    def __init__(self, max_idle_seconds: float, ticker: Ticker) -> None:
        self._max_idle_seconds = max_idle_seconds
        self._ticker = ticker
        self._lock = threading.Lock()
        self._shelves: dict[int, _Shelf[C]] = {}
        #: Every idle connection with its config, that one first which has idled longest.
        self._by_age: OrderedDict[C, int] = OrderedDict()
        self._janitor: threading.Thread | None = None
        self._emptied = threading.Event()

    def take(self, config_id: int, revision: object) -> C | None:
        """The most recently used connection that is still good, or None; closes those of other revisions."""
        outdated: list[C] = []
        try:
            with self._lock:
                shelf = self._shelves.get(config_id)
                if shelf is None or shelf.revision != revision:
                    outdated = [connection for _, connection in shelf.idle] if shelf else []
                    for connection in outdated:
                        del self._by_age[connection]
                    self._shelves[config_id] = _Shelf(revision)
                    return None
                oldest_allowed = self._ticker() - self._max_idle_seconds
                while shelf.idle:
                    since, connection = shelf.idle.pop()
                    del self._by_age[connection]
                    if since >= oldest_allowed and connection.is_quiet():
                        return connection
                    outdated.append(connection)
                return None
        finally:
            for connection in outdated:
                connection.end()

    def give_back(self, config_id: int, revision: object, connection: C) -> None:
        """Keep a connection for the next send, unless its config has changed since it was taken."""
        over: C | None = connection
        with self._lock:
            shelf = self._shelves.get(config_id)
            if shelf is not None and shelf.revision == revision:
                shelf.idle.append((self._ticker(), connection))
                self._by_age[connection] = config_id
                over = self._pop_oldest() if len(self._by_age) > MAX_IDLE_CONNECTIONS else None
                self._start_janitor()
        if over is not None:
            over.end()

    def _pop_oldest(self) -> C:
        """Called with the lock held; something is idle."""
        connection, config_id = self._by_age.popitem(last=False)
        shelf = self._shelves[config_id]
        shelf.idle = shelf.idle[1:]
        return connection

    def close_idle(self) -> None:
        """Close what has idled for longer than allowed."""
        oldest_allowed = self._ticker() - self._max_idle_seconds
        self._close_where(lambda since: since < oldest_allowed)

    def close_all(self) -> None:
        """Close everything kept; what is taken now is closed or kept when it comes back."""
        self._close_where(lambda since: True)

    def _close_where(self, is_over: Callable[[float], bool]) -> None:
        over: list[C] = []
        with self._lock:
            for shelf in self._shelves.values():
                over += [connection for since, connection in shelf.idle if is_over(since)]
                shelf.idle = [(since, connection) for since, connection in shelf.idle if not is_over(since)]
            for connection in over:
                del self._by_age[connection]
            if not self._by_age:
                self._emptied.set()
        for connection in over:
            connection.end()

    def _start_janitor(self) -> None:
        """Called with the lock held."""
        if self._janitor is None:
            self._emptied.clear()
            self._janitor = threading.Thread(target=self._close_idle_until_empty, name="smtp-idle", daemon=True)
            self._janitor.start()

    def _close_idle_until_empty(self) -> None:
        while True:
            self._emptied.wait(max(0.05, self._max_idle_seconds / 4))
            self.close_idle()
            with self._lock:
                if not self._by_age:
                    self._janitor = None
                    return
                self._emptied.clear()
