"""Where reads get their connection: an engine, or an open transaction, whose own writes they then see."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection


class Connects(Protocol):
    """Lends connections; an `Engine` does."""

    def connect(self) -> AbstractContextManager[Connection]: ...


@dataclass(frozen=True, slots=True)
class InTransaction:
    """Lends the one connection of an open transaction, and leaves it as it is."""

    connection: Connection

    def connect(self) -> AbstractContextManager[Connection]:
        return nullcontext(self.connection)
