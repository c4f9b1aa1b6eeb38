"""API tokens: made and shown once, revoked, found by their hash. Of a token only its hash and first characters stay."""

import re
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Select, Table, func, or_, select, update
from sqlalchemy.orm import Session

from messaging import field_checks
from messaging.access import secrets
from messaging.access.models import ApiToken
from messaging.access.role_checks import checked_role, checked_user
from messaging.access.roles import Role
from messaging.db.own_rows import created, get_own, sign
from messaging.errors import ConfigRejected

PREFIX = "msg_"
#: Characters by which people tell tokens apart; the 35 others are unknown to whoever sees these.
SHOWN_CHARS = 12

_SHAPE = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}", re.ASCII)
_TABLE: Table = ApiToken.__table__  # type: ignore[assignment]
_t = _TABLE.c


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token just made; the only time it can be read."""

    id: int
    token: str

    def __repr__(self) -> str:
        return f"NewToken(id={self.id})"


@dataclass(frozen=True, slots=True)
class TokenCaller:
    """Whom a token stands for."""

    id: int
    tenant_id: int
    name: str
    role: Role
    user_id: int | None


def add(
    session: Session, name: str, role: Role | str, *, user_id: int | None = None, expires_at: datetime | None = None
) -> NewToken:
    """Make a token of the current tenant. Raises: ConfigRejected."""
    token = PREFIX + secrets.make()
    row = ApiToken(
        name=field_checks.checked(
            {"name": name}, {"name": field_checks.text(100, is_required=True)}, what="token", secrets=()
        )["name"],
        token_hash=secrets.hashed(token),
        prefix=token[:SHOWN_CHARS],
        role=checked_role(role),
        user_id=checked_user(user_id),
        expires_at=_checked_expiry(session, expires_at),
        **created(),
    )
    session.add(row)
    session.flush()
    return NewToken(row.id, token)


def _checked_expiry(session: Session, expires_at: datetime | None) -> datetime | None:
    if expires_at is None:
        return None
    if expires_at.tzinfo is None:
        raise ConfigRejected("expires_at", expires_at, "has no time zone")
    if expires_at <= session.scalars(select(func.now())).one():
        raise ConfigRejected("expires_at", expires_at, "is past; allowed: a time to come, or none")
    return expires_at


def revoke(session: Session, token_id: int) -> bool:
    """End a token; within a second nobody calls by it any more. Answers False when it was revoked before.

    Raises: RecordNotFound; TenantMismatch for the platform's.
    """
    row = get_own(session, ApiToken, token_id, what="token")
    if row.revoked_at is not None:
        return False
    row.revoked_at = session.scalars(select(func.now())).one()
    sign(row)
    session.flush()
    return True


def listed(*, is_active: bool | None = None) -> Select[ApiToken]:
    """The tenant's tokens: those that work, those that do so no more, or (None) all."""
    rows = select(ApiToken)
    if is_active is None:
        return rows
    works = ApiToken.revoked_at.is_(None) & or_(ApiToken.expires_at.is_(None), ApiToken.expires_at > func.now())
    return rows.where(works if is_active else ~works)


def has_shape(token: str) -> bool:
    """Whether it could be a token of ours; what is none is not looked up."""
    return _SHAPE.fullmatch(token) is not None


def find_caller(connection: Connection, token_hash: str) -> TokenCaller | None:
    """Whom a token stands for; None for one that is unknown, revoked or expired. Notes its use, to the minute."""
    minute = func.date_trunc("minute", func.now())
    is_noted = func.coalesce(_t.last_used_at >= minute, False)
    found = connection.execute(
        select(_t.id, _t.tenant_id, _t.name, _t.role, _t.user_id, is_noted.label("is_noted")).where(
            _t.token_hash == token_hash,
            _t.revoked_at.is_(None),
            or_(_t.expires_at.is_(None), _t.expires_at > func.now()),
        )
    ).one_or_none()
    if found is None:
        return None
    if not found.is_noted:
        # A use is no change of the row.
        used = update(_TABLE).where(_t.id == found.id).values(last_used_at=minute, updated_at=_t.updated_at)
        connection.execute(used)
    return TokenCaller(found.id, found.tenant_id, found.name, Role(found.role), found.user_id)
