"""Rows in operators' hands: what a flush adds, changes and deletes of them is noted in the audit log.

Not covered, as no session tells of them: statements, which are noted where they stand, and that a row is its tenant's
default no more because another one is, which the other one's entry says.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from sqlalchemy import Column, Table, event, inspect
from sqlalchemy.orm import Mapper, Session, UOWTransaction

from messaging.audit.noting import HIDDEN, Entry, note_all
from messaging.db.encryption import Encrypted
from messaging.db.filters import TenantOwned

#: What every row has, and the entry says itself.
_LEFT_OUT = frozenset({"id", "created_at", "updated_at", "created_by_id", "updated_by_id", "created_by", "updated_by"})


class Noted:
    """A row that operators keep."""

    #: Columns that workers and ticks write.
    unnoted: ClassVar[frozenset[str]] = frozenset()
    #: How a change of this column alone is called.
    noted_as: ClassVar[Mapping[str, str]] = {}


@event.listens_for(Session, "after_flush")
def _note_flush(session: Session, flush_context: UOWTransaction) -> None:
    """What was as new, changed or deleted is still told so here, and ids are there."""
    entries = [entry for row in _rows(session) if (entry := _entry(session, row)) is not None]
    if entries:
        note_all(session, entries)


def _rows(session: Session) -> Iterator[Noted]:
    for rows in (session.new, session.dirty, session.deleted):
        for row in rows:
            if isinstance(row, Noted):
                yield row


def _entry(session: Session, row: Any) -> Entry | None:
    """None: nothing that is noted has changed."""
    table: Table = row.__table__
    # A quota row is about a tenant and belongs to the platform.
    owner = row.tenant_id if isinstance(row, TenantOwned) else None
    target: dict[str, Any] = {"target": table, "target_id": row.id, "tenant_id": owner}
    columns = _columns(row)
    if row in session.new:
        return Entry("create", after=_present(row, columns), **target)
    if row in session.deleted:
        return Entry("delete", before=_present(row, columns), **target)
    before, after = _difference(row, columns)
    return Entry(_action(row, after), before=before, after=after, **target) if after else None


def _columns(row: Noted) -> dict[str, Column[Any]]:
    """Attribute -> column, of what is noted."""
    mapper: Mapper[Any] = inspect(type(row))
    left_out = _LEFT_OUT | row.unnoted | ({"tenant_id"} if isinstance(row, TenantOwned) else set())
    return {
        attribute.key: attribute.columns[0]  # type: ignore[misc]
        for attribute in mapper.column_attrs
        if attribute.key not in left_out
    }


def _present(row: Any, columns: Mapping[str, Column[Any]]) -> dict[str, Any]:
    """What of a row is at hand, without asking the database for more; what is null is left out."""
    found = {name: row.__dict__.get(name) for name in columns}
    return {name: _told(columns[name], value) for name, value in found.items() if value is not None}


def _difference(row: Any, columns: Mapping[str, Column[Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What of the row changed: before, as far as it was read, and after."""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    state: Any = inspect(row)
    for name, column in columns.items():
        history = state.attrs[name].history
        if not history.added or list(history.added) == list(history.deleted or ()):
            continue
        after[name] = _told(column, history.added[0])
        # What was not read stays so; a secret never is.
        if history.deleted and not is_secret(column):
            before[name] = history.deleted[0]
    return before, after


def _action(row: Noted, after: Mapping[str, Any]) -> str:
    match list(after):
        case ["active"]:
            return "enable" if after["active"] else "disable"
        case ["is_default"] if after["is_default"]:
            return "set default"
        case [name]:
            return row.noted_as.get(name, "update")
        case _:
            return "update"


def _told(column: Column[Any], value: Any) -> Any:
    return HIDDEN if value is not None and is_secret(column) else value


def is_secret(column: Column[Any]) -> bool:
    """Whether a column's value must not be shown."""
    return isinstance(column.type, Encrypted) or bool(column.info.get("secret"))
