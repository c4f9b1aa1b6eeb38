"""Received mails for people and applications: as lines of a list, one as a whole, and what a reader does with it.

Rows are written by the fetch alone; here only the status changes: UNREAD, READ, ARCHIVED, and DELETED, which is a mark
(`receive.md` 10).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ARRAY, BigInteger, ColumnElement, Row, bindparam, func, select, update
from sqlalchemy.orm import Session

from messaging import audit, tenancy
from messaging.db import newest
from messaging.db.newest import Condition, Page
from messaging.errors import RecordNotFound
from messaging.receive.models import MAIL_RECEIVE_RECORD, MailReceiveRecord
from messaging.receive.vocabulary import (
    BounceKind,
    BounceReason,
    LinkStatus,
    MailType,
    ReceivedFlag,
    ReceivedStatus,
    TruncationReason,
)
from messaging.requests import BodyMode

_R = MailReceiveRecord


@dataclass(frozen=True, slots=True)
class ReceivedLine:
    """One received mail in a list."""

    id: int
    tenant_id: int
    #: The mailbox.
    server_config_id: int
    folder_name: str
    received_at: datetime
    from_address: str | None
    from_name: str | None
    subject: str | None
    status: ReceivedStatus
    mail_type: MailType
    flags: list[ReceivedFlag]
    #: Of a bounce, the worst.
    bounce_kind: BounceKind | None
    link_status: LinkStatus
    #: The send record it is about.
    linked_send_record_id: int | None
    #: Why it is stored in part; None: it is whole.
    truncation_reason: TruncationReason | None


@dataclass(frozen=True, slots=True)
class ReceivedMail(ReceivedLine):
    """One received mail as a whole. Bodies are None unless they were asked for."""

    message_id: str
    server_uid: str | None
    to_addresses: list[str]
    cc_addresses: list[str]
    #: The Date field as written.
    date_header: str | None
    fetched_at: datetime
    #: Octets, as the server reports them.
    size: int | None
    #: `file_id`, `file_name`, `content_type`, `content_id` and `size` each.
    attachments: list[dict[str, Any]] | None
    body_mode: BodyMode | None
    body_text: str | None
    body_html: str | None
    #: Of a read receipt its disposition, of a feedback report its type, of an invitation its method.
    type_detail: str | None
    smtp_reply_code: str | None
    enhanced_status_code: str | None
    diagnostic_message: str | None
    failed_recipients: list[str] | None
    bounce_action: str | None
    bounce_reason: BounceReason | None
    #: Whether the address is of no use.
    hard_bounce: bool | None
    #: What is said of each recipient, the fields of `messaging.receive.classification.BounceRecipient`.
    bounce_recipients: list[dict[str, Any]] | None
    #: Of the mail it is about.
    original_message_id: str | None
    reference_ids: list[str] | None
    #: Id of the mail with the same Message-ID and another content.
    duplicate_of: int | None
    #: The raw mail in the file store.
    eml_file_id: int | None


#: Columns that a line tells as flags.
_COLUMN_OF = {flag: f"is_{flag.lower()}" for flag in ReceivedFlag}
#: Columns whose values are members of an enum.
_ENUMS: dict[str, type[StrEnum]] = {
    "status": ReceivedStatus,
    "mail_type": MailType,
    "bounce_kind": BounceKind,
    "bounce_reason": BounceReason,
    "link_status": LinkStatus,
    "body_mode": BodyMode,
    "truncation_reason": TruncationReason,
}
_BODIES = ("body_text", "body_html")


def page(
    session: Session,
    *,
    mail_type: MailType | None = None,
    status: ReceivedStatus | None = None,
    link_status: LinkStatus | None = None,
    flags: Collection[ReceivedFlag] = (),
    truncation_reason: TruncationReason | None = None,
    server_config_id: int | None = None,
    record_id: int | None = None,
    limit: int = 50,
    before: int | None = None,
    scan_rows: int = newest.SCAN_ROWS,
) -> Page[ReceivedLine]:
    """Received mails of the current tenant, newest first; without a `status` all but those marked deleted.

    `flags`: those that have all of them. `record_id`: those about this send record. `before` is where the page before
    ended (`Page.next_before`). A page costs the same however long the list is: see `messaging.db.newest`.
    """
    wanted = {
        "mail_type": mail_type,
        "status": status,
        "link_status": link_status,
        "truncation_reason": truncation_reason,
        "server_config_id": server_config_id,
        **dict.fromkeys((_COLUMN_OF[flag] for flag in flags), True),
    }
    conditions = [_equals(name, value) for name, value in wanted.items() if value is not None]
    if status is None:
        conditions.append(lambda c: c.status != ReceivedStatus.DELETED)
    linked = MAIL_RECEIVE_RECORD.c.linked_send_record_id
    return newest.page_by_id(
        session,
        MAIL_RECEIVE_RECORD,
        _names(ReceivedLine),
        lambda row: ReceivedLine(**_fields(row, ReceivedLine)),
        within=[] if record_id is None else [linked == record_id],
        conditions=conditions,
        is_gathered=record_id is not None,
        size=limit,
        before=before,
        scan_rows=scan_rows,
    )


def _equals(name: str, value: object) -> Condition:
    return lambda c: c[name] == value


def get(session: Session, received_id: int, *, with_bodies: bool = False) -> ReceivedMail:
    """One received mail of the current tenant, whatever its status. Raises: RecordNotFound."""
    left_out = () if with_bodies else _BODIES
    statement = select(*_columns(ReceivedMail, left_out)).where(_R.id == received_id)
    row = session.execute(statement).one_or_none()
    if row is None:
        raise RecordNotFound(f"no received mail {received_id}")
    return ReceivedMail(**_fields(row, ReceivedMail) | dict.fromkeys(left_out))


def mark_read(session: Session, received_id: int) -> bool:
    """UNREAD becomes READ, in the caller's transaction; answers whether it did. Raises: RecordNotFound."""
    return _move(session, received_id, ReceivedStatus.READ, ReceivedStatus.UNREAD)


def mark_read_batch(session: Session, received_ids: Sequence[int]) -> int:
    """As `mark_read` for many; those that there are none of are left out. Answers how many became READ."""
    ids = bindparam("ids", list(received_ids), type_=ARRAY(BigInteger))
    return _moved(session, ReceivedStatus.READ, (ReceivedStatus.UNREAD,), _R.id == func.any(ids))


def archive(session: Session, received_id: int) -> bool:
    """UNREAD or READ becomes ARCHIVED; answers whether it did. Raises: RecordNotFound."""
    return _move(session, received_id, ReceivedStatus.ARCHIVED, ReceivedStatus.UNREAD, ReceivedStatus.READ)


def mark_deleted(session: Session, received_id: int) -> bool:
    """DELETED from any status, a mark: the mail stays here and at the server. Answers whether it was none before.

    Raises: RecordNotFound.
    """
    others = [status for status in ReceivedStatus if status is not ReceivedStatus.DELETED]
    return _move(session, received_id, ReceivedStatus.DELETED, *others)


def _move(session: Session, received_id: int, to: ReceivedStatus, *of: ReceivedStatus) -> bool:
    if _moved(session, to, of, _R.id == received_id):
        return True
    if session.scalar(select(_R.id).where(_R.id == received_id)) is None:
        raise RecordNotFound(f"no received mail {received_id}")
    return False


def _moved(session: Session, to: ReceivedStatus, of: Collection[ReceivedStatus], which: ColumnElement[bool]) -> int:
    context = tenancy.current()
    stood = select(_R.id, _R.status, _R.tenant_id).where(which, _R.status.in_(of)).order_by(_R.id).with_for_update()
    rows = session.execute(stood).all()
    if rows:
        ids = bindparam("marked", [row.id for row in rows], type_=ARRAY(BigInteger))
        changed = update(_R).where(_R.id == func.any(ids))
        changed = changed.values(status=to, updated_by_id=context.user_id, updated_by=context.user_name)
        session.execute(changed, execution_options={"synchronize_session": False})
        audit.note_all(session, (_noted(row, to) for row in rows))
    return len(rows)


def _noted(row: Any, to: ReceivedStatus) -> audit.Entry:
    before, after = {"status": row.status}, {"status": to}
    return audit.Entry("mark", MAIL_RECEIVE_RECORD, row.id, before, after, tenant_id=row.tenant_id)


def _columns(kind: type[ReceivedLine], left_out: Collection[str] = ()) -> list[Any]:
    return [getattr(_R, name) for name in _names(kind, left_out)]


def _names(kind: type[ReceivedLine], left_out: Collection[str] = ()) -> list[str]:
    names = [field.name for field in fields(kind) if field.name != "flags" and field.name not in left_out]
    return [*names, *_COLUMN_OF.values()]


def _fields(row: Row[Any], kind: type[ReceivedLine]) -> dict[str, Any]:
    found: Mapping[str, Any] = row._asdict()
    told = {field.name: found.get(field.name) for field in fields(kind)}
    told |= {name: enum(value) for name, enum in _ENUMS.items() if (value := found.get(name)) is not None}
    return told | {"flags": [flag for flag, column in _COLUMN_OF.items() if found[column]]}
