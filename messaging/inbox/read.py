"""Notifications for the person they are for, and for whoever looks after an application: list, count, mark read.

What is unread is counted from the rows at each look, so that no count can drift. What has expired is neither listed nor
counted for the person and stays in the list of operators. Source: `operate.md` section 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, or_, select, tuple_, update
from sqlalchemy.orm import Session

from messaging import audit, tenancy
from messaging.errors import RecipientMismatch, RecordNotFound
from messaging.inbox import changed
from messaging.inbox.changed import Inbox
from messaging.inbox.models import INBOX_NOTIFICATION, InboxNotification
from messaging.requests import NotificationType

#: Lines of a person's list: what an application shows without a page of its own.
MAX_RECENT = 50

_N = InboxNotification


@dataclass(frozen=True, slots=True)
class Notification:
    """One notification."""

    id: int
    recipient_id: int
    title: str
    content: str
    notification_type: NotificationType
    source_model: str | None
    source_id: int | None
    is_read: bool
    #: When it was read first.
    read_at: datetime | None
    expires_at: datetime | None
    created_at: datetime


def unread_count(session: Session, recipient_id: int) -> int:
    """How many notifications of a person are neither read nor expired."""
    statement = select(func.count()).select_from(_N).where(*_of(recipient_id), ~_N.is_read, is_current())
    return session.scalars(statement).one()


def recent(session: Session, recipient_id: int, *, limit: int, unread_only: bool = False) -> list[Notification]:
    """A person's newest notifications that have not expired; `limit` is taken as 1 to `MAX_RECENT`."""
    statement = _lines(recipient_id).where(is_current())
    if unread_only:
        statement = statement.where(~_N.is_read)
    return _read(session, statement.limit(min(max(limit, 1), MAX_RECENT)))


def page(session: Session, recipient_id: int, *, limit: int, before: int | None = None) -> list[Notification]:
    """All notifications of a person, expired ones too, newest first.

    `before` is the id of the last one of the page before.

    Raises: RecordNotFound, when `before` is none of that person's.
    """
    statement = _lines(recipient_id)
    if before is not None:
        position = session.execute(
            select(_N.created_at, _N.id).where(_N.id == before, *_of(recipient_id))
        ).one_or_none()
        if position is None:
            raise RecordNotFound(f"no notification {before}")
        statement = statement.where(tuple_(_N.created_at, _N.id) < tuple_(position.created_at, position.id))
    return _read(session, statement.limit(limit))


def mark_read(session: Session, notification_id: int, *, reader: int | None = None) -> bool:
    """Mark one read, in the caller's transaction; answers whether it was unread, and the first time stays.

    `reader`: the person who reads; None is an operator, who may mark anybody's.

    Raises:
        RecordNotFound: No such notification in this tenant.
        RecipientMismatch: It is another person's.
    """
    found = session.execute(select(_N.tenant_id, _N.recipient_id).where(_N.id == notification_id)).one_or_none()
    if found is None:
        raise RecordNotFound(f"no notification {notification_id}")
    if reader is not None and found.recipient_id != reader:
        raise RecipientMismatch(f"notification {notification_id} is another user's")
    is_marked = bool(_mark(session, _N.id == notification_id))
    if is_marked and reader is None:
        audit.note(session, "read", INBOX_NOTIFICATION, notification_id, tenant_id=found.tenant_id)
    return is_marked


def mark_all_read(session: Session, recipient_id: int, *, by_operator: bool = False) -> int:
    """Mark all of a person's notifications read, whatever their number; answers how many were unread."""
    # Locked in one order, as two of a person's windows may do this at once.
    unread = select(_N.id).where(*_of(recipient_id), ~_N.is_read).order_by(_N.id).with_for_update()
    count = _mark(session, _N.id.in_(unread.scalar_subquery()))
    if count and by_operator:
        audit.note(session, "read", INBOX_NOTIFICATION, None, after={"recipient_id": recipient_id, "count": count})
    return count


def is_current() -> ColumnElement[bool]:
    """Whether a notification has not expired, by the database's clock."""
    return or_(_N.expires_at.is_(None), _N.expires_at > func.now())


def _mark(session: Session, which: ColumnElement[bool]) -> int:
    context = tenancy.current()
    statement = (
        update(_N)
        .where(which, ~_N.is_read)
        .values(is_read=True, read_at=func.now(), updated_by_id=context.user_id, updated_by=context.user_name)
    )
    marked = session.execute(
        statement.returning(_N.tenant_id, _N.recipient_id), execution_options={"synchronize_session": False}
    ).all()
    if marked:
        connection = session.connection(bind_arguments={"mapper": _N})
        changed.tell(connection, (Inbox(row.tenant_id, row.recipient_id) for row in marked))
    return len(marked)


def _of(recipient_id: int) -> Sequence[ColumnElement[bool]]:
    """A person's rows; the tenant too where no filter adds it, as all indexes begin with it."""
    mine = _N.recipient_id == recipient_id
    return (mine,) if tenancy.is_multi_tenancy() else (_N.tenant_id == tenancy.SINGLE_TENANT_ID, mine)


def _lines(recipient_id: int) -> Select[Any]:
    columns = [getattr(_N, field.name) for field in fields(Notification)]
    return select(*columns).where(*_of(recipient_id)).order_by(_N.created_at.desc(), _N.id.desc())


def _read(session: Session, statement: Select[Any]) -> list[Notification]:
    rows = session.execute(statement).all()
    return [
        Notification(**row._asdict() | {"notification_type": NotificationType(row.notification_type)}) for row in rows
    ]
