"""The table of notifications. What is unread is asked of its rows; no count is kept beside them."""

from datetime import datetime

from sqlalchemy import BigInteger, Boolean, Identity, Index, String, Table, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from messaging.db.base import Audited, Base, Timestamp
from messaging.db.checks import one_of
from messaging.db.filters import TenantOwned
from messaging.requests import NotificationType


class InboxNotification(TenantOwned, Audited, Base):
    """One notification for one person of the application."""

    __tablename__ = "inbox_notification"
    __table_args__ = (
        one_of("notification_type", NotificationType, "notification_type"),
        # a person's list, newest first
        Index("ix_inbox_notification_recipient", "tenant_id", "recipient_id", text("created_at DESC"), text("id DESC")),
        # the badge
        Index(
            "ix_inbox_notification_unread",
            "tenant_id",
            "recipient_id",
            "expires_at",
            postgresql_where=text("NOT is_read"),
        ),
        # acceptance
        Index(
            "uq_inbox_notification_idempotency_key",
            "tenant_id",
            "recipient_id",
            "idempotency_key",
            unique=True,
            postgresql_where=text("idempotency_key IS NOT NULL"),
        ),
        # what a listener has not seen
        Index("ix_inbox_notification_written_in", "tenant_id", "recipient_id", "written_in"),
        # retention
        Index("ix_inbox_notification_created", "created_at", "id"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    #: The application's id of a person.
    recipient_id: Mapped[int] = mapped_column(BigInteger)
    title: Mapped[str] = mapped_column(String(200))
    content: Mapped[str] = mapped_column(Text)
    notification_type: Mapped[str] = mapped_column(String(20), server_default=NotificationType.SYSTEM)
    #: What of the application it is about.
    source_model: Mapped[str | None] = mapped_column(String(50))
    source_id: Mapped[int | None] = mapped_column(BigInteger)
    is_read: Mapped[bool] = mapped_column(Boolean, server_default="false")
    read_at: Mapped[datetime | None] = mapped_column(Timestamp)
    expires_at: Mapped[datetime | None] = mapped_column(Timestamp)
    idempotency_key: Mapped[str | None] = mapped_column(String(255))
    #: The transaction that wrote the row (an `xid8`). Ids are taken before a commit and times at a transaction's
    #: start, so neither tells what has become visible since somebody looked; this does, beside a snapshot.
    written_in: Mapped[int] = mapped_column(BigInteger, server_default=text("(pg_current_xact_id()::text)::bigint"))


INBOX_NOTIFICATION: Table = InboxNotification.__table__  # type: ignore[assignment]
