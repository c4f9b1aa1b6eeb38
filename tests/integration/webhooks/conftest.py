"""Fixtures of the webhook channel's tests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine

from messaging import tenancy
from tests.conftest import MakeSettings
from tests.integration.webhooks.desk import WebhookDesk


@pytest.fixture
def make_desk(
    make_settings: MakeSettings, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., WebhookDesk]]:
    """A desk of the one tenant that may call this host unless told otherwise."""
    monkeypatch.setattr(tenancy, "_multi_tenancy", False)
    made: list[WebhookDesk] = []

    def make(*, allow_private: bool = True, read_timeout_seconds: float = 15, **overrides: Any) -> WebhookDesk:
        transport = {"allow_private": allow_private, "read_timeout_seconds": read_timeout_seconds}
        settings = make_settings(**{"config_cache_ttl_seconds": 0, "webhooks": {"transport": transport}, **overrides})
        made.append(WebhookDesk(engine, settings))
        return made[-1]

    yield make
    for desk in made:
        desk.close()


@pytest.fixture
def desk(make_desk: Callable[..., WebhookDesk]) -> WebhookDesk:
    return make_desk()
