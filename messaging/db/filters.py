"""Tenant rows: confined on every ORM read, stamped on every ORM write. The only way past is `all_tenants()`.

The listeners sit on SQLAlchemy's `Session` class, so an application's own sessions are confined as well. Core
statements on tables are not covered: they are kept to the hot path and name ids that a guarded statement produced. Nor
are the legacy `Session.bulk_*` methods, which tell no listener.
"""

from typing import Any

from sqlalchemy import BigInteger, ClauseElement, Executable, Update, event
from sqlalchemy.orm import Mapped, ORMExecuteState, Session, UOWTransaction, mapped_column, with_loader_criteria
from sqlalchemy.orm.attributes import get_history
from sqlalchemy.sql import visitors

from messaging import tenancy
from messaging.errors import TenantContextMissing, TenantMismatch


class TenantOwned:
    """A row that belongs to one tenant; -1 is the platform, 0 the only tenant while multi-tenancy is off."""

    tenant_id: Mapped[int] = mapped_column(BigInteger, server_default="0", sort_order=-1)


def owning_tenant() -> int | None:
    """The tenant that reads and writes are confined to; None means all of them.

    Raises: TenantContextMissing, with multi-tenancy on and neither a tenant nor `all_tenants()` in force.
    """
    if not tenancy.is_multi_tenancy():
        return None
    context = tenancy.current()
    if context.cross_tenant:
        return None
    if context.tenant_id is None:
        raise TenantContextMissing("no tenant is set; use `with tenant(id):`, or `with all_tenants():` for the system")
    return context.tenant_id


def _reads_tenant_rows(statement: Executable) -> bool:
    """Whether a tenant model stands anywhere in it: in its columns, its FROM, a subquery, a join."""
    if not isinstance(statement, ClauseElement):
        return False
    for element in visitors.iterate(statement):
        entity = element._annotations.get("parententity")
        if entity is not None and issubclass(entity.mapper.class_, TenantOwned):
            return True
    return False


@event.listens_for(Session, "do_orm_execute")
def _confine(state: ORMExecuteState) -> None:
    if not state.is_orm_statement or tenancy.is_single_tenant():
        return
    if state.is_column_load or state.is_relationship_load:
        return  # belongs to an object that a confined statement loaded
    if state.is_insert:
        if any(issubclass(mapper.class_, TenantOwned) for mapper in state.all_mappers):
            raise TenantMismatch("bulk ORM inserts of tenant rows are not stamped; add objects to the session instead")
        return
    if not _reads_tenant_rows(state.statement):
        return
    owner = owning_tenant()
    if isinstance(state.statement, Update):
        _check_stays(state, state.statement)
    if owner is not None:
        if state.is_update or state.is_delete:
            _check_confinable(state)
        state.statement = state.statement.options(
            with_loader_criteria(TenantOwned, lambda cls: cls.tenant_id == owner, include_aliases=True)
        )


def _check_stays(state: ORMExecuteState, statement: Update) -> None:
    """Refuse an update that gives rows to another tenant."""
    given = [state.parameters] if isinstance(state.parameters, dict) else state.parameters or ()
    if "tenant_id" in {*map(_name_of, statement._values or ()), *(name for row in given for name in row)}:
        raise TenantMismatch("tenant_id never changes")


def _check_confinable(state: ORMExecuteState) -> None:
    """Refuse what the filter does not reach: several parameter sets name rows by key."""
    strategy = state.execution_options.get("dml_strategy", "auto")
    if not isinstance(state.parameters, dict | None) or strategy == "core_only":
        raise TenantMismatch("ORM updates by primary key are not confined; name the rows in a WHERE instead")


def _name_of(column: Any) -> str:
    return str(getattr(column, "key", column))


@event.listens_for(Session, "before_flush")
def _stamp(session: Session, flush_context: UOWTransaction, instances: Any | None) -> None:
    if tenancy.is_single_tenant():
        return
    for row in session.new:
        if isinstance(row, TenantOwned):
            _stamp_new(row)
    for row in [*session.dirty, *session.deleted]:
        if isinstance(row, TenantOwned):
            _check_owned(row)


def _stamp_new(row: TenantOwned) -> None:
    owner = owning_tenant()
    named: int | None = row.tenant_id
    if owner is None:
        if named is None:
            raise TenantMismatch(f"{type(row).__name__}: a write across tenants must name its tenant_id")
    elif named is None:
        row.tenant_id = owner
    elif named != owner:
        raise TenantMismatch(f"{type(row).__name__}: tenant_id is {named}, the current tenant is {owner}")


def _check_owned(row: TenantOwned) -> None:
    history = get_history(row, "tenant_id")
    if history.added and history.deleted:
        raise TenantMismatch(f"{type(row).__name__}: tenant_id never changes")
    owner = owning_tenant()
    if owner is None or row.tenant_id == owner:
        return
    if row.tenant_id == tenancy.PLATFORM_TENANT_ID:
        raise TenantMismatch(f"{type(row).__name__} belongs to the platform; a tenant cannot change it")
    raise TenantMismatch(f"{type(row).__name__} belongs to another tenant")
