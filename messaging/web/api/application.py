"""The API put together: resources behind their gate, errors in one shape, its own OpenAPI document."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Match
from starlette.types import ASGIApp

from messaging.clock import Ticker
from messaging.errors import MessagingError
from messaging.settings import Settings
from messaging.web import errors
from messaging.web.api import talking
from messaging.web.api.gate import Gate
from messaging.web.api.router import RESOURCES
from messaging.web.auth import Authenticator, Everybody
from messaging.web.credentials import Credentials
from messaging.web.errors import ApiError
from messaging.web.limits import Buckets, Limits
from messaging.web.paths import BASE
from messaging.web.sign_in import COOKIE, Attempts

#: Methods that a path may have.
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: Headers that scripts of allowed origins may send, and read.
_CORS_SENT = ("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "X-Request-Id", "traceparent")
_CORS_READ = ("X-Request-Id", "Retry-After")


def create_api(
    settings: Settings, engine: Engine, limits: Limits, ticker: Ticker, *, authenticator: Authenticator | None = None
) -> tuple[FastAPI, ASGIApp]:
    """The resources as an application, and the same behind the gate, which is what is served.

    None of authenticator: tokens and operators of this package.
    """
    docs = settings.api.docs
    app = FastAPI(
        title="messaging",
        version="1",
        description="Mail, text messages and notifications of one tenant: handed in, watched, operated.",
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{BASE}/openapi.json" if docs else None,
        redirect_slashes=False,
    )
    app.state.engine, app.state.settings = engine, settings
    for resource in RESOURCES:
        # Not `include_router`: that looks through every resource twice for each request.
        app.router.routes.extend(resource.routes)
    for kind in (HTTPException, RequestValidationError, MessagingError, SQLAlchemyError, Exception):
        app.add_exception_handler(kind, _answer)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    addresses = Buckets(limits.per_address, max_callers=limits.max_callers, ticker=ticker)
    own = Credentials(engine, settings.api, addresses, ticker)
    used = authenticator or (own if settings.api.require_auth else Everybody())
    app.state.authenticator, app.state.credentials = used, own
    app.state.talks = talking.slots(limits)
    app.state.attempts = Attempts(limits.max_callers, ticker)
    gated: ASGIApp = Gate(app, used, settings.api, limits, addresses, ticker)
    if settings.api.cors_origins:
        # No credentials: a cookie is for our own pages, others send a token.
        gated = CORSMiddleware(
            gated,
            allow_origins=settings.api.cors_origins,
            allow_methods=_METHODS,
            allow_headers=_CORS_SENT,
            expose_headers=_CORS_READ,
        )
    return app, gated


async def _answer(request: Request, exc: Exception) -> JSONResponse:
    answered = errors.of(exc)
    if answered.status_code == 405:
        answered = ApiError(405, answered.message, headers={"allow": ", ".join(_allowed(request))})
    return answered.response()


def _allowed(request: Request) -> list[str]:
    """All methods of the path (RFC 9110 section 10.2.1): the framework names those of the first route it met."""
    routes = request.app.router.routes
    return [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]


def describe(app: FastAPI) -> dict[str, Any]:
    """The document: as the framework makes it, with how callers prove who they are."""
    if app.openapi_schema is None:
        document = FastAPI.openapi(app)
        document.setdefault("components", {})["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "description": "An API token, `msg_...`."},
            "session": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "Signed in."},
        }
        app.openapi_schema = document
    return app.openapi_schema
