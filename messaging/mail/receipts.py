"""Bounced and read, told by inbound mail: T18 and the read receipt. A record that is not SENT stays as it is."""

from collections.abc import Sequence

from sqlalchemy import Connection, func, select, update

from messaging.category import MarkerCode
from messaging.db.filters import owning_tenant
from messaging.delivery.recipients import RecipientStatus
from messaging.delivery.status import SendStatus
from messaging.mail.channel import envelope_recipients
from messaging.mail.models import MAIL_SEND_RECORD as T

#: The record's column.
MAX_BOUNCE_CODE_CHARS = 20


def mark_bounced(connection: Connection, record_id: int, *, code: str, recipients: Sequence[str] = ()) -> bool:
    """SENT -> FAILED: `code` like `550 5.1.1`; no `recipients` means all. Runs in the caller's transaction.

    Answers whether it took effect: False for a record that is missing, another tenant's, or not SENT.
    """
    statement = select(T).where(T.c.id == record_id, T.c.status == SendStatus.SENT)
    owner = owning_tenant()
    if owner is not None:
        statement = statement.where(T.c.tenant_id == owner)
    row = connection.execute(statement).one_or_none()
    if row is None:
        return False
    known = envelope_recipients(dict(row._mapping))
    bounced = [r for r in known if not recipients or r in recipients] or known
    results = dict(row.recipient_results)
    for address in bounced:
        results[address] = {
            "result": RecipientStatus.BOUNCED,
            "code": code,
            "text": "bounced",
            "at": _now_iso(connection),
        }
    moved = connection.execute(
        update(T)
        .where(T.c.id == record_id, T.c.version == row.version, T.c.status == SendStatus.SENT)
        .values(
            status=SendStatus.FAILED,
            version=T.c.version + 1,
            bounced=True,
            bounce_code=code[:MAX_BOUNCE_CODE_CHARS],
            bounced_recipients=bounced,
            recipient_results=results,
            error_code=MarkerCode.BOUNCED,
            error_message=None,
            updated_at=func.now(),
        )
        .returning(T.c.id)
    ).one_or_none()
    return moved is not None


def mark_read_receipt(connection: Connection, record_id: int) -> bool:
    """Note that a recipient's program displayed it (RFC 8098); the status stays. Runs in the caller's transaction.

    Answers whether it took effect; the first receipt's time stands.
    """
    statement = update(T).where(T.c.id == record_id, T.c.status == SendStatus.SENT, ~T.c.read_receipt_received)
    owner = owning_tenant()
    if owner is not None:
        statement = statement.where(T.c.tenant_id == owner)
    moved = connection.execute(
        statement.values(
            version=T.c.version + 1,
            read_receipt_received=True,
            read_receipt_received_at=func.now(),
            updated_at=func.now(),
        ).returning(T.c.id)
    ).one_or_none()
    return moved is not None


def _now_iso(connection: Connection) -> str:
    """In UTC, whatever the time zone of the caller's session."""
    at = func.timezone("UTC", func.now())
    now: str = connection.execute(select(func.to_char(at, 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"'))).scalar_one()
    return now
