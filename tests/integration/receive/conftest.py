"""The library configured on the test's database, and what stands in it of mails sent and received."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

import messaging
from messaging import tenancy
from messaging.settings import Settings
from tests.integration.receive.books import Books


@pytest.fixture
def configured(settings: Settings, engine: Engine) -> Iterator[None]:
    """The public face, for one tenant."""
    messaging.configure(settings, engine=engine)
    tenancy.use_multi_tenancy(False)
    yield
    tenancy.use_multi_tenancy(False)


@pytest.fixture
def books(engine: Engine, settings: Settings) -> Books:
    return Books(engine, settings)


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with Session(engine) as opened:
        yield opened
