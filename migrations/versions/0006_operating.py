"""Operating: notifications, tokens and operators, the audit log, webhooks, captured messages, retention, redaction.

Safe while workers run: new tables, and columns that are null or have a constant default, so no row is rewritten and a
worker of the version before leaves them as they are. The indexes for lists of errors and numbers, and those of files,
read their tables once, and writes wait for it; where that is too long, make them before this runs, outside a
transaction, as `CREATE INDEX CONCURRENTLY` with the same names: they are then left as they are. The audit log's trigger
refuses changes to what is written.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

#: Tables whose rows name stored files, and how their indexes are called.
_WITH_FILES = (("mail_send_record", "mail_send"), ("mail_receive_record", "mail_receive"))


def upgrade() -> None:
    op.create_table(
        "api_token",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("prefix", sa.String(length=20), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by_id", sa.BigInteger(), nullable=True),
        sa.Column("updated_by_id", sa.BigInteger(), nullable=True),
        sa.Column("created_by", sa.String(length=100), nullable=True),
        sa.Column("updated_by", sa.String(length=100), nullable=True),
        sa.CheckConstraint(
            "role IN ('SENDER', 'VIEWER', 'OPERATOR', 'TENANT_ADMIN', 'PLATFORM')", name=op.f("ck_api_token_role")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_token")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_api_token_token_hash")),
    )
    op.create_index("ix_api_token_tenant", "api_token", ["tenant_id", "id"], unique=False)
    op.create_table(
        "audit_log",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("actor", sa.String(length=50), nullable=False),
        sa.Column("actor_name", sa.String(length=100), nullable=True),
        sa.Column("action", sa.String(length=50), nullable=False),
        sa.Column("target_type", sa.String(length=50), nullable=False),
        sa.Column("target_id", sa.BigInteger(), nullable=True),
        sa.Column("before", postgresql.JSONB(), nullable=True),
        sa.Column("after", postgresql.JSONB(), nullable=True),
        sa.Column("note", sa.String(length=500), nullable=True),
        sa.Column("request_id", sa.String(length=64), nullable=True),
        sa.Column("trace_id", sa.String(length=32), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_log")),
    )
    op.create_index(
        "ix_audit_log_target", "audit_log", ["target_type", "target_id", sa.literal_column("id DESC")], unique=False
    )
    op.create_index("ix_audit_log_tenant", "audit_log", ["tenant_id", sa.literal_column("id DESC")], unique=False)
    op.create_index(
        "ix_audit_log_actor", "audit_log", ["tenant_id", "actor", sa.literal_column("id DESC")], unique=False
    )
    op.create_table(
        "captured_message",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("channel", sa.String(length=10), nullable=False),
        sa.Column("record_id", sa.BigInteger(), nullable=False),
        sa.Column("captured_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("sender", sa.String(length=320), nullable=True),
        sa.Column("recipients", postgresql.JSONB(), nullable=False),
        sa.Column("subject", sa.String(length=500), nullable=True),
        sa.Column("content", sa.Text(), nullable=True),
        sa.Column("raw", sa.LargeBinary(), nullable=True),
        sa.Column("details", postgresql.JSONB(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_captured_message")),
        sa.UniqueConstraint("record_id", name=op.f("uq_captured_message_record_id")),
    )
    op.create_index(
        "ix_captured_message_tenant", "captured_message", ["tenant_id", sa.literal_column("id DESC")], unique=False
    )
    op.create_table(
        "inbox_notification",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("recipient_id", sa.BigInteger(), nullable=False),
        sa.Column("title", sa.String(length=200), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("notification_type", sa.String(length=20), server_default="SYSTEM", nullable=False),
        sa.Column("source_model", sa.String(length=50), nullable=True),
        sa.Column("source_id", sa.BigInteger(), nullable=True),
        sa.Column("is_read", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("read_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.Column(
            "written_in",
            sa.BigInteger(),
            server_default=sa.text("(pg_current_xact_id()::text)::bigint"),
            nullable=False,
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by_id", sa.BigInteger(), nullable=True),
        sa.Column("updated_by_id", sa.BigInteger(), nullable=True),
        sa.Column("created_by", sa.String(length=100), nullable=True),
        sa.Column("updated_by", sa.String(length=100), nullable=True),
        sa.CheckConstraint(
            "notification_type IN ('SYSTEM', 'WORKFLOW', 'MANUAL')",
            name=op.f("ck_inbox_notification_notification_type"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_inbox_notification")),
    )
    op.create_index("ix_inbox_notification_created", "inbox_notification", ["created_at", "id"], unique=False)
    op.create_index(
        "ix_inbox_notification_recipient",
        "inbox_notification",
        ["tenant_id", "recipient_id", sa.literal_column("created_at DESC"), sa.literal_column("id DESC")],
        unique=False,
    )
    op.create_index(
        "ix_inbox_notification_unread",
        "inbox_notification",
        ["tenant_id", "recipient_id", "expires_at"],
        unique=False,
        postgresql_where=sa.text("NOT is_read"),
    )
    op.create_index(
        "ix_inbox_notification_written_in",
        "inbox_notification",
        ["tenant_id", "recipient_id", "written_in"],
        unique=False,
    )
    op.create_index(
        "uq_inbox_notification_idempotency_key",
        "inbox_notification",
        ["tenant_id", "recipient_id", "idempotency_key"],
        unique=True,
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )
    op.create_table(
        "operator",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("user_name", sa.String(length=100), nullable=False),
        sa.Column("display_name", sa.String(length=100), nullable=True),
        sa.Column("password_hash", sa.String(length=255), nullable=True),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=True),
        sa.Column("last_signed_in_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by_id", sa.BigInteger(), nullable=True),
        sa.Column("updated_by_id", sa.BigInteger(), nullable=True),
        sa.Column("created_by", sa.String(length=100), nullable=True),
        sa.Column("updated_by", sa.String(length=100), nullable=True),
        sa.Column("active", sa.Boolean(), server_default="true", nullable=False),
        sa.CheckConstraint(
            "role IN ('SENDER', 'VIEWER', 'OPERATOR', 'TENANT_ADMIN', 'PLATFORM')", name=op.f("ck_operator_role")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operator")),
        sa.UniqueConstraint("user_name", name=op.f("uq_operator_user_name")),
    )
    op.create_index("ix_operator_tenant", "operator", ["tenant_id", "id"], unique=False)
    op.create_table(
        "operator_session",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("operator_id", sa.BigInteger(), nullable=False),
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operator_session")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_operator_session_token_hash")),
    )
    op.create_index("ix_operator_session_expires", "operator_session", ["expires_at"], unique=False)
    op.create_index("ix_operator_session_operator", "operator_session", ["operator_id"], unique=False)
    op.create_table(
        "prune_leftover",
        sa.Column("kind", sa.String(length=50), nullable=False),
        sa.Column("row_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("kind", "row_id", name=op.f("pk_prune_leftover")),
    )
    op.create_table(
        "prune_progress",
        sa.Column("kind", sa.String(length=50), nullable=False),
        sa.Column("last_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("pruned", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("kind", name=op.f("pk_prune_progress")),
    )
    op.create_table(
        "webhook_endpoint",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("description", sa.String(length=500), nullable=True),
        sa.Column("url", sa.String(length=2000), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("replaced_secret_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("event_types", postgresql.JSONB(), nullable=True),
        sa.Column("gone_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by_id", sa.BigInteger(), nullable=True),
        sa.Column("updated_by_id", sa.BigInteger(), nullable=True),
        sa.Column("created_by", sa.String(length=100), nullable=True),
        sa.Column("updated_by", sa.String(length=100), nullable=True),
        sa.Column("active", sa.Boolean(), server_default="true", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_endpoint")),
    )
    op.create_index("ix_webhook_endpoint_tenant", "webhook_endpoint", ["tenant_id", "active"], unique=False)
    op.create_table(
        "webhook_send_record",
        sa.Column(
            "id",
            sa.BigInteger(),
            server_default=sa.text("nextval('send_record_id_seq')"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("endpoint_id", sa.BigInteger(), nullable=False),
        sa.Column("event_type", sa.String(length=50), nullable=False),
        sa.Column("about_channel", sa.String(length=10), nullable=True),
        sa.Column("about_record_id", sa.BigInteger(), nullable=True),
        sa.Column("payload", postgresql.JSONB(), nullable=False),
        sa.Column("scope", sa.String(length=10), nullable=False),
        sa.Column("status", sa.String(length=20), server_default="PENDING", nullable=False),
        sa.Column("retry_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("version", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("lane", sa.SmallInteger(), server_default="2", nullable=False),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("claim_token", sa.BigInteger(), nullable=True),
        sa.Column("swept_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("uncertain", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("prepared_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("error_code", sa.String(length=100), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("send_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.Column("request_hash", sa.String(length=64), nullable=True),
        sa.Column("trace_id", sa.String(length=32), nullable=True),
        sa.Column("span_id", sa.String(length=16), nullable=True),
        sa.Column("request_id", sa.String(length=64), nullable=True),
        sa.Column("redact", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("redacted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("content_sha256", sa.String(length=64), nullable=True),
        sa.Column(
            "ready",
            sa.Boolean(),
            sa.Computed(
                "CASE WHEN status IN ('PENDING', 'RETRY') THEN next_attempt_at <= updated_at END", persisted=True
            ),
            nullable=True,
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by_id", sa.BigInteger(), nullable=True),
        sa.Column("updated_by_id", sa.BigInteger(), nullable=True),
        sa.Column("created_by", sa.String(length=100), nullable=True),
        sa.Column("updated_by", sa.String(length=100), nullable=True),
        sa.CheckConstraint(
            "(status = 'SENDING') = (claimed_at IS NOT NULL)", name=op.f("ck_webhook_send_record_claimed_while_sending")
        ),
        sa.CheckConstraint("about_channel IN ('mail', 'sms')", name=op.f("ck_webhook_send_record_about_channel")),
        sa.CheckConstraint("scope IN ('TENANT', 'PLATFORM')", name=op.f("ck_webhook_send_record_scope")),
        sa.CheckConstraint(
            "status IN ('PENDING', 'SENDING', 'SENT', 'RETRY', 'FAILED', 'DEAD_LETTER')",
            name=op.f("ck_webhook_send_record_status"),
        ),
        sa.CheckConstraint("lane BETWEEN 1 AND 3", name=op.f("ck_webhook_send_record_lane")),
        sa.CheckConstraint("retry_count >= 0", name=op.f("ck_webhook_send_record_retry_count")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_send_record")),
        postgresql_with={
            "autovacuum_vacuum_scale_factor": "0",
            "autovacuum_vacuum_threshold": "20000",
            "autovacuum_vacuum_cost_delay": "0",
        },
    )
    op.create_index("ix_webhook_send_about", "webhook_send_record", ["about_record_id"], unique=False)
    op.create_index("ix_webhook_send_tenant", "webhook_send_record", ["tenant_id", "id"], unique=False)
    op.create_index("ix_webhook_send_created", "webhook_send_record", ["tenant_id", "created_at", "id"], unique=False)
    op.create_index(
        "ix_webhook_send_ready",
        "webhook_send_record",
        ["tenant_id", "lane", "next_attempt_at"],
        unique=False,
        postgresql_where=sa.text("ready"),
    )
    op.create_index(
        "ix_webhook_send_sending",
        "webhook_send_record",
        ["claimed_at"],
        unique=False,
        postgresql_where=sa.text("status = 'SENDING'"),
    )
    op.create_index(
        "ix_webhook_send_unsent",
        "webhook_send_record",
        ["tenant_id", "status", "created_at", "id"],
        unique=False,
        postgresql_where=sa.text("status IN ('PENDING', 'RETRY', 'FAILED', 'DEAD_LETTER')"),
    )
    op.create_index(
        "ix_webhook_send_waiting",
        "webhook_send_record",
        ["next_attempt_at"],
        unique=False,
        postgresql_where=sa.text("NOT ready"),
    )
    op.create_index(
        "uq_webhook_send_idempotency_key",
        "webhook_send_record",
        ["tenant_id", "idempotency_key"],
        unique=True,
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )
    op.add_column("mail_send_record", sa.Column("span_id", sa.String(length=16), nullable=True))
    op.add_column("mail_send_record", sa.Column("request_id", sa.String(length=64), nullable=True))
    op.add_column("mail_send_record", sa.Column("redact", sa.Boolean(), server_default="false", nullable=False))
    op.add_column("mail_send_record", sa.Column("redacted_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("mail_send_record", sa.Column("content_sha256", sa.String(length=64), nullable=True))
    op.add_column("mail_template", sa.Column("redact", sa.Boolean(), server_default="false", nullable=False))
    op.add_column("send_attempt", sa.Column("request_id", sa.String(length=64), nullable=True))
    op.add_column("sms_send_record", sa.Column("span_id", sa.String(length=16), nullable=True))
    op.add_column("sms_send_record", sa.Column("request_id", sa.String(length=64), nullable=True))
    op.add_column("sms_send_record", sa.Column("redact", sa.Boolean(), server_default="false", nullable=False))
    op.add_column("sms_send_record", sa.Column("redacted_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("sms_send_record", sa.Column("content_sha256", sa.String(length=64), nullable=True))
    op.add_column("sms_template", sa.Column("redact", sa.Boolean(), server_default="false", nullable=False))
    op.create_index(
        "ix_mail_send_error",
        "mail_send_record",
        ["tenant_id", "error_code", "created_at", "id"],
        unique=False,
        postgresql_where=sa.text("error_code IS NOT NULL"),
        if_not_exists=True,
    )
    op.create_index(
        "ix_sms_send_error",
        "sms_send_record",
        ["tenant_id", "error_code", "created_at", "id"],
        unique=False,
        postgresql_where=sa.text("error_code IS NOT NULL"),
        if_not_exists=True,
    )
    op.create_index(
        "ix_webhook_send_error",
        "webhook_send_record",
        ["tenant_id", "error_code", "created_at", "id"],
        unique=False,
        postgresql_where=sa.text("error_code IS NOT NULL"),
        if_not_exists=True,
    )
    op.create_index(
        "ix_sms_send_number",
        "sms_send_record",
        ["tenant_id", "phone_number", "created_at", "id"],
        unique=False,
        if_not_exists=True,
    )
    op.create_index("ix_suppression_newest", "suppression", ["tenant_id", "id"], unique=False)
    for table, short in _WITH_FILES:
        op.create_index(
            f"ix_{short}_file",
            table,
            ["attachments"],
            postgresql_using="gin",
            postgresql_ops={"attachments": "jsonb_path_ops"},
            postgresql_where=sa.text("attachments IS NOT NULL"),
            if_not_exists=True,
        )
    op.create_index(
        "ix_mail_receive_eml_file",
        "mail_receive_record",
        ["eml_file_id"],
        postgresql_where=sa.text("eml_file_id IS NOT NULL"),
        if_not_exists=True,
    )
    op.execute(
        """
        CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'the audit log is only ever added to' USING ERRCODE = 'restrict_violation';
        END $$
        """
    )
    op.execute(
        "CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log"
        " FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()"
    )


def downgrade() -> None:
    op.drop_index("ix_mail_receive_eml_file", table_name="mail_receive_record")
    for table, short in _WITH_FILES:
        op.drop_index(f"ix_{short}_file", table_name=table)
    op.drop_index("ix_suppression_newest", table_name="suppression")
    op.drop_index("ix_sms_send_number", table_name="sms_send_record")
    op.drop_index(
        "ix_webhook_send_error", table_name="webhook_send_record", postgresql_where=sa.text("error_code IS NOT NULL")
    )
    op.drop_index("ix_sms_send_error", table_name="sms_send_record", postgresql_where=sa.text("error_code IS NOT NULL"))
    op.drop_index(
        "ix_mail_send_error", table_name="mail_send_record", postgresql_where=sa.text("error_code IS NOT NULL")
    )
    op.drop_column("sms_template", "redact")
    op.drop_column("sms_send_record", "content_sha256")
    op.drop_column("sms_send_record", "redacted_at")
    op.drop_column("sms_send_record", "redact")
    op.drop_column("sms_send_record", "request_id")
    op.drop_column("sms_send_record", "span_id")
    op.drop_column("send_attempt", "request_id")
    op.drop_column("mail_template", "redact")
    op.drop_column("mail_send_record", "content_sha256")
    op.drop_column("mail_send_record", "redacted_at")
    op.drop_column("mail_send_record", "redact")
    op.drop_column("mail_send_record", "request_id")
    op.drop_column("mail_send_record", "span_id")
    op.drop_index(
        "uq_webhook_send_idempotency_key",
        table_name="webhook_send_record",
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )
    op.drop_index("ix_webhook_send_waiting", table_name="webhook_send_record", postgresql_where=sa.text("NOT ready"))
    op.drop_index(
        "ix_webhook_send_unsent",
        table_name="webhook_send_record",
        postgresql_where=sa.text("status IN ('PENDING', 'RETRY', 'FAILED', 'DEAD_LETTER')"),
    )
    op.drop_index(
        "ix_webhook_send_sending", table_name="webhook_send_record", postgresql_where=sa.text("status = 'SENDING'")
    )
    op.drop_index("ix_webhook_send_ready", table_name="webhook_send_record", postgresql_where=sa.text("ready"))
    op.drop_index("ix_webhook_send_created", table_name="webhook_send_record")
    op.drop_index("ix_webhook_send_tenant", table_name="webhook_send_record")
    op.drop_index("ix_webhook_send_about", table_name="webhook_send_record")
    op.drop_table("webhook_send_record")
    op.drop_index("ix_webhook_endpoint_tenant", table_name="webhook_endpoint")
    op.drop_table("webhook_endpoint")
    op.drop_table("prune_progress")
    op.drop_table("prune_leftover")
    op.drop_index("ix_operator_session_operator", table_name="operator_session")
    op.drop_index("ix_operator_session_expires", table_name="operator_session")
    op.drop_table("operator_session")
    op.drop_index("ix_operator_tenant", table_name="operator")
    op.drop_table("operator")
    op.drop_index(
        "uq_inbox_notification_idempotency_key",
        table_name="inbox_notification",
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )
    op.drop_index("ix_inbox_notification_written_in", table_name="inbox_notification")
    op.drop_index(
        "ix_inbox_notification_unread", table_name="inbox_notification", postgresql_where=sa.text("NOT is_read")
    )
    op.drop_index("ix_inbox_notification_recipient", table_name="inbox_notification")
    op.drop_index("ix_inbox_notification_created", table_name="inbox_notification")
    op.drop_table("inbox_notification")
    op.drop_index("ix_captured_message_tenant", table_name="captured_message")
    op.drop_table("captured_message")
    op.drop_index("ix_audit_log_actor", table_name="audit_log")
    op.drop_index("ix_audit_log_tenant", table_name="audit_log")
    op.drop_index("ix_audit_log_target", table_name="audit_log")
    op.drop_table("audit_log")
    op.drop_index("ix_api_token_tenant", table_name="api_token")
    op.drop_table("api_token")
    op.execute("DROP FUNCTION refuse_audit_change()")
