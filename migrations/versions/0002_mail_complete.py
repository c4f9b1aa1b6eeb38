"""Templates, stored files, quotas, seeds, and the columns of record and server that belong to them.

Adds nullable columns and columns with constant defaults, which rewrite no table: safe while workers of the version
before run. They ignore what they do not know; accept with the new code after their end only, as they would send a
record that names a template without one.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_RECORD = (
    ("template_id", sa.BigInteger()),
    ("template_code", sa.String(length=100)),
    ("template_variables", sa.JSON(none_as_null=True)),
    ("missing_variables", JSONB(none_as_null=True)),
    ("attachments", JSONB(none_as_null=True)),
    ("unsubscribe_list", sa.String(length=50)),
)
_SERVER = (
    ("daily_send_limit", sa.Integer()),
    ("rate_limit_per_minute", sa.Integer()),
    ("dkim_domain", sa.String(length=255)),
    ("dkim_selector", sa.String(length=63)),
    ("dkim_private_key", sa.Text()),
)


def _id() -> sa.Column[int]:
    return sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False)


def _tenant_id() -> sa.Column[int]:
    return sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False)


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
    for name, type_ in _RECORD:
        op.add_column("mail_send_record", sa.Column(name, type_, nullable=True))
    for name, type_ in _SERVER:
        op.add_column("mail_send_server_config", sa.Column(name, type_, nullable=True))
    op.add_column("mail_send_server_config", sa.Column("verp", sa.Boolean(), server_default="false", nullable=False))
    op.create_table(
        "mail_template",
        _id(),
        _tenant_id(),
        sa.Column("code", sa.String(length=100), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("description", sa.String(length=500), nullable=True),
        sa.Column("strict", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("active", sa.Boolean(), server_default="true", nullable=False),
        sa.Column("subject", sa.String(length=500), nullable=True),
        sa.Column("body_html", sa.Text(), nullable=True),
        sa.Column("body_text", sa.Text(), nullable=True),
        sa.Column("body_mode", sa.String(length=32), server_default="HTML_WITH_DERIVED_PLAIN", nullable=False),
        sa.Column("inline_css", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("default_priority", sa.String(length=10), nullable=True),
        sa.Column("reply_to", sa.String(length=255), nullable=True),
        sa.Column("attachments", JSONB(none_as_null=True), nullable=True),
        sa.Column("preferred_server_config_id", sa.BigInteger(), nullable=True),
        *_audit(),
        sa.CheckConstraint(
            "body_mode IN ('HTML', 'PLAIN', 'HTML_WITH_DERIVED_PLAIN', 'HTML_WITH_AUTHORED_PLAIN')",
            name=op.f("ck_mail_template_body_mode"),
        ),
        sa.CheckConstraint(
            "default_priority IN ('HIGH', 'NORMAL', 'LOW')", name=op.f("ck_mail_template_default_priority")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mail_template")),
        sa.UniqueConstraint("tenant_id", "code", name=op.f("uq_mail_template_tenant_id_code")),
    )
    op.create_table(
        "stored_file",
        _id(),
        _tenant_id(),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("file_name", sa.String(length=255), nullable=False),
        sa.Column("content_type", sa.String(length=255), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("location", sa.String(length=1000), nullable=True),
        sa.Column("content", sa.LargeBinary(), nullable=True),
        *_audit(),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stored_file")),
    )
    # Not compressed, so that a part of it is read without the rest; what is attached mostly is compressed already.
    op.execute("ALTER TABLE stored_file ALTER COLUMN content SET STORAGE EXTERNAL")
    op.create_index("ix_stored_file_sha256", "stored_file", ["tenant_id", "sha256"], unique=False)
    op.create_table(
        "tenant_message_quota",
        _id(),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("mail_monthly_limit", sa.BigInteger(), nullable=True),
        sa.Column("sms_monthly_limit", sa.BigInteger(), nullable=True),
        *_audit(),
        sa.CheckConstraint(
            "mail_monthly_limit >= 0 AND sms_monthly_limit >= 0", name=op.f("ck_tenant_message_quota_limits")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tenant_message_quota")),
        sa.UniqueConstraint("tenant_id", name=op.f("uq_tenant_message_quota_tenant_id")),
    )
    op.create_table(
        "tenant_message_usage",
        _id(),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("period", sa.CHAR(length=7), nullable=False),
        sa.Column("mail_used", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("sms_used", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("mail_limit", sa.BigInteger(), nullable=True),
        sa.Column("sms_limit", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.BigInteger(), server_default="0", nullable=False),
        *_audit(),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tenant_message_usage")),
        sa.UniqueConstraint("tenant_id", "period", name=op.f("uq_tenant_message_usage_tenant_id_period")),
    )
    op.create_table(
        "seed_ledger",
        _id(),
        _tenant_id(),
        sa.Column("model", sa.String(length=50), nullable=False),
        sa.Column("seed_key", sa.String(length=100), nullable=False),
        sa.Column("row_id", sa.BigInteger(), nullable=False),
        sa.Column("applied_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        *_audit(),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_seed_ledger")),
        sa.UniqueConstraint("tenant_id", "model", "seed_key", name=op.f("uq_seed_ledger_tenant_id_model_seed_key")),
    )


def downgrade() -> None:
    for table in ("seed_ledger", "tenant_message_usage", "tenant_message_quota", "stored_file", "mail_template"):
        op.drop_table(table)
    for name in ("verp", *(name for name, _ in _SERVER)):
        op.drop_column("mail_send_server_config", name)
    for name, _ in _RECORD:
        op.drop_column("mail_send_record", name)
