"""Whether a mail server answers, protects and authenticates as configured, told without sending anything."""

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Engine

from messaging.clock import Ticker
from messaging.config_cache import own_config
from messaging.delivery.gate import SendGate, SendLimits
from messaging.errors import PreparationError
from messaging.mail.models import MAIL_SEND_SERVER_CONFIG
from messaging.mail.servers import smtp_server
from messaging.mail.smtp import SmtpTransport
from messaging.settings import MailSettings

#: Seconds a test may take from the look-up of the name to the reply to AUTH: somebody waits for it.
MAX_SECONDS = 20.0
#: Longest greeting that is shown, in characters.
MAX_GREETING_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Connectivity:
    """What came of a test. Holds no secret: what a server says at AUTH is freed of them."""

    success: bool
    #: Milliseconds until the server was ready for a mail, or the test had failed.
    latency_ms: int
    #: The first reply, its code before it; None: there was none.
    server_greeting: str | None
    #: Code, stage and the server's words; None on success.
    error_message: str | None


def probe_server(
    engine: Engine,
    settings: MailSettings,
    config_id: int,
    *,
    max_seconds: float = MAX_SECONDS,
    ticker: Ticker = time.monotonic,
    ssl_context_factory: Callable[[], ssl.SSLContext] = ssl.create_default_context,
) -> Connectivity:
    """Connect, EHLO, TLS, AUTH, QUIT with a server of the current tenant, disabled or not. Holds no connection of ours.

    Raises:
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    transport = SmtpTransport(
        settings.transport,
        ehlo_name=settings.resolved_ehlo_name,
        ticker=ticker,
        ssl_context_factory=ssl_context_factory,
    )
    try:
        server = smtp_server(own_config(engine, MAIL_SEND_SERVER_CONFIG, config_id, what="mail server"))
    except PreparationError as exc:
        return Connectivity(False, 0, None, f"{exc.marker}: {exc}")
    limits = SendLimits(send_budget_seconds=max_seconds, send_max_seconds=max_seconds, reply_wait_seconds=max_seconds)
    began = ticker()
    greeting, failure = transport.probe(server, SendGate(began, limits, ticker))
    return Connectivity(
        success=failure is None,
        latency_ms=round((ticker() - began) * 1000),
        server_greeting=None if greeting is None else greeting[:MAX_GREETING_CHARS],
        error_message=None if failure is None else str(failure),
    )
