"""Batch jobs, counts of outcomes, versions of templates and what their authors try them with.

Safe while workers run: new tables, and columns that no worker of the version before knows.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "batch_job",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("actor", sa.String(length=50), nullable=False),
        sa.Column("channel", sa.String(length=10), nullable=False),
        sa.Column("action", sa.String(length=20), nullable=False),
        sa.Column("filter", postgresql.JSONB(), nullable=False),
        sa.Column("of_tenant_id", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.String(length=10), server_default="RUNNING", nullable=False),
        sa.Column("stop_requested", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("last_created_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_id", sa.BigInteger(), nullable=True),
        sa.Column("seen", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("counts", postgresql.JSONB(), server_default="{}", nullable=False),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by_id", sa.BigInteger(), nullable=True),
        sa.Column("updated_by_id", sa.BigInteger(), nullable=True),
        sa.Column("created_by", sa.String(length=100), nullable=True),
        sa.Column("updated_by", sa.String(length=100), nullable=True),
        sa.CheckConstraint("state IN ('RUNNING', 'DONE', 'STOPPED', 'FAILED')", name=op.f("ck_batch_job_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batch_job")),
    )
    op.create_index(
        "ix_batch_job_running", "batch_job", ["id"], unique=False, postgresql_where=sa.text("state = 'RUNNING'")
    )
    op.create_index("ix_batch_job_tenant", "batch_job", ["tenant_id", sa.literal_column("id DESC")], unique=False)
    op.create_table(
        "outcome_count",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("step_seconds", sa.Integer(), nullable=False),
        sa.Column("begins_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("channel", sa.String(length=10), nullable=False),
        sa.Column("outcome", sa.String(length=20), nullable=False),
        sa.Column("category", sa.String(length=20), nullable=True),
        sa.Column("config_id", sa.BigInteger(), nullable=True),
        sa.Column("template", sa.String(length=100), nullable=True),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outcome_count")),
    )
    op.create_index("ix_outcome_count_begins", "outcome_count", ["step_seconds", "begins_at"], unique=False)
    op.create_index(
        "uq_outcome_count_key",
        "outcome_count",
        [
            "tenant_id",
            "step_seconds",
            "begins_at",
            "channel",
            "outcome",
            "category",
            "config_id",
            "template",
        ],
        unique=True,
        postgresql_nulls_not_distinct=True,
    )
    op.create_table(
        "outcome_mark",
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_attempt_id", sa.BigInteger(), nullable=False),
        sa.Column("next_transaction", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("at", name=op.f("pk_outcome_mark")),
    )
    op.create_table(
        "template_version",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("channel", sa.String(length=10), nullable=False),
        sa.Column("template_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by_id", sa.BigInteger(), nullable=True),
        sa.Column("created_by", sa.String(length=100), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_template_version")),
        sa.UniqueConstraint(
            "channel", "template_id", "number", name=op.f("uq_template_version_channel_template_id_number")
        ),
    )
    op.add_column("mail_template", sa.Column("sample_variables", sa.JSON(), nullable=True))
    op.add_column("sms_template", sa.Column("sample_variables", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("sms_template", "sample_variables")
    op.drop_column("mail_template", "sample_variables")
    op.drop_table("template_version")
    op.drop_table("outcome_mark")
    op.drop_index("uq_outcome_count_key", table_name="outcome_count", postgresql_nulls_not_distinct=True)
    op.drop_index("ix_outcome_count_begins", table_name="outcome_count")
    op.drop_table("outcome_count")
    op.drop_index("ix_batch_job_tenant", table_name="batch_job")
    op.drop_index("ix_batch_job_running", table_name="batch_job", postgresql_where=sa.text("state = 'RUNNING'"))
    op.drop_table("batch_job")
