"""The send record, servers, the attempt log and dead letters.

Nothing is there before it: safe at any time.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("CREATE SEQUENCE send_record_id_seq")
    op.create_table(
        "dead_letter_message",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("source_tenant_id", sa.BigInteger(), nullable=True),
        sa.Column("source", sa.String(length=20), nullable=False),
        sa.Column("channel", sa.String(length=10), nullable=True),
        sa.Column("original_queue", sa.String(length=255), server_default="", nullable=False),
        sa.Column("task_name", sa.String(length=255), nullable=True),
        sa.Column("task_id", sa.String(length=64), nullable=True),
        sa.Column("worker_name", sa.String(length=255), nullable=True),
        sa.Column("event_type", sa.String(length=100), nullable=True),
        sa.Column("event_id", sa.BigInteger(), nullable=True),
        sa.Column("payload", JSONB(), nullable=False),
        sa.Column("status", sa.String(length=20), server_default="PENDING", nullable=False),
        sa.Column("last_error_msg", sa.String(length=3000), nullable=True),
        sa.Column("resolved_remark", sa.String(length=3000), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by_id", sa.BigInteger(), nullable=True),
        sa.Column("updated_by_id", sa.BigInteger(), nullable=True),
        sa.Column("created_by", sa.String(length=100), nullable=True),
        sa.Column("updated_by", sa.String(length=100), nullable=True),
        sa.CheckConstraint("source IN ('SEND_EXHAUSTED', 'BROKER_POISON')", name=op.f("ck_dead_letter_message_source")),
        sa.CheckConstraint(
            "status IN ('PENDING', 'RESOLVED', 'DISCARDED')", name=op.f("ck_dead_letter_message_status")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dead_letter_message")),
    )
    op.create_index("ix_dead_letter_message_event_id", "dead_letter_message", ["event_id"], unique=False)
    op.create_index("ix_dead_letter_message_original_queue", "dead_letter_message", ["original_queue"], unique=False)
    op.create_index("ix_dead_letter_message_source", "dead_letter_message", ["source", "status"], unique=False)
    op.create_index("ix_dead_letter_message_status", "dead_letter_message", ["status", "created_at"], unique=False)
    op.create_table(
        "mail_send_record",
        sa.Column(
            "id",
            sa.BigInteger(),
            server_default=sa.text("nextval('send_record_id_seq')"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("server_config_id", sa.BigInteger(), nullable=True),
        sa.Column("from_address", sa.String(length=255), nullable=True),
        sa.Column("from_name", sa.String(length=100), nullable=True),
        sa.Column("envelope_sender", sa.String(length=255), nullable=True),
        sa.Column("to_addresses", JSONB(), nullable=False),
        sa.Column("cc_addresses", JSONB(), server_default="[]", nullable=False),
        sa.Column("bcc_addresses", JSONB(), server_default="[]", nullable=False),
        sa.Column("subject", sa.String(length=500), nullable=True),
        sa.Column("body_mode", sa.String(length=32), nullable=True),
        sa.Column("body_html", sa.Text(), nullable=True),
        sa.Column("body_text", sa.Text(), nullable=True),
        sa.Column("reply_to", sa.String(length=255), nullable=True),
        sa.Column("priority", sa.String(length=10), nullable=True),
        sa.Column("read_receipt_requested", sa.Boolean(), nullable=True),
        sa.Column("auto_submitted", sa.Boolean(), server_default="true", nullable=False),
        sa.Column("headers", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("recipient_results", JSONB(), server_default="{}", nullable=False),
        sa.Column("message_id", sa.String(length=255), nullable=True),
        sa.Column("read_receipt_received", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("read_receipt_received_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("bounced", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("bounce_code", sa.String(length=20), nullable=True),
        sa.Column("bounced_recipients", JSONB(none_as_null=True), nullable=True),
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
        sa.Column("prepared_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error_code", sa.String(length=100), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("send_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.Column("request_hash", sa.String(length=64), nullable=True),
        sa.Column("trace_id", sa.String(length=32), nullable=True),
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
            "(status = 'SENDING') = (claimed_at IS NOT NULL)", name=op.f("ck_mail_send_record_claimed_while_sending")
        ),
        sa.CheckConstraint(
            "body_mode IN ('HTML', 'PLAIN', 'HTML_WITH_DERIVED_PLAIN', 'HTML_WITH_AUTHORED_PLAIN')",
            name=op.f("ck_mail_send_record_body_mode"),
        ),
        sa.CheckConstraint("priority IN ('HIGH', 'NORMAL', 'LOW')", name=op.f("ck_mail_send_record_priority")),
        sa.CheckConstraint("scope IN ('TENANT', 'PLATFORM')", name=op.f("ck_mail_send_record_scope")),
        sa.CheckConstraint(
            "status IN ('PENDING', 'SENDING', 'SENT', 'RETRY', 'FAILED', 'DEAD_LETTER')",
            name=op.f("ck_mail_send_record_status"),
        ),
        sa.CheckConstraint("lane BETWEEN 1 AND 3", name=op.f("ck_mail_send_record_lane")),
        sa.CheckConstraint("retry_count >= 0", name=op.f("ck_mail_send_record_retry_count")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mail_send_record")),
        postgresql_with={
            "autovacuum_vacuum_scale_factor": "0",
            "autovacuum_vacuum_threshold": "20000",
            "autovacuum_vacuum_cost_delay": "0",
        },
    )
    op.create_index("ix_mail_send_created", "mail_send_record", ["tenant_id", "created_at", "id"], unique=False)
    op.create_index(
        "ix_mail_send_message_id",
        "mail_send_record",
        ["message_id"],
        unique=True,
        postgresql_where=sa.text("message_id IS NOT NULL"),
    )
    op.create_index(
        "ix_mail_send_ready",
        "mail_send_record",
        ["tenant_id", "lane", "next_attempt_at"],
        unique=False,
        postgresql_where=sa.text("ready"),
    )
    op.create_index(
        "ix_mail_send_sending",
        "mail_send_record",
        ["claimed_at"],
        unique=False,
        postgresql_where=sa.text("status = 'SENDING'"),
    )
    op.create_index(
        "ix_mail_send_unsent",
        "mail_send_record",
        ["tenant_id", "status", "created_at", "id"],
        unique=False,
        postgresql_where=sa.text("status IN ('PENDING', 'RETRY', 'FAILED', 'DEAD_LETTER')"),
    )
    op.create_index(
        "ix_mail_send_waiting",
        "mail_send_record",
        ["next_attempt_at"],
        unique=False,
        postgresql_where=sa.text("NOT ready"),
    )
    op.create_index(
        "uq_mail_send_idempotency_key",
        "mail_send_record",
        ["tenant_id", "idempotency_key"],
        unique=True,
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )
    op.create_table(
        "mail_send_server_config",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("description", sa.String(length=500), nullable=True),
        sa.Column("protocol", sa.String(length=10), server_default="SMTP", nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("ssl_enabled", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("starttls_enabled", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("username", sa.String(length=255), nullable=True),
        sa.Column("password", sa.Text(), nullable=True),
        sa.Column("from_address", sa.String(length=255), nullable=True),
        sa.Column("from_name", sa.String(length=100), nullable=True),
        sa.Column("reply_to_address", sa.String(length=255), nullable=True),
        sa.Column("envelope_sender", sa.String(length=255), nullable=True),
        sa.Column("read_receipt_enabled", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("is_default", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("active", sa.Boolean(), server_default="true", nullable=False),
        sa.Column("sequence", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by_id", sa.BigInteger(), nullable=True),
        sa.Column("updated_by_id", sa.BigInteger(), nullable=True),
        sa.Column("created_by", sa.String(length=100), nullable=True),
        sa.Column("updated_by", sa.String(length=100), nullable=True),
        sa.CheckConstraint("protocol IN ('SMTP', 'SMTPS')", name=op.f("ck_mail_send_server_config_protocol")),
        sa.CheckConstraint(
            "NOT (ssl_enabled AND starttls_enabled)", name=op.f("ck_mail_send_server_config_one_kind_of_tls")
        ),
        sa.CheckConstraint("port BETWEEN 1 AND 65535", name=op.f("ck_mail_send_server_config_port")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mail_send_server_config")),
    )
    op.create_index(
        "ix_mail_send_server_config_default", "mail_send_server_config", ["tenant_id", "is_default"], unique=False
    )
    op.create_table(
        "send_attempt",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("channel", sa.String(length=10), nullable=False),
        sa.Column("record_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.String(length=20), nullable=True),
        sa.Column("category", sa.String(length=20), nullable=True),
        sa.Column("error_code", sa.String(length=100), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("provider", sa.String(length=20), nullable=True),
        sa.Column("config_id", sa.BigInteger(), nullable=True),
        sa.Column("worker_name", sa.String(length=255), nullable=True),
        sa.Column("trace_id", sa.String(length=32), nullable=True),
        sa.CheckConstraint(
            "outcome IN ('SENT', 'PARTIAL', 'RETRY', 'FAILED', 'DEAD_LETTER', 'SWEPT')",
            name=op.f("ck_send_attempt_outcome"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_send_attempt")),
        sa.UniqueConstraint("record_id", "attempt_no", name=op.f("uq_send_attempt_record_id_attempt_no")),
    )


def downgrade() -> None:
    for table in ("send_attempt", "mail_send_record", "mail_send_server_config", "dead_letter_message"):
        op.drop_table(table)
    op.execute("DROP SEQUENCE send_record_id_seq")
