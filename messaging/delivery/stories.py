"""What people read of a record, whatever its channel: its attempts, its dead letter, why it stands where it stands.

The rest of a story is each channel's (`messaging.mail.records`, `messaging.sms.records`). Changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select, tuple_
from sqlalchemy.orm import Session

from messaging.category import MarkerCode
from messaging.delivery.dead_letter import DeadLetterMessage, DeadLetterSource
from messaging.delivery.record import AttemptOutcome, SendAttempt
from messaging.delivery.status import OPEN_STATUSES, SendStatus


@dataclass(frozen=True, slots=True)
class AttemptStory:
    """One row of the attempt log."""

    attempt_no: int
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    category: str | None
    error_code: str | None
    error_message: str | None
    worker_name: str | None
    trace_id: str | None
    request_id: str | None


@dataclass(frozen=True, slots=True)
class Line:
    """One record in a list."""

    id: int
    channel: str
    tenant_id: int
    created_at: datetime
    status: SendStatus
    retry_count: int
    error_code: str | None
    #: None where the template's is not rendered yet, and of a text message.
    subject: str | None
    #: The template it asks for: a code, or `id 5`.
    template: str | None
    to: list[str]
    #: None once the record is final.
    next_attempt_at: datetime | None


@dataclass(frozen=True, slots=True)
class Position:
    """A record's place in the order of lists."""

    created_at: datetime
    id: int


#: Columns that a line shows of every record.
_LINE_COLUMNS = ("id", "tenant_id", "created_at", "status", "retry_count", "error_code", "next_attempt_at")


@dataclass(frozen=True, slots=True)
class LineSource:
    """How a channel's records become lines."""

    channel: str
    model: Any
    #: Further columns that `told` looks at.
    columns: tuple[str, ...]
    #: Subject, template and recipients of a row.
    told: Callable[[Row[Any]], tuple[str | None, str | None, list[str]]]

    def position(self, session: Session, record_id: int) -> Position | None:
        """Where a record stands; None when the current tenant has none of this id in this channel."""
        r = self.model
        created_at = session.execute(select(r.created_at).where(r.id == record_id)).scalar_one_or_none()
        return None if created_at is None else Position(created_at, record_id)

    def lines(
        self, session: Session, *, owner: int | None, status: SendStatus | None, limit: int, before: Position | None
    ) -> list[Line]:
        """Records of one owner, newest first; across owners (None) by id, the one order an index gives there."""
        r = self.model
        statement = select(*(getattr(r, name) for name in (*_LINE_COLUMNS, *self.columns)))
        if status is not None:
            statement = statement.where(r.status == status)
        if owner is None:
            statement = statement.order_by(r.id.desc())
            if before is not None:
                statement = statement.where(r.id < before.id)
        else:
            statement = statement.where(r.tenant_id == owner).order_by(r.created_at.desc(), r.id.desc())
            if before is not None:
                statement = statement.where(tuple_(r.created_at, r.id) < (before.created_at, before.id))
        return [self._line(row) for row in session.execute(statement.limit(limit))]

    def _line(self, row: Row[Any]) -> Line:
        subject, template, to = self.told(row)
        return Line(
            id=row.id,
            channel=self.channel,
            tenant_id=row.tenant_id,
            created_at=row.created_at,
            status=SendStatus(row.status),
            retry_count=row.retry_count,
            error_code=row.error_code,
            subject=subject,
            template=template,
            to=to,
            next_attempt_at=row.next_attempt_at if row.status in OPEN_STATUSES else None,
        )


def attempts_of(session: Session, record_id: int) -> list[AttemptStory]:
    """A record's attempts in order."""
    names = AttemptStory.__dataclass_fields__
    statement = select(*(getattr(SendAttempt, name) for name in names)).where(SendAttempt.record_id == record_id)
    return [AttemptStory(*row) for row in session.execute(statement.order_by(SendAttempt.attempt_no))]


def dead_letter_of(session: Session, record_id: int) -> str | None:
    """State of a record's dead letter; None without one."""
    d = DeadLetterMessage
    statement = select(d.status).where(d.event_id == record_id, d.source == DeadLetterSource.SEND_EXHAUSTED)
    found: str | None = session.execute(statement.order_by(d.id.desc()).limit(1)).scalar_one_or_none()
    return found


def explain(
    status: SendStatus,
    row: Mapping[str, Any],
    attempts: Sequence[AttemptStory],
    *,
    taken_by: str,
    not_for: Sequence[str],
) -> str:
    """One sentence: why a record stands where it stands. `row` holds `error_code`, `error_message`.

    `taken_by` is the other side, as `the server`; `not_for` are recipients of a sent record that did not get it.
    """
    error = _error(row["error_code"], row["error_message"])
    earlier = _earlier(attempts)
    match status:
        case SendStatus.PENDING:
            return "accepted, and not yet taken by a worker"
        case SendStatus.SENDING:
            return "a worker has it now" + earlier
        case SendStatus.RETRY:
            return f"waits for another attempt: {error}" if error else "waits for another attempt"
        case SendStatus.SENT:
            return (
                f"taken by {taken_by}" + (f", but not for {', '.join(not_for)}: {error}" if not_for else "") + earlier
            )
        case SendStatus.FAILED if row["error_code"] == MarkerCode.BOUNCED:
            return f"taken by {taken_by}, and came back: {error}"
        case SendStatus.FAILED:
            return (error or "failed") + earlier
        case SendStatus.DEAD_LETTER:
            return f"given up after {len(attempts)} attempts: {error}"


def _error(code: str | None, message: str | None) -> str:
    return ": ".join(part for part in (code, " ".join((message or "").split())) if part)


def _earlier(attempts: Sequence[AttemptStory]) -> str:
    """What came before the attempt that settled it, e.g. ` at attempt 3, after RETRY (SMTP_450_4.2.0), ...`."""
    unsettled = [a for a in attempts if a.outcome in (AttemptOutcome.RETRY, AttemptOutcome.SWEPT)]
    if not unsettled:
        return ""
    told = ", ".join(f"{a.outcome} ({a.error_code})" if a.error_code else f"{a.outcome}" for a in unsettled)
    return f" at attempt {unsettled[-1].attempt_no + 1}, after {told}"
