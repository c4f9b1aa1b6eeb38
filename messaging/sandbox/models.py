"""The table of captured messages."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Identity, Index, LargeBinary, String, Table, Text, UniqueConstraint, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from messaging.db.base import Base, Timestamp
from messaging.db.filters import TenantOwned


class CapturedMessage(TenantOwned, Base):
    """One message that was not sent, as it would have gone out."""

    __tablename__ = "captured_message"
    __table_args__ = (
        Index("ix_captured_message_tenant", "tenant_id", text("id DESC")),
        # However often a record is attempted, what it would have sent is kept once.
        UniqueConstraint("record_id"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    channel: Mapped[str] = mapped_column(String(10))
    record_id: Mapped[int] = mapped_column(BigInteger)
    captured_at: Mapped[datetime] = mapped_column(Timestamp, server_default=func.now())
    sender: Mapped[str | None] = mapped_column(String(320))
    #: Envelope recipients, or the number.
    recipients: Mapped[list[str]] = mapped_column(JSONB)
    subject: Mapped[str | None] = mapped_column(String(500))
    #: A text message's text.
    content: Mapped[str | None] = mapped_column(Text)
    #: A mail as it would have gone over the wire.
    raw: Mapped[bytes | None] = mapped_column(LargeBinary, deferred=True)
    #: What else the transport would have been told: template of the provider, sign name.
    details: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))


CAPTURED_MESSAGE: Table = CapturedMessage.__table__  # type: ignore[assignment]
