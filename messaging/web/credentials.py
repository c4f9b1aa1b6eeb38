"""The authenticator of this package: API tokens and the sessions of operators.

What a look-up found is kept for a second, so that a busy caller costs no query for each request; a token that was
revoked, and an operator who was disabled, are known everywhere within that time.
"""

import threading
from collections import OrderedDict

import anyio.to_thread
from sqlalchemy import Engine
from starlette.requests import Request

from messaging.access import secrets, tokens
from messaging.access.roles import PERMISSIONS
from messaging.access.tokens import TokenCaller
from messaging.clock import Ticker
from messaging.web.auth import Identity
from messaging.web.errors import ApiError
from messaging.web.limits import Buckets, caller_of, retry_after

#: Seconds for which a caller is known without asking.
KEPT_SECONDS = 1.0
#: Callers kept at once.
_MAX_KEPT = 10_000


class Kept:
    """Who was found for which hash, for a second. Any thread may ask."""

    def __init__(self, ticker: Ticker) -> None:
        self._ticker = ticker
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[Identity | None, float]] = OrderedDict()

    def get(self, key: str) -> tuple[Identity | None] | None:
        """What was found; None: nothing that still counts."""
        kept = self._found.get(key)
        return (kept[0],) if kept is not None and self._ticker() < kept[1] else None

    def put(self, key: str, identity: Identity | None) -> None:
        """Keep what was found."""
        with self._lock:
            self._found.pop(key, None)
            self._found[key] = identity, self._ticker() + KEPT_SECONDS
            if len(self._found) > _MAX_KEPT:
                self._found.popitem(last=False)

    def forget(self, key: str) -> None:
        """Ask again next time."""
        with self._lock:
            self._found.pop(key, None)


class Credentials:
    """See `Authenticator`."""

    def __init__(self, engine: Engine, look_ups: Buckets, ticker: Ticker) -> None:
        """`look_ups` bounds, for each address, how many unknown credentials are asked the database about."""
        # Each look-up is a transaction of its own.
        self._engine = engine
        self._look_ups = look_ups
        self._kept = Kept(ticker)

    async def authenticate(self, request: Request) -> Identity | None:
        """See `Authenticator`. A token comes before a cookie: whoever sends one means it."""
        token = _bearer(request.headers.get("authorization"))
        if token is None or not tokens.has_shape(token):
            return None
        key = secrets.hashed(token)
        kept = self._kept.get(key)
        if kept is not None:
            return kept[0]
        seconds = self._look_ups.take(caller_of(request.client.host if request.client else None))
        if seconds:
            raise ApiError(429, "too many unknown credentials of one address", headers=retry_after(seconds))
        return await anyio.to_thread.run_sync(self._find, key)

    def _find(self, key: str) -> Identity | None:
        with self._engine.begin() as connection:
            caller = tokens.find_caller(connection, key)
        identity = None if caller is None else _identity(caller)
        self._kept.put(key, identity)
        return identity


def _bearer(header: str | None) -> str | None:
    """The token of RFC 6750 section 2.1."""
    scheme, _, token = (header or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _identity(caller: TokenCaller) -> Identity:
    return Identity(
        actor=f"token:{caller.id}",
        tenant_id=caller.tenant_id,
        permissions=PERMISSIONS[caller.role],
        user_id=caller.user_id,
        user_name=caller.name,
    )
