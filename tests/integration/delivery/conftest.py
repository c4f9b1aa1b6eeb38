"""Fixtures of the delivery core: records on a database of the test's own, and the mail channel over them."""

import os
from collections.abc import Callable, Iterator

import psycopg
import pytest
from sqlalchemy import Engine

from messaging.clock import boot_seconds, utc_now
from messaging.embedded import Postgres
from messaging.mail.channel import MailChannel
from messaging.mail.smtp import SmtpTransport
from messaging.settings import Settings
from messaging.tenancy import use_multi_tenancy
from tests.conftest import TEMPLATE
from tests.integration.delivery.records import Records

#: What a test may leave behind.
TABLES = "mail_send_record, mail_send_server_config, send_attempt, dead_letter_message"


@pytest.fixture(scope="session")
def shared_database(postgres: Postgres) -> Iterator[str]:
    """One migrated database for these tests, which are many and small: making one takes longer than most of them."""
    name = f"delivery_{os.urandom(6).hex()}"
    postgres.create_database(name, template=TEMPLATE)
    yield name
    postgres.start().drop_database(name)


@pytest.fixture
def database_url(postgres: Postgres, shared_database: str) -> str:
    """An empty migrated database. A test that changes the schema puts it back."""
    url = postgres.start().url(shared_database)
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute(f"TRUNCATE {TABLES}")
    return url


@pytest.fixture(autouse=True)
def _single_tenant() -> None:
    use_multi_tenancy(False)


@pytest.fixture
def make_channel() -> Iterator[Callable[[Engine, Settings], MailChannel]]:
    """A mail channel as a worker process has it."""
    made: list[SmtpTransport] = []

    def make(engine: Engine, settings: Settings) -> MailChannel:
        transport = SmtpTransport(settings.mail.transport, ehlo_name="worker.example.org", ticker=boot_seconds)
        made.append(transport)
        return MailChannel(engine, settings, transport, clock=utc_now, ticker=boot_seconds)

    yield make
    for transport in made:
        transport.close_all()


@pytest.fixture
def records(engine: Engine, settings: Settings, make_channel: Callable[[Engine, Settings], MailChannel]) -> Records:
    return Records(engine, make_channel(engine, settings))
