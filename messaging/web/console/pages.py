"""How a page is written: a plain function that answers `page(...)`, or `done(...)` after a change.

As for the API's resources: one thread hop, one transaction with `DbSession`, committed before the answer is sent.
"""

import base64
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from messaging import tenancy
from messaging.access.roles import Permission
from messaging.web import errors
from messaging.web.api.resource import Resource
from messaging.web.auth import IDENTITY, Identity
from messaging.web.console.audience import is_platform, sees_platform
from messaging.web.console.navigation import seen_groups
from messaging.web.errors import ApiError
from messaging.web.paths import CONSOLE

#: Where one lands.
HOME = "/"
SIGN_IN = "/sign-in"

THEME_COOKIE = "messaging_theme"
THEMES = ("system", "light", "dark")

_NOTICE_COOKIE = "messaging_notice"
_MAX_NOTICE_CHARS = 500
#: Seconds for the next page to show it.
_NOTICE_SECONDS = 60


class Pages(Resource):
    """The routes of some pages, below `CONSOLE`."""

    def __init__(self) -> None:
        super().__init__("console", prefix=CONSOLE)


@dataclass(frozen=True, slots=True)
class Notice:
    """What became of the action before, said once."""

    text: str
    is_refusal: bool


def url(request: Request, path: str, **query: Any) -> str:
    """A path of the console as a browser asks for it; parts of it are escaped already, empty parameters left out."""
    asked = urlencode({name: value for name, value in query.items() if value not in (None, "")})
    return f"{request.scope.get('root_path', '')}{CONSOLE}{path}{'?' if asked else ''}{asked}"


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A page; what templates know beside `values` is in `_common`."""
    notice = _notice(request)
    templates: Environment = request.app.state.templates
    made = HTMLResponse(templates.get_template(template).render(_common(request, notice) | values), status)
    if notice is not None:
        made.delete_cookie(_NOTICE_COOKIE, path=_cookie_path(request), httponly=True, samesite="strict")
    return made


def done(request: Request, target: str, text: str, *, is_refusal: bool = False) -> RedirectResponse:
    """Lead on after a form was sent, to a page that says what became of it (RFC 9110 section 15.4.4)."""
    answer = RedirectResponse(target, 303)
    kept = base64.urlsafe_b64encode(text[:_MAX_NOTICE_CHARS].encode()).decode()
    answer.set_cookie(
        _NOTICE_COOKIE,
        f"{'refused' if is_refusal else 'done'}.{kept}",
        max_age=_NOTICE_SECONDS,
        path=_cookie_path(request),
        httponly=True,
        samesite="strict",
    )
    return answer


def refusal(request: Request, exc: Exception) -> Response:
    """The page of an error; whoever must sign in first is led there and back."""
    error = errors.of(exc)
    state = request.app.state
    if error.status_code == 401 and state.authenticator is state.credentials:
        there = back_to(request) if request.method == "GET" else ""
        return RedirectResponse(url(request, SIGN_IN, next=there), 303)
    titles = {
        401: "Sign in first",
        403: "Not allowed",
        404: "Nothing here",
        429: "Too many requests",
        503: "The database does not answer",
    }
    title = titles.get(error.status_code, "That did not work")
    if error.status_code >= 500 and error.status_code != 503:
        title = "Something failed here"
    made = page(request, "error.html", status=error.status_code, title=title, message=_said(error))
    made.headers.update(error.headers or {})
    return made


def _said(error: ApiError) -> str:
    match error.status_code:
        case 404:
            return "It may never have existed, have been pruned, or belong to another tenant."
        case 403:
            return "Your role does not allow this." if error.code == "forbidden" else "The form came from another site."
        case 429:
            return "Wait a little and try again."
        case 500:
            return "The log knows why, by the number of this request."
        case 503:
            return "Nothing was changed. Try again in a few seconds."
    return f"{error.field}: {error.message}" if error.field else error.message


def back_to(request: Request) -> str:
    """The address of this request, to come back to."""
    path = request.scope.get("root_path", "") + request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    query = request.scope["query_string"].decode("latin-1")
    return quote(path, safe="/:@") + (f"?{query}" if query else "")


def safe_target(request: Request, target: str) -> str:
    """A page of ours that a form or an address names, else the first one: nobody is led to another site."""
    parts = urlsplit(target)
    base = url(request, "/")
    is_ours = target.startswith(base) and not parts.scheme and not parts.netloc and target.isascii()
    return target if is_ours and target.isprintable() and "\\" not in target else url(request, HOME)


def _common(request: Request, notice: Notice | None) -> dict[str, Any]:
    caller: Identity | None = request.scope.get(IDENTITY)
    theme = request.cookies.get(THEME_COOKIE, "")

    def address(path: str, **query: Any) -> str:
        return url(request, path, **query)

    return {
        "root": request.scope.get("root_path", ""),
        "url": address,
        "here": back_to(request),
        "section": request.scope["path"].removeprefix(url(request, "/")).partition("/")[0],
        "caller": caller,
        "may": lambda name: caller is not None and caller.may(Permission[name]),
        "is_platform": caller is not None and is_platform(caller),
        "sees_platform": caller is not None and sees_platform(caller),
        "navigation": tuple(seen_groups(caller)),
        "flower_url": request.app.state.settings.flower_url if caller and caller.may(Permission.ADMINISTER) else None,
        "has_inbox": caller is not None and caller.user_id is not None,
        "has_session": caller is not None and caller.actor.startswith("operator:"),
        "theme": theme if theme in THEMES else THEMES[0],
        "notice": notice,
        "request_id": tenancy.current().request_id,
    }


def _notice(request: Request) -> Notice | None:
    kind, _, kept = request.cookies.get(_NOTICE_COOKIE, "").partition(".")
    if kind not in ("done", "refused"):
        return None
    try:
        text = base64.urlsafe_b64decode(kept).decode()
    except ValueError:
        return None
    return Notice(text, kind == "refused")


def _cookie_path(request: Request) -> str:
    return url(request, "/")
