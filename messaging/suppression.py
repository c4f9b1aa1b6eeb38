"""The suppression list: addresses and numbers that get nothing, who put them there, and whether they were lifted.

An entry stops all messages of its tenant to its address, or those of one sender or one mailing list only. The list is
looked at before every attempt (`messaging.delivery.suppressing`); what was lifted stays as a row, so that it is known
that it was there. Addresses come in one spelling (`mail_address`, E.164); whoever takes them from people parses them
first (`messaging.suppression_admin`). Source: `operate.md` section 16.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Connection,
    Identity,
    Index,
    String,
    Table,
    func,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from messaging import audit, tenancy
from messaging.db.base import Audited, Base, Timestamp
from messaging.db.filters import TenantOwned, owning_tenant
from messaging.errors import EntryRejected, RecordNotFound, TenantContextMissing
from messaging.requests import SuppressionReason
from messaging.tenancy import SINGLE_TENANT_ID, is_single_tenant

#: The channels an entry may be of.
MAIL, SMS = "mail", "sms"

MAX_ADDRESS_CHARS = 255
MAX_SENDER_CHARS = 255
MAX_LIST_CHARS = 50
MAX_NOTE_CHARS = 500

_SPELLING = {MAIL: re.compile(r"[^@\s].*@[!-?A-~]+", re.DOTALL), SMS: re.compile(r"\+[1-9][0-9]{6,14}")}
_SEPARATORS = re.compile(r"[\s().-]+")


class Suppression(TenantOwned, Audited, Base):
    """One entry of a tenant's list; a lifted one stays, so that it is known that it was there."""

    __tablename__ = "suppression"
    __table_args__ = (
        CheckConstraint("reason IN ('HARD_BOUNCE', 'COMPLAINT', 'OPT_OUT', 'UNSUBSCRIBED', 'MANUAL')", name="reason"),
        Index(
            "uq_suppression_entry",
            "tenant_id",
            "channel",
            "address",
            "sender",
            "list",
            unique=True,
            postgresql_where=text("lifted_at IS NULL"),
        ),
        # lists, newest first
        Index("ix_suppression_newest", "tenant_id", "id"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    channel: Mapped[str] = mapped_column(String(10))
    #: Mail: in lower case, the domain as A-labels; SMS: E.164.
    address: Mapped[str] = mapped_column(String(255))
    #: Only messages of this sender; empty: of any.
    sender: Mapped[str] = mapped_column(String(255), server_default="")
    #: Only mails of this list; empty: all.
    list: Mapped[str] = mapped_column(String(50), server_default="")
    reason: Mapped[str] = mapped_column(String(20))
    #: The record it came from.
    record_id: Mapped[int | None] = mapped_column(BigInteger)
    note: Mapped[str | None] = mapped_column(String(500))
    lifted_at: Mapped[datetime | None] = mapped_column(Timestamp)
    lifted_note: Mapped[str | None] = mapped_column(String(500))


SUPPRESSION: Table = Suppression.__table__  # type: ignore[assignment]


def mail_address(address: str) -> str:
    """How the list spells a mail address whose domain is in its ASCII form already: in lower case, composed (NFC)."""
    return address.lower() if address.isascii() else unicodedata.normalize("NFC", address.lower())


def sender_name(sender: str | None) -> str:
    """How the list spells a sender: a number as a plus and its digits, a name in lower case; empty without one."""
    given = (sender or "").strip()
    digits = _SEPARATORS.sub("", given).removeprefix("+")
    # From seven digits on: shorter ones are short codes, which have no plus.
    return f"+{digits}" if digits.isascii() and digits.isdigit() and len(digits) >= 7 else given.lower()


# -- looking up -----------------------------------------------------------------------------------------------------


class Wanted(NamedTuple):
    """An address on a tenant's list."""

    tenant_id: int
    address: str


class Entry(NamedTuple):
    """An entry that is in force."""

    id: int
    tenant_id: int
    reason: SuppressionReason
    sender: str
    list: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Subject:
    """What of a record the list is asked about."""

    #: Envelope recipient -> its address as the list spells it.
    addresses: Mapping[str, str]
    #: The mailing list it is of; empty without one.
    list_name: str = ""
    #: Who it is from, as `sender_name` spells it; empty while that is open.
    sender: str = ""
    #: Other tenants whose senders it may go out by: what of their entries names the sender holds as well.
    sender_tenants: tuple[int, ...] = ()

    def wanted(self, tenant_id: int) -> Iterable[Wanted]:
        """What to look up for a record of this tenant."""
        for tenant in (tenant_id, *self.sender_tenants):
            for address in self.addresses.values():
                yield Wanted(tenant, address)

    def stopped(self, tenant_id: int, found: "Found") -> dict[str, Entry]:
        """Which envelope recipients of a record of this tenant are to get nothing, and by which entry."""
        stopped = {}
        for recipient, address in self.addresses.items():
            own = (e for e in found.get(Wanted(tenant_id, address), ()) if self._is_about(e))
            others = (
                e
                for tenant in self.sender_tenants
                if tenant != tenant_id
                for e in found.get(Wanted(tenant, address), ())
                if e.sender and self._is_about(e)
            )
            entry = next(own, None) or next(others, None)
            if entry is not None:
                stopped[recipient] = entry
        return stopped

    def _is_about(self, entry: Entry) -> bool:
        return entry.sender in ("", self.sender) and entry.list in ("", self.list_name)


#: Entries in force by what was looked up, the widest first; nothing is there for what has none.
Found = Mapping[Wanted, list[Entry]]

#: One descent of the unique index for each address, however many tenants a chunk has.
FIND = text("""
    SELECT s.id, s.tenant_id, s.address, s.reason, s.sender, s.list, s.created_at
    FROM unnest(CAST(:tenants AS bigint[]), CAST(:addresses AS text[])) AS w (tenant_id, address)
    JOIN suppression s ON s.tenant_id = w.tenant_id AND s.channel = :channel AND s.address = w.address
        AND s.lifted_at IS NULL
    ORDER BY s.sender, s.list
""")


def find(connection: Connection, channel: str, wanted: Iterable[Wanted]) -> Found:
    """The entries in force for these addresses: one query. Sees what was committed before it is called."""
    asked = set(wanted)
    parameters = {
        "channel": channel,
        "tenants": [one.tenant_id for one in asked],
        "addresses": [one.address for one in asked],
    }
    found: dict[Wanted, list[Entry]] = {}
    for row in connection.execute(FIND, parameters):
        entry = Entry(row.id, row.tenant_id, SuppressionReason(row.reason), row.sender, row.list, row.created_at)
        found.setdefault(Wanted(row.tenant_id, row.address), []).append(entry)
    return found


# -- putting on and lifting -----------------------------------------------------------------------------------------


def add(
    session: Session,
    *,
    channel: str,
    address: str,
    reason: SuppressionReason | str,
    sender: str = "",
    list_name: str = "",
    record_id: int | None = None,
    note: str | None = None,
    by_operator: bool = False,
) -> int:
    """Put an address on the current tenant's list, in the caller's transaction; answers the entry's id.

    It holds for attempts that begin after the commit. For what is on the list already nothing changes, whatever its
    reason; when two add the same at once, the second waits for the first's transaction.

    `by_operator`: it goes into the audit log.

    Raises:
        EntryRejected: A field cannot be; nothing was written.
        TenantContextMissing: No one tenant is set.
    """
    row = new_row(
        channel=channel,
        address=address,
        reason=reason,
        sender=sender,
        list_name=list_name,
        record_id=record_id,
        note=note,
    )
    s = SUPPRESSION.c
    same = [column == row[column.name] for column in (s.tenant_id, s.channel, s.address, s.sender, s.list)]
    written = insert(SUPPRESSION).on_conflict_do_nothing(
        index_elements=["tenant_id", "channel", "address", "sender", "list"], index_where=s.lifted_at.is_(None)
    )
    there = select(s.id).where(*same, s.lifted_at.is_(None))
    connection = session.connection(bind_arguments={"mapper": Suppression})
    while True:
        new_id: int | None = connection.execute(written.values(row).returning(s.id)).scalar_one_or_none()
        if new_id is not None:
            if by_operator:
                shown = {name: row[name] for name in ("channel", "address", "reason", "sender", "list") if row[name]}
                audit.note(session, "create", SUPPRESSION, new_id, after=shown, note=note)
            return new_id
        entry_id: int | None = connection.execute(there).scalar_one_or_none()
        if entry_id is not None:
            return entry_id
        # What was in the way was lifted between the two statements.


def new_row(
    *,
    channel: str,
    address: str,
    reason: SuppressionReason | str,
    sender: str = "",
    list_name: str = "",
    record_id: int | None = None,
    note: str | None = None,
) -> dict[str, Any]:
    """The columns of an entry of the current tenant. Raises: as `add`."""
    if channel not in _SPELLING:
        raise EntryRejected("channel", channel, f"allowed: {MAIL}, {SMS}")
    address = _text("address", address, MAX_ADDRESS_CHARS)
    spelled = mail_address(address) if channel == MAIL else address
    if not _SPELLING[channel].fullmatch(spelled) or "\x00" in spelled:
        allowed = "name@domain, the domain in ASCII" if channel == MAIL else "a number in E.164, e.g. +4915112345678"
        raise EntryRejected("address", address, f"allowed: {allowed}")
    if str(reason) not in SuppressionReason.__members__:
        raise EntryRejected("reason", reason, f"allowed: {', '.join(SuppressionReason)}")
    if sender and channel == MAIL:
        raise EntryRejected("sender", sender, "only a number can be suppressed for one sender")
    if list_name and channel == SMS:
        raise EntryRejected("list", list_name, "only a mail address can be suppressed for one list")
    context = tenancy.current()
    return {
        "tenant_id": one_tenant(),
        "channel": channel,
        "address": _text("address", spelled, MAX_ADDRESS_CHARS),
        "sender": sender_name(_text("sender", sender, MAX_SENDER_CHARS)),
        "list": _text("list", list_name, MAX_LIST_CHARS),
        "reason": SuppressionReason(reason),
        "record_id": record_id,
        "note": None if note is None else _text("note", note, MAX_NOTE_CHARS),
        "created_by_id": context.user_id,
        "created_by": context.user_name,
    }


def one_tenant() -> int:
    """Whose list is written. Raises: TenantContextMissing, where that is nobody's or everybody's."""
    owner = SINGLE_TENANT_ID if is_single_tenant() else owning_tenant()
    if owner is None:
        raise TenantContextMissing("whose suppression list? the system has none of its own; use `with tenant(id):`")
    return owner


def lift(session: Session, entry_id: int, *, note: str) -> bool:
    """Lift an entry of the current tenant, in the caller's transaction: it holds for attempts after the commit.

    Answers False when it was lifted before; who lifts when, and the note, stay on the row.

    Raises:
        EntryRejected: There is no note: why it was lifted must be known.
        RecordNotFound: No such entry in this tenant.
    """
    if _lift(session, note, Suppression.id == entry_id):
        after = {"lifted": True}
        audit.note(session, "lift", SUPPRESSION, entry_id, before={"lifted": False}, after=after, note=note.strip())
        return True
    if session.scalar(select(Suppression.id).where(Suppression.id == entry_id)) is None:
        raise RecordNotFound(f"no suppression entry {entry_id}")
    return False


def lift_opt_out(session: Session, *, number: str, sender: str, note: str) -> bool:
    """Lift what a STOP to this sender put on the current tenant's list; answers whether there was anything.

    What is there for another reason is not the recipient's to lift.
    """
    return _lift(
        session,
        note,
        Suppression.channel == SMS,
        Suppression.address == number,
        Suppression.sender == sender_name(sender),
        Suppression.reason == SuppressionReason.OPT_OUT,
    )


def _lift(session: Session, note: str, *which: Any) -> bool:
    reason = _text("note", note, MAX_NOTE_CHARS).strip()
    if not reason:
        raise EntryRejected("note", note, "say why it is lifted")
    context = tenancy.current()
    statement = update(Suppression).where(*which, Suppression.lifted_at.is_(None))
    changed = statement.values(
        lifted_at=func.now(), lifted_note=reason, updated_by_id=context.user_id, updated_by=context.user_name
    )
    result: Any = session.execute(changed, execution_options={"synchronize_session": False})
    return bool(result.rowcount)


def _text(field: str, value: str, limit: int) -> str:
    """Raises: EntryRejected for what its column does not take."""
    if not isinstance(value, str):
        raise EntryRejected(field, value, "is of type str")
    if len(value) > limit:
        raise EntryRejected(field, value, f"at most {limit} characters")
    if any(c == "\x00" or "\ud800" <= c <= "\udfff" for c in value):
        raise EntryRejected(field, value, "has a character that cannot be stored")
    return value
