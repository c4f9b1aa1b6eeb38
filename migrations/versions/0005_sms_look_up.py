"""Text messages: when a provider was asked about a lost reply; what may be a secret of an account is encrypted.

Safe while workers run. The column has no default, so no row is rewritten, and who does not know it leaves it null: such
a worker's look-ups are as they were. The index holds one rare state and is empty as a rule, but finding that out reads
the table once, and writes wait for it: about a second for each million records. Where that is too long, make it before
this runs, outside a transaction, as `CREATE INDEX CONCURRENTLY` with the same name; it is then left as it is.

The values are sealed in place (`messaging.sms.ext_config`), in as many rows as there are accounts. A process of the
version before reads a sealed value as missing: receipts of accounts with `authToken` are checked again, and callback
addresses sent again, once it is replaced.
"""

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import context, op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sms_send_record", sa.Column("asked_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "ix_sms_send_swept",
        "sms_send_record",
        ["provider_config_id", "phone_number"],
        unique=False,
        postgresql_where=sa.text("status = 'RETRY' AND swept_at IS NOT NULL"),
        if_not_exists=True,
    )
    if not context.is_offline_mode():
        from messaging.sms.ext_config import seal

        _rewrite(seal)


def _rewrite(change: Callable[[Any], Any]) -> None:
    """Raises: ConfigurationError, where there is something to encrypt or to read and no key in use."""
    connection = op.get_bind()
    rows = connection.execute(
        sa.text("SELECT id, ext_config FROM sms_provider_config WHERE jsonb_typeof(ext_config) = 'object' FOR UPDATE")
    ).fetchall()
    for row in rows:
        changed = change(row.ext_config)
        if changed != row.ext_config:
            connection.execute(
                sa.text("UPDATE sms_provider_config SET ext_config = CAST(:changed AS jsonb) WHERE id = :id"),
                {"changed": json.dumps(changed), "id": row.id},
            )


def downgrade() -> None:
    if not context.is_offline_mode():
        from messaging.sms.ext_config import unseal

        _rewrite(unseal)  # the version before would take a sealed value for a missing one
    op.drop_index("ix_sms_send_swept", table_name="sms_send_record")
    op.drop_column("sms_send_record", "asked_at")
