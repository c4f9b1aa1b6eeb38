"""`/webhooks`: the addresses of a tenant's application that are told events, and what became of each event."""

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field, StrictBool

from messaging import api
from messaging.access.roles import Permission
from messaging.delivery.announcing import EventType
from messaging.delivery.status import SendStatus
from messaging.delivery.stories import attempts_of
from messaging.web.api.configurations import ConfigQuery, asked, paged
from messaging.web.api.lists import Keyset, Page, Part, part_of
from messaging.web.api.resource import DbSession, Resource, needs
from messaging.web.api.shapes import Given, Id, Shown, Text, Time
from messaging.webhooks.addresses import MAX_URL_CHARS
from messaging.webhooks.endpoint_admin import KEEP_HOURS, MAX_KEEP_HOURS

routes = Resource("webhooks")

_READ, _OPERATE, _ADMINISTER = (
    [needs(permission)] for permission in (Permission.READ, Permission.OPERATE, Permission.ADMINISTER)
)

_Name = Annotated[Text, Field(min_length=1, max_length=100)]
_Description = Annotated[Text, Field(max_length=500)]
_Url = Annotated[Text, Field(min_length=1, max_length=MAX_URL_CHARS)]
_Types = Annotated[list[EventType], Field(min_length=1, max_length=len(EventType))]
#: `whsec_` and the base64 of 24 to 64 octets.
_Secret = Annotated[Text, Field(min_length=1, max_length=100)]


class EndpointShown(Shown):
    """An endpoint without its secret."""

    id: Id
    name: str
    description: str | None
    url: str
    #: Null: all.
    event_types: list[EventType] | None
    active: bool
    #: When it answered 410 Gone, which disabled it.
    gone_at: Time | None
    #: Until when the secret that was replaced signs as well.
    replaced_secret_until: Time | None
    created_at: Time
    updated_at: Time


class EndpointAdded(Shown):
    """An endpoint just added, or given another secret."""

    id: Id
    #: Shown this once.
    secret: str


class EndpointGiven(Given):
    """An endpoint to add."""

    name: _Name
    description: _Description | None = None
    url: _Url
    event_types: _Types | None = None
    active: StrictBool = True
    #: Null: one is made.
    secret: _Secret | None = None


class EndpointChange(Given):
    """What of an endpoint changes."""

    name: _Name | None = None
    description: _Description | None = None
    url: _Url | None = None
    event_types: _Types | None = None
    active: StrictBool | None = None


class Rotation(Given):
    """How a secret is replaced."""

    #: For how long the old one signs as well.
    keep_hours: float = Field(KEEP_HOURS, ge=0, le=MAX_KEEP_HOURS)
    #: Null: one is made.
    secret: _Secret | None = None


class TrialAccepted(Shown):
    """A trial event that will be told."""

    #: The delivery's.
    id: Id


class EndpointQuery(ConfigQuery):
    """Which endpoints."""

    sort: Literal["id", "-id", "name", "-name", "created_at", "-created_at"] = "name"


class DeliveryShown(Shown):
    """One event that one endpoint is told."""

    id: Id
    endpoint_id: Id
    event_type: str
    #: The message it is of; null for a trial.
    about_channel: str | None
    about_record_id: Id | None
    created_at: Time
    status: SendStatus
    retry_count: int
    #: Null once it is final.
    next_attempt_at: Time | None
    error_code: str | None
    error_message: str | None
    sent_at: Time | None
    #: An attempt may have been heard without that being known.
    uncertain: bool
    #: `data` of what is told.
    payload: dict[str, Any]


class DeliveryQuery(Keyset):
    """Which deliveries."""

    endpoint_id: Id | None = None
    status: SendStatus | None = None
    event_type: Annotated[Text, Field(min_length=1, max_length=50)] | None = None
    about_record_id: Id | None = None


class AttemptShown(Shown):
    """One attempt to tell an event."""

    attempt_no: int
    started_at: Time
    ended_at: Time | None
    outcome: str | None
    category: str | None
    error_code: str | None
    error_message: str | None
    worker_name: str | None


class Attempts(Shown):
    """All attempts of a delivery, in order."""

    items: list[AttemptShown]


@routes.get("/webhooks/deliveries", dependencies=_READ)
def list_webhook_deliveries(session: DbSession, query: Annotated[DeliveryQuery, Query()]) -> Part[DeliveryShown]:
    """What endpoints were told and are to be told, newest first; a part may be short and still not be the last."""
    lines = api.list_webhook_deliveries(
        endpoint_id=query.endpoint_id,
        status=query.status,
        event_type=query.event_type,
        about_record_id=query.about_record_id,
        limit=query.size,
        before=query.before,
        session=session,
    )
    return part_of(lines, DeliveryShown.model_validate)


@routes.get("/webhooks/deliveries/{delivery_id}", dependencies=_READ)
def get_webhook_delivery(session: DbSession, delivery_id: Id) -> DeliveryShown:
    """One delivery."""
    return DeliveryShown.model_validate(api.get_webhook_delivery(delivery_id, session=session))


@routes.get("/webhooks/deliveries/{delivery_id}/attempts", dependencies=_READ)
def list_webhook_attempts(session: DbSession, delivery_id: Id) -> Attempts:
    """The attempts of one delivery."""
    api.get_webhook_delivery(delivery_id, session=session)
    return Attempts(items=[AttemptShown.model_validate(one) for one in attempts_of(session, delivery_id)])


@routes.post("/webhooks/deliveries/{delivery_id}/retry", dependencies=_OPERATE)
def retry_webhook_delivery(session: DbSession, delivery_id: Id) -> DeliveryShown:
    """Tell it once more, now: one that waits or has ended without success."""
    api.retry(delivery_id, channel="webhook", session=session)
    return DeliveryShown.model_validate(api.get_webhook_delivery(delivery_id, session=session))


@routes.get("/webhooks", dependencies=_READ)
def list_webhooks(session: DbSession, query: Annotated[EndpointQuery, Query()]) -> Page[EndpointShown]:
    """The tenant's endpoints."""
    return paged(api.list_webhook_endpoints(session=session, **asked(query)), query, EndpointShown.model_validate)


@routes.post("/webhooks", status_code=201, dependencies=_ADMINISTER)
def add_webhook(session: DbSession, given: EndpointGiven) -> EndpointAdded:
    """Add an endpoint; its secret is in this answer and in no other."""
    return EndpointAdded.model_validate(api.add_webhook_endpoint(**given.sent(), session=session))


@routes.get("/webhooks/{endpoint_id}", dependencies=_READ)
def get_webhook(session: DbSession, endpoint_id: Id) -> EndpointShown:
    """One endpoint, disabled or not."""
    return EndpointShown.model_validate(api.get_webhook_endpoint(endpoint_id, session=session))


@routes.patch("/webhooks/{endpoint_id}", dependencies=_ADMINISTER)
def change_webhook(session: DbSession, endpoint_id: Id, given: EndpointChange) -> EndpointShown:
    """Change the fields that are given; `active` disables an endpoint and enables it again."""
    api.change_webhook_endpoint(endpoint_id, **given.sent(), session=session)
    return EndpointShown.model_validate(api.get_webhook_endpoint(endpoint_id, session=session))


@routes.delete("/webhooks/{endpoint_id}", status_code=204, dependencies=_ADMINISTER)
def delete_webhook(session: DbSession, endpoint_id: Id) -> None:
    """Delete an endpoint; what it has not been told yet fails."""
    api.delete_webhook_endpoint(endpoint_id, session=session)


@routes.post("/webhooks/{endpoint_id}/rotate-secret", dependencies=_ADMINISTER)
def rotate_webhook_secret(session: DbSession, endpoint_id: Id, given: Rotation) -> EndpointAdded:
    """Replace the secret; the new one is in this answer and in no other."""
    made = api.rotate_webhook_secret(endpoint_id, keep_hours=given.keep_hours, secret=given.secret, session=session)
    return EndpointAdded.model_validate(made)


@routes.post("/webhooks/{endpoint_id}/test", status_code=202, dependencies=_OPERATE)
def test_webhook(session: DbSession, endpoint_id: Id) -> TrialAccepted:
    """Tell an endpoint a `webhook.test` event; what became of it is read at `/webhooks/deliveries/{id}`."""
    return TrialAccepted(id=api.try_webhook_endpoint(endpoint_id, session=session))
