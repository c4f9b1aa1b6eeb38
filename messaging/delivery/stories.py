"""What people read of a record, whatever its channel: its attempts, its dead letter, why it stands where it stands.

The rest of a story is each channel's (`messaging.mail.records`, `messaging.sms.records`), lists of records are in
`messaging.delivery.lines`. Changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from messaging.category import MarkerCode
from messaging.delivery.dead_letter import DeadLetterMessage
from messaging.delivery.dead_letter_kinds import DeadLetterSource
from messaging.delivery.record import AttemptOutcome, SendAttempt
from messaging.delivery.status import SendStatus


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
    #: Label of who it went to, as `smtp` or `TWILIO`, and the server's or provider's id.
    provider: str | None = None
    config_id: int | None = None
    #: The caller's W3C trace, and what its request over HTTP was called.
    trace_id: str | None = None
    request_id: str | None = None


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
