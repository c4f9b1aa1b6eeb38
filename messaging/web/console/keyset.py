"""Pages of a list that is in order of ids: which rows are shown, and the addresses of the pages beside them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from messaging.web.console import asking
from messaging.web.console.asking import Asked

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class IdPage(Generic[_Row]):
    """What is shown of a list."""

    lines: Sequence[_Row]
    #: Addresses of the pages beside it; None where there is none.
    newer: str | None = None
    older: str | None = None


def id_page(asked: Asked, read: Callable[..., Sequence[_Row]]) -> IdPage[_Row]:
    """The page that an address asks for; `read` takes `limit`, `before` and `after`."""
    before, after = asked.get("before"), asked.get("after")
    size = asking.SIZE
    if after is not None:
        rows: Sequence[Any] = read(limit=size + 1, before=None, after=after)
        if len(rows) > size:
            shown = rows[1:]
            return IdPage(shown, _address(asked, "after", shown[0]), _address(asked, "before", shown[-1]))
        before = None  # the top is reached: show a whole first page
    rows = read(limit=size + 1, before=before, after=None)
    shown = rows[:size]
    newer = _address(asked, "after", shown[0]) if before is not None and shown else None
    return IdPage(shown, newer, _address(asked, "before", shown[-1]) if len(rows) > size else None)


def _address(asked: Asked, place: str, row: Any) -> str:
    return asked.query(**{place: str(row.id)})
