"""What a kind of configuration is: its table, what its fields may hold, how lists show it.

Kept by `messaging.config_admin`, listed by `messaging.config_lists`; each kind is where its fields are known.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sqlalchemy import Select, SQLColumnExpression, Table
from sqlalchemy.orm import Session

from messaging.errors import ConfigRejected

LineT = TypeVar("LineT")


@dataclass(frozen=True, slots=True)
class Twin:
    """What a row that must be the only one of its kind would stand beside."""

    #: Finds it.
    statement: Select[Any]
    #: The field that is to blame.
    field: str
    #: Says that there is such a one.
    reason: str


def _no_check(_fields: Mapping[str, Any]) -> None:
    """For fields that fit together whatever they are."""


def no_references(_session: Session, _values: Mapping[str, Any]) -> None:
    """For rows that name no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[LineT]):
    """Configurations of one table."""

    #: What messages call one: `mail server`.
    what: str
    model: type[Any]
    #: How lists show one, a dataclass: columns of the table, `has_x` of a secret x, and what is `computed`.
    line: type[LineT]
    #: All that an operator gives.
    fields: tuple[str, ...]
    #: What stands where a field is not given; None for every other.
    defaults: Mapping[str, Any]
    secrets: frozenset[str] = frozenset()
    #: Fields that a copy does not take over beside secrets.
    not_copied: frozenset[str] = frozenset()
    #: The given fields as they are stored. Raises ConfigRejected; TypeError for a field that there is none of.
    check: Callable[[Mapping[str, Any]], dict[str, Any]]
    #: Refuses what does not fit together; is given all fields, a secret that is stored as True. Raises ConfigRejected.
    check_together: Callable[[Mapping[str, Any]], None] = _no_check
    #: Refuses ids of rows that the tenant has not. Raises ConfigRejected, RecordNotFound.
    check_references: Callable[[Session, Mapping[str, Any]], None] = no_references
    #: Reads fields of a row for `check_together`; None: secrets are only looked for.
    stored: Callable[[Any, Collection[str]], dict[str, Any]] | None = None
    #: Columns by which a list is in order.
    order: tuple[str, ...]
    #: Columns that are searched; none: there is no search.
    searched: tuple[str, ...] = ("name",)
    computed: Mapping[str, SQLColumnExpression[Any]] = field(default_factory=dict)
    #: Where a row must be the only one of its kind: what one of these fields would stand beside.
    twin: Callable[[Mapping[str, Any]], Twin] | None = None
    #: What a second one of a kind raises.
    rejected: type[ConfigRejected] = ConfigRejected

    @property
    def table(self) -> Table:
        """The table of the rows."""
        found: Table = self.model.__table__
        return found
