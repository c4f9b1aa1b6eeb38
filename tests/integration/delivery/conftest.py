"""Fixtures of the delivery core: records on a database of the test's own, and the mail channel over them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine

from messaging.clock import Ticker, boot_seconds, utc_now
from messaging.http.client import HttpClient, HttpLimits
from messaging.mail.channel import MailChannel
from messaging.mail.smtp import SmtpTransport
from messaging.settings import Settings
from messaging.sms.channel import SmsChannel
from messaging.tenancy import use_multi_tenancy
from tests.far_end.smtp_server import ScriptedSmtpServer
from tests.integration.delivery.desk import Desk
from tests.integration.delivery.records import Records


@pytest.fixture(autouse=True)
def _single_tenant() -> None:
    use_multi_tenancy(False)


@pytest.fixture
def make_channel() -> Iterator[Callable[..., MailChannel]]:
    """A mail channel as a worker process has it."""
    made: list[SmtpTransport] = []

    def make(engine: Engine, settings: Settings, ticker: Ticker = boot_seconds) -> MailChannel:
        transport = SmtpTransport(settings.mail.transport, ehlo_name="worker.example.org", ticker=ticker)
        made.append(transport)
        return MailChannel(engine, settings, transport, clock=utc_now, ticker=ticker)

    yield make
    for transport in made:
        transport.close_all()


@pytest.fixture
def records(engine: Engine, settings: Settings, make_channel: Callable[..., MailChannel]) -> Records:
    return Records(engine, make_channel(engine, settings))


@pytest.fixture
def sms_channel(engine: Engine, settings: Settings) -> Iterator[SmsChannel]:
    """A channel of text messages as a worker process has it."""
    client = HttpClient(HttpLimits.of(settings))
    yield SmsChannel(engine, settings, client, clock=utc_now, ticker=boot_seconds)
    client.close()


@pytest.fixture
def sms_records(engine: Engine, sms_channel: SmsChannel) -> Records:
    return Records(engine, sms_channel)


@pytest.fixture
def make_desk(
    engine: Engine, make_settings: Callable[..., Settings], make_channel: Callable[..., MailChannel]
) -> Iterator[Callable[..., Desk]]:
    """A desk whose settings differ from the defaults as told; its SMTP server has the options of `smtp`."""
    made: list[Desk] = []

    def make(*, smtp: dict[str, Any] | None = None, **overrides: Any) -> Desk:
        settings = make_settings(**{"config_cache_ttl_seconds": 0, **overrides})
        made.append(Desk(engine, settings, make_channel, ScriptedSmtpServer(**smtp or {}).start()))
        return made[-1]

    yield make
    for desk in made:
        desk.close()


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    """A desk with one mail server, the default."""
    made = make_desk()
    made.add_server()
    return made
