"""Tables of the mail channel: the send record and the servers mail goes out by."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, CheckConstraint, Identity, Index, Integer, String, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from messaging.db.base import Audited, Base, Timestamp
from messaging.db.encryption import Encrypted
from messaging.db.filters import TenantOwned
from messaging.delivery.record import SendRecordColumns, one_of, send_record_constraints
from messaging.requests import BodyMode, Priority


class MailSendRecord(SendRecordColumns, Base):
    """One accepted mail: what was asked, what was prepared, where it stands."""

    __tablename__ = "mail_send_record"
    __table_args__ = (
        one_of("body_mode", BodyMode, "body_mode"),
        one_of("priority", Priority, "priority"),
        # bounces
        Index("ix_mail_send_message_id", "message_id", unique=True, postgresql_where=text("message_id IS NOT NULL")),
        *send_record_constraints("mail_send_record", "mail_send"),
    )

    server_config_id: Mapped[int | None] = mapped_column(BigInteger)
    from_address: Mapped[str | None] = mapped_column(String(255))
    from_name: Mapped[str | None] = mapped_column(String(100))
    envelope_sender: Mapped[str | None] = mapped_column(String(255))
    #: Canonical mailboxes, see `messaging.mail.addresses`.
    to_addresses: Mapped[list[str]] = mapped_column(JSONB)
    cc_addresses: Mapped[list[str]] = mapped_column(JSONB, server_default="[]")
    bcc_addresses: Mapped[list[str]] = mapped_column(JSONB, server_default="[]")
    subject: Mapped[str | None] = mapped_column(String(500))
    body_mode: Mapped[str | None] = mapped_column(String(32))
    body_html: Mapped[str | None] = mapped_column(Text)
    body_text: Mapped[str | None] = mapped_column(Text)
    reply_to: Mapped[str | None] = mapped_column(String(255))
    priority: Mapped[str | None] = mapped_column(String(10))
    read_receipt_requested: Mapped[bool | None] = mapped_column(Boolean)
    auto_submitted: Mapped[bool] = mapped_column(Boolean, server_default="true")
    #: Further headers, in the caller's order (hence not JSONB).
    headers: Mapped[dict[str, str] | None] = mapped_column(JSON(none_as_null=True))
    #: Envelope recipient -> result, code, text, at; see `messaging.delivery.recipients`.
    recipient_results: Mapped[dict[str, dict[str, Any]]] = mapped_column(JSONB, server_default="{}")
    #: One Message-ID for all attempts, with its angle brackets.
    message_id: Mapped[str | None] = mapped_column(String(255))
    read_receipt_received: Mapped[bool] = mapped_column(Boolean, server_default="false")
    read_receipt_received_at: Mapped[datetime | None] = mapped_column(Timestamp)
    bounced: Mapped[bool] = mapped_column(Boolean, server_default="false")
    bounce_code: Mapped[str | None] = mapped_column(String(20))
    bounced_recipients: Mapped[list[str] | None] = mapped_column(JSONB(none_as_null=True))


class MailSendServerConfig(TenantOwned, Audited, Base):
    """A server that mail goes out by. `active` hides it from resolution; records prepared with it still go out."""

    __tablename__ = "mail_send_server_config"
    __table_args__ = (
        one_of("protocol", ("SMTP", "SMTPS"), "protocol"),
        CheckConstraint("NOT (ssl_enabled AND starttls_enabled)", name="one_kind_of_tls"),
        CheckConstraint("port BETWEEN 1 AND 65535", name="port"),
        Index("ix_mail_send_server_config_default", "tenant_id", "is_default"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    name: Mapped[str] = mapped_column(String(100))
    description: Mapped[str | None] = mapped_column(String(500))
    protocol: Mapped[str] = mapped_column(String(10), server_default="SMTP")
    host: Mapped[str] = mapped_column(String(255))
    port: Mapped[int] = mapped_column(Integer)
    #: TLS from the first byte.
    ssl_enabled: Mapped[bool] = mapped_column(Boolean, server_default="false")
    #: STARTTLS required: refused or missing is a failure, never plain.
    starttls_enabled: Mapped[bool] = mapped_column(Boolean, server_default="false")
    #: Blank: no AUTH.
    username: Mapped[str | None] = mapped_column(String(255))
    password: Mapped[str | None] = mapped_column(Encrypted)
    #: None: the username.
    from_address: Mapped[str | None] = mapped_column(String(255))
    from_name: Mapped[str | None] = mapped_column(String(100))
    reply_to_address: Mapped[str | None] = mapped_column(String(255))
    #: None: the From address.
    envelope_sender: Mapped[str | None] = mapped_column(String(255))
    read_receipt_enabled: Mapped[bool] = mapped_column(Boolean, server_default="false")
    is_default: Mapped[bool] = mapped_column(Boolean, server_default="false")
    active: Mapped[bool] = mapped_column(Boolean, server_default="true")
    #: Tie-break between defaults, lowest first.
    sequence: Mapped[int] = mapped_column(Integer, server_default="0")

    def __repr__(self) -> str:
        return f"MailSendServerConfig(id={self.id}, host={self.host!r}, port={self.port})"


MAIL_SEND_RECORD: Table = MailSendRecord.__table__  # type: ignore[assignment]
MAIL_SEND_SERVER_CONFIG: Table = MailSendServerConfig.__table__  # type: ignore[assignment]
