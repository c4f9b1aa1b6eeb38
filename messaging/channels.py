"""The channels there are, for whoever serves all of them: table, labels and queue of each, and whose a record is.

How a worker builds one: `tasks.channels`. What a channel sends with is loaded by who sends: beat, ticks and workers of
another channel do without.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, literal, select, union_all

from messaging.db.filters import owning_tenant
from messaging.delivery.channel import UNKNOWN_PROVIDER
from messaging.errors import RecordNotFound
from messaging.mail.models import MAIL_SEND_RECORD
from messaging.settings import Settings
from messaging.sms.models import SMS_SEND_RECORD
from messaging.webhooks.models import WEBHOOK_SEND_RECORD


@dataclass(frozen=True, slots=True)
class ChannelFacts:
    """One channel."""

    name: str
    #: Label of who takes a record that does not say it itself.
    provider: str
    table: Table
    #: Envelope recipients of a record.
    recipients: Callable[[Mapping[str, Any]], Sequence[str]]
    #: The worker queue, by the settings.
    queue: Callable[[Settings], str]


def _mail_recipients(content: Mapping[str, Any]) -> Sequence[str]:
    from messaging.mail.channel import envelope_recipients

    return envelope_recipients(content)


def _sms_recipients(content: Mapping[str, Any]) -> Sequence[str]:
    from messaging.sms.channel import recipients

    return recipients(content)


def _webhook_recipients(content: Mapping[str, Any]) -> Sequence[str]:
    from messaging.webhooks.channel import recipients

    return recipients(content)


CHANNELS: Mapping[str, ChannelFacts] = {
    "mail": ChannelFacts(
        name="mail",
        provider="smtp",
        table=MAIL_SEND_RECORD,
        recipients=_mail_recipients,
        queue=lambda settings: settings.queues.mail_send,
    ),
    "sms": ChannelFacts(
        name="sms",
        provider=UNKNOWN_PROVIDER,
        table=SMS_SEND_RECORD,
        recipients=_sms_recipients,
        queue=lambda settings: settings.queues.sms_send,
    ),
    "webhook": ChannelFacts(
        name="webhook",
        provider="http",
        table=WEBHOOK_SEND_RECORD,
        recipients=_webhook_recipients,
        queue=lambda settings: settings.queues.webhook_send,
    ),
}


def channel_of(connection: Connection, record_id: int) -> ChannelFacts:
    """The channel of a record that the current tenant may see: ids of all channels come from one sequence.

    Raises: RecordNotFound.
    """
    owner = owning_tenant()
    looks = []
    for channel in CHANNELS.values():
        c = channel.table.c
        look = select(literal(channel.name)).where(c.id == record_id)
        looks.append(look if owner is None else look.where(c.tenant_id == owner))
    name = connection.execute(union_all(*looks)).scalar_one_or_none()
    if name is None:
        raise RecordNotFound(f"no record {record_id}")
    return CHANNELS[name]
