"""The schema's version: upgrade, current, and whether models and database agree. Migrations lie beside the package."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from messaging.db.base import Base
from messaging.errors import ConfigurationError

#: Two upgrades at once: the second waits. Any constant nobody else uses.
_ADVISORY_LOCK = 7_272_740_001


def migrations_folder() -> Path:
    """Where the migrations lie: inside the installed package, or beside it in the source tree."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_migrations", package.parent / "migrations"):
        if (folder / "env.py").exists():
            return folder
    raise ConfigurationError(
        "the migrations are not part of this installation; install the wheel or use the source tree"
    )


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def head() -> str:
    """The revision this code expects."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    if revision is None:
        raise ConfigurationError("the migrations folder is empty")
    return revision


def upgrade(url: str, revision: str = "head") -> None:
    """Bring the database up to `revision`, in one transaction; several at once wait for each other."""
    engine = sa.create_engine(url)
    try:
        with engine.begin() as connection:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
            command.upgrade(_config(connection), revision)
    finally:
        engine.dispose()


def current(engine: Engine) -> str | None:
    """The database's revision; None before the first upgrade."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def require_head(engine: Engine) -> None:
    """Refuse a schema that is not what this code expects.

    Raises: ConfigurationError, with the command to run.
    """
    found, expected = current(engine), head()
    if found == expected:
        return
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if found is None or found in known:
        raise ConfigurationError(
            f"the schema is at {found or 'nothing'}, this code needs {expected}; run: messaging db upgrade"
        )
    raise ConfigurationError(f"the schema is at {found}, which this code does not know; install the newer version")


def differences(engine: Engine) -> list[str]:
    """How the database differs from the models imported so far, one line each; empty when they agree."""
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return [repr(difference) for difference in compare_metadata(context, Base.metadata)]
