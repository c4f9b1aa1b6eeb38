"""Pending or Retry -> Failed, and the truthful answer (protocol, section 3)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, Table, select

from messaging import audit, metrics
from messaging.category import MarkerCode
from messaging.db.filters import owning_tenant
from messaging.delivery import statements
from messaging.delivery.announcing import NOBODY, Announcer
from messaging.delivery.recipients import has_accepted
from messaging.delivery.status import OPEN_STATUSES, SendStatus
from messaging.errors import RecordNotFound


class CancelAnswer(StrEnum):
    """What a cancel can truthfully say."""

    #: Not sent, and never will be.
    CANCELLED = "cancelled"
    #: No further attempt; an earlier one did or may have reached somebody.
    STOPPED = "stopped"
    #: A worker has it: nothing changed, ask again.
    IN_PROGRESS = "in_progress"
    #: It had ended before, not SENT.
    ALREADY_FINAL = "already_final"
    #: It is SENT.
    TOO_LATE = "too_late"


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The answer, and the record's status with it."""

    answer: CancelAnswer
    status: SendStatus


def cancel(
    connection: Connection, table: Table, record_id: int, *, channel: str, announcer: Announcer = NOBODY
) -> Cancelled:
    """Call a record off; runs in the caller's transaction, and the answer holds once that commits.

    Raises: RecordNotFound.
    """
    while True:
        row = _read(connection, table, record_id, channel)
        status = SendStatus(row.status)
        if status not in OPEN_STATUSES:
            return Cancelled(_answer_for(row, status), status)
        statement = statements.cancel(table, announcer.find(connection, channel, (row.tenant_id,)))
        moved = connection.execute(statement, {"id": record_id, "version": row.version}).one_or_none()
        if moved is not None:
            answer = _stopped(moved, is_accepted=moved.accepted)
            after = {"status": SendStatus.FAILED, "answer": answer}
            audit.note(
                connection, "cancel", table, record_id, before={"status": status}, after=after, tenant_id=row.tenant_id
            )
            return Cancelled(answer, SendStatus.FAILED)
        # Somebody moved it meanwhile: answer by the new row, and try again while it is open.
        metrics.lost_updates(channel, "cancel")


def _read(connection: Connection, table: Table, record_id: int, channel: str) -> Row[Any]:
    statement = select(table).where(table.c.id == record_id)
    owner = owning_tenant()
    if owner is not None:
        statement = statement.where(table.c.tenant_id == owner)
    row = connection.execute(statement).one_or_none()
    if row is None:
        raise RecordNotFound(f"no {channel} record {record_id}")
    return row


def _answer_for(row: Row[Any], status: SendStatus) -> CancelAnswer:
    if status is SendStatus.SENT:
        return CancelAnswer.TOO_LATE
    if status is SendStatus.SENDING:
        return CancelAnswer.IN_PROGRESS
    if row.error_code != MarkerCode.CANCELLED:
        return CancelAnswer.ALREADY_FINAL
    results = row._mapping.get("recipient_results") or {}
    return _stopped(row, is_accepted=has_accepted(results))


def _stopped(row: Row[Any], *, is_accepted: bool) -> CancelAnswer:
    """What bounced and was opened again has no accepted recipient any more: that it was sent is in `sent_at`."""
    has_reached = row.uncertain or is_accepted or row.sent_at is not None
    return CancelAnswer.STOPPED if has_reached else CancelAnswer.CANCELLED
