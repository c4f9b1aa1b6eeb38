"""Lists as every page shows them: columns, filters, tabs, what may be done; one template draws them all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from messaging.web.console.asking import Asked


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in one place of a table."""

    text: str = ""
    #: The whole of a text that may be cut off.
    title: str = ""
    #: Where it leads, a path of the console.
    path: str = ""
    #: A state: its sign and colour.
    status: str = ""
    at: datetime | None = None
    #: Used and limit, drawn as a bar.
    used: tuple[int, int] | None = None
    #: Opens in the dialog, and is drawn as a button.
    asks: bool = False


#: Makes a cell, or plain text, of a row.
MakeCell = Callable[[Any], Cell | str | int | datetime | None]


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    title: str
    cell: MakeCell
    #: Its place and width, see `console.css`.
    place: str = "c-with"
    is_number: bool = False

    def of(self, row: Any) -> Cell:
        """What stands in it."""
        made = self.cell(row)
        if isinstance(made, Cell):
            return made
        if isinstance(made, datetime):
            return Cell(at=made)
        text = "" if made is None else str(made)
        return Cell(text, title=text)


@dataclass(frozen=True, slots=True)
class Filter:
    """One field above a list."""

    name: str
    label: str
    hint: str = ""
    #: Values to choose from, and what they are called; none: it is typed.
    options: Sequence[tuple[str, str]] = ()
    #: `search` takes the keyboard's `/`.
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class Tab:
    """A view of the list, by one filter's value."""

    name: str
    value: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Action:
    """A button beside the title."""

    text: str
    path: str
    asks: bool = False
    is_main: bool = False


@dataclass(slots=True)
class Listing:
    """One list."""

    title: str
    path: str
    #: What one row is called.
    one: str
    columns: Sequence[Column]
    asked: Asked
    rows: Sequence[Any]
    newer: str | None = None
    older: str | None = None
    #: How rows are in order.
    order: str = "newest first"
    filters: Sequence[Filter] = ()
    tabs: Sequence[Tab] = ()
    actions: Sequence[Action] = ()
    #: A line below the title.
    note: str = ""
    #: How many there are on all pages, where that is known.
    total: int | None = None
    #: Classes of the table.
    looks: str = ""
    values: dict[str, Any] = field(default_factory=dict)


def when_set(value: Any, word: str) -> Cell | str:
    """A word where something is so."""
    return word if value else ""


def switched(row: Any) -> Cell:
    """Whether a configuration is on."""
    return Cell("On", status="on") if row.active else Cell("Off", status="off")


def pages_of(asked: Asked, number: int, size: int, total: int) -> tuple[str | None, str | None]:
    """The addresses of the pages before and after page `number`."""
    before = asked.query(page=str(number - 1) if number > 2 else None) if number > 1 else None
    after = asked.query(page=str(number + 1)) if number * size < total else None
    return before, after
