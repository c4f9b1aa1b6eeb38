"""Who may call over HTTP: tokens of services and operators who sign in."""

from collections.abc import Sequence
from datetime import datetime
from typing import Unpack

from sqlalchemy.orm import Session

from messaging.access import links, operators, tokens
from messaging.access.models import ApiToken, Operator
from messaging.access.operators import OperatorFields
from messaging.access.roles import Role
from messaging.access.tokens import NewToken
from messaging.api.calls import in_session, known_id
from messaging.api.process import environment


def add_token(
    name: str,
    *,
    role: Role | str,
    user_id: int | None = None,
    expires_at: datetime | None = None,
    session: Session | None = None,
) -> NewToken:
    """Make an API token of the current tenant; what is answered is the only copy.

    `user_id` is the person of the application whose inbox it may read; None: nobody's.

    Raises:
        ConfigRejected: Names field and value; nothing was written.
    """
    environment()
    with in_session(session) as s:
        return tokens.add(s, name, role, user_id=user_id, expires_at=expires_at)


def list_tokens(*, is_active: bool | None = True, session: Session | None = None) -> Sequence[ApiToken]:
    """The tenant's tokens by id: those that work, those that do so no more, or (None) all. None holds its secret."""
    environment()
    with in_session(session) as s:
        return s.scalars(tokens.listed(is_active=is_active).order_by(ApiToken.id)).all()


def revoke_token(token_id: int, *, session: Session | None = None) -> bool:
    """End a token, within a second everywhere; answers False when it was revoked before.

    Raises:
        RecordNotFound: No such token in this tenant.
    """
    token_id = known_id(token_id, what="token")
    environment()
    with in_session(session) as s:
        return tokens.revoke(s, token_id)


def add_operator(
    user_name: str, *, password: str | None = None, session: Session | None = None, **fields: Unpack[OperatorFields]
) -> int:
    """Add a person who signs in, to the current tenant; answers the id. The role is VIEWER unless it is given.

    Raises:
        ConfigRejected: Names field and value, but for a password; nothing was written.
    """
    environment()
    with in_session(session) as s:
        return operators.add(s, user_name, password, **fields)


def change_operator(operator_id: int, *, session: Session | None = None, **fields: Unpack[OperatorFields]) -> None:
    """Change some of an operator's fields; holds within a second.

    Raises:
        ConfigRejected: Names field and value; nothing was written.
        RecordNotFound: No such operator in this tenant.
    """
    operator_id = known_id(operator_id, what="operator")
    environment()
    with in_session(session) as s:
        operators.change(s, operator_id, **fields)


def set_operator_password(operator_id: int, password: str, *, session: Session | None = None) -> None:
    """Give an operator a password; whoever is signed in by the one before is so no more.

    Raises: as `change_operator`.
    """
    operator_id = known_id(operator_id, what="operator")
    environment()
    with in_session(session) as s:
        operators.set_password(s, operator_id, password)


def make_operator_link(user_name: str, *, minutes: float = 10, session: Session | None = None) -> str:
    """Make a link by which an operator signs in once, without a password; what is answered is its secret part.

    Raises:
        ConfigRejected: Minutes that cannot be.
        RecordNotFound: No such operator in this tenant who may sign in.
    """
    environment()
    with in_session(session) as s:
        return links.make(s, user_name, minutes=minutes)


def set_operator_active(operator_id: int, is_active: bool, *, session: Session | None = None) -> None:
    """Let an operator sign in, or no more, which ends what they have begun within a second.

    Raises:
        RecordNotFound: No such operator in this tenant.
    """
    operator_id = known_id(operator_id, what="operator")
    environment()
    with in_session(session) as s:
        operators.enable(s, operator_id, is_active)


def list_operators(*, is_active: bool | None = True, session: Session | None = None) -> Sequence[Operator]:
    """The tenant's operators by id: those who may sign in, those who may not, or (None) all."""
    environment()
    with in_session(session) as s:
        return s.scalars(operators.listed(is_active=is_active).order_by(Operator.id)).all()
