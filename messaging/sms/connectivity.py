"""Whether a provider of text messages takes an account's credentials, told without sending anything."""

import ssl
import time
from dataclasses import dataclass

from sqlalchemy import Engine

from messaging.clock import Ticker
from messaging.config_cache import own_config
from messaging.errors import DeliveryError, PreparationError
from messaging.http.client import HttpClient, HttpLimits
from messaging.settings import Settings
from messaging.sms.models import SMS_PROVIDER_CONFIG
from messaging.sms.provider_admin import WHAT
from messaging.sms.providers import registry
from messaging.sms.providers.base import Rejected
from messaging.sms.routing import provider_config

#: Seconds that the connection and, once asked, the whole answer may take: somebody waits for it.
MAX_CONNECT_SECONDS = 5.0
MAX_REPLY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ProviderTest:
    """What came of a test. Holds no secret: what a provider says is freed of them."""

    success: bool
    provider_type: str
    #: Whether it was called: not where the configuration lacks something, nor where the provider has nothing to read.
    was_called: bool
    #: Milliseconds until it had answered, or the test had failed.
    latency_ms: int
    #: Marker or code, and reason; None on success.
    error_message: str | None


def try_provider(
    engine: Engine,
    settings: Settings,
    config_id: int,
    *,
    ticker: Ticker = time.monotonic,
    verify: ssl.SSLContext | None = None,
) -> ProviderTest:
    """Check the configuration of a provider of the current tenant, disabled or not, and read something of its account.

    What is read is each adapter's `try_account`: it costs nothing and sends nothing. `verify` is for servers whose
    authority the system does not know. Holds no connection of ours meanwhile.

    Raises:
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    row = own_config(engine, SMS_PROVIDER_CONFIG, config_id, what=WHAT)
    provider_type: str = row["provider_type"]
    began = ticker()

    def came(words: str | None, *, was_called: bool = True) -> ProviderTest:
        spent = round((ticker() - began) * 1000)
        return ProviderTest(words is None, provider_type, was_called, spent, words)

    client = HttpClient(_limits(settings), verify=verify)
    try:
        provider, config = registry.provider(provider_type), provider_config(row)
        provider.check_config(config)
        if not provider.can_try_account:
            return came(None, was_called=False)
        refused = provider.try_account(config, client)
    except PreparationError as exc:
        return came(f"{exc.marker}: {exc}", was_called=False)
    except DeliveryError as exc:
        return came(str(exc))
    finally:
        client.close()
    return came(None if refused is None else _words(refused))


def _words(refused: Rejected) -> str:
    return f"{refused.code}: {refused.text}"


def _limits(settings: Settings) -> HttpLimits:
    limits = HttpLimits.of(settings)
    return HttpLimits(
        connect_seconds=min(limits.connect_seconds, MAX_CONNECT_SECONDS),
        read_seconds=min(limits.read_seconds, MAX_REPLY_SECONDS),
        reply_seconds=min(limits.reply_seconds, MAX_REPLY_SECONDS),
    )
