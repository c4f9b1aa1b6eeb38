"""`messaging db ...`: the database schema."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from messaging.cli.acting import EXIT_WRONG

if TYPE_CHECKING:
    from sqlalchemy import Engine

db = typer.Typer(help="The database schema.")


@contextmanager
def _database() -> "Iterator[tuple[Engine, str]]":
    """The database and its address."""
    from messaging.db.encryption import use_keys
    from messaging.db.engine import create_engine
    from messaging.settings import load_settings

    settings = load_settings()
    use_keys(settings.secrets_keys)  # a migration may find something to encrypt
    engine = create_engine(settings, pool_size=1, application_name="messaging db")
    try:
        yield engine, settings.database_url
    finally:
        engine.dispose()


@db.command()
def upgrade() -> None:
    """Bring the database up to the schema this code needs; several at once wait for each other."""
    from messaging.db import schema

    with _database() as (engine, url):
        before = schema.current(engine)
        schema.upgrade(url)
        after = schema.current(engine)
    earlier = "as before" if before == after else f"before it was at {before or 'nothing'}"
    typer.echo(f"the schema is at {after}, {earlier}")


@db.command()
def current() -> int:
    """Print the schema's revision and the one this code needs; exit 1 when they differ."""
    from messaging.db import schema

    with _database() as (engine, _):
        found, head = schema.current(engine), schema.head()
    typer.echo(f"{found or 'nothing'} (this code needs {head})")
    return 0 if found == head else EXIT_WRONG


@db.command()
def check() -> int:
    """Compare the database with the models; exit 1 and a line each when they differ."""
    import messaging.tables  # noqa: F401 - what is compared
    from messaging.db import schema

    with _database() as (engine, _), warnings.catch_warnings():
        # Alembic says of every generated column that it cannot tell whether its expression changed.
        warnings.filterwarnings("ignore", message="Computed default", category=UserWarning)
        schema.require_head(engine)
        differences = schema.differences(engine)
    for difference in differences:
        typer.echo(difference)
    if not differences:
        typer.echo("the database is what the models say")
    return EXIT_WRONG if differences else 0
