"""`/sms/messages`: text messages handed in, looked at, attempted again, called off."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import AfterValidator, Field

from messaging import api, requests
from messaging.access.roles import Permission
from messaging.delivery.status import SendStatus
from messaging.requests import MessageScope
from messaging.sms.models import DeliveryStatus, Encoding
from messaging.sms.records import recipient
from messaging.web.api.lists import Part
from messaging.web.api.messages import (
    Accepted,
    AllAccepted,
    Attempts,
    AttemptShown,
    CancelShown,
    IdsGiven,
    MessageGiven,
    MessageQuery,
    OneQuery,
    Requeued,
    called_off,
    check_scope,
    key_of,
    keys_of,
    part_of,
)
from messaging.web.api.resource import Caller, DbSession, IdempotencyKey, Resource, needs
from messaging.web.api.shapes import Given, Id, Shown, TenantId, Text, Time

routes = Resource("sms")

CHANNEL = "sms"


class SmsGiven(MessageGiven):
    """One text message to one number."""

    #: E.164 with its plus, without separators: `+4915112345678`.
    phone_number: Text
    #: At most 2,000 characters; beats the template's text.
    content: Text | None = None
    #: Pins a provider.
    provider_config_id: Id | None = None
    #: Where the template's binding has none.
    sign_name: Text | None = None
    #: The provider's own template, where the template's binding has none.
    external_template_id: Text | None = None

    def made(self, key: str | None) -> requests.SendSms:
        """As the library takes it."""
        fields = {name: getattr(self, name) for name in self.model_fields_set}
        return requests.SendSms(**fields | {"idempotency_key": key})


class SmsBatchGiven(Given):
    """Text messages that are accepted all or none."""

    messages: list[SmsGiven] = Field(min_length=1, max_length=500)


class SmsStatusShown(Shown):
    """Where a text message stands, and why."""

    id: Id
    phone_number: str
    #: Null while the template's is not rendered, and once it is redacted.
    content: str | None
    status: SendStatus
    retry_count: int
    #: Null while it is sent, and once it is final.
    next_attempt_at: Time | None
    error_code: str | None
    error_message: str | None
    sent_at: Time | None
    #: An attempt may have reached the number without it being recorded.
    uncertain: bool
    #: Null before it is prepared, as the three after it.
    provider_config_id: Id | None
    provider_type: str | None
    encoding: Encoding | None
    #: Messages that are charged.
    segments: int | None
    #: What the provider calls it.
    provider_message_id: str | None
    #: What the provider's receipts said.
    delivery_status: DeliveryStatus
    delivery_status_updated_at: Time | None


class SmsLineShown(Shown):
    """One text message in a list."""

    id: Id
    status: SendStatus
    scope: MessageScope
    #: The code of the template it asks for.
    template: str | None
    #: The number.
    to: list[str]
    provider_config_id: Id | None = Field(validation_alias="config_id")
    retry_count: int
    error_code: str | None
    created_at: Time
    #: Null once it is final.
    next_attempt_at: Time | None
    sent_at: Time | None


class SmsShown(Shown):
    """Everything that is known of one text message."""

    id: Id
    tenant_id: TenantId
    status: SendStatus
    #: One sentence: why it stands where it stands.
    why: str
    error_code: str | None
    error_message: str | None
    phone_number: str
    scope: MessageScope
    priority: str | None
    idempotency_key: str | None
    created_at: Time
    send_at: Time | None
    expires_at: Time | None
    prepared_at: Time | None
    sent_at: Time | None
    #: Null once it is final.
    next_attempt_at: Time | None
    retry_count: int
    #: An attempt may have reached the number without it being recorded.
    uncertain: bool
    provider_config_id: Id | None
    #: `name (TWILIO)`.
    provider: str | None
    provider_message_id: str | None
    delivery_status: DeliveryStatus
    delivery_status_updated_at: Time | None
    region_code: str | None
    encoding: Encoding | None
    segments: int | None
    #: The code of the template it asks for.
    template: str | None
    #: Names that the template asked for and did not get; null before preparation, and when it got all.
    missing_variables: list[str] | None
    external_template_id: str | None
    sign_name: str | None
    attempts: list[AttemptShown]
    #: State of its dead letter; null without one.
    dead_letter: str | None
    trace_id: str | None
    request_id: str | None
    #: When text and variables were taken off it, and the hash of what went, in hex.
    redacted_at: Time | None
    content_sha256: str | None
    #: Null unless bodies were asked for, as the one after it.
    template_variables: dict[str, Any] | None
    content: str | None


def _number(text: str) -> str:
    """A plus that is not escaped comes as a blank. Raises: ValueError."""
    digits = text.strip().removeprefix("+")
    return recipient(f"+{digits}" if digits.isdecimal() else text)


class SmsQuery(MessageQuery):
    """Which text messages."""

    #: In E.164; the plus may be left out.
    phone_number: Annotated[Text, Field(max_length=50), AfterValidator(_number)] | None = None
    provider_config_id: Id | None = None


@routes.post("/sms/messages", status_code=202, dependencies=[needs(Permission.SEND)])
def send_sms(session: DbSession, caller: Caller, given: SmsGiven, key: IdempotencyKey) -> Accepted:
    """Hand in a text message. It is checked whole and stored; what needs providers is told by its status."""
    check_scope(caller, given)
    return Accepted(id=api.send_sms(given.made(key_of(given, key)), session=session))


@routes.post("/sms/messages/batch", status_code=202, dependencies=[needs(Permission.SEND)])
def send_sms_batch(session: DbSession, caller: Caller, given: SmsBatchGiven, key: IdempotencyKey) -> AllAccepted:
    """Hand in 1 to 500 text messages, all or none; ids in their order."""
    check_scope(caller, *given.messages)
    keys = keys_of(given.messages, key)
    made = [one.made(key) for one, key in zip(given.messages, keys, strict=True)]
    return AllAccepted(ids=api.send_sms_batch(made, session=session))


@routes.post("/sms/messages/retry", dependencies=[needs(Permission.OPERATE)])
def retry_text_messages(session: DbSession, given: IdsGiven) -> Requeued:
    """Ask for another attempt of many text messages; those that cannot have one are left out."""
    return Requeued(requeued=api.retry_batch(given.ids, channel=CHANNEL, session=session))


@routes.get("/sms/messages", dependencies=[needs(Permission.READ)])
def list_text_messages(session: DbSession, query: Annotated[SmsQuery, Query()]) -> Part[SmsLineShown]:
    """The tenant's text messages, newest first, 10,000 looked at for a part: go on while there is a `next_cursor`."""
    found = query.found(session, CHANNEL, recipient=query.phone_number, config_id=query.provider_config_id)
    return part_of(found, SmsLineShown.model_validate)


@routes.get("/sms/messages/{message_id}", dependencies=[needs(Permission.READ)])
def get_text_message(session: DbSession, message_id: Id, query: Annotated[OneQuery, Query()]) -> SmsShown:
    """One text message with its whole story."""
    story = api.get_record(message_id, channel=CHANNEL, with_bodies=query.bodies, session=session)
    return SmsShown.model_validate(story)


@routes.get("/sms/messages/{message_id}/status", dependencies=[needs(Permission.SEND, Permission.READ)])
def get_text_message_status(session: DbSession, message_id: Id) -> SmsStatusShown:
    """Where a text message stands, and why."""
    return SmsStatusShown.model_validate(api.status(message_id, channel=CHANNEL, session=session))


@routes.get("/sms/messages/{message_id}/attempts", dependencies=[needs(Permission.READ)])
def list_text_message_attempts(session: DbSession, message_id: Id) -> Attempts:
    """Every attempt to send a text message, in order."""
    attempts = api.list_attempts(message_id, channel=CHANNEL, session=session)
    return Attempts(items=[AttemptShown.model_validate(one) for one in attempts])


@routes.post("/sms/messages/{message_id}/retry", dependencies=[needs(Permission.OPERATE)])
def retry_text_message(session: DbSession, message_id: Id) -> SmsStatusShown:
    """Ask for another attempt of a text message that waits, failed or is dead."""
    api.retry(message_id, channel=CHANNEL, session=session)
    return SmsStatusShown.model_validate(api.status(message_id, channel=CHANNEL, session=session))


@routes.post("/sms/messages/{message_id}/cancel", dependencies=[needs(Permission.SEND, Permission.OPERATE)])
def cancel_text_message(session: DbSession, message_id: Id) -> CancelShown:
    """Call a text message off. Where that cannot be, `code` is `in_progress`, `already_final` or `too_late`."""
    return called_off(session, message_id, CHANNEL)
