"""`/mail/received`: mails that were received, looked at, marked, and fetched now."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from messaging import api
from messaging.access.roles import Permission
from messaging.errors import NoDefaultMailbox, ReceiveError
from messaging.receive.vocabulary import (
    BounceKind,
    BounceReason,
    LinkStatus,
    MailType,
    ReceivedFlag,
    ReceivedStatus,
    TruncationReason,
)
from messaging.requests import BodyMode
from messaging.web.api.lists import Keyset, Part, part_of
from messaging.web.api.messages import IdsGiven
from messaging.web.api.resource import DbSession, Resource, needs
from messaging.web.api.shapes import Id, Shown, Time
from messaging.web.api.talking import talks
from messaging.web.errors import ApiError, Problem

routes = Resource("mail")

_FETCH_FAILED: dict[int | str, dict[str, Any]] = {
    502: {"model": Problem, "description": "The mailbox cannot be reached or read"}
}


class ReceivedLineShown(Shown):
    """One received mail in a list."""

    id: Id
    #: The mailbox.
    server_config_id: Id
    folder_name: str
    received_at: Time
    from_address: str | None
    from_name: str | None
    subject: str | None
    status: ReceivedStatus
    mail_type: MailType
    flags: list[ReceivedFlag]
    #: Of a bounce, the worst.
    bounce_kind: BounceKind | None
    link_status: LinkStatus
    #: The mail it is about.
    linked_send_record_id: Id | None
    #: Why it is stored in part; null: it is whole.
    truncation_reason: TruncationReason | None


class ReceivedFileShown(Shown):
    """A file that came with a mail."""

    #: Null where it was not kept.
    file_id: Id | None = None
    file_name: str | None = None
    content_type: str | None = None
    content_id: str | None = None
    #: Octets.
    size: int | None = None


class ReceivedShown(ReceivedLineShown):
    """One received mail as a whole."""

    #: With its brackets, or what stands for it.
    message_id: str
    server_uid: str | None
    to_addresses: list[str]
    cc_addresses: list[str]
    #: The Date field as written.
    date_header: str | None
    fetched_at: Time
    #: Octets, as the server reports them.
    size: int | None
    attachments: list[ReceivedFileShown] | None
    body_mode: BodyMode | None
    #: As they came: whoever shows the HTML makes it harmless first. Null unless bodies were asked for.
    body_text: str | None
    body_html: str | None
    #: Of a read receipt its disposition, of a feedback report its type, of an invitation its method.
    type_detail: str | None
    smtp_reply_code: str | None
    enhanced_status_code: str | None
    diagnostic_message: str | None
    failed_recipients: list[str] | None
    bounce_action: str | None
    bounce_reason: BounceReason | None
    #: Whether the address is of no use.
    hard_bounce: bool | None
    #: What is said of each recipient.
    bounce_recipients: list[dict[str, Any]] | None
    #: Of the mail it is about.
    original_message_id: str | None
    reference_ids: list[str] | None
    #: The mail with the same Message-ID and another content.
    duplicate_of: Id | None
    #: The raw mail.
    eml_file_id: Id | None


class ReceivedQuery(Keyset):
    """Which received mails; those marked deleted only by their `status`."""

    mail_type: MailType | None = None
    status: ReceivedStatus | None = None
    link_status: LinkStatus | None = None
    #: Those that have all of them.
    flags: list[ReceivedFlag] = Field(default_factory=list, max_length=10)
    truncation_reason: TruncationReason | None = None
    #: The mailbox.
    server_config_id: Id | None = None
    #: Those about this mail.
    linked_send_record_id: Id | None = None


class ReceivedOneQuery(BaseModel):
    """How much of a received mail is shown."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    bodies: bool = True


class Marked(Shown):
    """What a mark did."""

    #: False: it stood there already, or further on.
    changed: bool


class AllMarked(Shown):
    """What marks of many did."""

    changed: int


class Fetched(Shown):
    """What a fetch found."""

    #: Mails that are new.
    new: int


@routes.get("/mail/received", dependencies=[needs(Permission.READ)])
def list_received(session: DbSession, query: Annotated[ReceivedQuery, Query()]) -> Part[ReceivedLineShown]:
    """The tenant's received mails, newest first, 10,000 looked at for a part: go on while there is a `next_cursor`."""
    found = api.list_received(
        mail_type=query.mail_type,
        status=query.status,
        link_status=query.link_status,
        flags=query.flags,
        truncation=query.truncation_reason,
        mailbox_id=query.server_config_id,
        record_id=query.linked_send_record_id,
        limit=query.size,
        before=query.before,
        session=session,
    )
    return part_of(found, ReceivedLineShown.model_validate)


@routes.post("/mail/received/read", dependencies=[needs(Permission.OPERATE)])
def mark_received_read_batch(session: DbSession, given: IdsGiven) -> AllMarked:
    """Mark many mails read; ids of none are left out."""
    return AllMarked(changed=api.mark_received_read_batch(given.ids, session=session))


@routes.post("/mail/received/fetch", dependencies=[needs(Permission.OPERATE), talks()], responses=_FETCH_FAILED)
def fetch_default_mailbox() -> Fetched:
    """Fetch the default mailbox now; takes its time."""
    return _fetched(None)


@routes.post(
    "/mail/received/fetch/{config_id}",
    dependencies=[needs(Permission.OPERATE), talks()],
    responses=_FETCH_FAILED,
)
def fetch_mailbox(config_id: Id) -> Fetched:
    """Fetch one of the tenant's own mailboxes now, disabled or not; takes its time."""
    return _fetched(config_id)


@routes.get("/mail/received/{received_id}", dependencies=[needs(Permission.READ)])
def get_received(session: DbSession, received_id: Id, query: Annotated[ReceivedOneQuery, Query()]) -> ReceivedShown:
    """One received mail as a whole."""
    return ReceivedShown.model_validate(api.get_received(received_id, with_bodies=query.bodies, session=session))


@routes.post("/mail/received/{received_id}/read", dependencies=[needs(Permission.OPERATE)])
def mark_received_read(session: DbSession, received_id: Id) -> Marked:
    """Mark a mail read; one that is read, archived or deleted stays so."""
    return Marked(changed=api.mark_received_read(received_id, session=session))


@routes.post("/mail/received/{received_id}/archive", dependencies=[needs(Permission.OPERATE)])
def archive_received(session: DbSession, received_id: Id) -> Marked:
    """Archive a mail; one that is archived or deleted stays so."""
    return Marked(changed=api.archive_received(received_id, session=session))


@routes.post("/mail/received/{received_id}/delete", dependencies=[needs(Permission.OPERATE)])
def mark_received_deleted(session: DbSession, received_id: Id) -> Marked:
    """Mark a mail deleted: it leaves the lists, and stays here and at its server."""
    return Marked(changed=api.mark_received_deleted(received_id, session=session))


def _fetched(config_id: int | None) -> Fetched:
    """In transactions of its own: no connection waits for a mail server. Raises: ApiError."""
    try:
        return Fetched(new=api.fetch_new_mails(config_id))
    except NoDefaultMailbox as exc:
        raise ApiError(409, str(exc), code="no_default_mailbox") from exc
    except ReceiveError as exc:
        raise ApiError(502, str(exc), code="mailbox_failed") from exc
