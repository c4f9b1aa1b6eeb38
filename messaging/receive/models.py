"""Tables of the receive side: the mailboxes, how far each folder was read, and the mails."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Identity,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from messaging.audit import Noted
from messaging.db.active import Switchable
from messaging.db.base import Audited, Base, Timestamp
from messaging.db.checks import one_of
from messaging.db.encryption import Encrypted
from messaging.db.filters import TenantOwned
from messaging.db.one_default import OneDefault
from messaging.receive.vocabulary import (
    BounceKind,
    BounceReason,
    LinkStatus,
    MailboxAuth,
    MailType,
    Protocol,
    ReceivedStatus,
    TruncationReason,
)
from messaging.requests import BodyMode


class MailReceiveServerConfig(Noted, OneDefault, Switchable, Audited, Base):
    """A mailbox that mail is fetched from. `active` hides it from lists and polling."""

    __tablename__ = "mail_receive_server_config"
    unnoted = frozenset({"next_fetch_at", "oauth_token", "oauth_token_expires_at"})
    __table_args__ = (
        one_of("protocol", Protocol, "protocol"),
        one_of("auth", MailboxAuth, "auth"),
        CheckConstraint("port BETWEEN 1 AND 65535", name="port"),
        CheckConstraint("fetch_interval_seconds >= 15", name="fetch_interval_seconds"),
        Index("ix_mail_receive_server_config_default", "tenant_id", "is_default"),
        Index("ix_mail_receive_server_config_due", "next_fetch_at", postgresql_where=text("active")),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    name: Mapped[str] = mapped_column(String(100))
    description: Mapped[str | None] = mapped_column(String(500))
    protocol: Mapped[str] = mapped_column(String(10))
    host: Mapped[str] = mapped_column(String(255))
    port: Mapped[int] = mapped_column(Integer)
    #: TLS from the first byte; for IMAPS and POP3S that is so anyway.
    ssl_enabled: Mapped[bool] = mapped_column(Boolean, server_default="false")
    username: Mapped[str | None] = mapped_column(String(255))
    #: Secrets are read, and so decrypted, only where they are asked for by name.
    password: Mapped[str | None] = mapped_column(Encrypted, deferred=True)
    auth: Mapped[str] = mapped_column(String(10), server_default=MailboxAuth.PASSWORD)
    #: Of XOAUTH2: the last token, until it expires.
    oauth_token: Mapped[str | None] = mapped_column(Encrypted, deferred=True)
    oauth_token_expires_at: Mapped[datetime | None] = mapped_column(Timestamp)
    #: None: `MAIL__FETCH__INTERVAL_SECONDS`.
    fetch_interval_seconds: Mapped[int | None] = mapped_column(Integer)
    #: Written by the tick; None: at the next one.
    next_fetch_at: Mapped[datetime | None] = mapped_column(Timestamp)
    #: Comma list of folder names; empty: INBOX.
    fetch_folders: Mapped[str | None] = mapped_column(String(255), server_default="INBOX")
    #: Order of polling and of lists, lowest first.
    sequence: Mapped[int] = mapped_column(Integer, server_default="0")

    def __repr__(self) -> str:
        return f"MailReceiveServerConfig(id={self.id}, host={self.host!r}, port={self.port})"


class MailFetchWatermark(TenantOwned, Audited, Base):
    """How far a folder was read, and who reads it now. Every write names the version it expects and adds one."""

    __tablename__ = "mail_fetch_imap_watermark"
    __table_args__ = (
        UniqueConstraint("server_config_id", "folder_name", name="uq_mail_fetch_imap_watermark_folder"),
        Index("ix_mail_fetch_imap_watermark_tenant_id", "tenant_id"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    server_config_id: Mapped[int] = mapped_column(BigInteger)
    folder_name: Mapped[str] = mapped_column(String(100))
    #: RFC 9051, 2.3.1.1; None before the first fetch, and for POP3.
    uid_validity: Mapped[int | None] = mapped_column(BigInteger)
    last_seen_uid: Mapped[int] = mapped_column(BigInteger, server_default="0")
    last_fetched_at: Mapped[datetime | None] = mapped_column(Timestamp)
    #: Since when a worker holds the lease, or its last heartbeat; None: nobody does.
    in_progress_since: Mapped[datetime | None] = mapped_column(Timestamp)
    version: Mapped[int] = mapped_column(BigInteger, server_default="0")


class MailReceiveRecord(TenantOwned, Audited, Base):
    """One received mail, stored once; written by the fetch alone."""

    __tablename__ = "mail_receive_record"
    __table_args__ = (
        one_of("status", ReceivedStatus, "status"),
        one_of("mail_type", MailType, "mail_type"),
        one_of("body_mode", BodyMode, "body_mode"),
        one_of("truncation_reason", TruncationReason, "truncation_reason"),
        one_of("link_status", LinkStatus, "link_status"),
        one_of("bounce_kind", BounceKind, "bounce_kind"),
        one_of("bounce_reason", BounceReason, "bounce_reason"),
        UniqueConstraint("server_config_id", "message_id", name="uq_mail_receive_record_message"),
        # retention: whether a stored file is still a mail's
        Index(
            "ix_mail_receive_file",
            "attachments",
            postgresql_using="gin",
            postgresql_ops={"attachments": "jsonb_path_ops"},
            postgresql_where=text("attachments IS NOT NULL"),
        ),
        Index("ix_mail_receive_eml_file", "eml_file_id", postgresql_where=text("eml_file_id IS NOT NULL")),
        Index("ix_mail_receive_record_status", "tenant_id", "status"),
        # lists, newest first
        Index("ix_mail_receive_record_newest", "tenant_id", "id"),
        Index(
            "ix_mail_receive_record_truncated",
            "truncation_reason",
            postgresql_where=text("truncation_reason IS NOT NULL"),
        ),
        Index(
            "ix_mail_receive_record_unlinked",
            "server_config_id",
            text("link_checked_at NULLS FIRST"),
            "id",
            postgresql_where=text("link_status = 'PENDING'"),
        ),
        Index("ix_mail_receive_record_uid", "server_config_id", "server_uid"),
        Index(
            "ix_mail_receive_record_linked",
            "linked_send_record_id",
            postgresql_where=text("linked_send_record_id IS NOT NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    server_config_id: Mapped[int] = mapped_column(BigInteger)
    folder_name: Mapped[str] = mapped_column(String(100))
    #: The Message-ID with its brackets, or what stands for it: `synthetic:`, `hashed:`.
    message_id: Mapped[str] = mapped_column(String(255))
    #: IMAP UID or POP3 unique id.
    server_uid: Mapped[str | None] = mapped_column(String(255))
    #: The UIDVALIDITY under which `server_uid` means something (RFC 9051, 2.3.1.1); None for POP3.
    uid_validity: Mapped[int | None] = mapped_column(BigInteger)
    #: Id of the stored mail that has the same Message-ID and another content.
    duplicate_of: Mapped[int | None] = mapped_column(BigInteger)
    #: Over From, Date, Subject and body, in hex: tells whether the same Message-ID is the same mail.
    content_sha256: Mapped[str | None] = mapped_column(String(64))
    #: Octets, as the server reports them.
    size: Mapped[int | None] = mapped_column(BigInteger)
    #: Bare; text that is no address stays as it is.
    from_address: Mapped[str | None] = mapped_column(String(255))
    from_name: Mapped[str | None] = mapped_column(String(255))
    to_addresses: Mapped[list[str]] = mapped_column(JSONB, server_default="[]")
    cc_addresses: Mapped[list[str]] = mapped_column(JSONB, server_default="[]")
    subject: Mapped[str | None] = mapped_column(String(500))
    body_text: Mapped[str | None] = mapped_column(Text)
    body_html: Mapped[str | None] = mapped_column(Text)
    body_mode: Mapped[str | None] = mapped_column(String(32))
    #: `file_id`, `file_name`, `content_type`, `content_id` and `size` each; None without any.
    attachments: Mapped[list[dict[str, Any]] | None] = mapped_column(JSONB(none_as_null=True))
    #: When the mailbox's server got it, as far as that is known.
    received_at: Mapped[datetime] = mapped_column(Timestamp)
    #: The Date field as written.
    date_header: Mapped[str | None] = mapped_column(String(255))
    fetched_at: Mapped[datetime] = mapped_column(Timestamp, server_default=func.now())
    status: Mapped[str] = mapped_column(String(10), server_default=ReceivedStatus.UNREAD)
    mail_type: Mapped[str] = mapped_column(String(20), server_default=MailType.NORMAL)
    #: Of a read receipt its disposition, of a feedback report its feedback type, of an invitation its method.
    type_detail: Mapped[str | None] = mapped_column(String(50))
    is_mailing_list: Mapped[bool] = mapped_column(Boolean, server_default="false")
    is_bulk: Mapped[bool] = mapped_column(Boolean, server_default="false")
    is_encrypted: Mapped[bool] = mapped_column(Boolean, server_default="false")
    is_signed: Mapped[bool] = mapped_column(Boolean, server_default="false")
    is_spam: Mapped[bool] = mapped_column(Boolean, server_default="false")
    #: Of the mail it is about.
    original_message_id: Mapped[str | None] = mapped_column(String(255))
    #: All candidates for that, the likeliest first.
    reference_ids: Mapped[list[str] | None] = mapped_column(JSONB(none_as_null=True))
    #: The send record that a genuine VERP address names.
    verp_record_id: Mapped[int | None] = mapped_column(BigInteger)
    #: What is said of the worst recipient.
    smtp_reply_code: Mapped[str | None] = mapped_column(String(10))
    enhanced_status_code: Mapped[str | None] = mapped_column(String(20))
    diagnostic_message: Mapped[str | None] = mapped_column(String(2000))
    #: Of kind HARD or SOFT; who complains in a feedback report stands in `bounce_recipients`.
    failed_recipients: Mapped[list[str] | None] = mapped_column(JSONB(none_as_null=True))
    bounce_kind: Mapped[str | None] = mapped_column(String(10))
    #: `failed`, `delayed`, `delivered`, `relayed` or `expanded` (RFC 3464, 2.3.3).
    bounce_action: Mapped[str | None] = mapped_column(String(10))
    bounce_reason: Mapped[str | None] = mapped_column(String(20))
    #: Whether the address is of no use.
    hard_bounce: Mapped[bool | None] = mapped_column(Boolean)
    #: One object a recipient, the fields of `messaging.receive.classification.BounceRecipient`.
    bounce_recipients: Mapped[list[dict[str, Any]] | None] = mapped_column(JSONB(none_as_null=True))
    link_status: Mapped[str] = mapped_column(String(10), server_default=LinkStatus.NONE)
    #: When its record was last looked for in vain; the longest ago is looked for first.
    link_checked_at: Mapped[datetime | None] = mapped_column(Timestamp)
    linked_send_record_id: Mapped[int | None] = mapped_column(BigInteger)
    #: The raw mail in the file store.
    eml_file_id: Mapped[int | None] = mapped_column(BigInteger)
    truncation_reason: Mapped[str | None] = mapped_column(String(32))


MAIL_RECEIVE_SERVER_CONFIG: Table = MailReceiveServerConfig.__table__  # type: ignore[assignment]
MAIL_FETCH_WATERMARK: Table = MailFetchWatermark.__table__  # type: ignore[assignment]
MAIL_RECEIVE_RECORD: Table = MailReceiveRecord.__table__  # type: ignore[assignment]
