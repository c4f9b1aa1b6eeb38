"""Dead letters in an operator's hands: looked at, resolved, discarded. For the platform only; no record is touched.

PENDING -> RESOLVED or DISCARDED, once, in the caller's transaction. Source: `operate.md` section 4.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from messaging import audit, tenancy
from messaging.db.platform import require_platform
from messaging.delivery.dead_letter import DEAD_LETTER_MESSAGE, DeadLetterMessage
from messaging.delivery.dead_letter_kinds import DeadLetterSource, DeadLetterStatus
from messaging.errors import EntryRejected, RecordNotFound, StateError

_D = DeadLetterMessage

#: Longest remark.
MAX_REMARK_CHARS = 3000


@dataclass(frozen=True, slots=True)
class DeadLetterLine:
    """A dead letter as lists show it."""

    id: int
    #: The record's tenant, or the one a message named.
    source_tenant_id: int | None
    source: DeadLetterSource
    #: None of a message.
    channel: str | None
    original_queue: str
    #: None of a record, as are the next two.
    task_name: str | None
    task_id: str | None
    worker_name: str | None
    event_type: str | None
    #: The record's id.
    event_id: int | None
    status: DeadLetterStatus
    last_error_msg: str | None
    resolved_remark: str | None
    created_at: datetime
    updated_at: datetime
    #: Who resolved or discarded it.
    updated_by: str | None


@dataclass(frozen=True, slots=True)
class DeadLetter(DeadLetterLine):
    """A dead letter as a whole."""

    #: Of a record channel, provider, code, text, category and count; of a message its body, or as much of it as fits.
    payload: Any


def page(
    session: Session,
    *,
    status: DeadLetterStatus | None = None,
    source: DeadLetterSource | None = None,
    channel: str | None = None,
    event_type: str | None = None,
    record_id: int | None = None,
    source_tenant_id: int | None = None,
    limit: int = 50,
    before: int | None = None,
    after: int | None = None,
) -> list[DeadLetterLine]:
    """Dead letters, newest first; `before` is the id of the last one of the page before.

    `after` instead: those next above an id.

    Raises: TenantMismatch, where a tenant asks.
    """
    _require_platform()
    statement = select(*_columns(DeadLetterLine))
    wanted: Mapping[Any, Any] = {
        _D.status: status,
        _D.source: source,
        _D.channel: channel,
        _D.event_type: event_type,
        _D.event_id: record_id,
        _D.source_tenant_id: source_tenant_id,
    }
    for column, value in wanted.items():
        if value is not None:
            statement = statement.where(column == value)
    if before is not None:
        statement = statement.where(_D.id < before)
    if after is not None:
        statement = statement.where(_D.id > after)
    rows = session.execute(statement.order_by(_D.id.desc() if after is None else _D.id).limit(limit))
    lines = [DeadLetterLine(**_fields(row)) for row in rows]
    return lines if after is None else lines[::-1]


def get(session: Session, dead_letter_id: int) -> DeadLetter:
    """One dead letter.

    Raises:
        RecordNotFound: There is none of this id.
        TenantMismatch: A tenant asks.
    """
    _require_platform()
    row = session.execute(select(*_columns(DeadLetter)).where(_D.id == dead_letter_id)).one_or_none()
    if row is None:
        raise _unknown(dead_letter_id)
    return DeadLetter(**_fields(row))


def settle(session: Session, dead_letter_id: int, status: DeadLetterStatus, remark: str | None) -> None:
    """Resolve or discard a pending one, for good; of two who do so at once, the second is refused.

    Raises:
        EntryRejected: The remark cannot be stored; nothing was written.
        RecordNotFound: There is none of this id.
        StateError: It is pending no more.
        TenantMismatch: A tenant asks.
    """
    _require_platform()
    _check_remark(remark)
    context = tenancy.current()
    changed = (
        update(DEAD_LETTER_MESSAGE)
        .where(_D.id == dead_letter_id, _D.status == DeadLetterStatus.PENDING)
        .values(
            status=status,
            resolved_remark=remark,
            updated_at=func.now(),
            updated_by_id=context.user_id,
            updated_by=context.user_name,
        )
        .returning(_D.id)
    )
    if session.execute(changed, bind_arguments={"mapper": DeadLetterMessage}).one_or_none() is None:
        stands = get(session, dead_letter_id).status
        raise StateError(f"dead letter {dead_letter_id} is {stands}")
    audit.note(
        session,
        "resolve" if status is DeadLetterStatus.RESOLVED else "discard",
        DEAD_LETTER_MESSAGE,
        dead_letter_id,
        before={"status": DeadLetterStatus.PENDING},
        after={"status": status},
        note=remark,
        tenant_id=tenancy.PLATFORM_TENANT_ID,
    )


def _require_platform() -> None:
    require_platform("dead letters are looked at and settled")


def _check_remark(remark: str | None) -> None:
    if remark is None:
        return
    if not isinstance(remark, str):
        raise EntryRejected("remark", remark, "is of type str")
    if len(remark) > MAX_REMARK_CHARS:
        raise EntryRejected("remark", remark, f"at most {MAX_REMARK_CHARS} characters")
    if any(c == "\x00" or "\ud800" <= c <= "\udfff" for c in remark):
        raise EntryRejected("remark", remark, "has a character that cannot be stored")


def _unknown(dead_letter_id: int) -> RecordNotFound:
    return RecordNotFound(f"no dead letter {dead_letter_id}")


def _columns(kind: type[DeadLetterLine]) -> list[Any]:
    return [getattr(_D, name) for name in kind.__dataclass_fields__]


def _fields(row: Any) -> dict[str, Any]:
    kinds = {"source": DeadLetterSource(row.source), "status": DeadLetterStatus(row.status)}
    return dict(row._mapping) | kinds
