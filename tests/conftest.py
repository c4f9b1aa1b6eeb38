"""Fixtures of every test that needs a database or a broker: real servers, one of each for each pytest-xdist worker."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from cryptography.fernet import Fernet
from psycopg import sql
from sqlalchemy import Engine

from messaging import metrics
from messaging.api import process
from messaging.child_process import birth
from messaging.db import schema
from messaging.db.encryption import use_keys
from messaging.db.engine import create_engine
from messaging.embedded import Postgres, Valkey
from messaging.settings import Settings
from tests.databases import TEMPLATE, Databases

#: What this process counts goes to one folder from the first count on, whichever test makes it: a counter keeps its
#: file.
os.environ[metrics.DIRECTORY_VARIABLE] = METRICS_FOLDER = tempfile.mkdtemp(prefix="messaging-test-metrics-")
atexit.register(shutil.rmtree, METRICS_FOLDER, ignore_errors=True)

#: A crash of the machine may cost these databases everything; a crash of the server, nothing.
FAST_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "shared_buffers": "64MB",
}

SERVERS_PREFIX = "messaging-tests-"

#: Makes settings on the test's database; see the fixture `make_settings`.
MakeSettings = Callable[..., Settings]

#: How a test says that a program it needs cannot be had on this machine; in CI that is a failure.
FAR_END_MISSING = "far end missing"


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a developer has exported does not change what a test sees."""
    for name in [name for name in os.environ if name.startswith("MESSAGING_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def servers_folder() -> Iterator[Path]:
    """Where servers of this worker keep their files: a folder that also the user `nobody` may enter."""
    _remove_left_behind()
    folder = Path(tempfile.mkdtemp(prefix=f"{SERVERS_PREFIX}{os.getpid()}-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _remove_left_behind() -> None:
    """Folders of runs that were killed: each is worth 60 MB."""
    for folder in Path(tempfile.gettempdir()).glob(f"{SERVERS_PREFIX}*-*"):
        pid = folder.name.removeprefix(SERVERS_PREFIX).partition("-")[0]
        if pid.isdigit() and not birth(int(pid)) and folder.stat().st_uid == os.geteuid():
            shutil.rmtree(folder, ignore_errors=True)


class MigratedServers:
    """An embedded PostgreSQL of each version that a test asks for, with a migrated database to copy."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: dict[int, Postgres] = {}
        self._databases: dict[int, Databases] = {}

    def get(self, version: int) -> Postgres:
        if version not in self._servers:
            server = Postgres(self._folder, settings=FAST_SETTINGS, version=version).start()
            self._servers[version] = server
            _make_log_ins_cheap(server)
            server.create_database(TEMPLATE)
            schema.upgrade(server.url(TEMPLATE))
            self._databases[version] = Databases(server)
        return self._servers[version].start()

    def databases(self, version: int) -> Databases:
        """Of the server that `get` has answered."""
        return self._databases[version]

    def stop(self) -> None:
        for databases in self._databases.values():
            databases.close()
        for server in self._servers.values():
            server.stop()


def _make_log_ins_cheap(server: Postgres) -> None:
    """By default a client computes for 2 ms at each log-in, which is half of what it costs; tests log in a lot."""
    with psycopg.connect(server.url("postgres").replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("SET scram_iterations = 1")
        connection.execute(sql.SQL("ALTER ROLE postgres PASSWORD {}").format(server.password))


@pytest.fixture(scope="session")
def migrated_servers(servers_folder: Path) -> Iterator[MigratedServers]:
    servers = MigratedServers(servers_folder)
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def postgres(migrated_servers: MigratedServers, request: pytest.FixtureRequest) -> Postgres:
    """PostgreSQL 18; for tests marked `postgres16`, both 18 and 16."""
    return migrated_servers.get(getattr(request, "param", 18))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("postgres16") and "postgres" in metafunc.fixturenames:
        metafunc.parametrize("postgres", [18, 16], indirect=True, ids=["pg18", "pg16"], scope="session")


@pytest.fixture
def database_url(postgres: Postgres, migrated_servers: MigratedServers) -> Iterator[str]:
    """A migrated database that is empty and this test's own."""
    databases = migrated_servers.databases(postgres.version)
    name = databases.take()
    yield postgres.url(name)
    databases.give_back(name)


@pytest.fixture(scope="session")
def valkey(servers_folder: Path) -> Iterator[Valkey]:
    with Valkey(servers_folder) as server:
        yield server


@pytest.fixture
def redis_client(valkey: Valkey) -> Iterator["redis.Redis"]:
    """A client of this worker's Valkey, which is empty when the test begins."""
    with redis.Redis.from_url(valkey.start().url) as client:
        client.flushall()
        yield client


@pytest.fixture(scope="session")
def secrets_key() -> str:
    return Fernet.generate_key().decode()


@pytest.fixture
def make_settings(database_url: str, valkey: Valkey, secrets_key: str) -> MakeSettings:
    """Settings on this test's database, with the nudge off; an override of an area is a dict."""

    def make(**overrides: Any) -> Settings:
        dispatch = {"nudge": "", **overrides.pop("dispatch", {})}
        given = {"database_url": database_url, "redis_url": valkey.url, "secrets_keys": (secrets_key,), **overrides}
        settings = Settings(dispatch=dispatch, **given)
        use_keys(settings.secrets_keys)
        return settings

    return make


@pytest.fixture
def unconfigured() -> Iterator[None]:
    """The test begins in a process that nobody has set up, and what it sets up is undone."""
    with process.unconfigured():
        yield


@pytest.fixture
def settings(make_settings: MakeSettings) -> Settings:
    return make_settings()


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    engine = create_engine(settings)
    yield engine
    engine.dispose()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[None]") -> Any:
    """In CI a far end that is missing fails the test that needs it."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith(FAR_END_MISSING):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid}: {reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"tests skipped: {len(terminalreporter.stats.get('skipped', []))}")
