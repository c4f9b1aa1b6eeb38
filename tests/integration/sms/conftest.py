"""Fixtures of the SMS channel's tests."""

import pytest
from sqlalchemy import Engine

from messaging import tenancy
from tests.conftest import MakeSettings
from tests.integration.sms.accounts import Accounts


@pytest.fixture
def accounts(make_settings: MakeSettings, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Accounts:
    """Rows of tenant 7 and others, with multi-tenancy on."""
    make_settings()
    monkeypatch.setattr(tenancy, "_multi_tenancy", True)
    return Accounts(engine)
