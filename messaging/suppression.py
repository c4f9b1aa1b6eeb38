"""Addresses and numbers that get nothing: who is on the list, why, and whether it was lifted."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import BigInteger, CheckConstraint, Identity, Index, String, Table, text
from sqlalchemy.orm import Mapped, mapped_column

from messaging.db.base import Audited, Base, Timestamp
from messaging.db.filters import TenantOwned


class SuppressionReason(StrEnum):
    """Why an address or number is on the list."""

    HARD_BOUNCE = "HARD_BOUNCE"
    COMPLAINT = "COMPLAINT"
    OPT_OUT = "OPT_OUT"
    UNSUBSCRIBED = "UNSUBSCRIBED"
    MANUAL = "MANUAL"


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
