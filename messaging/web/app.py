"""The HTTP application, put together: hooks and probes beside the API and the console, the envelope around them.

Handlers are plain functions in a bounded pool of threads.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp, Receive, Scope, Send

from messaging.clock import Ticker, boot_seconds
from messaging.db.trouble import is_away, is_passing, is_unfit
from messaging.settings import Settings
from messaging.web import health
from messaging.web.api.application import create_api
from messaging.web.auth import Authenticator
from messaging.web.calls import CallReader
from messaging.web.console.app import create_console
from messaging.web.envelope import Envelope
from messaging.web.errors import RETRY_AFTER_SECONDS
from messaging.web.hooks import sms, unsubscribe
from messaging.web.limits import Limits
from messaging.web.live.hub import Hub
from messaging.web.paths import is_api, is_console

logger = logging.getLogger(__name__)


def create_app(
    settings: Settings,
    engine: Engine,
    *,
    limits: Limits | None = None,
    ticker: Ticker = boot_seconds,
    authenticator: Authenticator | None = None,
) -> ASGIApp:
    """The application; connects to nothing until it is called. The process has been set up by `messaging.configure`.

    `engine` should have a connection for each of `limits.threads`. None of limits: the defaults. `authenticator` tells
    who calls the API; None: tokens and operators of this package.
    """
    bounds = limits or Limits()
    ready = health.readiness(settings, ticker)
    hub = Hub(settings, engine, ticker)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = bounds.threads
        yield
        await hub.stop()
        ready.close()

    app = FastAPI(
        title="messaging", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False, lifespan=lifespan
    )
    app.add_exception_handler(SQLAlchemyError, _on_database_error)
    read_call = CallReader(bounds, ticker)
    app.include_router(health.router(ready))
    app.include_router(sms.router(engine, settings.public_base_url, read_call))
    app.include_router(unsubscribe.router(engine, read_call))
    resources, api = create_api(settings, engine, bounds, ticker, authenticator=authenticator)
    resources.state.hub = hub
    console = create_console(resources, settings, bounds, ticker)

    async def whose(scope: Scope, receive: Receive, send: Send) -> None:
        is_http = scope["type"] == "http"
        chosen = api if is_http and is_api(scope) else console if is_http and is_console(scope) else app
        await chosen(scope, receive, send)

    return Envelope(whose, bounds, ticker)


def _on_database_error(_: Request, exc: Exception) -> JSONResponse:
    """Nothing was kept, so the caller must come again: 503 for what passes or is mended by operators."""
    if isinstance(exc, SQLAlchemyError) and (is_away(exc) or is_passing(exc) or is_unfit(exc)):
        logger.error("the database did not take a request", extra={"error": type(exc).__name__})
        headers = {"retry-after": str(RETRY_AFTER_SECONDS)}
        return JSONResponse({"detail": "Service Unavailable"}, 503, headers)
    raise exc
