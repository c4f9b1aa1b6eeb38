"""What surrounds every request: its id, its caller's rate, its stated size, headers of the answer, one line in the log.

The line names the route's pattern and never the path: a token is a secret, and queries hold numbers.
"""

import logging
import math
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from messaging import metrics
from messaging.clock import Ticker
from messaging.tenancy import acting_as
from messaging.web.auth import IDENTITY, Identity
from messaging.web.health import PROBES
from messaging.web.limits import Buckets, Limits, caller_of, retry_after
from messaging.web.paths import is_api
from messaging.web.tracing import request_context

logger = logging.getLogger(__name__)

#: Seconds between two warnings that callers are refused.
FLOOD_WARNING_SECONDS = 10.0

#: Of every answer. A token stands in the address, hence no referrer and no cache.
SECURITY_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex, nofollow",
}


class Envelope:
    """The ASGI application around the one that answers."""

    def __init__(self, app: ASGIApp, limits: Limits, ticker: Ticker) -> None:
        self._app = app
        self._max_body_octets = limits.max_body_octets
        self._ticker = ticker
        self._addresses = Buckets(limits.per_address, max_callers=limits.max_callers, ticker=ticker)
        self._refused = 0
        self._warned_at = -math.inf

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI 3."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with acting_as(request_context(scope["headers"])) as context:
            await self._serve(scope, receive, send, context.request_id or "")

    async def _serve(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        began = self._ticker()
        status = 500
        has_all = not _has_body(scope)

        async def hear() -> Message:
            nonlocal has_all
            message = await receive()
            has_all = has_all or (message["type"] == "http.request" and not message.get("more_body"))
            return message

        async def say(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": _headers(message, request_id, is_last=not has_all)}
            await send(message)

        try:
            await (self._refusal(scope) or self._app)(scope, hear, say)
        finally:
            self._log(scope, status, began)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that is not looked at. The API's callers have bounds of their own."""
        if is_api(scope):
            return None
        client = scope.get("client")
        if scope["path"] not in PROBES:
            seconds = self._addresses.take(caller_of(client[0] if client else None))
            if seconds:
                self._warn_of_flood(client[0] if client else "")
                return JSONResponse({"detail": "Too Many Requests"}, 429, retry_after(seconds))
        stated = _header(scope, b"content-length")
        if stated is not None and int(stated) > self._max_body_octets:
            return JSONResponse({"detail": "Content Too Large"}, 413)
        return None

    def _warn_of_flood(self, client: str) -> None:
        self._refused += 1
        now = self._ticker()
        if now - self._warned_at >= FLOOD_WARNING_SECONDS:
            logger.warning("too many requests of one address", extra={"client": client, "refused": self._refused})
            self._warned_at, self._refused = now, 0

    def _log(self, scope: Scope, status: int, began: float) -> None:
        route = getattr(scope.get("route"), "path_format", None)
        seconds = self._ticker() - began
        if scope["path"] not in PROBES:
            metrics.http_request(scope["method"], route, status, seconds)
        logger.log(
            # A flood must not become one of log lines.
            logging.DEBUG if status == 429 or scope["path"] in PROBES else logging.INFO,
            "request",
            extra={
                "method": scope["method"],
                "route": route,
                "status": status,
                "milliseconds": round(seconds * 1000, 1),
                **_caller(scope),
            },
        )


def _caller(scope: Scope) -> dict[str, Any]:
    """Who is known to have called, for the log."""
    identity: Identity | None = scope.get(IDENTITY)
    return {} if identity is None else {"actor": identity.actor, "tenant_id": identity.tenant_id}


def _headers(message: Message, request_id: str, *, is_last: bool) -> list[tuple[bytes, bytes]]:
    given = list(message.get("headers", ()))
    names = {name.lower() for name, _ in given}
    added = {name: value for name, value in SECURITY_HEADERS.items() if name.encode() not in names}
    added["x-request-id"] = request_id
    if is_last:
        # The rest of a body that nobody reads ends with its connection.
        added["connection"] = "close"
    return given + [(name.encode(), value.encode()) for name, value in added.items()]


def _has_body(scope: Scope) -> bool:
    stated = _header(scope, b"content-length")
    return (stated is not None and int(stated) > 0) or _header(scope, b"transfer-encoding") is not None


def _header(scope: Scope, wanted: bytes) -> bytes | None:
    return next((value for name, value in scope["headers"] if name == wanted), None)
