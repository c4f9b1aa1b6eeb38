"""The audit log: who did what to which row, with what stood before and after. Rows are only ever added.

The database itself refuses to change or delete one (a trigger of the migration). Secrets are noted as changed, never
with their value. Source: `operate.md` section 9, 16.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Identity, Index, String, Table, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from messaging.db.base import Base, Timestamp
from messaging.db.filters import TenantOwned


class AuditEntry(TenantOwned, Base):
    """One action of somebody."""

    __tablename__ = "audit_log"
    __table_args__ = (
        Index("ix_audit_log_tenant", "tenant_id", text("id DESC")),
        Index("ix_audit_log_target", "target_type", "target_id", text("id DESC")),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    at: Mapped[datetime] = mapped_column(Timestamp, server_default=func.now())
    #: Such as `operator:5`, `token:7`, `user:12`, `command line`.
    actor: Mapped[str] = mapped_column(String(50))
    actor_name: Mapped[str | None] = mapped_column(String(100))
    #: A verb: `create`, `update`, `disable`, `retry`, `lift`.
    action: Mapped[str] = mapped_column(String(50))
    #: The table's name; a batch has no id.
    target_type: Mapped[str] = mapped_column(String(50))
    target_id: Mapped[int | None] = mapped_column(BigInteger)
    #: Columns that changed, or all of a new or deleted row.
    before: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    after: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    #: The reason that was given.
    note: Mapped[str | None] = mapped_column(String(500))
    request_id: Mapped[str | None] = mapped_column(String(64))
    trace_id: Mapped[str | None] = mapped_column(String(32))


AUDIT_LOG: Table = AuditEntry.__table__  # type: ignore[assignment]
