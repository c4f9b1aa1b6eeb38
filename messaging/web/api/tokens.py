"""`/tokens`: the keys by which services call. Each is shown once, when it is made."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from messaging.access import tokens
from messaging.access.models import ApiToken
from messaging.access.roles import Role
from messaging.api import access
from messaging.db.own_rows import get_own
from messaging.web.api.configurations import ADMINISTER
from messaging.web.api.granting import may_grant
from messaging.web.api.lists import Page, Switched, page
from messaging.web.api.resource import Caller, DbSession, Resource
from messaging.web.api.shapes import Given, Id, Shown, Text, Time, UserId

routes = Resource("access")


class TokenShown(Shown):
    """A token without its secret."""

    id: Id
    name: str
    #: Its first characters.
    prefix: str
    role: Role
    user_id: UserId | None
    expires_at: Time | None
    revoked_at: Time | None
    #: To the minute.
    last_used_at: Time | None
    created_at: Time
    created_by: str | None


class TokenAdded(Shown):
    """A token just made."""

    id: Id
    #: Shown this once.
    token: str


class TokenGiven(Given):
    """A token to make."""

    name: Text = Field(min_length=1, max_length=100)
    role: Role
    #: The person of the application whose inbox it may read.
    user_id: UserId | None = None
    expires_at: Time | None = None


class TokenQuery(Switched):
    """Which tokens."""

    sort: Literal["id", "-id", "name", "-name", "created_at", "-created_at"] = "-id"


@routes.get("/tokens", dependencies=ADMINISTER)
def list_tokens(session: DbSession, query: Annotated[TokenQuery, Query()]) -> Page[TokenShown]:
    """The tenant's tokens: by default those that are neither revoked nor expired."""
    return page(session, tokens.listed(is_active=query.is_active), query, TokenShown.model_validate)


@routes.get("/tokens/{token_id}", dependencies=ADMINISTER)
def get_token(session: DbSession, token_id: Id) -> TokenShown:
    """One token."""
    return TokenShown.model_validate(get_own(session, ApiToken, token_id, what="token"))


@routes.post("/tokens", status_code=201, dependencies=ADMINISTER)
def add_token(session: DbSession, caller: Caller, given: TokenGiven) -> TokenAdded:
    """Make a token of the caller's tenant; nobody grants a role that may do more than they may themselves."""
    may_grant(caller, given.role)
    made = access.add_token(
        given.name, role=given.role, user_id=given.user_id, expires_at=given.expires_at, session=session
    )
    return TokenAdded(id=made.id, token=made.token)


@routes.post("/tokens/{token_id}/revoke", dependencies=ADMINISTER)
def revoke_token(session: DbSession, caller: Caller, token_id: Id) -> TokenShown:
    """End a token, within a second everywhere; again, nothing changes."""
    row = get_own(session, ApiToken, token_id, what="token")
    may_grant(caller, Role(row.role))
    access.revoke_token(token_id, session=session)
    return TokenShown.model_validate(row)
