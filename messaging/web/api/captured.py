"""`/captured`: messages that sandbox mode kept instead of sending them."""

from typing import Annotated, Any, Literal

from fastapi import Query
from fastapi.responses import Response
from pydantic import Field

from messaging import api
from messaging.access.roles import Permission
from messaging.web.api.lists import Keyset, Part, part
from messaging.web.api.resource import DbSession, Resource, needs
from messaging.web.api.shapes import Id, Shown, Text, Time
from messaging.web.errors import ApiError

routes = Resource("captured")

_RAW: dict[int | str, dict[str, Any]] = {
    200: {"description": "The mail", "content": {"message/rfc822": {"schema": {"type": "string"}}}}
}


class CapturedLineShown(Shown):
    """One captured message in a list."""

    id: Id
    channel: Literal["mail", "sms", "webhook"]
    record_id: Id
    captured_at: Time
    sender: str | None
    #: Envelope recipients, the number, or the endpoint's address.
    recipients: list[str]
    subject: str | None
    #: Octets of a mail as it would have gone over the wire; null for other channels.
    size: int | None


class CapturedShown(CapturedLineShown):
    """One captured message."""

    #: A text message's text, a webhook's body; null for a mail, which `/raw` has.
    content: str | None
    #: What else the transport would have been told.
    details: dict[str, Any] | None


class CapturedQuery(Keyset):
    """Which captured messages."""

    channel: Literal["mail", "sms", "webhook"] | None = None
    record_id: Id | None = None
    #: An envelope address or a number, as it is shown.
    recipient: Annotated[Text, Field(min_length=1, max_length=2000)] | None = None


class Cleared(Shown):
    """What was cleared away."""

    cleared: int


@routes.get("/captured", dependencies=[needs(Permission.READ)])
def list_captured(session: DbSession, query: Annotated[CapturedQuery, Query()]) -> Part[CapturedLineShown]:
    """What sandbox mode kept of the tenant's messages, newest first."""
    found = api.list_captured(
        channel=query.channel,
        record_id=query.record_id,
        recipient=query.recipient,
        limit=query.size + 1,
        before=query.before,
        session=session,
    )
    return part(found, query, CapturedLineShown.model_validate)


@routes.delete("/captured", dependencies=[needs(Permission.OPERATE)])
def clear_captured(session: DbSession) -> Cleared:
    """Delete all captured messages of the tenant."""
    return Cleared(cleared=api.clear_captured(session=session))


@routes.get("/captured/{captured_id}", dependencies=[needs(Permission.READ)])
def get_captured(session: DbSession, captured_id: Id) -> CapturedShown:
    """One captured message with what it says."""
    return CapturedShown.model_validate(api.get_captured(captured_id, session=session))


@routes.get(
    "/captured/{captured_id}/raw", dependencies=[needs(Permission.READ)], response_class=Response, responses=_RAW
)
def get_captured_raw(session: DbSession, captured_id: Id) -> Response:
    """A captured mail as it would have gone over the wire; 404 for other channels."""
    message = api.get_captured(captured_id, session=session)
    if message.raw is None:
        raise ApiError(404, f"captured message {captured_id} is no mail")
    return Response(
        message.raw,
        media_type="message/rfc822",
        headers={"Content-Disposition": f'attachment; filename="captured-{captured_id}.eml"'},
    )
