"""The dead-letter store: sends that used up their budget, and messages that no worker could process.

Shared by all tenants and for platform operators only. Triage (resolve, discard) never touches the record.
"""

from typing import Any

from sqlalchemy import BigInteger, Identity, Index, String, Table
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from messaging.db.base import Audited, Base
from messaging.delivery.record import one_of


class DeadLetterSource:
    """Where a dead letter comes from."""

    #: A record that used up its attempts.
    SEND_EXHAUSTED = "SEND_EXHAUSTED"
    #: A task message that could never be processed.
    BROKER_POISON = "BROKER_POISON"

    ALL = (SEND_EXHAUSTED, BROKER_POISON)


#: `event_type` of a send that used up its attempts.
SEND_DEAD_LETTER = "SEND_DEAD_LETTER"


class DeadLetterMessage(Audited, Base):
    """One dead letter."""

    __tablename__ = "dead_letter_message"
    __table_args__ = (
        one_of("source", DeadLetterSource.ALL, "source"),
        one_of("status", ("PENDING", "RESOLVED", "DISCARDED"), "status"),
        Index("ix_dead_letter_message_status", "status", "created_at"),
        Index("ix_dead_letter_message_source", "source", "status"),
        Index("ix_dead_letter_message_original_queue", "original_queue"),
        Index("ix_dead_letter_message_event_id", "event_id"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    #: The record's tenant, or the one a message named.
    source_tenant_id: Mapped[int | None] = mapped_column(BigInteger)
    source: Mapped[str] = mapped_column(String(20))
    channel: Mapped[str | None] = mapped_column(String(10))
    original_queue: Mapped[str] = mapped_column(String(255), server_default="")
    task_name: Mapped[str | None] = mapped_column(String(255))
    task_id: Mapped[str | None] = mapped_column(String(64))
    worker_name: Mapped[str | None] = mapped_column(String(255))
    event_type: Mapped[str | None] = mapped_column(String(100))
    #: The record's id.
    event_id: Mapped[int | None] = mapped_column(BigInteger)
    payload: Mapped[Any] = mapped_column(JSONB)
    status: Mapped[str] = mapped_column(String(20), server_default="PENDING")
    last_error_msg: Mapped[str | None] = mapped_column(String(3000))
    resolved_remark: Mapped[str | None] = mapped_column(String(3000))


DEAD_LETTER_MESSAGE: Table = DeadLetterMessage.__table__  # type: ignore[assignment]
