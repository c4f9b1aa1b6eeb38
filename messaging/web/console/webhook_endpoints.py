"""Addresses of a tenant's application that are told events; a secret is shown once, when it is made."""

from typing import Any

from fastapi import Request
from starlette.responses import Response

from messaging import api
from messaging.access.roles import Permission
from messaging.delivery.announcing import EventType
from messaging.web.api.resource import DbSession, needs
from messaging.web.api.shapes import Id
from messaging.web.api.webhooks import EndpointChange, EndpointGiven
from messaging.web.console.config import ACTIVE, ConfigPages, named
from messaging.web.console.pages import Pages, done, page, url
from messaging.web.console.tables import Column
from messaging.webhooks.endpoint_admin import KIND, WebhookEndpointAdded

routes = Pages()

_PATH = "/webhook-endpoints"
_KEEP = [needs(Permission.ADMINISTER)]


def _secret_page(request: Request, made: WebhookEndpointAdded) -> Response:
    return page(
        request,
        "once.html",
        title=f"Endpoint {made.id}: its secret",
        text="By it the application checks that an event is ours (Standard Webhooks). It is shown this once.",
        secret=made.secret,
        leave=_PATH,
    )


pages = ConfigPages(
    routes=routes,
    path=_PATH,
    title="Webhook endpoints",
    one="endpoint",
    kind=KIND,
    given=EndpointGiven,
    changed=EndpointChange,
    columns=(
        named(_PATH),
        Column("URL", lambda row: row.url, "c-what"),
        Column("Events", lambda row: ", ".join(row.event_types) if row.event_types else "all", "c-wide"),
        Column("Gone (UTC)", lambda row: row.gone_at or "", "c-when"),
        ACTIVE,
    ),
    list_rows=api.list_webhook_endpoints,
    get=api.get_webhook_endpoint,
    add=api.add_webhook_endpoint,
    change=api.change_webhook_endpoint,
    delete=api.delete_webhook_endpoint,
    after_delete="What it has not been told yet is told nobody.",
    labels={"url": "URL", "event_types": "Events", "active": "Active"},
    hints={
        "event_types": f"By line or comma; empty: all. There are {', '.join(EventType)}.",
        "secret": "Empty: one is made.",
    },
    begins_with={"active": "yes"},
    only_new=("secret",),
    added=_secret_page,
    further=(("Tell a trial event…", "trial", True), ("Replace the secret…", "secret", True)),
    facts=lambda _request, _session, row: (
        [("The secret before signs until", f"{row.replaced_secret_until:%Y-%m-%d %H:%M} UTC")]
        if row.replaced_secret_until
        else []
    ),
)
pages.register()


def _ask(request: Request, row: Any, verb: str, last: str, text: str) -> Response:
    return page(
        request,
        "confirm.html",
        title=f"{verb}: endpoint {row.id}?",
        text=text,
        refusal="",
        verb=verb,
        is_dangerous=False,
        what={"Name": row.name, "URL": row.url},
        action=url(request, f"{_PATH}/{row.id}/{last}"),
        fields={},
        remark=False,
        leave=url(request, f"{_PATH}/{row.id}"),
    )


@routes.get(f"{_PATH}/{{endpoint_id}}/trial", dependencies=_KEEP)
def ask_trial(request: Request, session: DbSession, endpoint_id: Id) -> Response:
    """Whether a trial event is to be told."""
    row = api.get_webhook_endpoint(endpoint_id, session=session)
    return _ask(request, row, "Tell a trial", "trial", "An event of the type webhook.test is told, as any other is.")


@routes.post(f"{_PATH}/{{endpoint_id}}/trial", dependencies=_KEEP)
def tell_trial(request: Request, session: DbSession, endpoint_id: Id) -> Response:
    """Tell a trial event; its delivery says what came of it."""
    delivery = api.try_webhook_endpoint(endpoint_id, session=session)
    return done(request, url(request, f"/webhooks/{delivery}"), "The trial event is on its way.")


@routes.get(f"{_PATH}/{{endpoint_id}}/secret", dependencies=_KEEP)
def ask_secret(request: Request, session: DbSession, endpoint_id: Id) -> Response:
    """Whether the secret is to be replaced."""
    row = api.get_webhook_endpoint(endpoint_id, session=session)
    return _ask(
        request, row, "Replace the secret", "secret", "The old one signs as well for a day, so nothing is lost."
    )


@routes.post(f"{_PATH}/{{endpoint_id}}/secret", dependencies=_KEEP)
def replace_secret(request: Request, session: DbSession, endpoint_id: Id) -> Response:
    """Make another secret and show it once."""
    return _secret_page(request, api.rotate_webhook_secret(endpoint_id, session=session))
