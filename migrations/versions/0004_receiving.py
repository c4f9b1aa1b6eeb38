"""Receiving: the mailboxes, how far each folder was read, and the mails.

New tables only: safe while workers run.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def _owned() -> list[sa.Column[int]]:
    return [
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False),
    ]


def _audit() -> list[sa.Column[object]]:
    return [
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by_id", sa.BigInteger(), nullable=True),
        sa.Column("updated_by_id", sa.BigInteger(), nullable=True),
        sa.Column("created_by", sa.String(length=100), nullable=True),
        sa.Column("updated_by", sa.String(length=100), nullable=True),
    ]


def _one_of(table: str, column: str, values: str) -> sa.CheckConstraint:
    allowed = ", ".join(f"'{value}'" for value in values.split())
    return sa.CheckConstraint(f"{column} IN ({allowed})", name=op.f(f"ck_{table}_{column}"))


def upgrade() -> None:
    op.create_table(
        "mail_fetch_imap_watermark",
        *_owned(),
        sa.Column("server_config_id", sa.BigInteger(), nullable=False),
        sa.Column("folder_name", sa.String(length=100), nullable=False),
        sa.Column("uid_validity", sa.BigInteger(), nullable=True),
        sa.Column("last_seen_uid", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("last_fetched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("in_progress_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("version", sa.BigInteger(), server_default="0", nullable=False),
        *_audit(),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mail_fetch_imap_watermark")),
        sa.UniqueConstraint("server_config_id", "folder_name", name="uq_mail_fetch_imap_watermark_folder"),
    )
    op.create_index("ix_mail_fetch_imap_watermark_tenant_id", "mail_fetch_imap_watermark", ["tenant_id"], unique=False)
    op.create_table(
        "mail_receive_record",
        *_owned(),
        sa.Column("server_config_id", sa.BigInteger(), nullable=False),
        sa.Column("folder_name", sa.String(length=100), nullable=False),
        sa.Column("message_id", sa.String(length=255), nullable=False),
        sa.Column("server_uid", sa.String(length=255), nullable=True),
        sa.Column("uid_validity", sa.BigInteger(), nullable=True),
        sa.Column("duplicate_of", sa.BigInteger(), nullable=True),
        sa.Column("content_sha256", sa.String(length=64), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("from_address", sa.String(length=255), nullable=True),
        sa.Column("from_name", sa.String(length=255), nullable=True),
        sa.Column("to_addresses", JSONB(), server_default="[]", nullable=False),
        sa.Column("cc_addresses", JSONB(), server_default="[]", nullable=False),
        sa.Column("subject", sa.String(length=500), nullable=True),
        sa.Column("body_text", sa.Text(), nullable=True),
        sa.Column("body_html", sa.Text(), nullable=True),
        sa.Column("body_mode", sa.String(length=32), nullable=True),
        sa.Column("attachments", JSONB(none_as_null=True), nullable=True),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("date_header", sa.String(length=255), nullable=True),
        sa.Column("fetched_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("status", sa.String(length=10), server_default="UNREAD", nullable=False),
        sa.Column("mail_type", sa.String(length=20), server_default="NORMAL", nullable=False),
        sa.Column("type_detail", sa.String(length=50), nullable=True),
        sa.Column("is_mailing_list", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("is_bulk", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("is_encrypted", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("is_signed", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("is_spam", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("original_message_id", sa.String(length=255), nullable=True),
        sa.Column("reference_ids", JSONB(none_as_null=True), nullable=True),
        sa.Column("verp_record_id", sa.BigInteger(), nullable=True),
        sa.Column("smtp_reply_code", sa.String(length=10), nullable=True),
        sa.Column("enhanced_status_code", sa.String(length=20), nullable=True),
        sa.Column("diagnostic_message", sa.String(length=2000), nullable=True),
        sa.Column("failed_recipients", JSONB(none_as_null=True), nullable=True),
        sa.Column("bounce_kind", sa.String(length=10), nullable=True),
        sa.Column("bounce_action", sa.String(length=10), nullable=True),
        sa.Column("bounce_reason", sa.String(length=20), nullable=True),
        sa.Column("hard_bounce", sa.Boolean(), nullable=True),
        sa.Column("bounce_recipients", JSONB(none_as_null=True), nullable=True),
        sa.Column("link_status", sa.String(length=10), server_default="NONE", nullable=False),
        sa.Column("link_checked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("linked_send_record_id", sa.BigInteger(), nullable=True),
        sa.Column("eml_file_id", sa.BigInteger(), nullable=True),
        sa.Column("truncation_reason", sa.String(length=32), nullable=True),
        *_audit(),
        _one_of("mail_receive_record", "body_mode", "HTML PLAIN HTML_WITH_DERIVED_PLAIN HTML_WITH_AUTHORED_PLAIN"),
        _one_of("mail_receive_record", "bounce_kind", "HARD SOFT DELAYED SUCCESS"),
        _one_of(
            "mail_receive_record",
            "bounce_reason",
            "USER_UNKNOWN HOST_UNKNOWN MAILBOX_FULL SUSPENDED POLICY SPAM RATE SIZE CONTENT EXPIRED OTHER",
        ),
        _one_of("mail_receive_record", "link_status", "NONE PENDING LINKED UNMATCHED"),
        _one_of(
            "mail_receive_record",
            "mail_type",
            "NORMAL READ_RECEIPT BOUNCE AUTO_REPLY CALENDAR_INVITE FEEDBACK_REPORT UNKNOWN",
        ),
        _one_of("mail_receive_record", "status", "UNREAD READ ARCHIVED DELETED"),
        _one_of(
            "mail_receive_record",
            "truncation_reason",
            "BODY_TOO_LARGE MIME_PARTS_EXCEEDED MIME_DEPTH_EXCEEDED ATTACHMENT_TOO_LARGE PARSE_FAILED",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mail_receive_record")),
        sa.UniqueConstraint("server_config_id", "message_id", name="uq_mail_receive_record_message"),
    )
    op.create_index(
        "ix_mail_receive_record_linked",
        "mail_receive_record",
        ["linked_send_record_id"],
        unique=False,
        postgresql_where=sa.text("linked_send_record_id IS NOT NULL"),
    )
    op.create_index("ix_mail_receive_record_newest", "mail_receive_record", ["tenant_id", "id"], unique=False)
    op.create_index("ix_mail_receive_record_status", "mail_receive_record", ["tenant_id", "status"], unique=False)
    op.create_index(
        "ix_mail_receive_record_truncated",
        "mail_receive_record",
        ["truncation_reason"],
        unique=False,
        postgresql_where=sa.text("truncation_reason IS NOT NULL"),
    )
    op.create_index(
        "ix_mail_receive_record_uid", "mail_receive_record", ["server_config_id", "server_uid"], unique=False
    )
    op.create_index(
        "ix_mail_receive_record_unlinked",
        "mail_receive_record",
        ["server_config_id", sa.text("link_checked_at NULLS FIRST"), "id"],
        unique=False,
        postgresql_where=sa.text("link_status = 'PENDING'"),
    )
    op.create_table(
        "mail_receive_server_config",
        *_owned(),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("description", sa.String(length=500), nullable=True),
        sa.Column("protocol", sa.String(length=10), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("ssl_enabled", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("username", sa.String(length=255), nullable=True),
        sa.Column("password", sa.Text(), nullable=True),
        sa.Column("auth", sa.String(length=10), server_default="PASSWORD", nullable=False),
        sa.Column("oauth_token", sa.Text(), nullable=True),
        sa.Column("oauth_token_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("fetch_interval_seconds", sa.Integer(), nullable=True),
        sa.Column("next_fetch_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("fetch_folders", sa.String(length=255), server_default="INBOX", nullable=True),
        sa.Column("sequence", sa.Integer(), server_default="0", nullable=False),
        *_audit(),
        sa.Column("is_default", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("active", sa.Boolean(), server_default="true", nullable=False),
        _one_of("mail_receive_server_config", "auth", "PASSWORD XOAUTH2"),
        _one_of("mail_receive_server_config", "protocol", "IMAP IMAPS POP3 POP3S"),
        sa.CheckConstraint(
            "fetch_interval_seconds >= 15", name=op.f("ck_mail_receive_server_config_fetch_interval_seconds")
        ),
        sa.CheckConstraint("port BETWEEN 1 AND 65535", name=op.f("ck_mail_receive_server_config_port")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mail_receive_server_config")),
    )
    op.create_index(
        "ix_mail_receive_server_config_default", "mail_receive_server_config", ["tenant_id", "is_default"], unique=False
    )
    op.create_index(
        "ix_mail_receive_server_config_due",
        "mail_receive_server_config",
        ["next_fetch_at"],
        unique=False,
        postgresql_where=sa.text("active"),
    )


def downgrade() -> None:
    for table in ("mail_receive_record", "mail_fetch_imap_watermark", "mail_receive_server_config"):
        op.drop_table(table)
