"""The console put together: its pages behind the gate that the API has, errors as pages, headers on every answer."""

from collections.abc import Mapping

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from messaging.clock import Ticker
from messaging.errors import MessagingError
from messaging.settings import Settings
from messaging.web.api.gate import Gate
from messaging.web.auth import ONLY_LOOKS
from messaging.web.console import (
    access,
    audit_log,
    batches,
    captured,
    content,
    dashboard,
    dead_letters,
    exporting,
    inbox,
    quotas,
    receive_servers,
    received,
    record,
    records,
    send_servers,
    signing_in,
    sms_providers,
    sms_routes,
    suppressions,
    templates_pages,
    webhook_endpoints,
    webhooks,
)
from messaging.web.console.assets import Assets
from messaging.web.console.pages import HOME, refusal, url
from messaging.web.console.rendering import environment
from messaging.web.errors import ApiError
from messaging.web.limits import Buckets, Limits
from messaging.web.paths import CONSOLE, own_path
from messaging.web.sign_in import CSRF_HEADER, require_same_origin

#: Pages, those with a fixed path before those that name a channel.
PAGES = (
    signing_in.routes,
    dashboard.routes,
    dead_letters.routes,
    audit_log.routes,
    send_servers.routes,
    receive_servers.routes,
    sms_providers.routes,
    sms_routes.routes,
    webhook_endpoints.routes,
    received.routes,
    suppressions.routes,
    access.routes,
    batches.routes,
    captured.routes,
    quotas.routes,
    webhooks.routes,
    templates_pages.routes,
    inbox.routes,
    exporting.routes,
    records.routes,
    record.routes,
    content.routes,
)

#: Of every answer that does not say otherwise. No inline script, no inline style, nothing of another origin.
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-src 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "same-origin",
}


def create_console(resources: FastAPI, settings: Settings, limits: Limits, ticker: Ticker) -> ASGIApp:
    """The console, beside the API whose `resources` share callers and their bounds with it. Reads its assets."""
    app = FastAPI(title="messaging console", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    for name in ("engine", "settings", "authenticator", "credentials", "attempts", "talks"):
        setattr(app.state, name, getattr(resources.state, name))
    app.state.assets = assets = Assets()
    app.state.templates = environment(assets)
    for path in ("/", CONSOLE):
        app.add_api_route(path, _home, name=f"home of {path}")
    for pages in PAGES:
        app.router.routes.extend(pages.routes)
    for kind in (HTTPException, RequestValidationError, MessagingError, SQLAlchemyError, Exception):
        app.add_exception_handler(kind, _answer)
    addresses = Buckets(limits.per_address, max_callers=limits.max_callers, ticker=ticker)

    def refused(request: Request, exc: Exception) -> Response:
        request.scope["app"] = app
        return refusal(request, exc)

    gate = Gate(app, app.state.authenticator, settings.api, limits, addresses, ticker, refused)
    return _Doors(app, gate, assets)


async def _home(request: Request) -> RedirectResponse:
    return RedirectResponse(url(request, HOME), 303)


async def _answer(request: Request, exc: Exception) -> Response:
    return refusal(request, exc)


class _Doors:
    """What stands before the gate: assets, which are for everybody; forms of other sites, which are for nobody."""

    def __init__(self, app: FastAPI, gate: ASGIApp, assets: Assets) -> None:
        self._app, self._gate, self._assets = app, gate, assets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI 3."""
        say = _saying(send, HEADERS)
        asset = self._assets.find(own_path(scope))
        if asset is not None and scope["method"] in ("GET", "HEAD"):
            await asset(scope, receive, say)
            return
        if Headers(scope=scope).get(CSRF_HEADER) == "poll":
            scope[ONLY_LOOKS] = True
        try:
            # Of everybody, signed in or not: a foreign form signs nobody in either.
            require_same_origin(Request(scope))
        except ApiError as exc:
            scope["app"] = self._app
            await refusal(Request(scope), exc)(scope, receive, say)
            return
        await self._gate(scope, receive, say)


def _saying(send: Send, headers: Mapping[str, str]) -> Send:
    async def say(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", ()))
            names = {name.lower() for name, _ in given}
            given += [(k.encode(), v.encode()) for k, v in headers.items() if k.encode() not in names]
            message = {**message, "headers": given}
        await send(message)

    return say
