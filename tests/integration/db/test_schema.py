"""The schema's version: what a database has, what the code expects, and how a difference is said."""

import subprocess
import sys

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, text

from messaging.db import schema
from messaging.errors import ConfigurationError


def test_the_revisions_read_from_the_files_are_alembics() -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.migrations_folder()))
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config)
    assert schema.revisions() == [script.revision for script in scripts.walk_revisions()][::-1]
    assert schema.head() == scripts.get_current_head()


def test_a_migrated_database_is_at_the_head(engine: Engine) -> None:
    assert schema.current(engine) == schema.head()
    schema.require_head(engine)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DROP TABLE alembic_version", "at nothing, this code needs .*; run: messaging db upgrade"),
        ("DELETE FROM alembic_version", "at nothing, this code needs .*; run: messaging db upgrade"),
        ("UPDATE alembic_version SET version_num = 'later'", "at later, which this code does not know"),
    ],
    ids=["never migrated", "emptied", "newer"],
)
def test_another_version_is_refused(engine: Engine, change: str, words: str) -> None:
    with engine.begin() as connection:
        connection.execute(text(change))
    with pytest.raises(ConfigurationError, match=words):
        schema.require_head(engine)


def test_a_worker_does_not_load_alembic() -> None:
    code = "import sys, tasks.deliver, tasks.dispatch, tasks.worker; sys.exit('alembic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
