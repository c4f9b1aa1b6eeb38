"""Who signs in and who calls over HTTP: operators and API tokens. What is secret is shown once, when it is made."""

from datetime import UTC, datetime
from typing import Any

from fastapi import Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from messaging.access.models import ApiToken, Operator
from messaging.access.roles import PERMISSIONS, Permission, Role
from messaging.api import access
from messaging.db.own_rows import get_own
from messaging.errors import ConfigRejected, RecordNotFound, StateError
from messaging.web.api.granting import may_grant
from messaging.web.api.operators import OperatorChanged, OperatorGiven
from messaging.web.api.resource import Caller, DbSession, needs
from messaging.web.api.shapes import Id
from messaging.web.api.tokens import TokenGiven
from messaging.web.auth import Identity
from messaging.web.console import asking, forms
from messaging.web.console.asked_first import ask_first
from messaging.web.console.config import ACTIVE
from messaging.web.console.forms import Posted
from messaging.web.console.pages import Pages, done, page, url
from messaging.web.console.tables import Action, Cell, Column, Listing, Tab

routes = Pages()

_KEEP = [needs(Permission.ADMINISTER)]
_OPERATORS, _TOKENS = "/operators", "/tokens"
_LINK_MINUTES = 60

_READERS: dict[str, asking.Reader] = {"active": asking.words}


def _roles(caller: Identity) -> list[tuple[str, str]]:
    """Those that a caller may give."""
    return [
        (one.value, one.value.replace("_", " ").capitalize()) for one in Role if caller.permissions >= PERMISSIONS[one]
    ]


def _find_operator(session: Session, operator_id: int) -> Any:
    return get_own(session, Operator, operator_id, what="operator")


def _form(
    request: Request, form: forms.Form, *, title: str, path: str, action: str, status: int = 200, row: Any = None
) -> Response:
    actions = []
    if row is not None:
        verb = "Disable" if row.active else "Enable"
        actions = [
            Action("Sign-in link…", f"{path}/{row.id}/link", asks=True),
            Action(f"{verb}…", f"{path}/{row.id}/{verb.lower()}", asks=True),
        ]
    return page(
        request,
        "form.html",
        status=status,
        title=title,
        leave=path,
        leave_text="Operators" if path == _OPERATORS else "API tokens",
        action=action,
        actions=actions,
        facts=[],
        form=form,
        verb="Save" if row is not None else "Add",
        may_save=True,
    )


# -- operators --------------------------------------------------------------------------------------------------------


def _operator_fields(caller: Identity, *, is_new: bool) -> list[forms.Field]:
    return forms.fields_of(
        OperatorGiven,
        labels={"user_name": "User name", "display_name": "Name", "user_id": "Person of the application"},
        hints={
            "password": "Empty: only by a sign-in link.",
            "user_id": "Whose notifications the bell shows.",
        },
        options={"role": _roles(caller)},
        leave_out=() if is_new else ("user_name", "password"),
        secrets=("password",),
    )


@routes.get(_OPERATORS, dependencies=_KEEP)
def list_operators(request: Request, session: DbSession) -> Response:
    """Who signs in."""
    asked = asking.read(request.url.query, _READERS)
    rows = access.list_operators(is_active=None if asked.get("active") else True, session=session)
    columns = (
        Column("User name", lambda row: Cell(row.user_name, path=f"{_OPERATORS}/{row.id}"), "c-to"),
        Column("Name", lambda row: row.display_name, "c-what"),
        Column("Role", lambda row: row.role.replace("_", " ").capitalize(), "c-error"),
        Column("Last signed in (UTC)", lambda row: row.last_signed_in_at or "never", "c-when"),
        Column("Since (UTC)", lambda row: row.created_at, "c-when"),
        ACTIVE,
    )
    listing = Listing(
        "Operators",
        _OPERATORS,
        "operator",
        columns,
        asked,
        rows,
        order="in the order in which they were added",
        tabs=(Tab("active", None, "Active"), Tab("active", "all", "All")),
        actions=[Action("New operator", f"{_OPERATORS}/new", is_main=True)],
    )
    return page(request, "list.html", list=listing)


@routes.get(f"{_OPERATORS}/new", dependencies=_KEEP)
def ask_operator(request: Request, caller: Caller) -> Response:
    """The form of an operator."""
    form = forms.blank(_operator_fields(caller, is_new=True), role=Role.VIEWER.value)
    return _form(request, form, title="New operator", path=_OPERATORS, action=f"{_OPERATORS}/new")


@routes.post(f"{_OPERATORS}/new", dependencies=_KEEP)
def add_operator(request: Request, caller: Caller, session: DbSession, posted: Posted) -> Response:
    """Add one; nobody grants a role that may do more than they may themselves."""
    fields = _operator_fields(caller, is_new=True)
    read = forms.read(fields, posted, OperatorGiven)
    where = {"title": "New operator", "path": _OPERATORS, "action": f"{_OPERATORS}/new"}
    if isinstance(read, forms.Form):
        return _form(request, read, status=422, **where)
    may_grant(caller, read.role)
    try:
        with session.begin_nested():
            operator_id = access.add_operator(session=session, **read.sent())
    except ConfigRejected as exc:
        form = forms.typed(fields, posted)
        form.refuse(exc.field, exc.reason)
        return _form(request, form, status=422, **where)
    return done(request, url(request, f"{_OPERATORS}/{operator_id}"), f"Operator {operator_id} is added.")


@routes.get(f"{_OPERATORS}/{{operator_id}}", dependencies=_KEEP)
def show_operator(request: Request, caller: Caller, session: DbSession, operator_id: Id) -> Response:
    """One of them."""
    row = _find_operator(session, operator_id)
    form = forms.filled(_operator_fields(caller, is_new=False), row)
    path = f"{_OPERATORS}/{operator_id}"
    return _form(request, form, title=f"Operator {row.user_name}", path=_OPERATORS, action=path, row=row)


@routes.post(f"{_OPERATORS}/{{operator_id}}", dependencies=_KEEP)
def change_operator(request: Request, caller: Caller, session: DbSession, operator_id: Id, posted: Posted) -> Response:
    """Change one."""
    row = _find_operator(session, operator_id)
    may_grant(caller, Role(row.role))
    fields = _operator_fields(caller, is_new=False)
    read = forms.read(fields, posted, OperatorChanged)
    where: dict[str, Any] = {
        "title": f"Operator {row.user_name}",
        "path": _OPERATORS,
        "action": f"{_OPERATORS}/{operator_id}",
        "row": row,
    }
    if isinstance(read, forms.Form):
        return _form(request, read, status=422, **where)
    given = read.sent()
    if "role" in given:
        may_grant(caller, given["role"])
    try:
        with session.begin_nested():
            access.change_operator(operator_id, session=session, **given)
    except (ConfigRejected, StateError) as exc:
        form = forms.typed(fields, posted)
        form.refuse(getattr(exc, "field", None), getattr(exc, "reason", str(exc)))
        return _form(request, form, status=422, **where)
    return done(request, url(request, _OPERATORS), f"Operator {row.user_name} is saved.")


_OPERATOR_TEXTS = {
    "link": f"It signs in once, within {_LINK_MINUTES} minutes, without a password. Whoever holds it is that operator.",
    "disable": "What they have begun ends within a second, and they cannot sign in.",
    "enable": "They can sign in again.",
}


@routes.get(f"{_OPERATORS}/{{operator_id}}/{{verb}}", dependencies=_KEEP)
def ask_about_operator(request: Request, session: DbSession, operator_id: Id, verb: str) -> Response:
    """Whether that is meant."""
    if verb not in _OPERATOR_TEXTS:
        raise RecordNotFound(verb)
    row = _find_operator(session, operator_id)
    words = "Make a sign-in link" if verb == "link" else verb.capitalize()
    return ask_first(
        request,
        f"{words}: {row.user_name}?",
        _OPERATOR_TEXTS[verb],
        verb=words,
        action=f"{_OPERATORS}/{operator_id}/{verb}",
        leave=f"{_OPERATORS}/{operator_id}",
        is_dangerous=verb == "disable",
    )


@routes.post(f"{_OPERATORS}/{{operator_id}}/{{verb}}", dependencies=_KEEP)
def act_on_operator(request: Request, caller: Caller, session: DbSession, operator_id: Id, verb: str) -> Response:
    """Do it."""
    if verb not in _OPERATOR_TEXTS:
        raise RecordNotFound(verb)
    row = _find_operator(session, operator_id)
    may_grant(caller, Role(row.role))
    if verb == "link":
        if not row.active:
            return done(request, url(request, _OPERATORS), f"{row.user_name} is disabled.", is_refusal=True)
        secret = access.make_operator_link(row.user_name, minutes=_LINK_MINUTES, session=session)
        return page(
            request,
            "once.html",
            title=f"A sign-in link for {row.user_name}",
            text=_OPERATOR_TEXTS["link"],
            secret=str(request.base_url).rstrip("/") + f"/console/link/{secret}",
            leave=_OPERATORS,
        )
    try:
        access.set_operator_active(operator_id, verb == "enable", session=session)
    except StateError as exc:
        return done(request, url(request, _OPERATORS), f"Nothing was changed: {exc}.", is_refusal=True)
    return done(request, url(request, _OPERATORS), f"Operator {row.user_name} is {verb}d.")


# -- tokens -----------------------------------------------------------------------------------------------------------


def _token_state(row: Any) -> Cell:
    if row.revoked_at is not None:
        return Cell("Revoked", status="discarded")
    if row.expires_at is not None and row.expires_at <= datetime.now(UTC):
        return Cell("Expired", status="off")
    return Cell("Works", status="on")


@routes.get(_TOKENS, dependencies=_KEEP)
def list_tokens(request: Request, session: DbSession) -> Response:
    """Who calls over HTTP."""
    asked = asking.read(request.url.query, _READERS)
    rows = access.list_tokens(is_active=None if asked.get("active") else True, session=session)
    columns = (
        Column("State", _token_state, "c-status"),
        Column("Name", lambda row: row.name, "c-what"),
        Column("Begins with", lambda row: row.prefix, "c-error"),
        Column("Role", lambda row: row.role.replace("_", " ").capitalize(), "c-error"),
        Column("Made by", lambda row: row.created_by, "c-with"),
        Column("Expires (UTC)", lambda row: row.expires_at or "never", "c-when"),
        Column("Last used (UTC)", lambda row: row.last_used_at or "never", "c-when"),
        Column(
            "",
            lambda row: (
                "" if row.revoked_at else Cell("Revoke…", path=f"{_TOKENS}/{row.id}/revoke", title=row.name, asks=True)
            ),
            "c-act",
        ),
    )
    listing = Listing(
        "API tokens",
        _TOKENS,
        "token",
        columns,
        asked,
        rows,
        order="in the order in which they were made",
        tabs=(Tab("active", None, "Those that work"), Tab("active", "all", "All")),
        actions=[Action("New token", f"{_TOKENS}/new", is_main=True)],
    )
    return page(request, "list.html", list=listing)


def _token_fields(caller: Identity) -> list[forms.Field]:
    return forms.fields_of(
        TokenGiven,
        labels={"user_id": "Person of the application", "expires_at": "Expires"},
        hints={"expires_at": "Such as 2030-01-31T08:00:00Z. Empty: never.", "user_id": "Whose inbox it may read."},
        options={"role": _roles(caller)},
    )


@routes.get(f"{_TOKENS}/new", dependencies=_KEEP)
def ask_token(request: Request, caller: Caller) -> Response:
    """The form of a token."""
    form = forms.blank(_token_fields(caller), role=Role.SENDER.value)
    return _form(request, form, title="New API token", path=_TOKENS, action=f"{_TOKENS}/new")


@routes.post(f"{_TOKENS}/new", dependencies=_KEEP)
def add_token(request: Request, caller: Caller, session: DbSession, posted: Posted) -> Response:
    """Make one, and show it once."""
    fields = _token_fields(caller)
    read = forms.read(fields, posted, TokenGiven)
    where = {"title": "New API token", "path": _TOKENS, "action": f"{_TOKENS}/new"}
    if isinstance(read, forms.Form):
        return _form(request, read, status=422, **where)
    may_grant(caller, read.role)
    try:
        with session.begin_nested():
            made = access.add_token(session=session, **read.sent())
    except ConfigRejected as exc:
        form = forms.typed(fields, posted)
        form.refuse(exc.field, exc.reason)
        return _form(request, form, status=422, **where)
    return page(
        request,
        "once.html",
        title=f"Token {made.id}",
        text="Send it as Authorization: Bearer. It is shown this once.",
        secret=made.token,
        leave=_TOKENS,
    )


@routes.get(f"{_TOKENS}/{{token_id}}/revoke", dependencies=_KEEP)
def ask_revoke(request: Request, token_id: Id) -> Response:
    """Whether it is to end."""
    return ask_first(
        request,
        f"Revoke token {token_id}?",
        "Whoever calls with it is refused within a second. It cannot be brought back.",
        verb="Revoke",
        action=f"{_TOKENS}/{token_id}/revoke",
        leave=_TOKENS,
        is_dangerous=True,
    )


@routes.post(f"{_TOKENS}/{{token_id}}/revoke", dependencies=_KEEP)
def revoke_token(request: Request, caller: Caller, session: DbSession, token_id: Id) -> Response:
    """End it."""
    may_grant(caller, Role(get_own(session, ApiToken, token_id, what="token").role))
    is_ended = access.revoke_token(token_id, session=session)
    text = f"Token {token_id} is revoked." if is_ended else "Nothing was changed: it was revoked before."
    return done(request, url(request, _TOKENS), text, is_refusal=not is_ended)
