"""Configuration rows in an operator's hands: the tenant's own ones, and who created or changed them."""

from collections.abc import Mapping
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import flag_modified

from messaging import tenancy
from messaging.db.filters import foreign
from messaging.errors import RecordNotFound, StateError, shown_value

_Row = TypeVar("_Row")

#: Largest id of a bigint column.
MAX_ID = 2**63 - 1


#: Until the transaction ends nobody deletes the row; others may change it.
TO_CHANGE: Mapping[str, bool] = {"read": True, "key_share": True}
#: Nobody changes it, either.
TO_DELETE: Mapping[str, bool] = {}


def get_own(
    session: Session, kind: type[_Row], row_id: object, *, what: str, lock: Mapping[str, bool] | None = None
) -> _Row:
    """The tenant's own row, disabled or not; `what` says of which kind it is. With a lock it is read anew.

    Raises:
        RecordNotFound: No such row in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    if not isinstance(row_id, int) or isinstance(row_id, bool):
        raise TypeError(f"a {what} id is an int, not {shown_value(row_id)}")
    if 1 <= row_id <= MAX_ID:
        if lock is not None:
            session.flush()  # reading anew would undo what is not written yet
        row = session.get(kind, row_id, with_for_update=None if lock is None else dict(lock))
        if row is not None:
            return row
        if owner_of(session, kind, row_id) == tenancy.PLATFORM_TENANT_ID:
            raise foreign(f"{what} {row_id}", tenancy.PLATFORM_TENANT_ID)
    raise RecordNotFound(f"no {what} {shown_value(row_id)}")


def owner_of(session: Session, kind: type[Any], row_id: int) -> int | None:
    """Whose row it is, whoever asks; None when there is none."""
    with tenancy.all_tenants():
        found: int | None = session.scalar(select(kind.tenant_id).where(kind.id == row_id))
    return found


def created() -> dict[str, Any]:
    """The columns that say who adds a row."""
    context = tenancy.current()
    return {"created_by_id": context.user_id, "created_by": context.user_name}


def sign(row: Any) -> None:
    """Note who changed a row."""
    context = tenancy.current()
    row.updated_by_id, row.updated_by = context.user_id, context.user_name


def set_active(session: Session, row: Any, is_active: bool) -> None:
    """Disable a row or enable it again."""
    row.active = is_active
    sign(row)
    session.flush()


def make_default(session: Session, row: Any, *, what: str) -> None:
    """Make a row its tenant's default; the tenant's others are so no more, disabled ones too.

    Raises: StateError, when it is disabled, so that nothing would come of it.
    """
    if not row.active:
        raise StateError(f"{what} {row.id} is disabled; enable it first")
    row.is_default = True
    # Also where it is the default already, beside others that plain SQL has made so.
    flag_modified(row, "is_default")
    sign(row)
    session.flush()
