"""Operators: people who sign in. Added, changed, disabled; a password ends the sessions that the one before began."""

import re
from typing import Any, TypedDict, Unpack

from sqlalchemy import Select, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from messaging import field_checks
from messaging.access import passwords, sessions
from messaging.access.models import Operator
from messaging.access.role_checks import checked_role, checked_user
from messaging.access.roles import Role
from messaging.db.active import with_disabled
from messaging.db.own_rows import TO_DELETE, created, get_own, set_active, sign
from messaging.errors import ConfigRejected, StateError

_WHAT = "operator"
_USER_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,99}")


class OperatorFields(TypedDict, total=False):
    """What may be changed."""

    display_name: str | None
    role: Role | str
    user_id: int | None


def _checked_name(value: Any) -> str:
    name = value.strip().lower() if isinstance(value, str) else ""
    if not _USER_NAME.fullmatch(name):
        raise ValueError("allowed: letters, digits and . _ @ + -, at most 100, a letter or digit first")
    return name


_CHECKS: dict[str, field_checks.Check] = {"user_name": _checked_name, "display_name": field_checks.text(100)}


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in given.items() if name in _CHECKS}
    checked = field_checks.checked(plain, _CHECKS, what=_WHAT, secrets=())
    if "role" in given:
        checked["role"] = checked_role(given["role"])
    if "user_id" in given:
        checked["user_id"] = checked_user(given["user_id"])
    return checked


def add(session: Session, user_name: str, password: str | None, **fields: Unpack[OperatorFields]) -> int:
    """Add an operator of the current tenant; answers the id. Without a password nobody signs in.

    Raises: ConfigRejected, also for a name that is taken, by whatever tenant.
    """
    checked = _checked({"user_name": user_name, "role": Role.VIEWER, **fields})
    row = Operator(**checked, **created())
    if password is not None:
        row.password_hash = passwords.hashed(password, user_name=row.user_name)
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        raise ConfigRejected("user_name", checked["user_name"], "is taken") from None
    return row.id


def change(session: Session, operator_id: int, **fields: Unpack[OperatorFields]) -> None:
    """Change some of its fields. Raises: ConfigRejected; RecordNotFound, TenantMismatch for one that is not own."""
    row = get_own(session, Operator, operator_id, what=_WHAT)
    for name, value in _checked(dict(fields)).items():
        setattr(row, name, value)
    sign(row)
    session.flush()


def set_password(
    session: Session, operator_id: int, password: str, *, keep: str | None = None, instead_of: str | None = None
) -> None:
    """Give an operator a password; all sessions end, but for the one with the hash `keep`.

    Raises:
        StateError: The stored hash is no more `instead_of`: who knew that password may not undo another's change.
        ConfigRejected, RecordNotFound, TenantMismatch: as `change`.
        PasswordsBusy: Nothing has changed.
    """
    row = get_own(session, Operator, operator_id, what=_WHAT, lock=TO_DELETE)
    if instead_of is not None and row.password_hash != instead_of:
        raise StateError("the password was changed meanwhile")
    row.password_hash = passwords.hashed(password, user_name=row.user_name)
    sign(row)
    session.flush()
    sessions.end_all(session, operator_id, keep=keep)


def enable(session: Session, operator_id: int, is_active: bool) -> None:
    """Let an operator in, or no more: then all sessions end. Raises: RecordNotFound, TenantMismatch."""
    set_active(session, get_own(session, Operator, operator_id, what=_WHAT), is_active)
    if not is_active:
        sessions.end_all(session, operator_id)


def listed(*, is_active: bool | None = True) -> Select[Operator]:
    """The tenant's operators: those who may sign in, those who may not, or (None) all."""
    rows = select(Operator)
    return with_disabled(rows) if is_active is None else rows.where(Operator.active.is_(is_active))
