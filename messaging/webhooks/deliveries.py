"""What was told to endpoints, and what became of it: lists, one delivery, and an event that an operator tries one with.

Retry, cancel and attempts are those of every record (`messaging.api`).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, insert, select
from sqlalchemy.orm import Session

from messaging import tenancy
from messaging.audit.noting import cut
from messaging.db import newest
from messaging.db.newest import Condition, Page
from messaging.db.own_rows import get_own
from messaging.delivery.status import OPEN_STATUSES, SendStatus
from messaging.errors import RecordNotFound, StateError
from messaging.webhooks.endpoint_admin import WHAT
from messaging.webhooks.events import TRIAL
from messaging.webhooks.models import WEBHOOK_SEND_RECORD, WebhookEndpoint, WebhookSendRecord


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
) -> Page[WebhookDelivery]:
    """Deliveries of the current tenant, newest first; `before` is the `next_before` of the page before.

    A page of what few have in common may be short, even empty, and still not be the last.
    """
    asked = {name: getattr(narrowed, name) for name in DeliveryFilter.__dataclass_fields__}
    about = asked.pop("about_record_id")
    return newest.page_by_id(
        session,
        WEBHOOK_SEND_RECORD,
        _NAMES,
        _delivery,
        # What is about one message is few; the index on it knows no order.
        within=[] if about is None else [WEBHOOK_SEND_RECORD.c.about_record_id == about],
        is_gathered=about is not None,
        conditions=[_is(name, value) for name, value in asked.items() if value is not None],
        size=limit,
        before=before,
    )


def get_delivery(session: Session, record_id: int) -> WebhookDelivery:
    """One of them. Raises: RecordNotFound."""
    columns = (getattr(WebhookSendRecord, name) for name in _NAMES)
    row = session.execute(select(*columns).where(WebhookSendRecord.id == record_id)).one_or_none()
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


_NAMES = tuple(WebhookDelivery.__dataclass_fields__)


def _is(name: str, value: Any) -> Condition:
    return lambda c: c[name] == value


def _delivery(row: Row[Any]) -> WebhookDelivery:
    fields = {name: getattr(row, name) for name in _NAMES}
    status = SendStatus(fields["status"])
    due_at = fields["next_attempt_at"] if status in OPEN_STATUSES else None
    return WebhookDelivery(**fields | {"status": status, "next_attempt_at": due_at})
