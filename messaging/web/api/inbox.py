"""`/inbox`: notifications handed in, a person's own inbox, what operators see of it, and what is pushed as it happens.

Whose inbox `/inbox/me` is, only the caller's sign-in says. Source: `operate.md` sections 3 and 9.
"""

from typing import Annotated

from fastapi import Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from messaging import api, tenancy
from messaging.access.roles import Permission
from messaging.errors import UserContextMissing
from messaging.inbox import notify
from messaging.inbox.changed import Inbox
from messaging.inbox.unseen import Mark, Told
from messaging.requests import NotificationType, SendInbox
from messaging.web.api.inbox_stream import InboxStream
from messaging.web.api.lists import Keyset, Part, part
from messaging.web.api.messages import key_of, keys_of
from messaging.web.api.resource import Caller, DbSession, IdempotencyKey, Resource, needs, needs_user
from messaging.web.api.shapes import Given, Id, Shown, TenantId, Text, Time
from messaging.web.auth import ONLY_LOOKS, ask
from messaging.web.errors import ApiError
from messaging.web.live.hub import Hub, TooManyStreams

routes = Resource("inbox")


class NotificationGiven(Given):
    """A notification for one person."""

    #: The application's id of the person.
    recipient_id: TenantId
    title: Text = Field(max_length=notify.MAX_TITLE_CHARS)
    content: Text = Field(max_length=notify.MAX_CONTENT_CHARS)
    notification_type: NotificationType = NotificationType.SYSTEM
    #: What of the application it is about, and which.
    source_model: Text | None = Field(None, max_length=notify.MAX_SOURCE_CHARS)
    source_id: TenantId | None = None
    #: From then on neither listed nor counted for the person.
    expires_at: Time | None = None
    #: The same person and key again answers the first one's id; or send the header `Idempotency-Key`.
    idempotency_key: Text | None = Field(None, min_length=1, max_length=255)

    def request(self, key: str | None) -> SendInbox:
        """As the library takes it, with the key of body or header."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return SendInbox(**fields | {"idempotency_key": key})


class BatchGiven(Given):
    """Notifications that are written all or none."""

    notifications: Annotated[list[NotificationGiven], Field(min_length=1, max_length=500)]


class Written(Shown):
    """A notification that was written, now or with the same key before."""

    id: Id


class BatchWritten(Shown):
    """Notifications that were written, in the order they were given."""

    ids: list[Id]


class NotificationShown(Shown):
    """One notification."""

    id: Id
    title: str
    content: str
    notification_type: NotificationType
    source_model: str | None
    source_id: TenantId | None
    is_read: bool
    expires_at: Time | None
    created_at: Time


class MyNotification(NotificationShown):
    """One notification of the caller."""

    #: When it was read first.
    read_at: Time | None


class AnyNotification(MyNotification):
    """One notification, as operators see it."""

    recipient_id: TenantId


class Change(Shown):
    """What is pushed: the data of an event `inbox`, whose id goes into `Last-Event-ID`."""

    #: Whether to load `/inbox/me` anew: at the beginning, and after more was missed than is told.
    reload: bool
    #: New ones, each told once; of a content at most 2,000 characters.
    notifications: list[NotificationShown]
    unread_count: int


class Recent(Shown):
    """The caller's newest notifications."""

    items: list[MyNotification]


class Unread(Shown):
    """How many notifications are neither read nor expired."""

    unread_count: int


class Marked(Shown):
    """Whether a notification was unread until now."""

    marked: bool


class MarkedAll(Shown):
    """How many notifications were unread until now."""

    marked: int


class RecentQuery(BaseModel):
    """Which of the caller's notifications."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    #: Taken as 1 to 50.
    limit: int = 20
    #: Whether only unread ones.
    unread: bool = False


class PersonQuery(BaseModel):
    """Whose notifications."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    recipient_id: TenantId


class InboxQuery(Keyset):
    """Whose notifications, and which part."""

    recipient_id: TenantId


class PersonGiven(Given):
    """Whose notifications."""

    recipient_id: TenantId


@routes.get("/inbox/me/unread-count", dependencies=[needs_user()])
def count_my_unread(session: DbSession) -> Unread:
    """How many notifications the caller has neither read nor let expire."""
    return Unread(unread_count=api.my_unread_count(session=session))


@routes.get("/inbox/me", dependencies=[needs_user()])
def list_my_inbox(session: DbSession, query: Annotated[RecentQuery, Query()]) -> Recent:
    """The caller's newest notifications that have not expired."""
    found = api.my_inbox(query.limit, unread_only=query.unread, session=session)
    return Recent(items=[MyNotification.model_validate(one) for one in found])


@routes.get(
    "/inbox/me/events",
    dependencies=[needs_user()],
    response_class=InboxStream,
    response_model=None,
    responses={
        200: {"description": "Events `inbox`", "content": {InboxStream.media_type: {"schema": {"type": "string"}}}}
    },
)
async def hear_my_inbox(
    request: Request,
    caller: Caller,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
) -> InboxStream:
    """Server-sent events `inbox`: the caller's new notifications and unread count, as they change.

    Goes on where `Last-Event-ID` says, with nothing missed or told twice. The data of an event is
    `{"reload": bool, "notifications": [...], "unread_count": n}`; with `reload` load `/inbox/me`, as at the beginning.
    Ends when the session or token does.
    """
    context = tenancy.current()
    if context.tenant_id is None or context.user_id is None:
        raise UserContextMissing("no user is set; an inbox is a person's")
    whose = Inbox(context.tenant_id, context.user_id)

    request.scope[ONLY_LOOKS] = True

    async def is_still_known() -> bool:
        try:
            found = await ask(request.app.state.authenticator, request)
        except ApiError as exc:
            if exc.status_code in (401, 403):
                return False
            raise
        return found is not None and (found.tenant_id, found.user_id) == (caller.tenant_id, caller.user_id)

    hub: Hub = request.app.state.hub
    try:
        listener = hub.open(whose, Mark.parse(last_event_id or ""), is_still_known)
    except TooManyStreams as exc:
        status, what = (429, "of one user") if exc.is_own else (503, "here")
        raise ApiError(status, f"too many streams {what}", headers={"retry-after": "60"}) from exc
    return InboxStream(listener, _data)


def _data(told: Told) -> str:
    return Change(
        reload=told.must_reload,
        notifications=[NotificationShown.model_validate(one) for one in told.notifications],
        unread_count=told.unread_count,
    ).model_dump_json()


@routes.post("/inbox/me/read-all", dependencies=[needs_user()])
def mark_my_inbox_read(session: DbSession) -> MarkedAll:
    """Mark all of the caller's notifications read."""
    return MarkedAll(marked=api.mark_my_inbox_read(session=session))


@routes.post("/inbox/me/{notification_id}/read", dependencies=[needs_user()])
def mark_my_notification_read(session: DbSession, notification_id: Id) -> Marked:
    """Mark one of the caller's notifications read; again, nothing changes."""
    return Marked(marked=api.mark_my_notification_read(notification_id, session=session))


@routes.post("/inbox", status_code=201, dependencies=[needs(Permission.SEND)])
def send_inbox(session: DbSession, given: NotificationGiven, key: IdempotencyKey) -> Written:
    """Notify one person of the application."""
    return Written(id=api.send_inbox(given.request(key_of(given, key)), session=session))


@routes.post("/inbox/batch", status_code=201, dependencies=[needs(Permission.SEND)])
def send_inbox_batch(session: DbSession, given: BatchGiven, key: IdempotencyKey) -> BatchWritten:
    """Notify up to 500 people, all or none."""
    requests = [
        one.request(own) for one, own in zip(given.notifications, keys_of(given.notifications, key), strict=True)
    ]
    return BatchWritten(ids=api.send_inbox_batch(requests, session=session))


@routes.get("/inbox", dependencies=[needs(Permission.READ)])
def list_inbox(session: DbSession, query: Annotated[InboxQuery, Query()]) -> Part[AnyNotification]:
    """All notifications of one person, expired ones too, newest first."""
    found = api.list_inbox(query.recipient_id, limit=query.size + 1, before=query.before, session=session)
    return part(found, query, AnyNotification.model_validate)


@routes.get("/inbox/unread-count", dependencies=[needs(Permission.READ)])
def count_unread(session: DbSession, query: Annotated[PersonQuery, Query()]) -> Unread:
    """How many notifications a person has neither read nor let expire."""
    return Unread(unread_count=api.inbox_unread_count(query.recipient_id, session=session))


@routes.post("/inbox/read-all", dependencies=[needs(Permission.OPERATE)])
def mark_inbox_read(session: DbSession, given: PersonGiven) -> MarkedAll:
    """Mark all notifications of a person read."""
    return MarkedAll(marked=api.mark_inbox_read(given.recipient_id, session=session))


@routes.post("/inbox/{notification_id}/read", dependencies=[needs(Permission.OPERATE)])
def mark_notification_read(session: DbSession, notification_id: Id) -> Marked:
    """Mark anybody's notification read; again, nothing changes."""
    return Marked(marked=api.mark_notification_read(notification_id, session=session))
