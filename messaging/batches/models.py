"""The table of batch jobs."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, Boolean, Identity, Index, String, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from messaging.db.base import Audited, Base, Timestamp
from messaging.db.checks import one_of
from messaging.db.filters import TenantOwned


class BatchState(StrEnum):
    """Where a job stands."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    #: An operator ended it before it had seen everything.
    STOPPED = "STOPPED"
    FAILED = "FAILED"


class BatchJob(TenantOwned, Audited, Base):
    """One action on the records of a channel that fit a filter and were there when it began."""

    __tablename__ = "batch_job"
    __table_args__ = (
        one_of("state", BatchState, "state"),
        Index("ix_batch_job_tenant", "tenant_id", text("id DESC")),
        # the tick
        Index("ix_batch_job_running", "id", postgresql_where=text("state = 'RUNNING'")),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    #: Who began it: `operator:5`.
    actor: Mapped[str] = mapped_column(String(50))
    channel: Mapped[str] = mapped_column(String(10))
    #: A verb: `retry`.
    action: Mapped[str] = mapped_column(String(20))
    #: `written`: what the list was narrowed by, as it stood in its address; `asked`: the same as it was understood.
    filter: Mapped[dict[str, Any]] = mapped_column(JSONB)
    #: Whose records: this tenant's; None: all, which only the platform may ask for.
    of_tenant_id: Mapped[int | None] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(String(10), server_default=BatchState.RUNNING)
    stop_requested: Mapped[bool] = mapped_column(Boolean, server_default="false")
    #: The last record that was looked at.
    last_created_at: Mapped[datetime | None] = mapped_column(Timestamp)
    last_id: Mapped[int | None] = mapped_column(BigInteger)
    #: Records that were looked at and fitted.
    seen: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: How many came to what: `requeued`, and each reason for which one was left alone.
    counts: Mapped[dict[str, int]] = mapped_column(JSONB, server_default="{}")
    error_message: Mapped[str | None] = mapped_column(Text)
    finished_at: Mapped[datetime | None] = mapped_column(Timestamp)


BATCH_JOB: Table = BatchJob.__table__  # type: ignore[assignment]
