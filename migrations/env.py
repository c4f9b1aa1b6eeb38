"""Alembic's entry: runs the migrations on the connection it is handed, or prints their SQL."""

from alembic import context

import messaging.tables  # noqa: F401 - fills the metadata
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
