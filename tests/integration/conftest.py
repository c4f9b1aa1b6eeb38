"""The command line on a database of the test's own, in the test's process."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from messaging import cli
from messaging.embedded import Valkey
from tests.integration.command_line import Answer, Run


@pytest.fixture
def run_command(
    database_url: str,
    valkey: Valkey,
    secrets_key: str,
    unconfigured: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Runs one command; what it configured is undone."""
    monkeypatch.setenv("MESSAGING_DATABASE_URL", database_url)
    monkeypatch.setenv("MESSAGING_REDIS_URL", valkey.url)
    monkeypatch.setenv("MESSAGING_SECRETS_KEYS", secrets_key)

    def run(*arguments: object) -> Answer:
        code = cli.run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Puts text into standard input; it is empty before."""
    opened = []

    def give(content: str) -> None:
        path = tmp_path / "stdin"
        path.write_text(content)
        opened.append(path.open())
        monkeypatch.setattr("sys.stdin", opened[-1])

    give("")
    yield give
    for file in opened:
        file.close()
