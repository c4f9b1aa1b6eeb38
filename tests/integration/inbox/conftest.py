"""Inboxes of one tenant, or of many, on the test's own database."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

import messaging
from messaging.settings import Settings
from tests.conftest import MakeSettings


@pytest.fixture(autouse=True)
def _one_tenant(settings: Settings, engine: Engine, unconfigured: None) -> None:
    messaging.configure(settings, engine=engine)


@pytest.fixture
def many_tenants(make_settings: MakeSettings, engine: Engine, _one_tenant: None) -> None:
    messaging.configure(make_settings(multi_tenancy=True), engine=engine)


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with Session(engine) as opened:
        yield opened
