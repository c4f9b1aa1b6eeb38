"""Send records of both channels: where they stand, try again, call off."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.orm import Session

from messaging.api.calls import in_connection, known_id
from messaging.api.process import environment
from messaging.channels import CHANNELS, ChannelFacts, channel_of
from messaging.delivery import requeue
from messaging.delivery.cancel import Cancelled
from messaging.delivery.cancel import cancel as cancel_record
from messaging.delivery.status import OPEN_STATUSES, SendStatus
from messaging.errors import RecordNotFound
from messaging.mail.models import MAIL_SEND_RECORD
from messaging.sms.models import SMS_SEND_RECORD, DeliveryStatus, Encoding
from messaging.webhooks.announcing import AT_HAND


def retry(record_id: int, *, channel: str | None = None, session: Session | None = None) -> None:
    """Ask for another attempt of a record that is waiting, failed or dead: due now, same content if it was prepared.

    From a final state `retry_count` goes up by one and counts on: the budget is not re-armed. Recipients that accepted
    the mail never get it again.

    Raises:
        RecordNotFound: No such record in this tenant, or (where it is given) in this channel.
        StateError: It is SENT, SENDING, cancelled, has nobody left to send to, or changed meanwhile.
    """
    record_id = known_id(record_id)
    with in_connection(session) as connection:
        found = _channel_of(connection, record_id, channel)
        requeue.retry(connection, found.table, found.recipients, record_id, channel=found.name)


def retry_batch(record_ids: Sequence[int], *, channel: str | None = None, session: Session | None = None) -> int:
    """As `retry` for many; skips those it would refuse and answers how many were requeued."""
    ids = []
    for record_id in record_ids:
        with suppress(RecordNotFound):
            ids.append(known_id(record_id))
    with in_connection(session) as connection:
        return sum(
            requeue.retry_batch(connection, one.table, one.recipients, ids, channel=one.name)
            for one in CHANNELS.values()
            if channel in (None, one.name)
        )


def cancel(record_id: int, *, channel: str | None = None, session: Session | None = None) -> Cancelled:
    """Call a record off; the answer says truthfully whether it was, will be or may have been sent.

    In a caller's session the answer holds once that transaction commits.

    Raises:
        RecordNotFound: No such record in this tenant, or (where it is given) in this channel.
    """
    record_id = known_id(record_id)
    with in_connection(session) as connection:
        found = _channel_of(connection, record_id, channel)
        return cancel_record(connection, found.table, record_id, channel=found.name, announcer=AT_HAND)


def _channel_of(connection: Connection, record_id: int, channel: str | None) -> ChannelFacts:
    """The channel of a record; ids of all channels come from one sequence. Raises: RecordNotFound."""
    found = channel_of(connection, record_id)
    if channel not in (None, found.name):
        raise RecordNotFound(f"no {channel} record {record_id}")
    return found


@dataclass(frozen=True, slots=True)
class MailStatus:
    """Where a mail stands, and why."""

    id: int
    subject: str | None
    to: list[str]
    status: SendStatus
    retry_count: int
    #: None while it is sent, and once it is final.
    next_attempt_at: datetime | None
    error_code: str | None
    error_message: str | None
    sent_at: datetime | None
    #: Envelope recipient -> result, code, text, at.
    recipient_results: dict[str, dict[str, Any]]
    uncertain: bool
    bounced: bool
    #: Such as `550 5.1.1`.
    bounce_code: str | None
    #: None while nobody bounced, and where a bounce does not say who did.
    bounced_recipients: list[str] | None
    read_receipt_received: bool
    read_receipt_received_at: datetime | None


@dataclass(frozen=True, slots=True)
class SmsStatus:
    """Where a text message stands, and why."""

    id: int
    #: E.164 with the plus.
    phone_number: str
    #: As given until it is prepared, then as it is sent; None while the template's is not rendered, and once redacted.
    content: str | None
    status: SendStatus
    retry_count: int
    #: None while it is sent, and once it is final.
    next_attempt_at: datetime | None
    error_code: str | None
    error_message: str | None
    sent_at: datetime | None
    uncertain: bool
    #: None before it is prepared, as are the three after it.
    provider_config_id: int | None
    provider_type: str | None
    encoding: Encoding | None
    #: Messages that are charged.
    segments: int | None
    #: What the provider calls the message; None until it took it.
    provider_message_id: str | None
    #: What the provider's receipts said of it.
    delivery_status: DeliveryStatus
    delivery_status_updated_at: datetime | None


def status(record_id: int, *, channel: str | None = None, session: Session | None = None) -> MailStatus | SmsStatus:
    """Where a mail or text message stands.

    Raises:
        RecordNotFound: No such record in this tenant, or (where it is given) in this channel.
    """
    record_id = known_id(record_id)
    environment()
    with in_connection(session) as connection:
        match _channel_of(connection, record_id, channel).name:
            case "sms":
                return _sms_status(connection, record_id)
            case "mail":
                return _mail_status(connection, record_id)
            case other:
                raise RecordNotFound(f"no message {record_id}; it is a {other}'s: see get_webhook_delivery")


def _mail_status(connection: Connection, record_id: int) -> MailStatus:
    t = MAIL_SEND_RECORD
    names = [name for name in MailStatus.__dataclass_fields__ if name != "to"]
    statement = select(*(t.c[name] for name in names), t.c.to_addresses.label("to")).where(t.c.id == record_id)
    fields = dict(connection.execute(statement).one()._mapping)
    return MailStatus(**fields | _standing(fields))


def _sms_status(connection: Connection, record_id: int) -> SmsStatus:
    t = SMS_SEND_RECORD
    statement = select(*(t.c[name] for name in SmsStatus.__dataclass_fields__)).where(t.c.id == record_id)
    fields = dict(connection.execute(statement).one()._mapping)
    encoding = fields["encoding"]
    kinds = {
        **_standing(fields),
        "encoding": None if encoding is None else Encoding(encoding),
        "delivery_status": DeliveryStatus(fields["delivery_status"]),
    }
    return SmsStatus(**fields | kinds)


def _standing(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Where a record of any channel stands, and when it is tried next: what is not open is not."""
    found = SendStatus(fields["status"])
    return {"status": found, "next_attempt_at": fields["next_attempt_at"] if found in OPEN_STATUSES else None}
