"""`/mail/messages`: mails handed in, looked at, attempted again, called off."""

import binascii
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Self

from fastapi import Query
from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, WithJsonSchema, model_validator

from messaging import api, requests
from messaging.access.roles import Permission
from messaging.category import MarkerCode
from messaging.delivery.status import SendStatus
from messaging.errors import PreparationError
from messaging.mail import records
from messaging.requests import Attachment, BodyMode, FileRef, MessageScope
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
from messaging.web.errors import RETRY_AFTER_SECONDS, ApiError, invalid

routes = Resource("mail")

CHANNEL = "mail"


def _octets(value: Any) -> bytes | None:
    """Raises: ValueError."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError("is not text in base64")
    try:
        return binascii.a2b_base64(value.encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("is not base64 (RFC 4648, section 4)") from None


class AttachmentGiven(Given):
    """A file that goes with a mail: given here, or stored before."""

    file_name: Text
    content_type: Text | None = None
    #: Makes it an inline image: the HTML names it as `cid:` and this.
    content_id: Text | None = None
    content: Annotated[
        bytes | None,
        BeforeValidator(_octets),
        Field(repr=False),
        WithJsonSchema({"anyOf": [{"type": "string", "contentEncoding": "base64"}, {"type": "null"}]}),
    ] = None
    file_id: Id | None = None

    @model_validator(mode="after")
    def _is_one_file(self) -> Self:
        if (self.content is None) == (self.file_id is None):
            raise ValueError("an attachment has either content or a file_id")
        return self

    def made(self) -> Attachment | FileRef:
        """As the library takes it."""
        named = {"file_name": self.file_name, "content_type": self.content_type, "content_id": self.content_id}
        if self.file_id is not None:
            return FileRef(file_id=self.file_id, **named)  # type: ignore[arg-type]
        return Attachment(content=self.content or b"", **named)  # type: ignore[arg-type]


class MailGiven(MessageGiven):
    """One mail: all recipients share one message."""

    #: One mailbox each (RFC 5322), as `cc` and `bcc`.
    to: list[Text] = Field(min_length=1)
    cc: list[Text] = Field(default_factory=list)
    #: In no header.
    bcc: list[Text] = Field(default_factory=list)
    subject: Text | None = None
    text_body: Text | None = None
    html_body: Text | None = None
    body_mode: BodyMode | None = None
    #: Replaces the template's, where it is not empty.
    attachments: list[AttachmentGiven] = Field(default_factory=list, max_length=100)
    #: That very template, active or not; beats `template_code`.
    template_id: Id | None = None
    #: Mailboxes, commas between them.
    reply_to: Text | None = None
    #: Pins a server.
    server_config_id: Id | None = None
    #: Null: the server's configuration decides.
    read_receipt_requested: StrictBool | None = None
    #: Further headers, of the allowed names.
    headers: dict[str, str] = Field(default_factory=dict)
    #: The list it belongs to: adds the headers of RFC 8058; needs exactly one recipient.
    unsubscribe_list: Text | None = None
    #: Adds `Auto-Submitted: auto-generated` (RFC 3834).
    auto_submitted: StrictBool = True

    def made(self, key: str | None) -> requests.SendMail:
        """As the library takes it."""
        fields = {name: getattr(self, name) for name in self.model_fields_set}
        fields |= {"attachments": [one.made() for one in self.attachments], "idempotency_key": key}
        return requests.SendMail(**fields)


class MailBatchGiven(Given):
    """Mails that are accepted all or none."""

    messages: list[MailGiven] = Field(min_length=1, max_length=500)


class ResultShown(Shown):
    """What became of one envelope recipient."""

    #: `accepted`, `refused`, `deferred`, `suppressed`, `bounced`.
    result: str
    code: str | None = None
    text: str | None = None
    at: Time | None = None


class MailStatusShown(Shown):
    """Where a mail stands, and why."""

    id: Id
    subject: str | None
    to: list[str]
    status: SendStatus
    retry_count: int
    #: Null while it is sent, and once it is final.
    next_attempt_at: Time | None
    error_code: str | None
    error_message: str | None
    sent_at: Time | None
    #: By envelope recipient.
    recipient_results: dict[str, ResultShown]
    #: An attempt may have reached somebody without it being recorded.
    uncertain: bool
    bounced: bool
    #: Such as `550 5.1.1`.
    bounce_code: str | None
    bounced_recipients: list[str] | None
    read_receipt_received: bool
    read_receipt_received_at: Time | None


class MailLineShown(Shown):
    """One mail in a list."""

    id: Id
    status: SendStatus
    scope: MessageScope
    #: Null where the template's is not rendered yet.
    subject: str | None
    #: The template it asks for: a code, or `id 5`.
    template: str | None
    to: list[str]
    server_config_id: Id | None = Field(validation_alias="config_id")
    retry_count: int
    error_code: str | None
    created_at: Time
    #: Null once it is final.
    next_attempt_at: Time | None
    sent_at: Time | None


class RecipientShown(ResultShown):
    """One envelope recipient, and what its server said; `open` while nothing is known."""

    address: str


class FileShown(Shown):
    """A file that goes with a mail."""

    file_id: Id
    file_name: str
    content_type: str | None
    content_id: str | None


class MailShown(Shown):
    """Everything that is known of one mail."""

    id: Id
    tenant_id: TenantId
    status: SendStatus
    #: One sentence: why it stands where it stands.
    why: str
    error_code: str | None
    error_message: str | None
    subject: str | None
    to: list[str]
    cc: list[str]
    bcc: list[str]
    reply_to: str | None
    from_address: str | None
    headers: dict[str, str] | None
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
    #: An attempt may have reached somebody without it being recorded.
    uncertain: bool
    #: With its angle brackets.
    message_id: str | None
    server_config_id: Id | None
    #: `name (host:port)`.
    server: str | None
    template_id: Id | None
    template_code: str | None
    #: Names that the template asked for and did not get; null before preparation, and when it got all.
    missing_variables: list[str] | None
    files: list[FileShown]
    unsubscribe_list: str | None
    recipients: list[RecipientShown]
    attempts: list[AttemptShown]
    #: State of its dead letter; null without one.
    dead_letter: str | None
    bounced: bool
    bounce_code: str | None
    read_receipt_received_at: Time | None
    trace_id: str | None
    request_id: str | None
    #: When bodies and variables were taken off it, and the hash of what went, in hex.
    redacted_at: Time | None
    content_sha256: str | None
    body_mode: BodyMode | None
    #: Null unless bodies were asked for, as the two after it.
    template_variables: dict[str, Any] | None
    body_text: str | None
    body_html: str | None


class MailQuery(MessageQuery):
    """Which mails."""

    #: An address among To, Cc and Bcc.
    recipient: Annotated[Text, Field(max_length=998), AfterValidator(records.recipient)] | None = None
    template_id: Id | None = None
    server_config_id: Id | None = None


@routes.post("/mail/messages", status_code=202, dependencies=[needs(Permission.SEND)])
def send_mail(session: DbSession, caller: Caller, given: MailGiven, key: IdempotencyKey) -> Accepted:
    """Hand in a mail. It is checked whole and stored; what needs servers and templates is told by its status."""
    check_scope(caller, given)
    with _storing():
        return Accepted(id=api.send_mail(given.made(key_of(given, key)), session=session))


@routes.post("/mail/messages/batch", status_code=202, dependencies=[needs(Permission.SEND)])
def send_mail_batch(session: DbSession, caller: Caller, given: MailBatchGiven, key: IdempotencyKey) -> AllAccepted:
    """Hand in 1 to 500 mails, all or none; ids in their order."""
    check_scope(caller, *given.messages)
    keys = keys_of(given.messages, key)
    with _storing():
        made = [one.made(key) for one, key in zip(given.messages, keys, strict=True)]
        return AllAccepted(ids=api.send_mail_batch(made, session=session))


@routes.post("/mail/messages/retry", dependencies=[needs(Permission.OPERATE)])
def retry_mails(session: DbSession, given: IdsGiven) -> Requeued:
    """Ask for another attempt of many mails; those that cannot have one are left out."""
    return Requeued(requeued=api.retry_batch(given.ids, channel=CHANNEL, session=session))


@routes.get("/mail/messages", dependencies=[needs(Permission.READ)])
def list_mails(session: DbSession, query: Annotated[MailQuery, Query()]) -> Part[MailLineShown]:
    """The tenant's mails, newest first, 10,000 looked at for a part: go on while there is a `next_cursor`."""
    found = query.found(
        session,
        CHANNEL,
        recipient=query.recipient,
        template_id=query.template_id,
        config_id=query.server_config_id,
    )
    return part_of(found, MailLineShown.model_validate)


@routes.get("/mail/messages/{message_id}", dependencies=[needs(Permission.READ)])
def get_mail(session: DbSession, message_id: Id, query: Annotated[OneQuery, Query()]) -> MailShown:
    """One mail with its whole story."""
    story = api.get_record(message_id, channel=CHANNEL, with_bodies=query.bodies, session=session)
    return MailShown.model_validate(story)


@routes.get("/mail/messages/{message_id}/status", dependencies=[needs(Permission.SEND, Permission.READ)])
def get_mail_status(session: DbSession, message_id: Id) -> MailStatusShown:
    """Where a mail stands, and why."""
    return MailStatusShown.model_validate(api.status(message_id, channel=CHANNEL, session=session))


@routes.get("/mail/messages/{message_id}/attempts", dependencies=[needs(Permission.READ)])
def list_mail_attempts(session: DbSession, message_id: Id) -> Attempts:
    """Every attempt to send a mail, in order."""
    attempts = api.list_attempts(message_id, channel=CHANNEL, session=session)
    return Attempts(items=[AttemptShown.model_validate(one) for one in attempts])


@routes.post("/mail/messages/{message_id}/retry", dependencies=[needs(Permission.OPERATE)])
def retry_mail(session: DbSession, message_id: Id) -> MailStatusShown:
    """Ask for another attempt of a mail that waits, failed or is dead; who got it does not get it again."""
    api.retry(message_id, channel=CHANNEL, session=session)
    return MailStatusShown.model_validate(api.status(message_id, channel=CHANNEL, session=session))


@routes.post("/mail/messages/{message_id}/cancel", dependencies=[needs(Permission.SEND, Permission.OPERATE)])
def cancel_mail(session: DbSession, message_id: Id) -> CancelShown:
    """Call a mail off. Where that cannot be, `code` is `in_progress`, `already_final` or `too_late`."""
    return called_off(session, message_id, CHANNEL)


@contextmanager
def _storing() -> Iterator[None]:
    """What the file store says of attachments that came along. Raises: ApiError."""
    try:
        yield
    except PreparationError as exc:
        if exc.marker is MarkerCode.ATTACHMENT_TOO_LARGE:
            raise invalid("attachments", str(exc)) from exc
        headers = {"retry-after": str(RETRY_AFTER_SECONDS)}
        raise ApiError(503, "the file store did not take an attachment", headers=headers) from exc
