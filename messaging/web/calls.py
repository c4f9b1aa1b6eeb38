"""A call from outside as handlers get it: counted for its token, then read within bounds of size and time."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect

from messaging.clock import Ticker
from messaging.web.limits import Buckets, Limits, retry_after


@dataclass(frozen=True, slots=True)
class Call:
    """One request, read whole."""

    method: str
    #: As it was called, not decoded.
    path: str
    #: As it was called, without its `?`.
    raw_query: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def target(self) -> str:
        """Path and query."""
        return f"{self.path}?{self.raw_query}" if self.raw_query else self.path


class CallReader:
    """Reads calls to addresses with a token: a dependency of their handlers."""

    def __init__(self, limits: Limits, ticker: Ticker) -> None:
        self._limits = limits
        self._tokens = Buckets(limits.per_token, max_callers=limits.max_callers, ticker=ticker)

    async def __call__(self, request: Request) -> Call:
        """Raises: HTTPException, 429 for too many, 413 for a body that is too large, 408 for one that does not come."""
        seconds = self._tokens.take(request.path_params["token"])
        if seconds:
            raise HTTPException(429, headers=retry_after(seconds))
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                body = await self._body(request)
        except TimeoutError:
            raise HTTPException(408) from None
        except ClientDisconnect:
            # Nobody hears it; what came is not the whole.
            raise HTTPException(400) from None
        raw_query = request.scope["query_string"].decode("latin-1")
        return Call(
            method=request.method,
            path=request.scope["raw_path"].decode("latin-1"),
            raw_query=raw_query,
            query=dict(parse_qsl(raw_query, keep_blank_values=True)),
            headers=dict(request.headers),
            body=body,
        )

    async def _body(self, request: Request) -> bytes:
        """However it is sent: a chunked body states no size."""
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > self._limits.max_body_octets:
                raise HTTPException(413)
        return bytes(body)
