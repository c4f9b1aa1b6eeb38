"""Tables of the webhook channel: the addresses that are told, and the send record of each telling."""

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import BigInteger, Identity, Index, String, Table, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from messaging.audit import Noted
from messaging.db.active import Switchable
from messaging.db.base import Audited, Base, Timestamp
from messaging.db.checks import one_of
from messaging.db.encryption import Encrypted
from messaging.db.filters import TenantOwned
from messaging.delivery.record import SendRecordColumns, send_record_constraints

#: Channels whose records are told of.
ABOUT_CHANNELS = ("mail", "sms")


class WebhookEndpoint(Noted, TenantOwned, Switchable, Audited, Base):
    """An address of the tenant's own application, and which events it is told."""

    __tablename__ = "webhook_endpoint"
    noted_as: ClassVar[dict[str, str]] = {"secret": "rotate secret"}
    unnoted: ClassVar[frozenset[str]] = frozenset({"replaced_secret_until", "gone_at"})
    __table_args__ = (Index("ix_webhook_endpoint_tenant", "tenant_id", "active"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    name: Mapped[str] = mapped_column(String(100))
    description: Mapped[str | None] = mapped_column(String(500))
    url: Mapped[str] = mapped_column(String(2000))
    #: `whsec_` and the key in base64; several, blank between them, while one is being replaced: each signs.
    secret: Mapped[str] = mapped_column(Encrypted, deferred=True)
    #: Until when the one that was replaced signs as well; null: there is none.
    replaced_secret_until: Mapped[datetime | None] = mapped_column(Timestamp)
    #: Types of events it is told; null is all.
    event_types: Mapped[list[str] | None] = mapped_column(JSONB(none_as_null=True))
    #: When it answered 410 Gone, which disabled it; enabling it clears this.
    gone_at: Mapped[datetime | None] = mapped_column(Timestamp)


class WebhookSendRecord(SendRecordColumns, Base):
    """One event that one endpoint is to be told: as any send record, due, claimed, attempted, given up."""

    __tablename__ = "webhook_send_record"
    __table_args__ = (
        # what was told of a message
        Index("ix_webhook_send_about", "about_record_id"),
        # what a tenant's endpoints were told, newest first
        Index("ix_webhook_send_tenant", "tenant_id", "id"),
        # no webhook is about a webhook
        one_of("about_channel", ABOUT_CHANNELS, "about_channel"),
        *send_record_constraints("webhook_send_record", "webhook_send"),
    )

    endpoint_id: Mapped[int] = mapped_column(BigInteger)
    event_type: Mapped[str] = mapped_column(String(50))
    #: The send record that the event is of; null for a trial event.
    about_channel: Mapped[str | None] = mapped_column(String(10))
    about_record_id: Mapped[int | None] = mapped_column(BigInteger)
    #: The body, without what is sent along with every event.
    payload: Mapped[dict[str, Any]] = mapped_column(JSONB)
    #: It is written with all that is sent: nothing is left to prepare, nor charged.
    prepared_at: Mapped[datetime] = mapped_column(Timestamp, server_default=text("now()"))


WEBHOOK_ENDPOINT: Table = WebhookEndpoint.__table__  # type: ignore[assignment]
WEBHOOK_SEND_RECORD: Table = WebhookSendRecord.__table__  # type: ignore[assignment]
