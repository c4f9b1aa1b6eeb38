"""Events that a tenant's application was told, and what became of each; another attempt where one failed."""

from typing import Any

from fastapi import Request
from starlette.responses import Response

from messaging import api
from messaging.access.roles import Permission
from messaging.delivery.announcing import EventType
from messaging.delivery.status import SendStatus
from messaging.delivery.stories import attempts_of
from messaging.errors import StateError
from messaging.web.api.resource import Caller, DbSession, needs
from messaging.web.api.shapes import Id
from messaging.web.console import asking
from messaging.web.console.asked_first import ask_first
from messaging.web.console.audience import is_platform, seen_by
from messaging.web.console.pages import Pages, done, page, url
from messaging.web.console.records import may_retry
from messaging.web.console.tables import Cell, Column, Filter, Listing, Tab

routes = Pages()

_PATH = "/webhooks"
_READ, _OPERATE = [needs(Permission.READ)], [needs(Permission.OPERATE)]

_READERS: dict[str, asking.Reader] = {
    "status": asking.one_of(SendStatus),
    "endpoint": asking.row_id,
    "event": asking.words,
    "record": asking.row_id,
    # As the dashboard's links to every channel name it.
    "server": asking.row_id,
    "before": asking.row_id,
}

_WORDS = {SendStatus.DEAD_LETTER: "Dead letter"}


def about(line: Any) -> str:
    """The path of the message that an event is of; empty for a trial."""
    has_page = line.about_channel in ("mail", "sms") and line.about_record_id
    return f"/{line.about_channel}/{line.about_record_id}" if has_page else ""


@routes.get(_PATH, dependencies=_READ)
def list_deliveries(request: Request, caller: Caller, session: DbSession) -> Response:
    """The list."""
    tenant: dict[str, asking.Reader] = {"tenant": asking.tenant_id} if is_platform(caller) else {}
    asked = asking.read(request.url.query, _READERS | tenant)
    found: Any = []
    with seen_by(caller, asked.get("tenant")):
        endpoints = {one.id: one.name for one in api.list_webhook_endpoints(session=session, active="all")}
        if not asked.errors:
            found = api.list_webhook_deliveries(
                endpoint_id=asked.get("endpoint") or asked.get("server"),
                status=asked.get("status"),
                event_type=asked.get("event"),
                about_record_id=asked.get("record"),
                limit=asking.SIZE,
                before=asked.get("before"),
                session=session,
            )
    following = getattr(found, "next_before", None)
    columns = [
        Column("Status", lambda line: Cell(_word(line.status), status=line.status.lower()), "c-status"),
        Column("Id", lambda line: Cell(str(line.id), path=f"{_PATH}/{line.id}"), "c-id", is_number=True),
        Column("Event", lambda line: line.event_type, "c-to"),
        Column("Endpoint", lambda line: endpoints.get(line.endpoint_id, line.endpoint_id), "c-what"),
        Column("Of", lambda line: Cell(_of(line), path=about(line)), "c-with"),
        Column("Error", lambda line: line.error_code, "c-error"),
        Column("Tries", lambda line: line.retry_count or "", "c-tries", is_number=True),
        Column("Since (UTC)", lambda line: line.created_at, "c-when"),
    ]
    if is_platform(caller):
        columns.insert(2, Column("Tenant", lambda line: line.tenant_id, "c-tenant", is_number=True))
    if caller.may(Permission.OPERATE):
        columns.append(Column("", _retry_cell, "c-act"))
    listing = Listing(
        "Webhook deliveries",
        _PATH,
        "delivery",
        columns,
        asked,
        found,
        newer=asked.query() if asked.get("before") else None,
        older=None if following is None else asked.query(before=str(following)),
        filters=(
            Filter("event", "Event", options=[(one.value, one.value) for one in EventType]),
            Filter("endpoint", "Endpoint", options=[(str(row_id), name) for row_id, name in endpoints.items()]),
            Filter("record", "Of record", "id"),
            *([Filter("tenant", "Tenant")] if is_platform(caller) else []),
        ),
        tabs=(Tab("status", None, "All"), *(Tab("status", one.value, _word(one)) for one in SendStatus)),
    )
    return page(request, "list.html", list=listing)


def _word(status: SendStatus) -> str:
    return _WORDS.get(status, status.capitalize())


def _of(line: Any) -> str:
    return f"{line.about_channel} {line.about_record_id}" if line.about_record_id else "a trial"


def _retry_cell(line: Any) -> Cell | str:
    if not may_retry(line.status, line.error_code):
        return ""
    return Cell("Retry…", path=f"{_PATH}/{line.id}/retry", title=f"delivery {line.id}", asks=True)


@routes.get(f"{_PATH}/{{delivery_id}}", dependencies=_READ)
def show_delivery(request: Request, caller: Caller, session: DbSession, delivery_id: Id) -> Response:
    """One of them."""
    with seen_by(caller):
        one = api.get_webhook_delivery(delivery_id, session=session)
        attempts = attempts_of(session, delivery_id)
    return page(
        request,
        "delivery.html",
        one=one,
        attempts=attempts,
        about=about(one),
        of=_of(one),
        may_retry=may_retry(one.status, one.error_code),
    )


@routes.get(f"{_PATH}/{{delivery_id}}/retry", dependencies=_OPERATE)
def ask_retry(request: Request, caller: Caller, session: DbSession, delivery_id: Id) -> Response:
    """Whether it is to be told again."""
    with seen_by(caller):
        one = api.get_webhook_delivery(delivery_id, session=session)
    is_allowed = may_retry(one.status, one.error_code)
    return ask_first(
        request,
        f"Retry delivery {delivery_id}?",
        "The endpoint is told the same event again, under the same id.",
        verb="Retry",
        action=f"{_PATH}/{delivery_id}/retry",
        leave=f"{_PATH}/{delivery_id}",
        what={"Error": one.error_message} if one.error_message else {},
        refusal="" if is_allowed else f"It is {one.status.lower()}.",
    )


@routes.post(f"{_PATH}/{{delivery_id}}/retry", dependencies=_OPERATE)
def retry_delivery(request: Request, caller: Caller, session: DbSession, delivery_id: Id) -> Response:
    """Tell it again."""
    target = url(request, f"{_PATH}/{delivery_id}")
    try:
        with seen_by(caller):
            api.retry(delivery_id, channel="webhook", session=session)
    except StateError as exc:
        return done(request, target, f"Nothing was changed: {exc}.", is_refusal=True)
    return done(request, target, f"Delivery {delivery_id} is requeued.")
