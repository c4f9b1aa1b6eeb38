"""Signing in within bounds: by a password that is guessed at, each name and each address has only so many attempts.

The cookie is for pages of our own origin; a request that it alone vouches for must come from one.
"""

from starlette.requests import Request
from starlette.responses import Response

from messaging.clock import Ticker
from messaging.settings import Settings
from messaging.web.errors import ApiError
from messaging.web.limits import Buckets, Rate, caller_of, retry_after

#: The cookie that holds a session.
COOKIE = "messaging_session"
#: A header that a form of another site cannot send, and a script only where CORS allows it, which it does not.
CSRF_HEADER = "x-requested-with"

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

#: Attempts for one name, from wherever: a hundred passwords take an hour.
_PER_NAME = Rate(per_second=1 / 36, burst=10)
#: Attempts of one address, for whomever.
_PER_ADDRESS = Rate(per_second=1 / 6, burst=30)


class Attempts:
    """Counts attempts in this process; forgotten with it."""

    def __init__(self, max_callers: int, ticker: Ticker) -> None:
        self._names = Buckets(_PER_NAME, max_callers=max_callers, ticker=ticker)
        self._addresses = Buckets(_PER_ADDRESS, max_callers=max_callers, ticker=ticker)

    def count(self, request: Request, user_name: str) -> None:
        """Count one, known name or not. Raises: ApiError 429, when there were too many."""
        seconds = self._addresses.take(caller_of(request.client.host if request.client else None))
        seconds = seconds or self._names.take(user_name.strip().lower())
        if seconds:
            raise ApiError(429, "too many attempts to sign in", headers=retry_after(seconds))


def set_cookie(response: Response, token: str, settings: Settings) -> None:
    """Hand a session to the browser: for no script, and not sent by forms of other sites."""
    response.set_cookie(
        COOKIE,
        token,
        max_age=round(settings.api.session_hours * 3600),
        httponly=True,
        samesite="lax",
        secure=_is_secure(settings),
    )


def clear_cookie(response: Response, settings: Settings) -> None:
    """Take it back."""
    response.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=_is_secure(settings))


def _is_secure(settings: Settings) -> bool:
    return settings.env == "production" or (settings.public_base_url or "").startswith("https:")


def require_same_origin(request: Request) -> None:
    """Raises: ApiError 403, for a change that may be asked for by a page of another site."""
    headers = request.headers
    if request.method in _SAFE_METHODS or headers.get(CSRF_HEADER):
        return
    fetched_from = headers.get("sec-fetch-site")
    if fetched_from is not None:
        is_same = fetched_from == "same-origin"
    else:
        # Host and port alone: behind a proxy that ends TLS the scheme differs.
        host = headers.get("host")
        is_same = bool(host) and headers.get("origin") in (f"https://{host}", f"http://{host}")
    if not is_same:
        raise ApiError(403, f"send the header {CSRF_HEADER} with a session's changes", code="csrf")
