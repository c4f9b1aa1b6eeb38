"""Which bucket and which month a record belongs to."""

import os
import time
from datetime import datetime

import pytest

from messaging import tenancy
from messaging.quota import bucket, period
from messaging.requests import MessageScope


@pytest.mark.parametrize(
    ("now", "month"),
    [
        ("2026-03-31T12:00:00Z", "2026-03"),
        ("2024-02-29T23:59:59Z", "2024-02"),
        ("2026-01-01T00:00:00Z", "2026-01"),
    ],
)
def test_a_month_is_that_of_the_calendar(now: str, month: str) -> None:
    assert period(datetime.fromisoformat(now), "UTC") == month  # quota-01


@pytest.mark.parametrize(
    ("now", "utc", "shanghai"),
    [
        ("2026-03-31T15:59:59Z", "2026-03", "2026-03"),
        ("2026-03-31T16:00:00Z", "2026-03", "2026-04"),
        ("2026-04-01T00:00:00Z", "2026-04", "2026-04"),
    ],
)
@pytest.mark.parametrize("machine", ["UTC", "America/New_York"])
def test_one_zone_decides_the_month_whatever_the_machines(
    now: str, utc: str, shanghai: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "TZ", machine)  # quota-02
    time.tzset()
    try:
        moment = datetime.fromisoformat(now)
        assert (period(moment, "UTC"), period(moment, "Asia/Shanghai")) == (utc, shanghai)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_platform_scope_is_charged_to_the_platform_and_tenant_scope_to_the_tenant() -> None:
    tenancy.use_multi_tenancy(True)  # operate.md O41
    assert [bucket(scope, 7) for scope in (MessageScope.TENANT, MessageScope.PLATFORM)] == [7, -1]
    tenancy.use_multi_tenancy(False)
    assert [bucket(scope, 0) for scope in (MessageScope.TENANT, MessageScope.PLATFORM)] == [0, 0]
