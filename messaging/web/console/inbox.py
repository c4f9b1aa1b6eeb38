"""The bell: notifications to the person that an operator is in the application; how many are unread, and the newest."""

from fastapi import Request
from starlette.responses import Response

from messaging import api
from messaging.web.api.resource import DbSession, needs_user
from messaging.web.api.shapes import Id
from messaging.web.console.pages import Pages, done, page, url

routes = Pages()

_PATH = "/inbox"
_ME = [needs_user()]

#: Notifications that are shown.
_NEWEST = 20


@routes.get(_PATH, dependencies=_ME)
def show_inbox(request: Request, session: DbSession) -> Response:
    """The newest."""
    notifications = api.my_inbox(_NEWEST, session=session)
    return page(request, "inbox.html", notifications=notifications, unread=api.my_unread_count(session=session))


@routes.get(f"{_PATH}/badge", dependencies=_ME)
def show_badge(request: Request, session: DbSession) -> Response:
    """How many are unread, for the frame."""
    return page(request, "badge.html", unread=api.my_unread_count(session=session))


@routes.post(f"{_PATH}/{{notification_id}}/read", dependencies=_ME)
def mark_read(request: Request, session: DbSession, notification_id: Id) -> Response:
    """Mark one read."""
    is_changed = api.mark_my_notification_read(notification_id, session=session)
    return done(request, url(request, _PATH), "It is marked read." if is_changed else "It was read before.")


@routes.post(f"{_PATH}/read-all", dependencies=_ME)
def mark_all_read(request: Request, session: DbSession) -> Response:
    """Mark all read."""
    count = api.mark_my_inbox_read(session=session)
    return done(request, url(request, _PATH), f"{count} marked read.")
