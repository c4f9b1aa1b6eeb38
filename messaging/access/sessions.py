"""Sessions of operators: begun by a password, found by what the cookie holds, ended by time, by hand, with the account.

Signing in names no tenant, so these are statements on tables, which see all of them.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Table, delete, func, insert, select, update
from sqlalchemy.orm import Session

from messaging import audit, tenancy
from messaging.access import passwords, secrets
from messaging.access.models import Operator, OperatorSession
from messaging.access.roles import Role

_OPERATOR: Table = Operator.__table__  # type: ignore[assignment]
_SESSION: Table = OperatorSession.__table__  # type: ignore[assignment]
_o, _s = _OPERATOR.c, _SESSION.c


@dataclass(frozen=True, slots=True)
class OperatorCaller:
    """Who is signed in."""

    id: int
    tenant_id: int
    user_name: str
    display_name: str | None
    role: Role
    user_id: int | None
    #: When the session ends at the latest.
    expires_at: datetime


def sign_in(engine: Engine, user_name: str, password: str, *, hours: float) -> str | None:
    """Begin a session; answers what the cookie holds, or None for a wrong name or password, after the same time.

    Holds no connection while it computes.
    """
    with engine.connect() as connection:
        found = connection.execute(
            select(_o.id, _o.tenant_id, _o.user_name, _o.password_hash).where(
                _o.user_name == user_name.strip().lower(), _o.active.is_(True)
            )
        ).one_or_none()
    password_hash = None if found is None else found.password_hash
    if not passwords.is_right(password_hash, password) or found is None:
        return None
    token = secrets.make()
    with engine.begin() as connection:
        # Locked, and asked again: nobody signs in by a password that is being changed.
        is_so = connection.execute(
            select(_o.id)
            .where(_o.id == found.id, _o.active.is_(True), _o.password_hash == password_hash)
            .with_for_update()
        ).first()
        if is_so is None:
            return None
        begin(connection, token, found, hours=hours)
    return token


def begin(connection: Connection, token: str, operator: Any, *, hours: float, note: str | None = None) -> None:
    """Begin a session of an operator (`id`, `tenant_id`, `user_name`) whose row the transaction holds locked."""
    now = func.now()
    connection.execute(delete(_SESSION).where(_s.expires_at < now))
    connection.execute(
        insert(_SESSION).values(
            tenant_id=operator.tenant_id,
            operator_id=operator.id,
            token_hash=secrets.hashed(token),
            created_at=now,
            expires_at=now + timedelta(hours=hours),
            last_seen_at=now,
        )
    )
    # Signing in is no change of the row.
    signed_in = update(_OPERATOR).where(_o.id == operator.id).values(last_signed_in_at=now, updated_at=_o.updated_at)
    connection.execute(signed_in)
    _note(connection, "sign in", operator.id, operator.tenant_id, operator.user_name, note=note)


def find_caller(
    connection: Connection, token_hash: str, *, idle_minutes: float, is_use: bool = True
) -> OperatorCaller | None:
    """Who is signed in by this session; None: nobody, or no more. Notes that it is used, if it is, to the minute."""
    minute = func.date_trunc("minute", func.now())
    found = connection.execute(
        select(
            _s.id.label("session_id"),
            (_s.last_seen_at >= minute).label("is_noted"),
            _s.expires_at,
            _o.id,
            _o.tenant_id,
            _o.user_name,
            _o.display_name,
            _o.role,
            _o.user_id,
        )
        .join(_OPERATOR, _o.id == _s.operator_id)
        .where(
            _s.token_hash == token_hash,
            _s.expires_at > func.now(),
            # Noted to the minute, so that a session never ends early.
            _s.last_seen_at > minute - timedelta(minutes=idle_minutes),
            _o.active.is_(True),
        )
    ).one_or_none()
    if found is None:
        return None
    if is_use and not found.is_noted:
        connection.execute(update(_SESSION).where(_s.id == found.session_id).values(last_seen_at=func.now()))
    return OperatorCaller(
        found.id,
        found.tenant_id,
        found.user_name,
        found.display_name,
        Role(found.role),
        found.user_id,
        found.expires_at,
    )


def end(connection: Connection, token_hash: str) -> None:
    """End a session, if it has not ended by itself."""
    ended = delete(_SESSION).where(_s.token_hash == token_hash, _s.operator_id == _o.id)
    found = connection.execute(ended.returning(_o.id, _o.tenant_id, _o.user_name)).one_or_none()
    if found is not None:
        _note(connection, "sign out", found.id, found.tenant_id, found.user_name)


def end_everywhere(connection: Connection, token_hash: str) -> None:
    """End the session and all others of its operator, wherever they were begun."""
    found = connection.execute(select(_s.operator_id, _s.tenant_id).where(_s.token_hash == token_hash)).one_or_none()
    if found is not None:
        connection.execute(delete(_SESSION).where(_s.operator_id == found.operator_id))
        audit.note(connection, "sign out everywhere", _OPERATOR, found.operator_id, tenant_id=found.tenant_id)


def end_all(session: Session, operator_id: int, *, keep: str | None = None) -> None:
    """End all sessions of an operator, but for the one with the hash `keep`."""
    connection = session.connection(bind_arguments={"mapper": OperatorSession})
    ended = delete(_SESSION).where(_s.operator_id == operator_id)
    connection.execute(ended if keep is None else ended.where(_s.token_hash != keep))


def _note(
    connection: Connection, action: str, operator_id: int, tenant_id: int, user_name: str, *, note: str | None = None
) -> None:
    """As the operator's own action: whoever signs in or has just signed out is nobody to the request's context."""
    with tenancy.acting_as(replace(tenancy.current(), actor=f"operator:{operator_id}", user_name=user_name)):
        audit.note(connection, action, _OPERATOR, operator_id, note=note, tenant_id=tenant_id)
