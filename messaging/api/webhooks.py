"""Webhooks: the endpoints that an application is told events at, and what became of each event."""

from typing import Unpack

from sqlalchemy.orm import Session

from messaging import audit
from messaging.api.calls import in_session, known_id, member_if_given, number, number_if_given
from messaging.api.process import environment
from messaging.config_lists import Lines, ListFields
from messaging.db.newest import Page
from messaging.delivery.status import SendStatus
from messaging.webhooks import deliveries, endpoint_admin
from messaging.webhooks.deliveries import DeliveryFilter, WebhookDelivery
from messaging.webhooks.endpoint_admin import KEEP_HOURS, EndpointFields, WebhookEndpointAdded, WebhookEndpointLine
from messaging.webhooks.models import WEBHOOK_ENDPOINT


def add_webhook_endpoint(*, session: Session | None = None, **fields: Unpack[EndpointFields]) -> WebhookEndpointAdded:
    """Add an address of this tenant's application, which is told what becomes of messages; answers id and secret.

    The secret is shown this once. What happens within a second of the commit may not be told yet.

    Raises:
        ConfigRejected: A field cannot be saved. Nothing was written.
        StateError: This tenant has 50 of them, disabled ones included.
    """
    allow_private = environment().settings.webhooks.transport.allow_private
    with in_session(session) as s:
        return endpoint_admin.add_endpoint(s, allow_private=allow_private, **fields)


def change_webhook_endpoint(
    endpoint_id: int, *, session: Session | None = None, **fields: Unpack[EndpointFields]
) -> None:
    """Change fields of an endpoint, `active` too; what waits for it goes by them within a second.

    Raises:
        ConfigRejected: A field cannot be saved; nothing was changed.
        RecordNotFound: No such endpoint in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    allow_private = environment().settings.webhooks.transport.allow_private
    with in_session(session) as s:
        endpoint_admin.change_endpoint(s, endpoint_id, allow_private=allow_private, **fields)


def list_webhook_endpoints(
    *, session: Session | None = None, **asked: Unpack[ListFields]
) -> Lines[WebhookEndpointLine]:
    """This tenant's endpoints by name, without secrets.

    Raises: ValueError, TypeError, naming what was asked and what is allowed.
    """
    environment()
    with in_session(session) as s:
        return endpoint_admin.list_endpoints(s, asked)


def get_webhook_endpoint(endpoint_id: int, *, session: Session | None = None) -> WebhookEndpointLine:
    """One endpoint of this tenant, disabled or not. Raises: RecordNotFound."""
    environment()
    with in_session(session) as s:
        return endpoint_admin.get_endpoint(s, endpoint_id)


def delete_webhook_endpoint(endpoint_id: int, *, session: Session | None = None) -> None:
    """Delete an endpoint; what it has not been told yet fails.

    Raises:
        RecordNotFound: No such endpoint in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        endpoint_admin.delete_endpoint(s, endpoint_id)


def rotate_webhook_secret(
    endpoint_id: int, *, keep_hours: float = KEEP_HOURS, secret: str | None = None, session: Session | None = None
) -> WebhookEndpointAdded:
    """Replace an endpoint's secret; for `keep_hours` the old one signs as well. The new one is shown this once.

    Raises:
        ConfigRejected: The secret is none, or the hours are not 0 to 720.
        RecordNotFound: No such endpoint in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        return endpoint_admin.rotate_secret(s, endpoint_id, keep_hours=keep_hours, secret=secret)


def try_webhook_endpoint(endpoint_id: int, *, session: Session | None = None) -> int:
    """Tell an endpoint a `webhook.test` event once the transaction has committed; answers the delivery's id.

    Raises:
        RecordNotFound: No such endpoint in this tenant.
        TenantMismatch: It belongs to the platform.
        StateError: It is disabled.
    """
    environment()
    with in_session(session) as s:
        delivery_id = deliveries.send_trial(s, endpoint_id)
        audit.note(s, "test", WEBHOOK_ENDPOINT, endpoint_id, after={"delivery": delivery_id})
        return delivery_id


def list_webhook_deliveries(
    *,
    endpoint_id: int | None = None,
    status: SendStatus | None = None,
    event_type: str | None = None,
    about_record_id: int | None = None,
    limit: int = 50,
    before: int | None = None,
    session: Session | None = None,
) -> Page[WebhookDelivery]:
    """What this tenant's endpoints were told and are to be told, newest first, narrowed by what is given.

    `about_record_id` is a message's record, `before` the `next_before` of the page before. A page may be short, even
    empty, and still not be the last.

    Raises:
        TypeError: A value of another type.
        ValueError: One that cannot be. In both cases nothing was asked, and the transaction is still usable.
    """
    narrowed = DeliveryFilter(
        endpoint_id=number_if_given("endpoint_id", endpoint_id),
        status=member_if_given("status", status, SendStatus),
        event_type=event_type,
        about_record_id=number_if_given("about_record_id", about_record_id),
    )
    environment()
    with in_session(session) as s:
        return deliveries.list_deliveries(
            s, narrowed, limit=number("limit", limit), before=number_if_given("before", before)
        )


def get_webhook_delivery(record_id: int, *, session: Session | None = None) -> WebhookDelivery:
    """One delivery of this tenant; `retry` and `cancel` take its id too. Raises: RecordNotFound."""
    record_id = known_id(record_id)
    environment()
    with in_session(session) as s:
        return deliveries.get_delivery(s, record_id)
