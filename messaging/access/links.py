"""Links by which an operator signs in once, without a password: for the first time, for a demo, for who forgot it.

Whoever holds one is that operator, so it lives for minutes and only a hash of it is kept.
"""

from datetime import timedelta

from sqlalchemy import Engine, Table, delete, func, insert, select
from sqlalchemy.orm import Session

from messaging import audit
from messaging.access import secrets, sessions
from messaging.access.models import Operator, OperatorLink
from messaging.errors import ConfigRejected, RecordNotFound

_OPERATOR: Table = Operator.__table__  # type: ignore[assignment]
_LINK: Table = OperatorLink.__table__  # type: ignore[assignment]
_o, _l = _OPERATOR.c, _LINK.c

#: Minutes for which a link may be used, at most.
MAX_MINUTES = 60


def make(session: Session, user_name: str, *, minutes: float) -> str:
    """Make a link of an operator of the current tenant who may sign in; answers its secret part, the only copy.

    Raises: ConfigRejected; RecordNotFound.
    """
    if not 0 < minutes <= MAX_MINUTES:
        raise ConfigRejected("minutes", minutes, f"allowed: more than 0, at most {MAX_MINUTES}")
    name = user_name.strip().lower()
    operator = session.scalars(select(Operator).where(Operator.user_name == name)).one_or_none()
    if operator is None:
        raise RecordNotFound(f"no operator {name[:100]!r} who may sign in")
    token = secrets.make()
    connection = session.connection(bind_arguments={"mapper": OperatorLink})
    connection.execute(delete(_LINK).where(_l.expires_at < func.now()))
    connection.execute(
        insert(_LINK).values(
            tenant_id=operator.tenant_id,
            operator_id=operator.id,
            token_hash=secrets.hashed(token),
            created_at=func.now(),
            expires_at=func.now() + timedelta(minutes=minutes),
        )
    )
    audit.note(session, "make sign-in link", _OPERATOR, operator.id, tenant_id=operator.tenant_id)
    return token


def find_name(engine: Engine, token: str) -> str | None:
    """Whom a link signs in; None where it is used, out of date, or never was. Changes nothing."""
    with engine.connect() as connection:
        name: str | None = connection.execute(
            select(_o.user_name)
            .join(_LINK, _l.operator_id == _o.id)
            .where(_l.token_hash == secrets.hashed(token), _l.expires_at > func.now(), _o.active.is_(True))
        ).scalar_one_or_none()
    return name


def sign_in(engine: Engine, token: str, *, hours: float) -> str | None:
    """Begin a session by a link, which is then used up; answers what the cookie holds, or None as `find_name`."""
    with engine.begin() as connection:
        used = connection.execute(
            delete(_LINK)
            .where(_l.token_hash == secrets.hashed(token), _l.expires_at > func.now())
            .returning(_l.operator_id)
        ).scalar_one_or_none()
        found = connection.execute(
            select(_o.id, _o.tenant_id, _o.user_name).where(_o.id == used, _o.active.is_(True)).with_for_update()
        ).one_or_none()
        if found is None:
            return None
        begun = secrets.make()
        sessions.begin(connection, begun, found, hours=hours, note="by a link")
    return begun
