"""How much of a configuration's windows is used, as bars; what that costs is one look a list."""

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from messaging import api
from messaging.api import SendWindows
from messaging.rate_limit import RateLimitUnavailable
from messaging.web.console.tables import Cell

#: What was read for the list that is being drawn, by configuration; None: the counters are away.
_read: ContextVar[dict[int, SendWindows] | None] = ContextVar("read windows")


class WindowColumns:
    """Columns of one channel's configurations."""

    def __init__(self, channel: str) -> None:
        self._channel = channel

    def read(self, rows: Sequence[Any]) -> None:
        """Read the windows of the rows that will be drawn."""
        try:
            _read.set(api.send_windows(self._channel, rows))
        except RateLimitUnavailable:
            _read.set(None)

    def today(self, row: Any) -> Cell | str:
        """Of the running day."""
        return self._cell(row, "daily_send_limit", "sent_this_day")

    def minute(self, row: Any) -> Cell | str:
        """Of the running minute."""
        return self._cell(row, "rate_limit_per_minute", "sent_this_minute")

    def facts(self, row: Any) -> list[tuple[str, Any]]:
        """The same above the form of one."""
        self.read([row])
        return [
            (title, f"{cell.used[0]:,} of {cell.used[1]:,}" if isinstance(cell, Cell) and cell.used else cell)
            for title, cell in (("Sent today", self.today(row)), ("Sent this minute", self.minute(row)))
        ]

    def _cell(self, row: Any, limit_name: str, used_name: str) -> Cell | str:
        if not getattr(row, limit_name):
            return "no limit"
        windows = _read.get(None)
        if windows is None:
            return "not known: Redis is away"
        found = windows[row.id]
        return Cell(used=(getattr(found, used_name), getattr(found, limit_name)))
