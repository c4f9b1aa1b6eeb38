"""Notifications inside the application: send them, a person's own inbox, and any person's for operators.

Whose inbox "my" means is the `user_id` of the context, which the HTTP API sets from who has signed in.
"""

from collections.abc import Sequence
from typing import Any, overload

from sqlalchemy.orm import Session

from messaging import tenancy
from messaging.api.calls import given, in_session, known_id, number, number_if_given, whole_if_given
from messaging.api.process import environment
from messaging.clock import utc_now
from messaging.errors import UserContextMissing
from messaging.inbox import notify, read
from messaging.inbox.read import Notification
from messaging.requests import SendInbox


@overload
def send_inbox(request: SendInbox, *, session: Session | None = None) -> int: ...
@overload
def send_inbox(*, session: Session | None = None, **fields: Any) -> int: ...
def send_inbox(request: SendInbox | None = None, *, session: Session | None = None, **fields: Any) -> int:
    """Notify one person of the application; answers the notification's id. It is seen once the transaction commits.

    Takes a `SendInbox`, or its fields as keywords. The title has at most 200 characters, the content at most 100,000,
    the model it is about 50. Nothing is queued and no quota is charged.

    Raises:
        MessageRejected: The input cannot be accepted; names field and value. Nothing was written, and the transaction
            is still usable.
        IdempotencyKeyBusy: Another transaction is writing that person's notification with the same key.
    """
    chosen = given("send_inbox", SendInbox, notify.CHANNEL, request, fields)
    shared = environment()
    with in_session(session) as s:
        return notify.accept_inbox(s, [chosen], settings=shared.settings, now=utc_now(), single=True)[0]


def send_inbox_batch(requests: Sequence[SendInbox], *, session: Session | None = None) -> list[int]:
    """Write 1 to 500 notifications, all or none, in one insert; answers ids in the order of the requests.

    Raises:
        MessageRejected: As `send_inbox`, with the index of the item.
        IdempotencyKeyBusy: As `send_inbox`.
    """
    shared = environment()
    with in_session(session) as s:
        return notify.accept_inbox(s, requests, settings=shared.settings, now=utc_now(), single=False)


def my_unread_count(*, session: Session | None = None) -> int:
    """How many notifications the current user has neither read nor let expire. Raises: UserContextMissing."""
    me = _me()
    environment()
    with in_session(session) as s:
        return read.unread_count(s, me)


def my_inbox(limit: int = 20, *, unread_only: bool = False, session: Session | None = None) -> list[Notification]:
    """The current user's newest notifications that have not expired; `limit` is taken as 1 to 50.

    Raises:
        UserContextMissing: No user is set.
    """
    me = _me()
    environment()
    with in_session(session) as s:
        return read.recent(s, me, limit=limit, unread_only=unread_only)


def mark_my_notification_read(notification_id: int, *, session: Session | None = None) -> bool:
    """Mark one of the current user's notifications read; answers whether it was unread, and the first time stays.

    Raises:
        UserContextMissing: No user is set.
        RecordNotFound: No such notification in this tenant.
        RecipientMismatch: It is another user's.
    """
    me = _me()
    notification_id = known_id(notification_id, what="notification")
    environment()
    with in_session(session) as s:
        return read.mark_read(s, notification_id, reader=me)


def mark_my_inbox_read(*, session: Session | None = None) -> int:
    """Mark all of the current user's notifications read; answers how many were unread. Raises: UserContextMissing."""
    me = _me()
    environment()
    with in_session(session) as s:
        return read.mark_all_read(s, me)


def inbox_unread_count(recipient_id: int, *, session: Session | None = None) -> int:
    """As `my_unread_count`, of any person of the tenant."""
    recipient_id = _person(recipient_id)
    environment()
    with in_session(session) as s:
        return read.unread_count(s, recipient_id)


def list_inbox(
    recipient_id: int, *, limit: int = 50, before: int | None = None, session: Session | None = None
) -> list[Notification]:
    """All notifications of a person of the tenant, expired ones too, newest first.

    `before` is the id of the last one of the page before.

    Raises:
        RecordNotFound: `before` is none of that person's.
    """
    recipient_id = _person(recipient_id)
    checked: dict[str, Any] = {"limit": number("limit", limit), "before": number_if_given("before", before)}
    environment()
    with in_session(session) as s:
        return read.page(s, recipient_id, **checked)


def mark_notification_read(notification_id: int, *, session: Session | None = None) -> bool:
    """Mark any person's notification read; answers whether it was unread. Raises: RecordNotFound."""
    notification_id = known_id(notification_id, what="notification")
    environment()
    with in_session(session) as s:
        return read.mark_read(s, notification_id)


def mark_inbox_read(recipient_id: int, *, session: Session | None = None) -> int:
    """Mark all notifications of a person read; answers how many were unread."""
    recipient_id = _person(recipient_id)
    environment()
    with in_session(session) as s:
        return read.mark_all_read(s, recipient_id, by_operator=True)


def _me() -> int:
    user_id = tenancy.current().user_id
    if user_id is None:
        raise UserContextMissing("no user is set; an inbox is a person's")
    return user_id


def _person(recipient_id: object) -> int:
    """The application's id of a person, which may be 0 or below. Raises: TypeError, ValueError."""
    checked = whole_if_given("recipient_id", recipient_id)
    if checked is None:
        raise TypeError("recipient_id is None; it is of type int")
    return checked
