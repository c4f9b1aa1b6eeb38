"""Captured messages: kept instead of being sent, one for each record however often it is attempted, and looked at."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import CursorResult, Engine, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, undefer

from messaging import audit
from messaging.errors import RecordNotFound
from messaging.sandbox.models import CAPTURED_MESSAGE, CapturedMessage

#: The columns' lengths.
MAX_SENDER_CHARS, MAX_SUBJECT_CHARS = 320, 500


@dataclass(frozen=True, slots=True)
class Composed:
    """What a transport would have been given."""

    sender: str | None = None
    subject: str | None = None
    #: A text message's text, a webhook's body.
    content: str | None = field(default=None, repr=False)
    #: A mail as it would go over the wire.
    raw: bytes | None = field(default=None, repr=False)
    #: What else the transport would be told.
    details: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CapturedLine:
    """One captured message, for a list."""

    id: int
    tenant_id: int
    channel: str
    record_id: int
    captured_at: datetime
    sender: str | None
    #: Envelope recipients, the number, or the endpoint's address.
    recipients: Sequence[str]
    subject: str | None
    #: Octets of a mail as it would have gone over the wire; None for other channels.
    size: int | None


@dataclass(frozen=True, slots=True)
class Captured(CapturedLine):
    """One captured message with what it says."""

    #: A text message's text, a webhook's body; None for a mail, see `raw`.
    content: str | None = field(repr=False)
    #: What else the transport would have been told.
    details: Mapping[str, Any] | None = field(repr=False)
    #: A mail as it would have gone over the wire; None for other channels.
    raw: bytes | None = field(repr=False)


def keep(
    engine: Engine, *, tenant_id: int, channel: str, record_id: int, recipients: Sequence[str], composed: Composed
) -> None:
    """Keep what was not sent (an autocommit engine). What is kept of the record stays, and gains recipients.

    Raises: what the driver raises.
    """
    row = {
        "tenant_id": tenant_id,
        "channel": channel,
        "record_id": record_id,
        "sender": _cut(composed.sender, MAX_SENDER_CHARS),
        "recipients": list(recipients),
        "subject": _cut(composed.subject, MAX_SUBJECT_CHARS),
        "content": composed.content,
        "raw": composed.raw,
        "details": None if composed.details is None else json.loads(json.dumps(composed.details, default=str)),
    }
    fresh = insert(CAPTURED_MESSAGE).values(row)
    known, more = CAPTURED_MESSAGE.c.recipients, fresh.excluded.recipients
    statement = fresh.on_conflict_do_update(
        index_elements=["record_id"], set_={"recipients": known.concat(more)}, where=~known.contains(more)
    )
    with engine.connect() as connection:
        connection.execute(statement)


def page(
    session: Session,
    *,
    channel: str | None,
    record_id: int | None,
    recipient: str | None,
    limit: int,
    before: int | None,
) -> list[CapturedLine]:
    """The current tenant's, newest first."""
    conditions = {
        CapturedMessage.channel: channel,
        CapturedMessage.record_id: record_id,
    }
    statement = select(CapturedMessage, func.octet_length(CapturedMessage.raw))
    statement = statement.where(*(column == value for column, value in conditions.items() if value is not None))
    if recipient is not None:
        statement = statement.where(CapturedMessage.recipients.contains([recipient]))
    if before is not None:
        statement = statement.where(CapturedMessage.id < before)
    found = session.execute(statement.order_by(CapturedMessage.id.desc()).limit(limit))
    return [CapturedLine(**_fields(row), size=size) for row, size in found]


def get(session: Session, captured_id: int) -> Captured:
    """One of the current tenant's.

    Raises: RecordNotFound.
    """
    statement = select(CapturedMessage).where(CapturedMessage.id == captured_id).options(undefer(CapturedMessage.raw))
    row = session.scalars(statement).one_or_none()
    if row is None:
        raise RecordNotFound(f"no captured message {captured_id}")
    size = None if row.raw is None else len(row.raw)
    return Captured(**_fields(row), size=size, content=row.content, details=row.details, raw=row.raw)


def clear(session: Session) -> int:
    """Delete all of the current tenant; answers how many."""
    result: CursorResult[Any] = session.execute(delete(CapturedMessage))  # type: ignore[assignment]
    if result.rowcount:
        audit.note(session, "clear", CAPTURED_MESSAGE, None, before={"messages": result.rowcount})
    return result.rowcount


def _fields(row: CapturedMessage) -> dict[str, Any]:
    names = ("id", "tenant_id", "channel", "record_id", "captured_at", "sender", "recipients", "subject")
    return {name: getattr(row, name) for name in names}


def _cut(text: str | None, limit: int) -> str | None:
    return None if text is None else text[:limit]
