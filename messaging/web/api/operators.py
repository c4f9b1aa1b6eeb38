"""`/operators`: the people who sign in, of the caller's tenant. No password is ever answered."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field
from sqlalchemy.orm import Session

from messaging.access import operators, passwords
from messaging.access.models import Operator
from messaging.access.roles import Role
from messaging.api import access
from messaging.db.own_rows import get_own
from messaging.web.api.configurations import ADMINISTER
from messaging.web.api.granting import may_grant
from messaging.web.api.lists import Page, Switched, page
from messaging.web.api.resource import Caller, DbSession, Resource
from messaging.web.api.shapes import Given, Id, Shown, Text, Time, UserId
from messaging.web.auth import Identity

routes = Resource("access")

UserName = Annotated[Text, Field(min_length=1, max_length=100)]
DisplayName = Annotated[Text, Field(max_length=100)]
Password = Annotated[str, Field(min_length=passwords.MIN_CHARS, max_length=passwords.MAX_CHARS)]


class OperatorShown(Shown):
    """A person who signs in."""

    id: Id
    user_name: str
    display_name: str | None
    role: Role
    #: The application's id of this person, whose inbox it is.
    user_id: UserId | None
    active: bool
    last_signed_in_at: Time | None
    created_at: Time
    updated_at: Time


class OperatorGiven(Given):
    """An operator to add."""

    user_name: UserName
    role: Role
    #: None: nobody signs in until one is set.
    password: Password | None = None
    display_name: DisplayName | None = None
    user_id: UserId | None = None


class OperatorChanged(Given):
    """What changes; what is left out stays."""

    # Left out it is not set, and the least role is what anybody may grant.
    role: Role = Role.VIEWER
    display_name: DisplayName | None = None
    user_id: UserId | None = None


class PasswordGiven(Given):
    """A new password."""

    password: Password


class OperatorQuery(Switched):
    """Which operators."""

    sort: Literal["id", "-id", "user_name", "-user_name", "created_at", "-created_at"] = "user_name"


@routes.get("/operators", dependencies=ADMINISTER)
def list_operators(session: DbSession, query: Annotated[OperatorQuery, Query()]) -> Page[OperatorShown]:
    """The tenant's operators."""
    return page(session, operators.listed(is_active=query.is_active), query, OperatorShown.model_validate)


@routes.get("/operators/{operator_id}", dependencies=ADMINISTER)
def get_operator(session: DbSession, operator_id: Id) -> OperatorShown:
    """One operator."""
    return OperatorShown.model_validate(get_own(session, Operator, operator_id, what="operator"))


@routes.post("/operators", status_code=201, dependencies=ADMINISTER)
def add_operator(session: DbSession, caller: Caller, given: OperatorGiven) -> OperatorShown:
    """Add an operator; nobody grants a role that may do more than they may themselves."""
    may_grant(caller, given.role)
    operator_id = access.add_operator(
        given.user_name,
        password=given.password,
        role=given.role,
        display_name=given.display_name,
        user_id=given.user_id,
        session=session,
    )
    return _read_again(session, operator_id)


@routes.patch("/operators/{operator_id}", dependencies=ADMINISTER)
def change_operator(session: DbSession, caller: Caller, operator_id: Id, given: OperatorChanged) -> OperatorShown:
    """Change name, role or person; holds within a second."""
    _may_change(session, caller, operator_id)
    may_grant(caller, given.role)
    access.change_operator(operator_id, session=session, **given.sent())
    return _read_again(session, operator_id)


@routes.post("/operators/{operator_id}/enable", dependencies=ADMINISTER)
def enable_operator(session: DbSession, caller: Caller, operator_id: Id) -> OperatorShown:
    """Let an operator sign in again."""
    return _switch(session, caller, operator_id, is_active=True)


@routes.post("/operators/{operator_id}/disable", dependencies=ADMINISTER)
def disable_operator(session: DbSession, caller: Caller, operator_id: Id) -> OperatorShown:
    """Let an operator in no more; ends what they have begun, within a second."""
    return _switch(session, caller, operator_id, is_active=False)


@routes.post("/operators/{operator_id}/password", status_code=204, dependencies=ADMINISTER)
def set_operator_password(session: DbSession, caller: Caller, operator_id: Id, given: PasswordGiven) -> None:
    """Give an operator a password; whoever is signed in by the one before is so no more."""
    _may_change(session, caller, operator_id)
    access.set_operator_password(operator_id, given.password, session=session)


def _may_change(session: Session, caller: Identity, operator_id: int) -> None:
    """Raises: ApiError 403: whoever set the password of one who may do more would sign in as them."""
    may_grant(caller, Role(get_own(session, Operator, operator_id, what="operator").role))


def _switch(session: Session, caller: Identity, operator_id: int, *, is_active: bool) -> OperatorShown:
    _may_change(session, caller, operator_id)
    access.set_operator_active(operator_id, is_active, session=session)
    return _read_again(session, operator_id)


def _read_again(session: Session, operator_id: int) -> OperatorShown:
    """With what the database set."""
    row = get_own(session, Operator, operator_id, what="operator")
    session.refresh(row)
    return OperatorShown.model_validate(row)
