"""What templates were like: every save is kept as a version, by the flush that writes it, and can be brought back.

A template that was there before versions were has its state as the first one, kept when it is changed. Whether it is
active, and what its author tries it with, belong to no version.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from sqlalchemy import delete, event, func, insert, inspect, select
from sqlalchemy.orm import Session, UOWTransaction

from messaging import tenancy
from messaging.db.own_rows import get_own
from messaging.errors import RecordNotFound, shown_value
from messaging.templates.models import TEMPLATE_VERSION, TemplateColumns

_v = TEMPLATE_VERSION.c

#: What a row has that its author does not write.
_LEFT_OUT = frozenset(
    {
        *("id", "tenant_id", "active", "sample_variables"),
        *("created_at", "updated_at", "created_by_id", "updated_by_id", "created_by", "updated_by"),
    }
)


@dataclass(frozen=True, slots=True)
class Version:
    """A template as it was saved once."""

    number: int
    content: Mapping[str, Any]
    created_at: datetime
    created_by: str | None


def listed(session: Session, row: Any) -> list[Version]:
    """A template's versions, the newest first; of one that was never saved since there are versions, none."""
    statement = select(_v.number, _v.content, _v.created_at, _v.created_by).where(*_of(row)).order_by(_v.number.desc())
    return [Version(*found) for found in session.execute(statement)]


def get(session: Session, row: Any, number: int) -> Version:
    """One of them. Raises: RecordNotFound."""
    for version in listed(session, row):
        if version.number == number:
            return version
    raise RecordNotFound(f"template {row.id} has no version {shown_value(number)}")


def own(session: Session, model: type[Any], template_id: object, *, what: str) -> Any:
    """A template of this tenant. Raises: RecordNotFound, TenantMismatch."""
    return get_own(session, model, template_id, what=what)


@event.listens_for(Session, "after_flush")
def _keep(session: Session, _flush_context: UOWTransaction) -> None:
    for row in _templates(session.new):
        _insert(session, row, _content(row))
    for row in _templates(session.dirty):
        before, after = _before(row), _content(row)
        if before != after:
            if not _last_number(session, row):
                _insert(session, row, before, is_first=True)
            _insert(session, row, after)
    for row in _templates(session.deleted):
        session.execute(delete(TEMPLATE_VERSION).where(*_of(row)))


def _templates(rows: Any) -> Iterator[Any]:
    return (row for row in rows if isinstance(row, TemplateColumns))


def _insert(session: Session, row: Any, content: Mapping[str, Any], *, is_first: bool = False) -> None:
    """The row is locked by its change, so numbers do not collide."""
    context = tenancy.current()
    who = (row.created_by_id, row.created_by) if is_first else (context.user_id, context.user_name)
    session.execute(
        insert(TEMPLATE_VERSION).values(
            tenant_id=row.tenant_id,
            channel=_channel(row),
            template_id=row.id,
            number=_last_number(session, row) + 1,
            content=dict(content),
            created_by_id=who[0],
            created_by=who[1],
        )
    )


def _last_number(session: Session, row: Any) -> int:
    return int(session.execute(select(func.coalesce(func.max(_v.number), 0)).where(*_of(row))).scalar_one())


def _of(row: Any) -> tuple[Any, ...]:
    return (_v.channel == _channel(row), _v.template_id == row.id)


def _channel(row: Any) -> str:
    return str(row.__tablename__).partition("_")[0]


def _names(row: Any) -> list[str]:
    return [name for name in row.__table__.c.keys() if name not in _LEFT_OUT]  # noqa: SIM118 - columns, not a mapping


def _content(row: Any) -> dict[str, Any]:
    return {name: _plain(getattr(row, name)) for name in _names(row)}


def _before(row: Any) -> dict[str, Any]:
    history = inspect(row).attrs
    found = {}
    for name in _names(row):
        changed = history[name].history
        found[name] = _plain(changed.deleted[0] if changed.deleted else getattr(row, name))
    return found


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value
