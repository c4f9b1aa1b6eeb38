"""Tenant rows: confined on every ORM read, stamped on every ORM write. The only way past is `all_tenants()`.

The listeners sit on SQLAlchemy's `Session` class, so an application's own sessions are confined as well:

- Statements get the tenant as a condition (`do_orm_execute`).
- Each tenant's rows are objects of their own within a session, by SQLAlchemy's identity token, as if a tenant were a
  shard: what one tenant loaded is never what `Session.get` answers another. So, with multi-tenancy, `get` always asks.
- What a flush writes is stamped and checked before it begins, and once more as SQL, which also sees the legacy
  `Session.bulk_*` methods, as they tell no session listener: inserts are stamped, updates and deletes confined.

Not covered: Core statements on tables, raw SQL, and what runs on a connection instead of a session, kept to the hot
path and to ids that a guarded statement produced; a
`joinedload` from an application's own class, as no statement shows it; rows loaded in one statement with entities of an
application's own, which are keyed plainly, as a token would double those; an object in hand, which stays readable.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import BigInteger, Column, Connection, Delete, Executable, Insert, Select, Update, event, inspect
from sqlalchemy.orm import (
    FromStatement,
    Mapped,
    ORMExecuteState,
    Session,
    SessionTransaction,
    UOWTransaction,
    mapped_column,
    with_loader_criteria,
)
from sqlalchemy.orm.attributes import get_history

from messaging import tenancy
from messaging.db import reading
from messaging.errors import TenantContextMissing, TenantMismatch

#: Marks the column in a table's metadata.
_OWNER = "tenant_rows"


class TenantOwned:
    """A row that belongs to one tenant; -1 is the platform, 0 the only tenant while multi-tenancy is off."""

    tenant_id: Mapped[int] = mapped_column(BigInteger, server_default="0", sort_order=-1, info={_OWNER: True})


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


def reading_owner() -> int | None:
    """Whose rows a statement on a table, which nothing here confines, may read; None: all. Without tenants, those of 0.

    Raises: TenantContextMissing.
    """
    return owning_tenant() if tenancy.is_multi_tenancy() else tenancy.SINGLE_TENANT_ID


@event.listens_for(Session, "do_orm_execute")
def _confine(state: ORMExecuteState) -> None:
    if not state.is_orm_statement or tenancy.is_single_tenant():
        return
    if state.is_column_load:
        _confine_column_load(state)
        return
    if state.is_insert:
        if any(issubclass(mapper.class_, TenantOwned) for mapper in state.all_mappers):
            raise TenantMismatch("bulk ORM inserts of tenant rows are not stamped; add objects to the session instead")
        return
    is_owned = {issubclass(cls, TenantOwned) for cls in reading.classes(state.statement)}
    if True not in is_owned:
        return
    owner = owning_tenant()
    _check_reached(state.statement)
    if isinstance(state.statement, Update):
        _check_stays(state, state.statement)
    if False not in is_owned:
        state.update_execution_options(identity_token=_identity_token(owner))
    if owner is not None:
        if state.is_update or state.is_delete:
            _check_confinable(state)
        state.statement = state.statement.options(
            with_loader_criteria(TenantOwned, lambda cls: cls.tenant_id == owner, include_aliases=True)
        )


def _confine_column_load(state: ORMExecuteState) -> None:
    """Confine the loading of columns of an object that no confined statement loaded; others are at hand already."""
    token: Any = state.load_options._identity_token
    if token is None and isinstance(state.statement, Select):
        for cls in reading.classes(state.statement):
            if issubclass(cls, TenantOwned) and (owner := owning_tenant()) is not None:
                # A condition of its own, as options add none to these loads.
                state.statement = state.statement.where(cls.tenant_id == owner)


def _identity_token(owner: int | None) -> str:
    """Never None, which is how `Session.get` asks the identity map."""
    return "all tenants" if owner is None else f"tenant {owner}"


def _check_reached(statement: Executable) -> None:
    """Refuse what the condition does not reach: raw SQL as the source of objects, writes within a statement."""
    if isinstance(statement, FromStatement) and not reading.classes(statement.element):
        raise TenantMismatch("what raw SQL or a statement on tables reads is not confined; select the class itself")
    for within in reading.elements(statement)[1:]:
        if not isinstance(within, Insert | Update) or _owner_column(within.table) is None:
            continue
        if isinstance(within, Insert) or "tenant_id" in map(_name_of, within._values or ()):
            raise TenantMismatch("a write within another statement is not stamped; let it be one of its own")


def _owner_column(table: Any) -> Column[Any] | None:
    """The column that says whose a row is; None where rows belong to nobody."""
    column: Column[Any] | None = table.columns.get("tenant_id")
    return column if column is not None and column.info.get(_OWNER) else None


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
            owner = owning_tenant()
            row.tenant_id = _stamped(type(row).__name__, row.tenant_id, owner)
            inspect(row).identity_token = _identity_token(owner)
    for row in [*session.dirty, *session.deleted]:
        if isinstance(row, TenantOwned):
            _check_owned(row)


def _stamped(what: str, named: Any, owner: int | None) -> int:
    """The tenant of a new row. Raises: TenantMismatch, when it names another than it may."""
    if named is None:
        if owner is None:
            raise TenantMismatch(f"{what}: a write across tenants must name its tenant_id")
        return owner
    if type(named) is not int:
        raise TenantMismatch(f"{what}: tenant_id is {type(named).__name__}, not a number")
    if owner is not None and named != owner:
        whose = " (the platform; a tenant creates no row there)" if named == tenancy.PLATFORM_TENANT_ID else ""
        raise TenantMismatch(f"{what}: tenant_id is {named}{whose}, the current tenant is {owner}")
    return named


def _check_owned(row: TenantOwned) -> None:
    history = get_history(row, "tenant_id")
    if history.added and history.deleted:
        raise TenantMismatch(f"{type(row).__name__}: tenant_id never changes")
    owner = owning_tenant()
    if owner is not None and row.tenant_id != owner:
        raise foreign(type(row).__name__, row.tenant_id)


def foreign(what: str, tenant_id: int) -> TenantMismatch:
    """What a write of a row of another tenant, or of the platform, is answered."""
    if tenant_id == tenancy.PLATFORM_TENANT_ID:
        return TenantMismatch(f"{what} belongs to the platform; a tenant cannot change it")
    return TenantMismatch(f"{what} belongs to another tenant")


#: How `before_execute` hands over the values: many sets, or one.
_One: TypeAlias = Mapping[str, Any]
_Many: TypeAlias = Sequence[_One]


@event.listens_for(Session, "after_begin")
def _watch(session: Session, transaction: SessionTransaction, connection: Connection) -> None:
    """Listen on the connections of sessions alone: workers and ticks, which use none, pay nothing for this."""
    if not tenancy.is_single_tenant():  # on one that is listened to already this changes nothing
        event.listen(connection, "before_execute", _confine_writes, retval=True)


def _confine_writes(
    connection: Connection, statement: Executable, many: _Many, one: _One, options: Mapping[str, Any]
) -> tuple[Executable, _Many, _One]:
    """What the unit of work or a `Session.bulk_*` method writes: both pass the compiled cache of their mapper."""
    if "compiled_cache" not in options or not isinstance(statement, Insert | Update | Delete):
        return statement, many, one
    column = _owner_column(statement.table)
    if column is None or tenancy.is_single_tenant():
        return statement, many, one
    owner = owning_tenant()
    what = statement.table.description
    if isinstance(statement, Insert):
        if many:
            return statement, [{**row, "tenant_id": _stamped(what, row.get("tenant_id"), owner)} for row in many], one
        return statement, many, {**one, "tenant_id": _stamped(what, one.get("tenant_id"), owner)}
    if isinstance(statement, Update) and any(row.get("tenant_id", owner) != owner for row in many or [one]):
        raise TenantMismatch(f"{what}: tenant_id never changes")
    # An update that misses a row this way is a StaleDataError, a delete a warning.
    return statement if owner is None else statement.where(column == owner), many, one
