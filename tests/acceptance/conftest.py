"""Fixtures of the acceptance tests: a system of real processes, and its logs when a test fails."""

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from messaging.embedded import Postgres, Valkey
from tests.acceptance.system import SHOWN_LOG_CHARS, STANDING, MessagingSetup
from tests.conftest import TEMPLATE
from tests.far_end import packages

#: Starts a system: `start(mail_workers=2, beats=2, STRANDED...="1")`.
Start = Callable[..., MessagingSetup]


@pytest.fixture(params=["valkey"])
def broker_kind(request: pytest.FixtureRequest) -> str:
    """`valkey`; tests of broker faults ask for `redis-server` too."""
    kind: str = request.param
    return kind


@pytest.fixture
def start(
    servers_folder: Path, postgres: Postgres, database_url: str, secrets_key: str, broker_kind: str
) -> Iterator[Start]:
    """Starts the system of this test, and ends it; a second one beside it has a database of its own."""
    made: list[MessagingSetup] = []
    databases: list[str] = []

    def find_database() -> str:
        if not made:
            return database_url
        databases.append(f"test_{os.urandom(6).hex()}")
        postgres.create_database(databases[-1], template=TEMPLATE)
        return postgres.url(databases[-1])

    def assemble(
        *,
        mail_workers: int = 1,
        threads: int = 4,
        control: bool = True,
        beats: int = 1,
        settings: Mapping[str, str] | None = None,
        has_server: bool = True,
        broker: str = broker_kind,
    ) -> MessagingSetup:
        folder = servers_folder / f"system-{uuid.uuid4().hex[:12]}"
        folder.mkdir()
        setup = MessagingSetup.assemble(
            find_database(), start_broker(broker, folder), secrets_key, folder, settings or {}
        )
        made.append(setup)
        if has_server:
            setup.add_server()
        for n in range(mail_workers):
            setup.add_worker(f"mail{n}", "mail_send", threads=threads)
        if control:
            setup.add_worker("control", "control", threads=2)
        for n in range(beats):
            setup.add_beat(f"beat{n}")
        return setup.wait_ready()

    yield assemble
    for setup in made:
        setup.teardown()
    for name in databases:
        postgres.drop_database(name)


def start_broker(kind: str, folder: Path) -> Valkey:
    """A broker of its own."""
    if kind == "valkey":
        return Valkey(folder).start()
    program = packages.require(kind)
    return Valkey(folder, binary=program.path, library_path=program.library_path).start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[None]") -> Any:
    """A failure shows the end of every process' log."""
    report = yield
    if report.failed:
        for setup in STANDING:
            for name, log in setup.logs().items():
                report.sections.append((f"log of {name}", log[-SHOWN_LOG_CHARS:]))
    return report
