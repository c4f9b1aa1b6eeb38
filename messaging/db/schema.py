"""The schema's version: upgrade, current, and whether models and database agree. Migrations lie beside the package.

Alembic is imported where it works: a worker, which only compares two versions, would keep 7 MB for it.
"""

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from messaging.db.base import Base
from messaging.errors import ConfigurationError

if TYPE_CHECKING:
    from alembic.config import Config

#: Two upgrades at once: the second waits. Any constant nobody else uses.
_ADVISORY_LOCK = 7_272_740_001

#: How a migration names itself.
_REVISION = re.compile(r"""^revision(?:: str)? = ["'](\w+)["']""", re.MULTILINE)


def migrations_folder() -> Path:
    """Where the migrations lie: inside the installed package, or beside it in the source tree."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_migrations", package.parent / "migrations"):
        if (folder / "env.py").exists():
            return folder
    raise ConfigurationError(
        "the migrations are not part of this installation; install the wheel or use the source tree"
    )


def _config(connection: Connection) -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def head() -> str:
    """The revision this code expects."""
    return revisions()[-1]


def revisions() -> list[str]:
    """All revisions this code knows, oldest first: migrations are one line, in the order of their files' numbers."""
    found = []
    for path in sorted((migrations_folder() / "versions").glob("[0-9]*.py")):
        match = _REVISION.search(path.read_text(encoding="utf-8"))
        if match is None:
            raise ConfigurationError(f"the migration {path.name} names no revision")
        found.append(match[1])
    if not found:
        raise ConfigurationError("the migrations folder is empty")
    return found


def upgrade(url: str, revision: str = "head") -> None:
    """Bring the database up to `revision`, in one transaction; several at once wait for each other."""
    from alembic import command

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
        if connection.execute(sa.select(sa.func.to_regclass("alembic_version"))).scalar_one() is None:
            return None
        revision: str | None = connection.execute(
            sa.text("SELECT version_num FROM alembic_version")
        ).scalar_one_or_none()
        return revision


def require_head(engine: Engine) -> None:
    """Refuse a schema that is not what this code expects.

    Raises: ConfigurationError, with the command to run.
    """
    found, expected = current(engine), head()
    if found == expected:
        return
    if found is None or found in revisions():
        raise ConfigurationError(
            f"the schema is at {found or 'nothing'}, this code needs {expected}; run: messaging db upgrade"
        )
    raise ConfigurationError(f"the schema is at {found}, which this code does not know; install the newer version")


def differences(engine: Engine) -> list[str]:
    """How the database differs from the models imported so far, one line each; empty when they agree."""
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    with engine.connect() as connection, warnings.catch_warnings():
        # Alembic cannot compare a generated column's expression, as PostgreSQL words it anew, and says so.
        warnings.filterwarnings("ignore", message="Computed default on .* cannot be modified")
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return [repr(difference) for difference in compare_metadata(context, Base.metadata)]
