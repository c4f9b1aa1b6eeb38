"""The dead-letter store: sends that used up their budget, and messages that no worker could process.

Shared by all tenants and for platform operators only. Triage (resolve, discard) never touches the record.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Connection, Identity, Index, String, Table
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from messaging.db.base import Audited, Base
from messaging.db.checks import one_of
from messaging.delivery.dead_letter_kinds import DeadLetterSource, DeadLetterStatus
from messaging.delivery.poison import (
    PoisonMessage,
    PoisonType,
    clean_error,
    find_record_id,
    find_tenant_id,
    storable_payload,
)

#: Longest `last_error_msg`.
MAX_ERROR_CHARS = 3000


#: `event_type` of a send that used up its attempts.
SEND_DEAD_LETTER = "SEND_DEAD_LETTER"


class DeadLetterMessage(Audited, Base):
    """One dead letter."""

    __tablename__ = "dead_letter_message"
    __table_args__ = (
        one_of("source", DeadLetterSource, "source"),
        one_of("status", DeadLetterStatus, "status"),
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


def store_poison(connection: Connection, message: PoisonMessage, *, record_tables: Sequence[Table]) -> int | None:
    """Archive a message that no worker could process; runs in the caller's transaction and answers the row's id.

    A task that raised is archived once for its name and record while that row is pending: None then. Not so a message
    that is the only copy of what it asks for. `record_tables` are the channels' send records, where the tenant of the
    record that the message names is looked up.
    """
    table = DEAD_LETTER_MESSAGE
    payload = storable_payload(message.body)
    record_id = find_record_id(payload)
    tenant_id = find_tenant_id(payload)
    if tenant_id is None and record_id is not None:
        tenant_id = _tenant_of(connection, record_id, record_tables)
    if message.type is PoisonType.TASK_RAISED and not message.is_only_copy:
        # Two workers that meet the same bug at once: the second waits for the first one's row to be there.
        key = f"{message.task_name}:{record_id}"
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(key, 0))))
        pending = sa.select(table.c.id).where(
            table.c.status == DeadLetterStatus.PENDING,
            table.c.event_type == PoisonType.TASK_RAISED,
            table.c.task_name == message.task_name,
            table.c.event_id.is_not_distinct_from(record_id),
        )
        if connection.execute(pending.limit(1)).first() is not None:
            return None
    stored: int = connection.execute(
        table.insert()
        .values(
            source_tenant_id=tenant_id,
            source=DeadLetterSource.BROKER_POISON,
            original_queue=clean_error(message.queue, 255),
            task_name=message.task_name and clean_error(message.task_name, 255),
            task_id=message.task_id and clean_error(message.task_id, 64),
            worker_name=message.worker_name and message.worker_name[:255],
            event_type=message.type,
            event_id=record_id,
            payload=payload,
            last_error_msg=clean_error(message.error, MAX_ERROR_CHARS),
        )
        .returning(table.c.id)
    ).scalar_one()
    return stored


def _tenant_of(connection: Connection, record_id: int, record_tables: Sequence[Table]) -> int | None:
    for table in record_tables:
        found: int | None = connection.execute(
            sa.select(table.c.tenant_id).where(table.c.id == record_id)
        ).scalar_one_or_none()
        if found is not None:
            return found
    return None
