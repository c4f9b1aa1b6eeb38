"""Tables of the mail channel: the send record, the servers mail goes out by, and templates."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
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
    event,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, ORMExecuteState, Session, UOWTransaction, mapped_column

from messaging.audit import Noted
from messaging.db.active import Switchable
from messaging.db.base import Audited, Base, Timestamp
from messaging.db.checks import one_of
from messaging.db.encryption import Encrypted
from messaging.db.one_default import OneDefault
from messaging.delivery.record import SendRecordColumns, send_record_constraints
from messaging.requests import BodyMode, Priority
from messaging.templates.models import TemplateColumns


class MailSendRecord(SendRecordColumns, Base):
    """One accepted mail: what was asked, what was prepared, where it stands."""

    __tablename__ = "mail_send_record"
    __table_args__ = (
        one_of("body_mode", BodyMode, "body_mode"),
        one_of("priority", Priority, "priority"),
        # bounces
        Index("ix_mail_send_message_id", "message_id", unique=True, postgresql_where=text("message_id IS NOT NULL")),
        # retention: whether a stored file is still a mail's; a mail without files is not in it
        Index(
            "ix_mail_send_file",
            "attachments",
            postgresql_using="gin",
            postgresql_ops={"attachments": "jsonb_path_ops"},
            postgresql_where=text("attachments IS NOT NULL"),
        ),
        *send_record_constraints("mail_send_record", "mail_send"),
    )

    template_id: Mapped[int | None] = mapped_column(BigInteger)
    template_code: Mapped[str | None] = mapped_column(String(100))
    #: In the caller's order (hence not JSONB).
    template_variables: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    #: Names a template asked for and did not get; null when it got all.
    missing_variables: Mapped[list[str] | None] = mapped_column(JSONB(none_as_null=True))
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
    #: `file_id`, `file_name`, `content_type` and `content_id` each, see `messaging.requests.FileRef`; no bytes.
    attachments: Mapped[list[dict[str, Any]] | None] = mapped_column(JSONB(none_as_null=True))
    reply_to: Mapped[str | None] = mapped_column(String(255))
    priority: Mapped[str | None] = mapped_column(String(10))
    read_receipt_requested: Mapped[bool | None] = mapped_column(Boolean)
    auto_submitted: Mapped[bool] = mapped_column(Boolean, server_default="true")
    #: Further headers, in the caller's order (hence not JSONB).
    headers: Mapped[dict[str, str] | None] = mapped_column(JSON(none_as_null=True))
    #: Name of the list this mail belongs to.
    unsubscribe_list: Mapped[str | None] = mapped_column(String(50))
    #: Envelope recipient -> result, code, text, at; see `messaging.delivery.recipients`.
    recipient_results: Mapped[dict[str, dict[str, Any]]] = mapped_column(JSONB, server_default="{}")
    #: One Message-ID for all attempts, with its angle brackets.
    message_id: Mapped[str | None] = mapped_column(String(255))
    read_receipt_received: Mapped[bool] = mapped_column(Boolean, server_default="false")
    read_receipt_received_at: Mapped[datetime | None] = mapped_column(Timestamp)
    bounced: Mapped[bool] = mapped_column(Boolean, server_default="false")
    bounce_code: Mapped[str | None] = mapped_column(String(20))
    bounced_recipients: Mapped[list[str] | None] = mapped_column(JSONB(none_as_null=True))


class MailSendServerConfig(Noted, OneDefault, Switchable, Audited, Base):
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
    #: Secrets are read, and so decrypted, only where they are asked for by name.
    password: Mapped[str | None] = mapped_column(Encrypted, deferred=True)
    #: None: the username.
    from_address: Mapped[str | None] = mapped_column(String(255))
    from_name: Mapped[str | None] = mapped_column(String(100))
    reply_to_address: Mapped[str | None] = mapped_column(String(255))
    #: None: the From address.
    envelope_sender: Mapped[str | None] = mapped_column(String(255))
    #: Each record gets an envelope sender of its own, which its bounces name.
    verp: Mapped[bool] = mapped_column(Boolean, server_default="false")
    #: Mails a day and a minute; null or less than 1 is no limit.
    daily_send_limit: Mapped[int | None] = mapped_column(Integer)
    rate_limit_per_minute: Mapped[int | None] = mapped_column(Integer)
    #: DKIM (RFC 6376) is signed where all three are set; the key is PEM, RSA or Ed25519.
    dkim_domain: Mapped[str | None] = mapped_column(String(255))
    dkim_selector: Mapped[str | None] = mapped_column(String(63))
    dkim_private_key: Mapped[str | None] = mapped_column(Encrypted, deferred=True)
    read_receipt_enabled: Mapped[bool] = mapped_column(Boolean, server_default="false")
    #: Tie-break between defaults, lowest first.
    sequence: Mapped[int] = mapped_column(Integer, server_default="0")

    def __repr__(self) -> str:
        return f"MailSendServerConfig(id={self.id}, host={self.host!r}, port={self.port})"


class MailTemplate(TemplateColumns, Base):
    """A mail with placeholders; Jinja2 in `subject`, `body_html` and `body_text`."""

    __tablename__ = "mail_template"
    __table_args__ = (
        one_of("body_mode", BodyMode, "body_mode"),
        one_of("default_priority", Priority, "default_priority"),
        UniqueConstraint("tenant_id", "code"),
    )

    subject: Mapped[str | None] = mapped_column(String(500))
    body_html: Mapped[str | None] = mapped_column(Text)
    body_text: Mapped[str | None] = mapped_column(Text)
    body_mode: Mapped[str] = mapped_column(String(32), server_default=BodyMode.HTML_WITH_DERIVED_PLAIN)
    #: Whether style sheets are written into the elements after rendering, for mail programs that ignore them.
    inline_css: Mapped[bool] = mapped_column(Boolean, server_default="false")
    default_priority: Mapped[str | None] = mapped_column(String(10))
    #: A list of mailboxes, normalised at preparation.
    reply_to: Mapped[str | None] = mapped_column(String(255))
    #: As on the record; used only when the request has none.
    attachments: Mapped[list[dict[str, Any]] | None] = mapped_column(JSONB(none_as_null=True))
    preferred_server_config_id: Mapped[int | None] = mapped_column(BigInteger)


@event.listens_for(Session, "before_flush")
def _check_templates(session: Session, _context: UOWTransaction, _instances: Any | None) -> None:
    """Refuse a template that could not be rendered, before anything is written: the transaction stays usable."""
    for row in (*session.new, *session.dirty):
        if isinstance(row, MailTemplate):
            # Loads Jinja2, which a process that saves no template never needs.
            from messaging.mail.template_checks import check_row

            check_row(row)


@event.listens_for(MailTemplate, "before_insert")
@event.listens_for(MailTemplate, "before_update")
def _check_template(_mapper: Any, _connection: Any, row: MailTemplate) -> None:
    """What another listener changed after that, once more."""
    from messaging.mail.template_checks import check_row

    check_row(row)


@event.listens_for(Session, "do_orm_execute")
def _check_template_statement(state: ORMExecuteState) -> None:
    """The same for templates written by a statement, as far as it holds their values."""
    if (state.is_insert or state.is_update) and any(mapper.class_ is MailTemplate for mapper in state.all_mappers):
        from messaging.mail.template_checks import check_statement

        check_statement(state.statement, state.parameters)


MAIL_SEND_RECORD: Table = MailSendRecord.__table__  # type: ignore[assignment]
MAIL_SEND_SERVER_CONFIG: Table = MailSendServerConfig.__table__  # type: ignore[assignment]
MAIL_TEMPLATE: Table = MailTemplate.__table__  # type: ignore[assignment]
