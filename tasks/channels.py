"""The channels there are, as tasks need them: table and labels for ticks and sweeps, and how a worker builds one."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Engine, Table

from messaging.clock import boot_seconds, utc_now
from messaging.delivery.channel import Channel
from messaging.mail import channel as mail
from messaging.mail.channel import MailChannel
from messaging.mail.models import MAIL_SEND_RECORD
from messaging.mail.smtp import SmtpTransport
from messaging.settings import Settings


@dataclass(frozen=True, slots=True)
class ChannelParts:
    """One channel."""

    name: str
    provider: str
    table: Table
    #: The worker queue, by the settings.
    queue: Callable[[Settings], str]
    #: What a delivering worker process builds.
    build: Callable[[Engine, Settings], "BuiltChannel"]


@dataclass(frozen=True, slots=True)
class BuiltChannel:
    """A channel and the upkeep of its connections."""

    channel: Channel
    #: Called every few seconds: close connections that have idled for too long.
    close_idle: Callable[[], None]
    #: Called at the end of the process.
    close_all: Callable[[], None]


def _build_mail(engine: Engine, settings: Settings) -> BuiltChannel:
    transport = SmtpTransport(
        settings.mail.transport, ehlo_name=settings.mail.resolved_ehlo_name, debug=settings.mail.debug
    )
    channel = MailChannel(engine, settings, transport, clock=utc_now, ticker=boot_seconds)
    return BuiltChannel(channel, transport.close_idle, transport.close_all)


CHANNELS: dict[str, ChannelParts] = {
    mail.NAME: ChannelParts(
        name=mail.NAME,
        provider=mail.PROVIDER,
        table=MAIL_SEND_RECORD,
        queue=lambda settings: settings.queues.mail_send,
        build=_build_mail,
    )
}
