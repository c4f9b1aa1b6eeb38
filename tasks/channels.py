"""How a worker process builds each channel, and loads what it sends with. The rest of it: `messaging.channels`."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Engine

from messaging.clock import boot_seconds, utc_now
from messaging.delivery.channel import Channel
from messaging.settings import Settings


@dataclass(frozen=True, slots=True)
class BuiltChannel:
    """A channel and the upkeep of its connections."""

    channel: Channel
    #: Called every few seconds: close connections that have idled for too long.
    close_idle: Callable[[], None]
    #: Called at the end of the process.
    close_all: Callable[[], None]


def _build_mail(engine: Engine, settings: Settings) -> BuiltChannel:
    from messaging.mail.channel import MailChannel
    from messaging.mail.smtp import SmtpTransport

    transport = SmtpTransport(
        settings.mail.transport, ehlo_name=settings.mail.resolved_ehlo_name, debug=settings.mail.debug
    )
    channel = MailChannel(engine, settings, transport, clock=utc_now, ticker=boot_seconds)
    return BuiltChannel(channel, transport.close_idle, transport.close_all)


def _build_sms(engine: Engine, settings: Settings) -> BuiltChannel:
    from messaging.http.client import HttpClient, HttpLimits
    from messaging.sms.channel import SmsChannel

    client = HttpClient(HttpLimits.of(settings))
    channel = SmsChannel(engine, settings, client, clock=utc_now, ticker=boot_seconds)
    # The client closes what has idled for too long when it is next used.
    return BuiltChannel(channel, lambda: None, client.close)


def _build_webhook(engine: Engine, settings: Settings) -> BuiltChannel:
    from messaging.http.client import HttpClient, HttpLimits
    from messaging.tcp import any_address
    from messaging.webhooks.addresses import check_public
    from messaging.webhooks.channel import MAX_REPLY_BYTES, WebhookChannel

    client = HttpClient(
        HttpLimits.of_webhooks(settings),
        max_reply_bytes=MAX_REPLY_BYTES,
        check_address=any_address if settings.webhooks.transport.allow_private else check_public,
    )
    channel = WebhookChannel(engine, settings, client, clock=utc_now, ticker=boot_seconds)
    return BuiltChannel(channel, lambda: None, client.close)


#: By the channel's name.
BUILDERS: dict[str, Callable[[Engine, Settings], BuiltChannel]] = {
    "mail": _build_mail,
    "sms": _build_sms,
    "webhook": _build_webhook,
}
