"""Send records for people: pages of a list, one with its whole story, what was attempted."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from messaging import records
from messaging.api.calls import in_session, known_id, member_if_given, number, number_if_given
from messaging.api.process import environment
from messaging.channels import CHANNELS
from messaging.delivery.lines import Position, RecordFilter, RecordPage
from messaging.delivery.status import SendStatus
from messaging.delivery.stories import AttemptStory
from messaging.errors import shown_value
from messaging.mail.records import Story
from messaging.receive.charsets import storable
from messaging.requests import MessageScope
from messaging.sms.records import SmsStory


def list_records(
    *,
    channel: str | None = None,
    status: SendStatus | None = None,
    recipient: str | None = None,
    template_code: str | None = None,
    template_id: int | None = None,
    config_id: int | None = None,
    error_code: str | None = None,
    scope: MessageScope | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
    limit: int = 50,
    before: Position | None = None,
    session: Session | None = None,
) -> RecordPage:
    """Mails and text messages of this tenant, newest first; `before` is the `next` of the page before.

    `recipient` is an address or number as somebody writes it, and names the channel where `channel` does not;
    `config_id` is a server or provider. Accepted from `created_after` on and before `created_before`. A page looks at
    10,000 records at most: of a rare kind it may be short, even empty, and still have a next one.

    Raises:
        TypeError: A value of another type.
        ValueError: One that cannot be. In both cases nothing was asked, and the transaction is still usable.
    """
    for name, text in (("recipient", recipient), ("template_code", template_code), ("error_code", error_code)):
        _text_if_given(name, text)
    for name, time in (("created_after", created_after), ("created_before", created_before)):
        _time_if_given(name, time)
    if channel not in (None, *CHANNELS):
        raise ValueError(f"channel is {shown_value(channel)}; allowed: {', '.join(CHANNELS)}")
    if not isinstance(before, Position | None):
        raise TypeError(f"before is {shown_value(before)}; it is of type Position")
    if recipient is not None:
        channel = channel or records.channel_of_recipient(recipient)
        recipient = records.recipient(channel, recipient)
    asked = RecordFilter(
        status=member_if_given("status", status, SendStatus),
        recipient=recipient,
        template_code=template_code,
        template_id=number_if_given("template_id", template_id),
        config_id=number_if_given("config_id", config_id),
        error_code=error_code,
        scope=member_if_given("scope", scope, MessageScope),
        created_after=created_after,
        created_before=created_before,
    )
    limit = number("limit", limit)
    environment()
    with in_session(session) as s:
        return records.page(s, channel=channel, asked=asked, limit=limit, before=before)


def get_record(
    record_id: int, *, channel: str | None = None, with_bodies: bool = False, session: Session | None = None
) -> Story | SmsStory:
    """The whole story of a mail or text message; bodies and variables only where they are asked for.

    Raises:
        RecordNotFound: No such record in this tenant, or (where it is given) in this channel.
    """
    record_id = known_id(record_id)
    environment()
    with in_session(session) as s:
        return records.read_story(s, record_id, channel=channel, with_bodies=with_bodies)


def list_attempts(record_id: int, *, channel: str | None = None, session: Session | None = None) -> list[AttemptStory]:
    """The attempt log of one record, in order.

    Raises:
        RecordNotFound: No such record in this tenant, or (where it is given) in this channel.
    """
    record_id = known_id(record_id)
    environment()
    with in_session(session) as s:
        return records.attempts(s, record_id, channel=channel)


def _text_if_given(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise TypeError(f"{name} is {shown_value(value)}; it is of type str")
    if storable(value) != value:
        raise ValueError(f"{name} is {shown_value(value)}; it has a character that no record can have")


def _time_if_given(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, datetime):
        raise TypeError(f"{name} is {shown_value(value)}; it is of type datetime")
    if value.tzinfo is None:
        raise ValueError(f"{name} is {shown_value(value)}; it needs a time zone")
