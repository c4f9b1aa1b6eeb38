"""The table of the audit log.

The database itself refuses to change or delete a row (a trigger of the migration). Source: `operate.md` section 9, 16.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Identity, Index, String, Table, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from messaging.db.base import Base, Timestamp
from messaging.db.filters import TenantOwned

#: `info` of a column whose value is noted as changed and never shown; encrypted ones need no such mark.
SECRET: Mapping[str, Any] = {"secret": True}


class AuditEntry(TenantOwned, Base):
    """One action of somebody."""

    __tablename__ = "audit_log"
    __table_args__ = (
        Index("ix_audit_log_tenant", "tenant_id", text("id DESC")),
        Index("ix_audit_log_actor", "tenant_id", "actor", text("id DESC")),
        Index("ix_audit_log_target", "target_type", "target_id", text("id DESC")),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    at: Mapped[datetime] = mapped_column(Timestamp, server_default=func.now())
    #: Such as `operator:5`, `token:7`, `user:12`, `command line`, `application`.
    actor: Mapped[str] = mapped_column(String(50))
    actor_name: Mapped[str | None] = mapped_column(String(100))
    #: A verb: `create`, `update`, `disable`, `retry`, `lift`.
    action: Mapped[str] = mapped_column(String(50))
    #: The table's name.
    target_type: Mapped[str] = mapped_column(String(50))
    #: None: many rows at once, as an import writes.
    target_id: Mapped[int | None] = mapped_column(BigInteger)
    #: Columns that changed, or all of a new or deleted row.
    before: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    after: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    #: The reason that was given.
    note: Mapped[str | None] = mapped_column(String(500))
    request_id: Mapped[str | None] = mapped_column(String(64))
    trace_id: Mapped[str | None] = mapped_column(String(32))


AUDIT_LOG: Table = AuditEntry.__table__  # type: ignore[assignment]
