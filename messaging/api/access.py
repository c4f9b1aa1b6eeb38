"""Who may call over HTTP: tokens of services and operators who sign in."""

from datetime import datetime

from sqlalchemy.orm import Session

from messaging.access import tokens
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


def revoke_token(token_id: int, *, session: Session | None = None) -> bool:
    """End a token, within a second everywhere; answers False when it was revoked before.

    Raises:
        RecordNotFound: No such token in this tenant.
    """
    token_id = known_id(token_id, what="token")
    environment()
    with in_session(session) as s:
        return tokens.revoke(s, token_id)
