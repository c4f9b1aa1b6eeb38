"""Rows of which a tenant has one default: who sets `is_default` on one takes it from the tenant's others.

In the same flush, and from disabled ones too. Race-safe by an advisory lock on table and tenant, held to the end of the
transaction: of two that set a default at once the second waits, then sees and demotes what the first has committed. A
unique index would refuse it instead. From REPEATABLE READ on the second does not see a row that was inserted after its
snapshot, and two defaults stay until the next one is set; whoever reads defaults takes the first in order.

Not covered, as no session tells of them: Core and bulk statements, and the legacy `Session.bulk_*` methods.
"""

from typing import Any

from sqlalchemy import Boolean, Table, event, func, select, update
from sqlalchemy.orm import Mapped, Session, UOWTransaction, mapped_column
from sqlalchemy.orm.attributes import get_history

from messaging.db.filters import TenantOwned
from messaging.tenancy import SINGLE_TENANT_ID


class OneDefault(TenantOwned):
    """A row that may be its tenant's default."""

    is_default: Mapped[bool] = mapped_column(Boolean, server_default="false", sort_order=1)


# Registered after the listener of `messaging.db.filters`, which has stamped new rows and refused foreign ones by now.
@event.listens_for(Session, "before_flush")
def _demote_others(session: Session, flush_context: UOWTransaction, instances: Any | None) -> None:
    chosen: dict[tuple[str, int], OneDefault] = {}
    # Of several the one that was added last stays.
    for row in [*session.dirty, *session.new]:
        if isinstance(row, OneDefault) and True in (get_history(row, "is_default").added or ()):
            chosen[row.__tablename__, _tenant_of(row)] = row  # type: ignore[attr-defined]
    # Locks are always taken in the same order.
    for key in sorted(chosen):
        _demote(session, chosen[key], _tenant_of(chosen[key]))


def _demote(session: Session, kept: OneDefault, tenant_id: int) -> None:
    table: Table = kept.__table__  # type: ignore[attr-defined]
    for row in [*session.identity_map.values(), *session.new]:
        # What is not loaded is read after the flush; asking it now would load it.
        if (
            row is not kept
            and type(row) is type(kept)
            and row.__dict__.get("is_default")
            and _tenant_of(row) == tenant_id
        ):
            row.is_default = False
    connection = session.connection(bind_arguments={"mapper": type(kept)})
    lock = f"{table.name}: default of tenant {tenant_id}"
    connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(lock, 0))))
    others = update(table).where(table.c.tenant_id == tenant_id, table.c.is_default)
    kept_id = kept.id  # type: ignore[attr-defined]
    connection.execute((others if kept_id is None else others.where(table.c.id != kept_id)).values(is_default=False))


def _tenant_of(row: OneDefault) -> int:
    """Before it is stored a row has no tenant where multi-tenancy is off."""
    named: int | None = row.tenant_id
    return SINGLE_TENANT_ID if named is None else named
