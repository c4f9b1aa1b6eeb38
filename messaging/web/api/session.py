"""`/session`: an operator signs in, sees who is signed in, changes the password, signs out; a cookie holds it."""

import logging

from fastapi import Request, Response
from pydantic import Field

from messaging import tenancy
from messaging.access import operators, passwords, secrets, sessions
from messaging.access.models import Operator
from messaging.access.roles import PERMISSIONS, Permission, Role
from messaging.access.sessions import OperatorCaller
from messaging.db.own_rows import get_own
from messaging.db.session import transaction
from messaging.web.api.resource import ProcessSettings, Resource, needs, open_to_all
from messaging.web.api.shapes import Given, Id, Shown, TenantId, Text, Time, UserId
from messaging.web.errors import ApiError, Problem, invalid, unauthenticated
from messaging.web.sign_in import COOKIE, clear_cookie, set_cookie

logger = logging.getLogger(__name__)

routes = Resource("access")

#: One sentence for both: it does not tell which names there are.
_WRONG = "user name or password is wrong"


class SignIn(Given):
    """Who signs in."""

    user_name: Text = Field(min_length=1, max_length=100)
    password: str = Field(min_length=1, max_length=passwords.MAX_CHARS)


class NewPassword(Given):
    """The own password, to be changed."""

    current: str = Field(min_length=1, max_length=passwords.MAX_CHARS)
    password: str = Field(min_length=passwords.MIN_CHARS, max_length=passwords.MAX_CHARS)


class SessionShown(Shown):
    """Who is signed in."""

    operator_id: Id
    tenant_id: TenantId
    user_name: str
    display_name: str | None
    user_id: UserId | None
    role: Role
    permissions: list[Permission]
    #: When it ends at the latest; without requests it ends sooner.
    expires_at: Time


@routes.post(
    "/session",
    status_code=201,
    dependencies=[open_to_all()],
    responses={201: {"model": SessionShown}, 401: {"model": Problem, "description": "Wrong name or password"}},
)
def sign_in(request: Request, given: SignIn, settings: ProcessSettings) -> Response:
    """Sign in; the answer sets the cookie by which the next requests are known."""
    state = request.app.state
    state.attempts.count(request, given.user_name)
    token = sessions.sign_in(state.engine, given.user_name, given.password, hours=settings.api.session_hours)
    if token is None:
        # Without the name: people type passwords there.
        logger.warning("a sign-in was refused", extra={"client": request.client.host if request.client else None})
        raise ApiError(401, _WRONG)
    response = Response(_shown(request, token).model_dump_json(), 201, media_type="application/json")
    set_cookie(response, token, settings)
    return response


@routes.get("/session", dependencies=[needs()])
def get_session(request: Request) -> SessionShown:
    """Who is signed in; 401 for a token, which is no session."""
    return _shown(request, request.cookies.get(COOKIE, ""))


@routes.delete("/session", status_code=204, dependencies=[needs()])
def sign_out(request: Request, settings: ProcessSettings) -> Response:
    """End the session, if there is one; its cookie is worth nothing from now on."""
    token = request.cookies.get(COOKIE)
    if token:
        with request.app.state.engine.begin() as connection:
            sessions.end(connection, secrets.hashed(token))
        request.app.state.credentials.forget(token)
    response = Response(status_code=204)
    clear_cookie(response, settings)
    return response


@routes.post("/session/password", status_code=204, dependencies=[needs()])
def change_own_password(request: Request, given: NewPassword) -> None:
    """Change the own password; one's other sessions end."""
    token = request.cookies.get(COOKIE, "")
    caller = _caller(request, token)
    request.app.state.attempts.count(request, caller.user_name)
    with transaction(request.app.state.engine) as session:
        known = get_own(session, Operator, caller.id, what="operator").password_hash
    if not passwords.is_right(known, given.current):
        raise invalid("current", "is not the password")
    with transaction(request.app.state.engine) as session:
        operators.set_password(session, caller.id, given.password, keep=secrets.hashed(token), instead_of=known)


def _caller(request: Request, token: str) -> OperatorCaller:
    idle_minutes = request.app.state.settings.api.session_idle_minutes
    with request.app.state.engine.begin() as connection:
        found = sessions.find_caller(connection, secrets.hashed(token), idle_minutes=idle_minutes)
    if found is None or "authorization" in request.headers:
        raise unauthenticated("nobody is signed in")
    return found


def _shown(request: Request, token: str) -> SessionShown:
    caller = _caller(request, token)
    return SessionShown(
        operator_id=caller.id,
        tenant_id=caller.tenant_id if tenancy.is_multi_tenancy() else tenancy.SINGLE_TENANT_ID,
        user_name=caller.user_name,
        display_name=caller.display_name,
        user_id=caller.user_id,
        role=caller.role,
        permissions=sorted(PERMISSIONS[caller.role]),
        expires_at=caller.expires_at,
    )
