"""The suppression list as an operator sees it: addresses as people write them, and pages of entries.

What an entry is and does: `messaging.suppression`. Files of entries: `messaging.suppression_files`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row
from sqlalchemy.orm import Session

from messaging import suppression
from messaging.db import newest
from messaging.db.newest import Condition, Page
from messaging.errors import EntryRejected
from messaging.mail.addresses import AddressError, parse_mailbox
from messaging.requests import SuppressionReason
from messaging.sms.numbers import NumberError, parse_number
from messaging.suppression import MAIL, SMS, SUPPRESSION, mail_address


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
    address: str | None = None,
    search: str | None = None,
    reason: SuppressionReason | None = None,
    include_lifted: bool = False,
    limit: int = 50,
    before: int | None = None,
    scan_rows: int = newest.SCAN_ROWS,
) -> Page[SuppressionLine]:
    """Entries of the current tenant, newest first; `search` is a part of the address or number, `address` all of it.

    `before` is where the page before ended (`Page.next_before`). A page costs the same however long the list is: see
    `messaging.db.newest`.

    Raises: EntryRejected, for an address that is none.
    """
    c = SUPPRESSION.c
    conditions: list[Condition] = []
    within: list[ColumnElement[bool]] = []
    if address is not None:
        channel = channel or (SMS if address.lstrip().startswith("+") and "@" not in address else MAIL)
        address = spelled(channel, address)
    # Of entries in force an index knows the addresses.
    if address is not None and not include_lifted:
        within = [c.channel == channel, c.address == address, c.lifted_at.is_(None)]
    else:
        if channel is not None:
            conditions.append(lambda c: c.channel == channel)
        if address is not None:
            conditions.append(lambda c: c.address == address)
        if not include_lifted:
            conditions.append(lambda c: c.lifted_at.is_(None))
    if search:
        conditions.append(lambda c: c.address.contains(search.lower(), autoescape=True))
    if reason is not None:
        conditions.append(lambda c: c.reason == reason)
    return newest.page_by_id(
        session,
        SUPPRESSION,
        tuple(SuppressionLine.__dataclass_fields__),
        _line,
        within=within,
        conditions=conditions,
        is_gathered=bool(within),
        size=limit,
        before=before,
        scan_rows=scan_rows,
    )


def _line(row: Row[Any]) -> SuppressionLine:
    fields = {name: row._mapping[name] for name in SuppressionLine.__dataclass_fields__}
    return SuppressionLine(**fields | {"reason": SuppressionReason(row.reason)})
