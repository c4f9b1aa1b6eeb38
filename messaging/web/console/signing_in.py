"""Signing in by name and password or by a link, signing out here or everywhere, and how pages look to one."""

import logging
from typing import Annotated

from fastapi import Form, Query, Request
from starlette.responses import RedirectResponse, Response

from messaging.access import links, passwords, secrets, sessions
from messaging.web.api.resource import ProcessSettings, needs, open_to_all
from messaging.web.console.pages import (
    HOME,
    SIGN_IN,
    THEME_COOKIE,
    THEMES,
    Pages,
    done,
    page,
    safe_target,
    url,
)
from messaging.web.errors import ApiError
from messaging.web.sign_in import COOKIE, clear_cookie, set_cookie

logger = logging.getLogger(__name__)

routes = Pages()

#: One sentence for both: it does not tell which names there are.
_WRONG = "User name or password is wrong."
_THEME_SECONDS = 365 * 24 * 3600
#: Of the secret part of a link, some more than it has.
_MAX_LINK_CHARS = 100

_Target = Annotated[str, Form(alias="next", max_length=4000)]


@routes.get(SIGN_IN, dependencies=[open_to_all()])
def show_sign_in(request: Request, target: Annotated[str, Query(alias="next", max_length=4000)] = "") -> Response:
    """The form."""
    return _form(request, target)


@routes.post(SIGN_IN, dependencies=[open_to_all()])
def enter(
    request: Request,
    settings: ProcessSettings,
    user_name: Annotated[str, Form(max_length=1000)] = "",
    password: Annotated[str, Form(max_length=1000)] = "",
    target: _Target = "",
) -> Response:
    """Sign in, and lead to where one wanted to go."""
    state = request.app.state
    try:
        state.attempts.count(request, user_name)
    except ApiError as exc:
        said = "Too many attempts. Wait a minute and try again."
        answer = _form(request, target, user_name=user_name, error=said, status=exc.status_code)
        answer.headers.update(exc.headers or {})
        return answer
    token = None
    if user_name.isprintable() and 0 < len(password) <= passwords.MAX_CHARS:
        token = sessions.sign_in(state.engine, user_name, password, hours=settings.api.session_hours)
    if token is None:
        # Without the name: people type passwords there.
        logger.warning("a sign-in was refused", extra={"client": request.client.host if request.client else None})
        return _form(request, target, user_name=user_name, error=_WRONG, status=401)
    return _entered(request, settings, token, safe_target(request, target))


@routes.get("/link/{token}", dependencies=[open_to_all()])
def show_link(request: Request, token: str) -> Response:
    """Whom a link signs in. Looking uses nothing up: browsers and scanners open links before people do."""
    name = links.find_name(request.app.state.engine, token) if len(token) <= _MAX_LINK_CHARS else None
    return page(request, "link.html", status=200 if name else 404, name=name, token=token)


@routes.post("/link/{token}", dependencies=[open_to_all()])
def enter_by_link(request: Request, settings: ProcessSettings, token: str) -> Response:
    """Sign in by it."""
    state = request.app.state
    state.attempts.count(request, token)
    begun = None
    if len(token) <= _MAX_LINK_CHARS:
        begun = links.sign_in(state.engine, token, hours=settings.api.session_hours)
    if begun is None:
        return page(request, "link.html", status=404, name=None, token=token)
    return _entered(request, settings, begun, url(request, HOME))


@routes.post("/sign-out", dependencies=[needs()])
def leave(
    request: Request, settings: ProcessSettings, everywhere: Annotated[str, Form(max_length=10)] = ""
) -> Response:
    """End the session, or all of this operator's."""
    token = request.cookies.get(COOKIE, "")
    key = secrets.hashed(token)
    with request.app.state.engine.begin() as connection:
        if everywhere:
            sessions.end_everywhere(connection, key)
        else:
            sessions.end(connection, key)
    request.app.state.credentials.forget(token)
    said = "You are signed out everywhere." if everywhere else "You are signed out."
    answer = done(request, url(request, SIGN_IN), said)
    clear_cookie(answer, settings)
    return answer


@routes.post("/theme", dependencies=[open_to_all()])
def choose_theme(
    request: Request, theme: Annotated[str, Form(max_length=10)] = "", target: _Target = ""
) -> RedirectResponse:
    """Remember light or dark in this browser."""
    answer = RedirectResponse(safe_target(request, target), 303)
    if theme in THEMES:
        answer.set_cookie(THEME_COOKIE, theme, max_age=_THEME_SECONDS, httponly=True, samesite="lax")
    return answer


def _form(request: Request, target: str, *, user_name: str = "", error: str = "", status: int = 200) -> Response:
    is_ours = request.app.state.authenticator is request.app.state.credentials
    return page(
        request, "sign_in.html", status=status, target=target, user_name=user_name, error=error, is_ours=is_ours
    )


def _entered(request: Request, settings: ProcessSettings, token: str, target: str) -> Response:
    before = request.cookies.get(COOKIE)
    if before:
        with request.app.state.engine.begin() as connection:
            sessions.end(connection, secrets.hashed(before))
        request.app.state.credentials.forget(before)
    answer = RedirectResponse(target, 303)
    set_cookie(answer, token, settings)
    return answer
