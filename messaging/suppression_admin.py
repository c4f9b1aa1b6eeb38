"""The suppression list as an operator sees it: addresses as people write them, and pages of entries.

What an entry is and does: `messaging.suppression`. Files of entries: `messaging.suppression_files`.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from messaging import suppression
from messaging.errors import EntryRejected
from messaging.mail.addresses import AddressError, parse_mailbox
from messaging.requests import SuppressionReason
from messaging.sms.numbers import NumberError, parse_number
from messaging.suppression import MAIL, SMS, Suppression, mail_address


@dataclass(frozen=True, slots=True)
class SuppressionLine:
    """One entry."""

    id: int
    tenant_id: int
    channel: str
    address: str
    reason: SuppressionReason
    #: Only messages of this sender; empty: of any.
    sender: str
    #: Only mails of this mailing list; empty: all.
    list: str
    #: The record it came from.
    record_id: int | None
    note: str | None
    created_at: datetime
    created_by: str | None
    #: None: it is in force.
    lifted_at: datetime | None
    lifted_note: str | None
    updated_by: str | None


def spelled(channel: str, address: str) -> str:
    """An address as somebody wrote it, in the spelling of the list. Raises: EntryRejected."""
    if not isinstance(address, str):
        raise EntryRejected("address", address, "is of type str")
    try:
        if channel == MAIL:
            return mail_address(parse_mailbox(address).address)
        if channel == SMS:
            return parse_number(address)
    except (AddressError, NumberError) as exc:
        raise EntryRejected("address", address, str(exc)) from exc
    raise EntryRejected("channel", channel, f"allowed: {MAIL}, {SMS}")


def suppress(
    session: Session,
    address: str,
    *,
    channel: str = MAIL,
    reason: SuppressionReason | str = SuppressionReason.MANUAL,
    sender: str = "",
    list_name: str = "",
    note: str | None = None,
) -> int:
    """Put an address as somebody wrote it on the current tenant's list; see `messaging.suppression.add`.

    Raises:
        EntryRejected: A field cannot be; nothing was written.
    """
    return suppression.add(
        session,
        channel=channel,
        address=spelled(channel, address),
        reason=reason,
        sender=sender,
        list_name=list_name,
        note=note,
        by_operator=True,
    )


def page(
    session: Session,
    *,
    channel: str | None = None,
    search: str | None = None,
    reason: SuppressionReason | None = None,
    include_lifted: bool = False,
    limit: int = 50,
    before: int | None = None,
) -> list[SuppressionLine]:
    """Entries of the current tenant, newest first; `search` is a part of the address or number.

    `before` is the id of the last entry of the page before.
    """
    s = Suppression
    statement = select(*(getattr(s, name) for name in SuppressionLine.__dataclass_fields__))
    if channel is not None:
        statement = statement.where(s.channel == channel)
    if search:
        statement = statement.where(s.address.contains(search.lower(), autoescape=True))
    if reason is not None:
        statement = statement.where(s.reason == reason)
    if not include_lifted:
        statement = statement.where(s.lifted_at.is_(None))
    if before is not None:
        statement = statement.where(s.id < before)
    rows = session.execute(statement.order_by(s.id.desc()).limit(limit))
    return [SuppressionLine(**{**row._mapping, "reason": SuppressionReason(row.reason)}) for row in rows]
