"""What was told to endpoints, and what became of it: lists, one delivery, and an event that an operator tries one with.

Retry, cancel and attempts are those of every record (`messaging.api`).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, insert, select
from sqlalchemy.orm import Session

from messaging import tenancy
from messaging.audit.noting import cut
from messaging.db.own_rows import get_own
from messaging.delivery.status import OPEN_STATUSES, SendStatus
from messaging.errors import RecordNotFound, StateError
from messaging.webhooks.endpoint_admin import WHAT
from messaging.webhooks.events import TRIAL
from messaging.webhooks.models import WEBHOOK_SEND_RECORD, WebhookEndpoint, WebhookSendRecord

_R = WebhookSendRecord


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """One event that one endpoint is told."""

    id: int
    tenant_id: int
    endpoint_id: int
    event_type: str
    #: The message it is of; None for a trial.
    about_channel: str | None
    about_record_id: int | None
    #: When it happened.
    created_at: datetime
    status: SendStatus
    retry_count: int
    #: None once it is final.
    next_attempt_at: datetime | None
    error_code: str | None
    error_message: str | None
    sent_at: datetime | None
    #: An attempt may have been heard without that being known.
    uncertain: bool
    #: `data` of what is told.
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which deliveries; None does not narrow."""

    endpoint_id: int | None = None
    status: SendStatus | None = None
    event_type: str | None = None
    #: The message they are of.
    about_record_id: int | None = None


def list_deliveries(
    session: Session, narrowed: DeliveryFilter, *, limit: int = 50, before: int | None = None
) -> list[WebhookDelivery]:
    """Deliveries of the current tenant, newest first; `before` is the id of the last one of the page before."""
    statement = _select().order_by(_R.id.desc()).limit(limit)
    for name in DeliveryFilter.__dataclass_fields__:
        if (value := getattr(narrowed, name)) is not None:
            statement = statement.where(getattr(_R, name) == value)
    if before is not None:
        statement = statement.where(_R.id < before)
    return [_delivery(row) for row in session.execute(statement)]


def get_delivery(session: Session, record_id: int) -> WebhookDelivery:
    """One of them. Raises: RecordNotFound."""
    row = session.execute(_select().where(_R.id == record_id)).one_or_none()
    if row is None:
        raise RecordNotFound(f"no webhook record {record_id}")
    return _delivery(row)


def send_trial(session: Session, endpoint_id: int) -> int:
    """Tell an endpoint a `webhook.test` event, whatever types it asks for; answers the delivery's id.

    Runs in the caller's transaction; it goes out like every other event once that has committed.

    Raises:
        RecordNotFound: No such endpoint in this tenant.
        TenantMismatch: It belongs to the platform.
        StateError: It is disabled.
    """
    endpoint = get_own(session, WebhookEndpoint, endpoint_id, what=WHAT)
    if not endpoint.active:
        raise StateError(f"{WHAT} {endpoint_id} is disabled; enable it first")
    context = tenancy.current()
    values = {
        "tenant_id": endpoint.tenant_id,
        "scope": "TENANT",
        "endpoint_id": endpoint.id,
        "event_type": TRIAL,
        "payload": {"endpoint_id": str(endpoint.id)},
        "created_by_id": context.user_id,
        "created_by": cut(context.user_name, 100),
        "trace_id": cut(context.trace_id, 32),
        "span_id": cut(context.span_id, 16),
        "request_id": cut(context.request_id, 64),
    }
    t = WEBHOOK_SEND_RECORD
    connection = session.connection(bind_arguments={"mapper": WebhookSendRecord})
    record_id: int = connection.execute(insert(t).values(values).returning(t.c.id)).scalar_one()
    return record_id


def _select() -> Select[Any]:
    return select(*(getattr(_R, name) for name in WebhookDelivery.__dataclass_fields__))


def _delivery(row: Any) -> WebhookDelivery:
    fields = dict(row._mapping)
    fields["status"] = SendStatus(fields["status"])
    if fields["status"] not in OPEN_STATUSES:
        fields["next_attempt_at"] = None
    return WebhookDelivery(**fields)
