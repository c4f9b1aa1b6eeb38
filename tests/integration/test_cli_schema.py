"""`messaging db check` in a process of its own, where no other test has imported a table."""

import os
import subprocess
import sys


def test_a_process_of_its_own_knows_all_tables(database_url: str, secrets_key: str) -> None:
    variables = {
        "MESSAGING_DATABASE_URL": database_url,
        "MESSAGING_REDIS_URL": "redis://127.0.0.1:1/0",
        "MESSAGING_SECRETS_KEYS": secrets_key,
    }
    ended = subprocess.run(
        [sys.executable, "-m", "messaging.cli", "db", "check"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "the database is what the models say\n", "")
