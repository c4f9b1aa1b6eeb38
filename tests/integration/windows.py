"""What tests of the rate windows share: a clock they move, and windows on it."""

from datetime import UTC, datetime, timedelta

import redis
from cryptography.fernet import Fernet

from messaging.clock import Ticker, boot_seconds
from messaging.rate_limit import RateWindows
from messaging.settings import Settings

NOON = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)


class Clock:
    """Time that a test moves."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def go_to(self, now: datetime) -> None:
        self.now = now

    def pass_seconds(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def make_settings(url: str = "redis://127.0.0.1:1/0", *, zone: str = "UTC") -> Settings:
    """No database is asked."""
    key = Fernet.generate_key().decode()
    return Settings(
        database_url="postgresql://db.example/none", redis_url=url, secrets_keys=(key,), quota={"timezone": zone}
    )


def make_windows(client: redis.Redis, clock: Clock, *, zone: str = "UTC", ticker: Ticker = boot_seconds) -> RateWindows:
    return RateWindows(client, make_settings(zone=zone), clock=clock, ticker=ticker)
