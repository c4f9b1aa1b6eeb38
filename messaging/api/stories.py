"""Send records for people: pages of a list, one with its whole story, what was attempted."""

from datetime import datetime
from typing import Any, BinaryIO, TypedDict, Unpack

from sqlalchemy.orm import Session

from messaging import records
from messaging.api.calls import in_session, known_id, member_if_given, number, number_if_given
from messaging.api.process import environment
from messaging.channels import CHANNELS
from messaging.delivery.lines import Line, Position, RecordFilter, RecordPage
from messaging.delivery.status import SendStatus
from messaging.delivery.stories import AttemptStory
from messaging.delivery.tallies import Tallies
from messaging.errors import shown_value
from messaging.mail import source
from messaging.mail.records import Story
from messaging.mail.source import MailFile
from messaging.receive.charsets import storable
from messaging.requests import MessageScope
from messaging.sms.records import SmsStory


class Narrowed(TypedDict, total=False):
    """What narrows a list of records; see `list_records`."""

    status: SendStatus | None
    recipient: str | None
    template_code: str | None
    template_id: int | None
    config_id: int | None
    error_code: str | None
    scope: MessageScope | None
    created_after: datetime | None
    created_before: datetime | None


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
    after: Position | None = None,
    session: Session | None = None,
) -> RecordPage:
    """Mails and text messages of this tenant, newest first; `before` is the `next` of the page before.

    `after`, with a `channel` and without `before`, is the `newer` of a page, and asks for those next above it.

    `recipient` is an address or number as somebody writes it, and names the channel where `channel` does not;
    `config_id` is a server or provider. Accepted from `created_after` on and before `created_before`. A page looks at
    10,000 records at most: of a rare kind it may be short, even empty, and still have a next one.

    Raises:
        TypeError: A value of another type.
        ValueError: One that cannot be. In both cases nothing was asked, and the transaction is still usable.
    """
    if channel not in (None, *CHANNELS):
        raise ValueError(f"channel is {shown_value(channel)}; allowed: {', '.join(CHANNELS)}")
    for name, place in (("before", before), ("after", after)):
        if not isinstance(place, Position | None):
            raise TypeError(f"{name} is {shown_value(place)}; it is of type Position")
    if after is not None and (before is not None or channel is None):
        raise ValueError("after is for one channel, and not beside before")
    if recipient is not None:
        _text_if_given("recipient", recipient)
        channel = channel or records.channel_of_recipient(recipient)
    asked = checked_filter(
        channel,
        status=status,
        recipient=recipient,
        template_code=template_code,
        template_id=template_id,
        config_id=config_id,
        error_code=error_code,
        scope=scope,
        created_after=created_after,
        created_before=created_before,
    )
    limit = number("limit", limit)
    environment()
    with in_session(session) as s:
        return records.page(s, channel=channel, asked=asked, limit=limit, before=before, after=after)


def find_records(
    text: str, *, channel: str, limit: int = 20, session: Session | None = None, **asked: Unpack[Narrowed]
) -> list[Line]:
    """Records of this tenant and one channel that a text names, newest first: few, as each key is of one or a few.

    By the record's id, its Message-ID, what the provider calls it, or its idempotency key.

    Raises: TypeError, ValueError; as `list_records`.
    """
    _text_if_given("text", text)
    narrowed = checked_filter(channel, **asked)
    environment()
    with in_session(session) as s:
        return records.find(s, text, channel=channel, asked=narrowed, limit=number("limit", limit))


def count_records(*, channel: str, session: Session | None = None, **asked: Unpack[Narrowed]) -> Tallies:
    """How many records of each status fit a filter, whatever status it asks for; exact while they are few.

    Raises: TypeError, ValueError; as `list_records`.
    """
    narrowed = checked_filter(channel, **asked)
    environment()
    with in_session(session) as s:
        return records.tallies(s, channel=channel, asked=narrowed)


def get_mail_source(record_id: int) -> bytes:
    """A prepared mail as it goes over the wire, but for a DKIM signature. Reads the file store.

    Raises:
        RecordNotFound: No such mail in this tenant.
        StateError: It is not prepared yet, or its content is gone.
        PreparationError: An attachment is not at hand.
    """
    known = environment()
    with in_session(None) as s:
        record = source.read(s, known_id(record_id))
    return source.built(record, known.files, max_bytes=known.settings.mail.max_attachment_bytes)


def open_mail_file(record_id: int, place: int) -> tuple[MailFile, BinaryIO]:
    """One file of a mail, by its place among them from 0, and its content, to be closed. Reads the file store.

    Raises:
        RecordNotFound: No such mail in this tenant, or no such file of it.
        PreparationError: The content is not at hand.
    """
    known = environment()
    with in_session(None) as s:
        file = source.find_file(s, known_id(record_id), place)
    return file, known.files.open(file.file_id, file.tenants)


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


def checked_filter(channel: str | None, **asked: Unpack[Narrowed]) -> RecordFilter:
    """What narrows a list, checked. Raises: TypeError, ValueError; they name the argument."""
    for name in ("recipient", "template_code", "error_code"):
        _text_if_given(name, asked.get(name))
    for name in ("created_after", "created_before"):
        _time_if_given(name, asked.get(name))
    recipient = asked.get("recipient")
    return RecordFilter(
        status=member_if_given("status", asked.get("status"), SendStatus),
        recipient=None if recipient is None else records.recipient(channel or "", recipient),
        template_code=asked.get("template_code"),
        template_id=number_if_given("template_id", asked.get("template_id")),
        config_id=number_if_given("config_id", asked.get("config_id")),
        error_code=asked.get("error_code"),
        scope=member_if_given("scope", asked.get("scope"), MessageScope),
        created_after=asked.get("created_after"),
        created_before=asked.get("created_before"),
    )


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
