"""Rows that can be switched off: every ORM read of them asks for `active = true`, so nobody writes that by hand.

Not asked in a look-up by primary key, where a condition of the statement names `active` itself, and past
`with_disabled`; each class is looked at by itself, so a statement that names one's `active` still hides the other's
disabled rows. Nor where a relationship or an expired column is loaded: those belong to an object in hand. Updates and
deletes are no reads and reach disabled rows; Core statements on tables say for themselves what they want.
"""

from typing import TypeVar

from sqlalchemy import Boolean, Executable, Select, Table, event
from sqlalchemy.orm import Mapped, ORMExecuteState, Session, mapped_column, with_loader_criteria

from messaging.db import reading

#: The execution option by which a statement asks for disabled rows too.
BYPASS = "bypass_active"

_Statement = TypeVar("_Statement", bound=Executable)


class Switchable:
    """A row that may be disabled: hidden from lists and resolution, found by its key, and never deleted by that."""

    active: Mapped[bool] = mapped_column(Boolean, server_default="true", sort_order=1)


def with_disabled(statement: _Statement) -> _Statement:
    """The statement, disabled rows among what it reads."""
    return statement.execution_options(**{BYPASS: True})


@event.listens_for(Session, "do_orm_execute")
def _hide_disabled(state: ORMExecuteState) -> None:
    if not state.is_select or state.is_column_load or state.is_relationship_load:
        return
    if state.execution_options.get(BYPASS):
        return
    read = [cls for cls in reading.classes(state.statement) if issubclass(cls, Switchable)]
    if not read:
        return
    found = reading.elements(state.statement)
    for cls in read:
        entities = {e for e in map(reading.entity_of, found) if e is not None and e.mapper.class_ is cls}
        table: Table = cls.__table__  # type: ignore[attr-defined]
        if any(reading.names(condition, table.c.active) for condition in reading.conditions(found)):
            continue
        # Of two entities of one class the key pins one, and the other is a list.
        key = tuple(table.primary_key)
        if isinstance(state.statement, Select) and len(entities) == 1 and reading.pins(state.statement, key):
            continue
        hidden = with_loader_criteria(cls, cls.active, include_aliases=True, propagate_to_loaders=False)
        state.statement = state.statement.options(hidden)
