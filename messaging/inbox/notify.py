"""Acceptance of notifications: check requests, then write them in the caller's transaction (`operate.md` section 3).

Visible, and heard by who listens, with the caller's commit. No queue, no quota.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Connection,
    DateTime,
    Text,
    bindparam,
    cast,
    column,
    func,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from messaging import metrics, tenancy
from messaging.db import lock_wait
from messaging.db.trouble import is_passing
from messaging.delivery.acceptance import MAX_USER_NAME_CHARS, check_batch, storable
from messaging.delivery.request_fields import MAX_ID, RequestFields
from messaging.errors import IdempotencyKeyBusy
from messaging.inbox import changed
from messaging.inbox.changed import Inbox
from messaging.inbox.models import INBOX_NOTIFICATION, InboxNotification
from messaging.requests import NotificationType, SendInbox
from messaging.settings import Settings

CHANNEL = "inbox"

#: Of the title, and of the model it is about: the columns.
MAX_TITLE_CHARS, MAX_SOURCE_CHARS = 200, 50
#: 500 of the longest are still one statement.
MAX_CONTENT_CHARS = 100_000


class AcceptedNotification(NamedTuple):
    """One row to write; its fields are columns."""

    recipient_id: int
    title: str
    content: str
    notification_type: str
    source_model: str | None
    source_id: int | None
    expires_at: datetime | None
    idempotency_key: str | None


def accept_inbox(
    session: Session, requests: Sequence[SendInbox | None] | None, *, settings: Settings, now: datetime, single: bool
) -> list[int]:
    """Write one notification for each request into the session's transaction, in one insert; answers ids in order.

    With `single` the one request is named without an index. A key that its recipient has had before answers the first
    notification's id and writes nothing, also where the content is another; one that another open transaction is
    writing is waited for, at most the lock time-out.

    Raises:
        MessageRejected: the first request that is refused; nothing is written, and the transaction is still usable.
        IdempotencyKeyBusy: another transaction holds a key and does not end; as above.
    """
    given = check_batch(requests, SendInbox, channel=CHANNEL, settings=settings, single=single)
    check = _Check(CHANNEL, settings, now)
    rows = [check.notification(request, None if single else index) for index, request in enumerate(given)]
    connection = session.connection(bind_arguments={"mapper": InboxNotification})
    ids, inserted = _write(connection, rows, check.tenant_id, settings.database.lock_timeout_seconds)
    if inserted:
        changed.tell(connection, (Inbox(check.tenant_id, row.recipient_id) for row in rows))
        metrics.accepted(CHANNEL, inserted)
    return ids


class _Check(RequestFields):
    """Turns requests into rows, or refuses them. One for each call."""

    def notification(self, request: SendInbox, index: int | None) -> AcceptedNotification:
        """The row of one request.

        Raises: MessageRejected, naming the index.
        """
        self._index = index
        self.tenant_id = self._whose()
        recipient_id = self._whole("recipient_id", request.recipient_id)
        if recipient_id is None:
            raise self._refused("recipient_id", None, "is missing")
        kind = self._member("notification_type", request.notification_type, NotificationType)
        if kind is None:
            raise self._refused("notification_type", None, "is missing")
        source_model = self._line("source_model", request.source_model, MAX_SOURCE_CHARS)
        return AcceptedNotification(
            recipient_id=recipient_id,
            title=self._words("title", request.title, MAX_TITLE_CHARS),
            content=self._words("content", request.content, MAX_CONTENT_CHARS),
            notification_type=kind.value,
            source_model=(source_model or "").strip() or None,
            source_id=self._whole("source_id", request.source_id),
            expires_at=self._time("expires_at", request.expires_at),
            idempotency_key=self._key(request.idempotency_key),
        )

    def _whose(self) -> int:
        """A notification is a tenant's own, whoever writes it; there is no platform's for a tenant's people."""
        if not self._is_multi_tenancy:
            return tenancy.SINGLE_TENANT_ID
        tenant_id = tenancy.current().tenant_id
        if tenant_id is None:
            raise self._refused("tenant_id", None, "is missing: a current tenant is needed and none is set")
        return tenant_id

    def _whole(self, field: str, value: Any) -> int | None:
        """An id of the application's own, which may be 0 or below."""
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not -MAX_ID <= value <= MAX_ID:
            raise self._refused(field, value, "is not an id")
        return int(value)

    def _words(self, field: str, value: Any, max_chars: int) -> str:
        """A text as it is, which is required."""
        text = self._text(field, value)
        if text is None or not text.strip():
            raise self._refused(field, value, "is missing")
        if len(text) > max_chars:
            # A text is not repeated in an error, which may be logged.
            raise self._refused(field, len(text), f"is longer than {max_chars} characters")
        if "\x00" in text:
            raise self._refused(field, text.index("\x00"), "holds a NUL character, at position")
        return text


_TYPES: dict[str, Any] = {
    "recipient_id": BigInteger(),
    "source_id": BigInteger(),
    "expires_at": DateTime(timezone=True),
}


def _insert() -> Any:
    """One array a column, so that it is one statement whatever their number; ids are taken in the rows' order."""
    names = AcceptedNotification._fields
    types = {name: _TYPES.get(name) or Text() for name in names}
    rows = (
        func.unnest(*(bindparam(name, type_=ARRAY(type_)) for name, type_ in types.items()))
        .table_valued(*(column(name, type_) for name, type_ in types.items()), with_ordinality="position")
        .render_derived(name="given")
    )
    same: dict[str, Any] = {"tenant_id": BigInteger(), "created_by_id": BigInteger(), "created_by": Text()}
    values = [rows.c[name] for name in names]
    values += [cast(bindparam(name, type_=type_), type_).label(name) for name, type_ in same.items()]
    chosen = select(*values).order_by(rows.c.position)
    t = INBOX_NOTIFICATION.c
    return (
        insert(INBOX_NOTIFICATION)
        .from_select([*names, *same], chosen, include_defaults=False)
        .on_conflict_do_nothing(
            index_elements=[t.tenant_id, t.recipient_id, t.idempotency_key],
            index_where=t.idempotency_key.is_not(None),
        )
        .returning(t.id, t.recipient_id, t.idempotency_key)
    )


_INSERT = _insert()

#: A key, and whose it is.
_Key = tuple[int, str]


def _write(
    connection: Connection, rows: Sequence[AcceptedNotification], tenant_id: int, lock_timeout_seconds: float
) -> tuple[list[int], int]:
    """The rows' ids in order, and how many were inserted."""
    keys = {(row.recipient_id, row.idempotency_key) for row in rows if row.idempotency_key is not None}
    context = tenancy.current()
    values = {
        "tenant_id": tenant_id,
        "created_by_id": context.user_id,
        "created_by": storable(context.user_name, MAX_USER_NAME_CHARS),
    } | dict(zip(AcceptedNotification._fields, map(list, zip(*rows, strict=True)), strict=True))
    if not keys:
        written = connection.execute(_INSERT, values).all()
        return sorted(row.id for row in written), len(written)
    try:
        with lock_wait.at_most(connection, lock_timeout_seconds):
            written = connection.execute(_INSERT, values).all()
            stored: dict[_Key, int] = {
                (row.recipient_id, row.idempotency_key): row.id for row in written if row.idempotency_key is not None
            }
            stored |= _find(connection, tenant_id, keys - stored.keys())
            if keys - stored.keys():
                # It was there when we inserted, and is gone: whoever deleted it was quick.
                raise IdempotencyKeyBusy
    except DBAPIError as exc:
        if is_passing(exc):
            raise IdempotencyKeyBusy from exc
        raise
    unkeyed: Iterator[int] = iter(sorted(row.id for row in written if row.idempotency_key is None))
    ids = [
        next(unkeyed) if row.idempotency_key is None else stored[row.recipient_id, row.idempotency_key] for row in rows
    ]
    return ids, len(written)


def _find(connection: Connection, tenant_id: int, keys: set[_Key]) -> dict[_Key, int]:
    """The notifications that are stored under these keys."""
    if not keys:
        return {}
    t = INBOX_NOTIFICATION.c
    found = connection.execute(
        select(t.id, t.recipient_id, t.idempotency_key).where(
            t.tenant_id == tenant_id, tuple_(t.recipient_id, t.idempotency_key).in_(sorted(keys))
        )
    )
    return {(row.recipient_id, row.idempotency_key): row.id for row in found}
