"""Fixtures of the SMS channel's tests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine

from messaging import tenancy
from tests.conftest import MakeSettings
from tests.integration.sms.accounts import Accounts
from tests.integration.sms.desk import SmsDesk


@pytest.fixture
def accounts(make_settings: MakeSettings, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Accounts:
    """Rows of tenant 7 and others, with multi-tenancy on."""
    make_settings()
    monkeypatch.setattr(tenancy, "_multi_tenancy", True)
    return Accounts(engine)


@pytest.fixture
def make_desk(
    make_settings: MakeSettings, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., SmsDesk]]:
    """A desk of the one tenant whose settings differ from the defaults as told."""
    monkeypatch.setattr(tenancy, "_multi_tenancy", False)
    made: list[SmsDesk] = []

    def make(**overrides: Any) -> SmsDesk:
        made.append(SmsDesk(engine, make_settings(**{"config_cache_ttl_seconds": 0, **overrides})))
        return made[-1]

    yield make
    for desk in made:
        desk.close()


@pytest.fixture
def desk(make_desk: Callable[..., SmsDesk]) -> SmsDesk:
    return make_desk()
