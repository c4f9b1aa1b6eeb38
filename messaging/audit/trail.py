"""The audit log as it is read: entries of a tenant, newest first, a page at a time."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from messaging.audit.models import AuditEntry

_A = AuditEntry


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One action of somebody; the fields are those of `AuditEntry`."""

    id: int
    tenant_id: int
    at: datetime
    actor: str
    actor_name: str | None
    action: str
    target_type: str
    target_id: int | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    note: str | None
    request_id: str | None
    trace_id: str | None


def page(
    session: Session,
    *,
    actor: str | None = None,
    action: str | None = None,
    target_type: str | None = None,
    target_id: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 50,
    before: int | None = None,
    after: int | None = None,
) -> list[AuditLine]:
    """Entries of the current tenant, newest first; `since` is inclusive, `until` exclusive, both aware.

    `before` is the id of the last entry of the page before; `after` instead asks for those next above an id.
    """
    statement = select(*(getattr(_A, name) for name in AuditLine.__dataclass_fields__))
    wanted = {_A.actor: actor, _A.action: action, _A.target_type: target_type, _A.target_id: target_id}
    for column, value in wanted.items():
        if value is not None:
            statement = statement.where(column == value)
    if since is not None:
        statement = statement.where(_A.at >= since)
    if until is not None:
        statement = statement.where(_A.at < until)
    if before is not None:
        statement = statement.where(_A.id < before)
    if after is not None:
        statement = statement.where(_A.id > after)
    rows = session.execute(statement.order_by(_A.id.desc() if after is None else _A.id).limit(limit))
    lines = [AuditLine(**row._mapping) for row in rows]
    return lines if after is None else lines[::-1]
