"""The authenticator of this package: API tokens and the sessions of operators.

What a look-up found is kept for a second, so that a busy caller costs no query for each request; a token that was
revoked, and an operator who was disabled, are known everywhere within that time.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

import anyio.to_thread
from sqlalchemy import Connection, Engine
from starlette.requests import Request

from messaging.access import secrets, sessions, tokens
from messaging.access.roles import PERMISSIONS
from messaging.clock import Ticker
from messaging.settings import ApiSettings
from messaging.web.auth import ONLY_LOOKS, Identity
from messaging.web.errors import ApiError
from messaging.web.limits import Buckets, caller_of, retry_after
from messaging.web.sign_in import COOKIE, require_same_origin

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

    def __init__(self, engine: Engine, settings: ApiSettings, look_ups: Buckets, ticker: Ticker) -> None:
        """`look_ups` bounds, for each address, how many credentials that are not kept the database is asked about."""
        self._engine = engine
        self._idle_minutes = settings.session_idle_minutes
        self._look_ups = look_ups
        self._kept = Kept(ticker)

    async def authenticate(self, request: Request) -> Identity | None:
        """See `Authenticator`. A token comes before a cookie: whoever sends one means it."""
        header = request.headers.get("authorization")
        if header is not None:
            token = _bearer(header)
            return await self._known(request, token, self._of_token) if tokens.has_shape(token) else None
        cookie = request.cookies.get(COOKIE)
        if not cookie:
            return None
        is_use = not request.scope.get(ONLY_LOOKS)
        identity = await self._known(request, cookie, partial(self._of_session, is_use=is_use))
        if identity is not None:
            require_same_origin(request)
        return identity

    def forget(self, secret: str) -> None:
        """Ask the database again whose it is: a session has ended."""
        self._kept.forget(secrets.hashed(secret))

    async def _known(
        self, request: Request, secret: str, find: Callable[[Connection, str], Identity | None]
    ) -> Identity | None:
        key = secrets.hashed(secret)
        kept = self._kept.get(key)
        if kept is not None:
            return kept[0]
        seconds = self._look_ups.take(caller_of(request.client.host if request.client else None))
        if seconds:
            raise ApiError(429, "too many unknown credentials of one address", headers=retry_after(seconds))
        return await anyio.to_thread.run_sync(self._find, key, find)

    def _find(self, key: str, find: Callable[[Connection, str], Identity | None]) -> Identity | None:
        with self._engine.begin() as connection:
            identity = find(connection, key)
        self._kept.put(key, identity)
        return identity

    def _of_token(self, connection: Connection, key: str) -> Identity | None:
        caller = tokens.find_caller(connection, key)
        if caller is None:
            return None
        return Identity(
            f"token:{caller.id}", caller.tenant_id, PERMISSIONS[caller.role], caller.user_id, user_name=caller.name
        )

    def _of_session(self, connection: Connection, key: str, *, is_use: bool) -> Identity | None:
        caller = sessions.find_caller(connection, key, idle_minutes=self._idle_minutes, is_use=is_use)
        if caller is None:
            return None
        return Identity(
            f"operator:{caller.id}",
            caller.tenant_id,
            PERMISSIONS[caller.role],
            caller.user_id,
            user_name=caller.display_name or caller.user_name,
        )


def _bearer(header: str) -> str:
    """The token of RFC 6750 section 2.1; empty for another scheme."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
