"""Alembic's entry: runs the migrations on the connection it is handed, or prints their SQL."""

from alembic import context

import messaging.access.models
import messaging.audit
import messaging.delivery.dead_letter
import messaging.files
import messaging.inbox.models
import messaging.mail.models
import messaging.provisioning
import messaging.quota
import messaging.receive.models
import messaging.retention.models
import messaging.sandbox.models
import messaging.sms.models
import messaging.suppression
import messaging.webhooks.models  # noqa: F401 - each fills the metadata
from messaging.db.base import Base

connection = context.config.attributes.get("connection")
context.configure(
    connection=connection,
    dialect_name=None if connection is not None else "postgresql",
    target_metadata=Base.metadata,
    literal_binds=connection is None,
    compare_type=True,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
