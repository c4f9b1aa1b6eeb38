"""Bounced, read, complained of: what others tell of a mail after it was sent, written to its record (T18, C9).

Only a final record changes, and of its status only SENT, to FAILED; an attempt that is due or running is left alone, as
another version would void it. Each write names the version it expects and adds one. Whoever reads reports hands in
what they say as plain values. Source: `receive.md` section 13.

A bounce writes no row of the attempt log: it is no attempt, and the attempt that sent the mail stays as it was.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import Enum, auto
from typing import Any

from sqlalchemy import Connection, Row, case, func, select, update
from sqlalchemy.orm import Session

from messaging import metrics, suppression, tenancy
from messaging.category import MarkerCode
from messaging.db.filters import owning_tenant
from messaging.delivery.announcing import NOBODY, Announcer, EventType, tell
from messaging.delivery.recipients import RecipientStatus
from messaging.delivery.status import FINAL_STATUSES, SendStatus
from messaging.mail.channel import NAME, envelope_recipients
from messaging.mail.models import MAIL_SEND_RECORD as T
from messaging.mail.models import MailSendRecord
from messaging.mail.reported_recipients import Meant, ReportedRecipient, meant
from messaging.requests import SuppressionReason

#: How often a record is read again whose write met another one.
MAX_TRIES = 3

#: Characters of the other side's words that a record keeps.
MAX_TEXT_CHARS = 500


class Effect(Enum):
    """What became of a report."""

    #: The record says so now, by this report or an earlier one.
    RECORDED = auto()
    #: An attempt is due or running: nothing was changed, the report is to come again later.
    OPEN = auto()
    #: No such record in this tenant.
    MISSING = auto()
    #: Others wrote the record each time it was tried: nothing was changed, the report is to come again.
    CONTENDED = auto()


def find_record(session: Session, message_id: str) -> int | None:
    """The id of the current tenant's record with this Message-ID, which has its angle brackets."""
    statement = select(T.c.id).where(T.c.message_id == message_id)
    found: int | None = _connection(session).execute(_of_owner(statement)).scalar_one_or_none()
    return found


def mark_bounced(
    session: Session,
    record_id: int,
    reported: Sequence[ReportedRecipient],
    *,
    origin: str,
    suppresses: bool,
    announcer: Announcer = NOBODY,
) -> Effect:
    """Delivery failed for these recipients (at least one): SENT -> FAILED; a FAILED or DEAD_LETTER record takes note.

    Runs in the caller's transaction, for a record of the current tenant. Whom a report means: `reported_recipients`.
    Where that is nobody by name, the record is FAILED and bounced all the same, without `bounced_recipients`: a manual
    retry then finds nobody to send to, and who accepted the mail does not get it again on a guess.

    With `suppresses`, an address that the report names and says to be of no use goes on the list of the record's
    tenant. One that it is about without naming it does not: behind an alias there may be ten people, one of whom has
    left. `origin` says where the report came from, e.g. `received mail 5`.
    """
    connection = _connection(session)
    for _ in range(MAX_TRIES):
        row = _read(connection, record_id)
        if row is None:
            return Effect.MISSING
        if row.status not in FINAL_STATUSES:
            return Effect.OPEN
        found = meant(envelope_recipients(row._asdict()), row.recipient_results, reported)
        values = _bounced(row, found, reported[0])
        if not values:
            break
        if _write(connection, row, values):
            _tell(connection, announcer, EventType.BOUNCED, row.id, row.tenant_id)
            break
        metrics.lost_updates(NAME, "bounce")
    else:
        return Effect.CONTENDED
    if suppresses:
        useless = [one for one in found if one.is_named and one.reported.is_permanent and one.reported.is_useless]
        notes = {one.address: f"bounced{_with(one.reported.code)} ({origin})" for one in useless}
        _suppress(session, row, notes, SuppressionReason.HARD_BOUNCE)
    return Effect.RECORDED


def mark_read(session: Session, record_id: int, *, at: datetime | None, announcer: Announcer = NOBODY) -> Effect:
    """A recipient's program displayed it (RFC 8098): noted, the status stays; the first one's time stands.

    Runs in the caller's transaction, for a record of the current tenant. `at` counts where it lies between `sent_at`
    and now, else it is now.
    """
    connection = _connection(session)
    read_at = func.now() if at is None else case((at >= T.c.sent_at, func.least(at, func.now())), else_=func.now())
    statement = update(T).where(T.c.id == record_id, T.c.status.in_(FINAL_STATUSES), ~T.c.read_receipt_received)
    values = {
        "version": T.c.version + 1,
        "read_receipt_received": True,
        "read_receipt_received_at": read_at,
        "updated_at": func.now(),
    }
    for _ in range(MAX_TRIES):
        returning = _of_owner(statement).values(values).returning(T.c.tenant_id)
        moved = connection.execute(returning).one_or_none()
        if moved is not None:
            _tell(connection, announcer, EventType.READ, record_id, moved.tenant_id)
            return Effect.RECORDED
        row = _read(connection, record_id)
        if row is None:
            return Effect.MISSING
        if row.status not in FINAL_STATUSES:
            return Effect.OPEN
        if row.read_receipt_received:
            return Effect.RECORDED
        # It was sent between the two statements.
    return Effect.CONTENDED


def note_complaint(session: Session, record_id: int, reported: Sequence[ReportedRecipient], *, origin: str) -> Effect:
    """A recipient complains of the mail (RFC 5965): the address goes on the list of the record's tenant.

    Runs in the caller's transaction, for a record of the current tenant; the record does not change. Providers hide who
    complains: it is the only recipient then, if there is only one.
    """
    row = _read(_connection(session), record_id)
    if row is None:
        return Effect.MISSING
    found = meant(envelope_recipients(row._asdict()), row.recipient_results, reported or [ReportedRecipient()])
    _suppress(session, row, {one.address: f"complained ({origin})" for one in found}, SuppressionReason.COMPLAINT)
    return Effect.RECORDED


def _connection(session: Session) -> Connection:
    return session.connection(bind_arguments={"mapper": MailSendRecord})


def _of_owner(statement: Any) -> Any:
    owner = owning_tenant()
    return statement if owner is None else statement.where(T.c.tenant_id == owner)


#: What is read of a record; the time is in UTC, whatever the zone of the caller's session.
_READ = (
    *(T.c.id, T.c.tenant_id, T.c.version, T.c.status, T.c.to_addresses, T.c.cc_addresses, T.c.bcc_addresses),
    *(T.c.recipient_results, T.c.bounced, T.c.bounce_code, T.c.bounced_recipients, T.c.read_receipt_received),
    func.to_char(func.timezone("UTC", func.now()), 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"').label("now"),
)


def _read(connection: Connection, record_id: int) -> Row[Any] | None:
    return connection.execute(_of_owner(select(*_READ).where(T.c.id == record_id))).one_or_none()


def _bounced(row: Row[Any], found: Sequence[Meant], first: ReportedRecipient) -> dict[str, Any]:
    """The columns to write; none when the record says it all already. What earlier bounces said stays."""
    results = dict(row.recipient_results)
    new = [one for one in found if results.get(one.address, {}).get("result") != RecipientStatus.BOUNCED]
    for one in new:
        results[one.address] = {
            "result": RecipientStatus.BOUNCED,
            "code": one.reported.code or MarkerCode.BOUNCED,
            "text": _cut(one.reported.text) or "bounced",
            "at": row.now,
            "permanent": one.reported.is_permanent,
        }
    told = min((one.reported for one in found), key=lambda one: not one.is_permanent, default=first)
    values: dict[str, Any] = {}
    if row.status == SendStatus.SENT:
        values |= {
            "status": SendStatus.FAILED,
            "error_code": MarkerCode.BOUNCED,
            "error_message": _cut(told.text),
        }
    if not row.bounced:
        values["bounced"] = True
    if row.bounce_code is None and told.code is not None:
        values["bounce_code"] = told.code
    known = row.bounced_recipients or []
    if added := [one.address for one in found if one.address not in known]:
        values["bounced_recipients"] = [*known, *added]
    if new:
        values["recipient_results"] = results
    return values


def _write(connection: Connection, row: Row[Any], values: dict[str, Any]) -> bool:
    statement = update(T).where(T.c.id == row.id, T.c.version == row.version, T.c.status == row.status)
    values = {**values, "version": T.c.version + 1, "updated_at": func.now()}
    return connection.execute(statement.values(values).returning(T.c.id)).one_or_none() is not None


def _tell(connection: Connection, announcer: Announcer, kind: EventType, record_id: int, tenant_id: int) -> None:
    """In the transaction of the write that has just won."""
    announcement = announcer.find(connection, NAME, (tenant_id,))
    if announcement is not None:
        connection.execute(tell(T, kind, announcement), {"id": record_id})


def _suppress(session: Session, row: Row[Any], notes: dict[str, str], reason: SuppressionReason) -> None:
    """In one order, so that two transactions never wait for each other."""
    with tenancy.tenant(row.tenant_id):
        for address in sorted(notes):
            suppression.add(
                session, channel=suppression.MAIL, address=address, reason=reason, record_id=row.id, note=notes[address]
            )


def _with(code: str | None) -> str:
    return "" if code is None else f" with {code}"


def _cut(text: str | None) -> str | None:
    return text[:MAX_TEXT_CHARS] if text else None
