"""Text messages: records, providers, routes, templates, bindings and receipts; the suppression list.

New tables only: safe while workers run.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0003"
down_revision = "0002"
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


def upgrade() -> None:
    op.create_table(
        "sms_provider_config",
        *_owned(),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("description", sa.String(length=500), nullable=True),
        sa.Column("provider_type", sa.String(length=20), nullable=False),
        sa.Column("api_key", sa.Text(), nullable=True),
        sa.Column("api_secret", sa.Text(), nullable=True),
        sa.Column("api_endpoint", sa.String(length=500), nullable=True),
        sa.Column("account_id", sa.String(length=255), nullable=True),
        sa.Column("ext_config", JSONB(none_as_null=True), nullable=True),
        sa.Column("sender_number", sa.String(length=50), nullable=True),
        sa.Column("sender_id", sa.String(length=50), nullable=True),
        sa.Column("rate_limit_per_minute", sa.Integer(), nullable=True),
        sa.Column("daily_send_limit", sa.Integer(), nullable=True),
        sa.Column("is_default", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("priority", sa.Integer(), server_default="100", nullable=False),
        sa.Column("receipt_token", sa.String(length=64), nullable=False),
        *_audit(),
        sa.Column("active", sa.Boolean(), server_default="true", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sms_provider_config")),
        sa.UniqueConstraint("receipt_token", name=op.f("uq_sms_provider_config_receipt_token")),
    )
    op.create_index("ix_sms_provider_config_default", "sms_provider_config", ["tenant_id", "is_default"], unique=False)
    op.create_table(
        "sms_provider_region",
        *_owned(),
        sa.Column("provider_config_id", sa.BigInteger(), nullable=False),
        sa.Column("region_code", sa.String(length=2), nullable=False),
        sa.Column("dial_code", sa.String(length=10), server_default="", nullable=False),
        sa.Column("priority", sa.Integer(), server_default="100", nullable=False),
        *_audit(),
        sa.Column("active", sa.Boolean(), server_default="true", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sms_provider_region")),
        sa.UniqueConstraint(
            "tenant_id",
            "provider_config_id",
            "region_code",
            name="uq_sms_provider_region_key",
        ),
    )
    op.create_index("ix_sms_provider_region_code", "sms_provider_region", ["tenant_id", "region_code"], unique=False)
    op.create_table(
        "sms_receipt",
        *_owned(),
        sa.Column("provider_config_id", sa.BigInteger(), nullable=False),
        sa.Column("provider_message_id", sa.String(length=255), nullable=True),
        sa.Column("status", sa.String(length=20), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("raw", sa.Text(), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("applied_at", sa.DateTime(timezone=True), nullable=True),
        *_audit(),
        sa.CheckConstraint(
            "status IN ('UNKNOWN', 'DELIVERED', 'UNDELIVERED', 'FAILED')", name=op.f("ck_sms_receipt_status")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sms_receipt")),
    )
    op.create_index(
        "ix_sms_receipt_message", "sms_receipt", ["provider_config_id", "provider_message_id"], unique=False
    )
    op.create_index(
        "ix_sms_receipt_waiting",
        "sms_receipt",
        ["received_at"],
        unique=False,
        postgresql_where=sa.text("applied_at IS NULL"),
    )
    op.create_table(
        "sms_send_record",
        sa.Column(
            "id",
            sa.BigInteger(),
            server_default=sa.text("nextval('send_record_id_seq')"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("phone_number", sa.String(length=50), nullable=False),
        sa.Column("template_code", sa.String(length=100), nullable=True),
        sa.Column("template_variables", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("missing_variables", JSONB(none_as_null=True), nullable=True),
        sa.Column("content", sa.Text(), nullable=True),
        sa.Column("provider_config_id", sa.BigInteger(), nullable=True),
        sa.Column("provider_type", sa.String(length=20), nullable=True),
        sa.Column("region_code", sa.String(length=3), nullable=True),
        sa.Column("sign_name", sa.String(length=50), nullable=True),
        sa.Column("external_template_id", sa.String(length=100), nullable=True),
        sa.Column("template_params", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("encoding", sa.String(length=4), nullable=True),
        sa.Column("segments", sa.SmallInteger(), nullable=True),
        sa.Column("priority", sa.String(length=10), nullable=True),
        sa.Column("provider_message_id", sa.String(length=255), nullable=True),
        sa.Column("delivery_status", sa.String(length=20), server_default="UNKNOWN", nullable=False),
        sa.Column("delivery_status_updated_at", sa.DateTime(timezone=True), nullable=True),
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
        *_audit(),
        sa.CheckConstraint(
            "(status = 'SENDING') = (claimed_at IS NOT NULL)", name=op.f("ck_sms_send_record_claimed_while_sending")
        ),
        sa.CheckConstraint(
            "delivery_status IN ('UNKNOWN', 'DELIVERED', 'UNDELIVERED', 'FAILED')",
            name=op.f("ck_sms_send_record_delivery_status"),
        ),
        sa.CheckConstraint("encoding IN ('GSM7', 'UCS2')", name=op.f("ck_sms_send_record_encoding")),
        sa.CheckConstraint("priority IN ('HIGH', 'NORMAL', 'LOW')", name=op.f("ck_sms_send_record_priority")),
        sa.CheckConstraint("scope IN ('TENANT', 'PLATFORM')", name=op.f("ck_sms_send_record_scope")),
        sa.CheckConstraint(
            "status IN ('PENDING', 'SENDING', 'SENT', 'RETRY', 'FAILED', 'DEAD_LETTER')",
            name=op.f("ck_sms_send_record_status"),
        ),
        sa.CheckConstraint("lane BETWEEN 1 AND 3", name=op.f("ck_sms_send_record_lane")),
        sa.CheckConstraint("retry_count >= 0", name=op.f("ck_sms_send_record_retry_count")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sms_send_record")),
        postgresql_with={
            "autovacuum_vacuum_scale_factor": "0",
            "autovacuum_vacuum_threshold": "20000",
            "autovacuum_vacuum_cost_delay": "0",
        },
    )
    op.create_index("ix_sms_send_created", "sms_send_record", ["tenant_id", "created_at", "id"], unique=False)
    op.create_index(
        "ix_sms_send_provider_message",
        "sms_send_record",
        ["provider_config_id", "provider_message_id"],
        unique=False,
        postgresql_where=sa.text("provider_message_id IS NOT NULL"),
    )
    op.create_index(
        "ix_sms_send_ready",
        "sms_send_record",
        ["tenant_id", "lane", "next_attempt_at"],
        unique=False,
        postgresql_where=sa.text("ready"),
    )
    op.create_index(
        "ix_sms_send_sending",
        "sms_send_record",
        ["claimed_at"],
        unique=False,
        postgresql_where=sa.text("status = 'SENDING'"),
    )
    op.create_index(
        "ix_sms_send_unsent",
        "sms_send_record",
        ["tenant_id", "status", "created_at", "id"],
        unique=False,
        postgresql_where=sa.text("status IN ('PENDING', 'RETRY', 'FAILED', 'DEAD_LETTER')"),
    )
    op.create_index(
        "ix_sms_send_waiting",
        "sms_send_record",
        ["next_attempt_at"],
        unique=False,
        postgresql_where=sa.text("NOT ready"),
    )
    op.create_index(
        "uq_sms_send_idempotency_key",
        "sms_send_record",
        ["tenant_id", "idempotency_key"],
        unique=True,
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )
    op.create_table(
        "sms_template",
        *_owned(),
        sa.Column("content", sa.Text(), nullable=True),
        sa.Column("to_gsm", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("max_segments", sa.SmallInteger(), nullable=True),
        sa.Column("code", sa.String(length=100), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("description", sa.String(length=500), nullable=True),
        sa.Column("strict", sa.Boolean(), server_default="false", nullable=False),
        *_audit(),
        sa.Column("active", sa.Boolean(), server_default="true", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sms_template")),
        sa.UniqueConstraint("tenant_id", "code", name=op.f("uq_sms_template_tenant_id_code")),
    )
    op.create_table(
        "sms_template_provider_binding",
        *_owned(),
        sa.Column("template_id", sa.BigInteger(), nullable=False),
        sa.Column("provider_config_id", sa.BigInteger(), nullable=False),
        sa.Column("region_code", sa.String(length=2), server_default="", nullable=False),
        sa.Column("external_template_id", sa.String(length=100), nullable=True),
        sa.Column("sign_name", sa.String(length=50), nullable=True),
        sa.Column("priority", sa.Integer(), server_default="100", nullable=False),
        *_audit(),
        sa.Column("active", sa.Boolean(), server_default="true", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sms_template_provider_binding")),
        sa.UniqueConstraint(
            "tenant_id",
            "template_id",
            "provider_config_id",
            "region_code",
            name="uq_sms_template_provider_binding_key",
        ),
    )
    op.create_table(
        "suppression",
        *_owned(),
        sa.Column("channel", sa.String(length=10), nullable=False),
        sa.Column("address", sa.String(length=255), nullable=False),
        sa.Column("sender", sa.String(length=255), server_default="", nullable=False),
        sa.Column("list", sa.String(length=50), server_default="", nullable=False),
        sa.Column("reason", sa.String(length=20), nullable=False),
        sa.Column("record_id", sa.BigInteger(), nullable=True),
        sa.Column("note", sa.String(length=500), nullable=True),
        sa.Column("lifted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lifted_note", sa.String(length=500), nullable=True),
        *_audit(),
        sa.CheckConstraint(
            "reason IN ('HARD_BOUNCE', 'COMPLAINT', 'OPT_OUT', 'UNSUBSCRIBED', 'MANUAL')",
            name=op.f("ck_suppression_reason"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_suppression")),
    )
    op.create_index(
        "uq_suppression_entry",
        "suppression",
        ["tenant_id", "channel", "address", "sender", "list"],
        unique=True,
        postgresql_where=sa.text("lifted_at IS NULL"),
    )


def downgrade() -> None:
    for table in (
        "suppression",
        "sms_template_provider_binding",
        "sms_template",
        "sms_send_record",
        "sms_receipt",
        "sms_provider_region",
        "sms_provider_config",
    ):
        op.drop_table(table)
