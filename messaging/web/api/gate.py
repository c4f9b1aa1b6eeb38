"""What stands before every request of the API: who calls, how often they may, how much they may send, for whom it runs.

Asked before a body is read, so that nobody unknown makes this process hold one.
"""

import asyncio
import math
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from messaging import tenancy
from messaging.clock import Ticker
from messaging.settings import ApiSettings
from messaging.web import errors
from messaging.web.auth import IDENTITY, Authenticator, Identity, acting_context, ask
from messaging.web.errors import ApiError, unauthenticated
from messaging.web.limits import Buckets, Limits, Rate, caller_of, retry_after

#: Octets that somebody unknown may send: a sign-in.
MAX_UNKNOWN_BODY_OCTETS = 64 * 1024
#: Seconds for a body to come in whole; one may be large.
BODY_SECONDS = 60.0
#: Seconds of its rate that a caller may use up at once.
_BURST_SECONDS = 5


def _refusal(_: Request, exc: Exception) -> Response:
    return errors.of(exc).response()


class Gate:
    """The ASGI application around the resources."""

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        settings: ApiSettings,
        limits: Limits,
        addresses: Buckets,
        ticker: Ticker,
        refusal: Callable[[Request, Exception], Response] = _refusal,
    ) -> None:
        """`refusal` makes the answer to who is not let on."""
        self._app = app
        self._authenticator = authenticator
        self._max_body_octets = settings.max_body_bytes
        rate = Rate(settings.rate_per_second, burst=max(10, math.ceil(settings.rate_per_second * _BURST_SECONDS)))
        self._callers = Buckets(rate, max_callers=limits.max_callers, ticker=ticker)
        self._addresses = addresses
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI 3."""
        try:
            identity = await self._admit(scope, receive)
        except Exception as exc:  # noqa: BLE001 - answered and logged as a handler's own
            await self._refusal(Request(scope), exc)(scope, receive, send)
            return
        scope[IDENTITY] = identity
        hear = _bounded(receive, self._max_body_octets if identity else MAX_UNKNOWN_BODY_OCTETS)
        if identity is None:
            await self._answer(scope, hear, send)
            return
        with tenancy.acting_as(acting_context(identity)):
            await self._answer(scope, hear, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_answered = False

        async def say(message: Message) -> None:
            nonlocal is_answered
            await send(message)
            is_answered = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self._app(scope, receive, say)
        except Exception:
            # The framework raises again what it has answered with 500 and we have logged.
            if not is_answered:
                raise

    async def _admit(self, scope: Scope, receive: Receive) -> Identity | None:
        request = Request(scope, receive)
        identity = await ask(self._authenticator, request)
        if identity is None:
            seconds = self._addresses.take(caller_of(request.client.host if request.client else None))
        else:
            seconds = self._callers.take((identity.tenant_id, identity.actor))
        if seconds:
            raise ApiError(429, "too many requests", headers=retry_after(seconds))
        stated = request.headers.get("content-length")
        if stated is not None and not stated.isdecimal():
            raise ApiError(422, "the header Content-Length is no number")
        if stated is not None and identity is None and int(stated) > MAX_UNKNOWN_BODY_OCTETS:
            raise unauthenticated()
        if stated is not None and int(stated) > self._max_body_octets:
            raise _too_large(self._max_body_octets)
        return identity


def _too_large(max_octets: int) -> ApiError:
    return ApiError(413, f"the body is larger than {max_octets} octets")


def _bounded(receive: Receive, max_octets: int) -> Receive:
    """Hear the body within bounds of size and time, however it is sent: a chunked one states no size."""
    heard = 0
    has_all = False
    deadline = asyncio.get_running_loop().time() + BODY_SECONDS

    async def hear() -> Message:
        nonlocal heard, has_all
        if has_all:
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            raise ApiError(408, f"the body did not come within {BODY_SECONDS:g} seconds") from None
        if message["type"] == "http.request":
            heard += len(message.get("body", b""))
            if heard > max_octets:
                raise _too_large(max_octets)
            has_all = not message.get("more_body", False)
        return message

    return hear
