"""Configurations in operators' hands, whatever their kind: added, changed, copied, listed, switched, deleted.

Runs in the caller's transaction and tenant. What the fields of a kind may hold, and what follows from a change, is said
where the kind is. Secrets go in and never come out: nothing here reads one.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypedDict, TypeVar

from psycopg import errors
from sqlalchemy import ColumnElement, Select, SQLColumnExpression, Table, func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from messaging.db.active import with_disabled
from messaging.db.own_rows import TO_CHANGE, TO_DELETE, created, get_own, make_default, set_active, sign
from messaging.errors import ConfigRejected, RecordNotFound, shown_value

#: Is told a row as it was, and its new values.
Follow: TypeAlias = Callable[[Any, Mapping[str, Any]], None]

LineT = TypeVar("LineT")
_T = TypeVar("_T")

#: Rows of a page at most.
MAX_PAGE_SIZE = 200
#: Largest number of a page: what comes before it is counted in a bigint.
MAX_PAGE = 2**31 - 1
#: Characters of a search.
MAX_SEARCH_CHARS = 200

#: What PostgreSQL or UTF-8 cannot hold.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Active(StrEnum):
    """Which rows of a list are meant."""

    #: Enabled ones.
    TRUE = "true"
    #: Disabled ones.
    FALSE = "false"
    ALL = "all"


class ListFields(TypedDict, total=False):
    """Which part of a list is asked for, and in which order; nothing given is all enabled rows in the list's order."""

    #: `true`, `false` or `all`.
    active: Active | str
    #: From 1.
    page: int
    #: Rows of a page, 1 to 200; None: all.
    size: int | None
    #: A field of the lines, with `-` in front from its end; None: the list's own order.
    sort: str | None
    #: A part of a name or a code, in any case.
    search: str | None


class Lines(list[_T]):
    """The lines of a list's page."""

    def __init__(self, lines: Collection[_T], total: int) -> None:
        super().__init__(lines)
        #: How many there are on all pages.
        self.total = total


@dataclass(frozen=True, slots=True)
class Twin:
    """What a row that must be the only one of its kind would stand beside."""

    #: Finds it.
    statement: Select[Any]
    #: The field that is to blame.
    field: str
    #: Says that there is such a one.
    reason: str


def _no_check(_fields: Mapping[str, Any]) -> None:
    """For fields that fit together whatever they are."""


def _no_references(_session: Session, _values: Mapping[str, Any]) -> None:
    """For rows that name no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[LineT]):
    """Configurations of one table."""

    #: What messages call one: `mail server`.
    what: str
    model: type[Any]
    #: How lists show one, a dataclass: columns of the table, `has_x` of a secret x, and what is `computed`.
    line: type[LineT]
    #: All that an operator gives.
    fields: tuple[str, ...]
    #: What stands where a field is not given; None for every other.
    defaults: Mapping[str, Any]
    secrets: frozenset[str] = frozenset()
    #: Fields that a copy does not take over beside secrets.
    not_copied: frozenset[str] = frozenset()
    #: The given fields as they are stored. Raises ConfigRejected; TypeError for a field that there is none of.
    check: Callable[[Mapping[str, Any]], dict[str, Any]]
    #: Refuses what does not fit together; is given all fields, a secret that is stored as True. Raises ConfigRejected.
    check_together: Callable[[Mapping[str, Any]], None] = _no_check
    #: Refuses ids of rows that the tenant has not. Raises ConfigRejected, RecordNotFound.
    check_references: Callable[[Session, Mapping[str, Any]], None] = _no_references
    #: Reads fields of a row for `check_together`; None: secrets are only looked for.
    stored: Callable[[Any, Collection[str]], dict[str, Any]] | None = None
    #: Columns by which a list is in order.
    order: tuple[str, ...]
    #: Columns that are searched; none: there is no search.
    searched: tuple[str, ...] = ("name",)
    computed: Mapping[str, SQLColumnExpression[Any]] = field(default_factory=dict)
    #: Where a row must be the only one of its kind: what one of these fields would stand beside.
    twin: Callable[[Mapping[str, Any]], Twin] | None = None
    #: What a second one of a kind raises.
    rejected: type[ConfigRejected] = ConfigRejected

    @property
    def table(self) -> Table:
        """The table of the rows."""
        found: Table = self.model.__table__
        return found


def new(kind: Kind[Any], fields: Mapping[str, Any]) -> Any:
    """A row of these fields, not in a session yet.

    Raises:
        ConfigRejected: A field cannot be saved, or does not fit another one.
    """
    return kind.model(**_whole(kind, fields), **created())


def twin_of(kind: Kind[Any], fields: Mapping[str, Any]) -> Select[Any] | None:
    """Finds the id of the row that a new one of these fields would stand beside; None: there may be any number.

    Raises: as `new`.
    """
    if kind.twin is None:
        return None
    return kind.twin(_whole(kind, fields)).statement.with_only_columns(kind.model.id)


def add(session: Session, kind: Kind[Any], fields: Mapping[str, Any]) -> int:
    """Add a row of this tenant; answers its id. As the default it takes that from the tenant's others.

    Raises:
        ConfigRejected: A field cannot be saved, does not fit another one, or there is such a row already. Nothing was
            written, and the transaction is usable.
        RecordNotFound: It names a row that the tenant has not.
    """
    row = new(kind, fields)
    kind.check_references(session, {name: getattr(row, name) for name in kind.fields if name not in kind.secrets})
    _save(session, kind, row)
    row_id: int = row.id
    return row_id


def change(
    session: Session,
    kind: Kind[Any],
    row_id: object,
    fields: Mapping[str, Any],
    *,
    follow: Follow | None = None,
) -> None:
    """Change the fields that are given; a secret that is not given stays, None takes it away.

    `follow` is told the row as it was and the values, and may change what depends on them.

    Raises:
        ConfigRejected: As `add`; nothing was changed.
        RecordNotFound: No such row in this tenant, or it names one that the tenant has not.
        TenantMismatch: It belongs to the platform.
    """
    row = get_own(session, kind.model, row_id, what=kind.what, lock=TO_CHANGE)
    values = kind.check(fields)
    kind.check_together(_stored(session, kind, row, [name for name in kind.fields if name not in values]) | values)
    kind.check_references(session, values)
    _save(session, kind, row, values, follow)


def copy(session: Session, kind: Kind[Any], row_id: object, fields: Mapping[str, Any]) -> int:
    """Add a row like another one of this tenant, but for the fields that are given; answers its id.

    Code and secrets are not copied: who needs them gives them. Unless it is said otherwise the copy is disabled and no
    default, so that nothing happens by it before somebody has looked at it.

    Raises:
        ConfigRejected: As `add`; also where what is not copied is needed.
        RecordNotFound: No such row in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    row = get_own(session, kind.model, row_id, what=kind.what)
    left_out = kind.secrets | kind.not_copied
    taken = {name: getattr(row, name) for name in kind.fields if name not in left_out}
    switched_off = {name: False for name in ("active", "is_default") if name in taken}
    return add(session, kind, taken | switched_off | dict(fields))


def delete(session: Session, kind: Kind[Any], row_id: object) -> None:
    """Delete a row. Its id is never given again, so that what still names it finds nothing instead of another.

    Raises:
        RecordNotFound: No such row in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    session.delete(get_own(session, kind.model, row_id, what=kind.what, lock=TO_DELETE))
    session.flush()


def switch(session: Session, kind: Kind[Any], row_id: object, is_active: bool) -> None:
    """Disable a row or enable it again. Raises: as `delete`."""
    set_active(session, get_own(session, kind.model, row_id, what=kind.what, lock=TO_CHANGE), is_active)


def choose_default(session: Session, kind: Kind[Any], row_id: object) -> None:
    """Make a row its tenant's default; the tenant's others are so no more, disabled ones too.

    Raises:
        RecordNotFound, TenantMismatch: As `delete`.
        StateError: It is disabled.
    """
    make_default(session, get_own(session, kind.model, row_id, what=kind.what, lock=TO_CHANGE), what=kind.what)


def listed(session: Session, kind: Kind[LineT], asked: ListFields, *conditions: ColumnElement[bool]) -> Lines[LineT]:
    """Lines of the tenant's rows. Raises: ValueError, TypeError, naming what was asked and what is allowed."""
    found = rows(session, kind, asked, *conditions)
    return Lines([kind.line(**row) for row in found], found.total)


def shown(session: Session, kind: Kind[LineT], row_id: object) -> LineT:
    """One of them, disabled or not. Raises: RecordNotFound, also for a row of the platform."""
    return kind.line(**one(session, kind, row_id))


def one(session: Session, kind: Kind[Any], row_id: object) -> dict[str, Any]:
    """As `shown`, by the names of its columns."""
    if not isinstance(row_id, int) or isinstance(row_id, bool):
        raise TypeError(f"a {kind.what} id is an int, not {shown_value(row_id)}")
    if 1 <= row_id < 2**63:
        for row in rows(session, kind, {"active": Active.ALL}, kind.model.id == row_id):
            return row
    raise RecordNotFound(f"no {kind.what} {shown_value(row_id)}")


def rows(
    session: Session, kind: Kind[Any], asked: ListFields, *conditions: ColumnElement[bool]
) -> Lines[dict[str, Any]]:
    """As `listed`, each by the names of its columns."""
    unknown = sorted(set(asked) - set(ListFields.__annotations__))
    if unknown:
        raise TypeError(f"a list has no {unknown[0]!r}; it has {', '.join(ListFields.__annotations__)}")
    size, page = asked.get("size"), asked.get("page", 1)
    _check_number("page", page, MAX_PAGE)
    if size is not None:
        _check_number("size", size, MAX_PAGE_SIZE)
    statement = with_disabled(select(*_columns(kind))).where(*_narrowed(kind, asked), *conditions)
    ordered = statement.order_by(*_order(kind, asked.get("sort")), kind.model.id)
    if size is None:
        found = [dict(row._mapping) for row in session.execute(ordered)]
        return Lines(found, len(found))
    total = session.scalar(statement.with_only_columns(func.count(kind.model.id)))
    found = [dict(row._mapping) for row in session.execute(ordered.limit(size).offset((page - 1) * size))]
    return Lines(found, total or 0)


def sortable(kind: Kind[Any]) -> tuple[str, ...]:
    """The fields by which a list of them can be sorted."""
    return tuple(name for name in kind.line.__dataclass_fields__ if name in kind.table.c)


def _whole(kind: Kind[Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """All fields of a new row, checked."""
    values = kind.check(dict.fromkeys(kind.fields) | dict(kind.defaults) | dict(fields))
    kind.check_together(values)
    return values


def _columns(kind: Kind[Any]) -> list[SQLColumnExpression[Any]]:
    columns: list[SQLColumnExpression[Any]] = []
    for name in kind.line.__dataclass_fields__:
        if name in kind.computed:
            columns.append(kind.computed[name].label(name))
        elif name.removeprefix("has_") in kind.secrets:
            columns.append(getattr(kind.model, name.removeprefix("has_")).is_not(None).label(name))
        elif name in kind.table.c:
            columns.append(getattr(kind.model, name))
    return columns


def _narrowed(kind: Kind[Any], asked: ListFields) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    active: object = asked.get("active", Active.TRUE)
    search: object = asked.get("search")
    if active not in list(Active):
        raise ValueError(f"active is {shown_value(active)}; allowed: {', '.join(Active)}")
    if active != Active.ALL and "active" in kind.table.c:
        conditions.append(kind.model.active.is_(active == Active.TRUE))
    if search is not None and kind.searched:
        if not isinstance(search, str) or len(search) > MAX_SEARCH_CHARS or _UNSTORABLE.search(search):
            raise ValueError(f"search is {shown_value(search)}; allowed: {MAX_SEARCH_CHARS} characters of a text")
        conditions.append(
            or_(*(getattr(kind.model, name).icontains(search, autoescape=True) for name in kind.searched))
        )
    return conditions


def _order(kind: Kind[Any], sort: object) -> list[ColumnElement[Any]]:
    """The column that is asked for, then the list's own order."""
    ordered = [getattr(kind.model, name).asc() for name in kind.order]
    if sort is None:
        return ordered
    name = sort.removeprefix("-") if isinstance(sort, str) else ""
    if not isinstance(sort, str) or name not in sortable(kind):
        raise ValueError(f"sort is {shown_value(sort)}; allowed: {', '.join(sortable(kind))}, each with or without -")
    column: ColumnElement[Any] = getattr(kind.model, name)
    return [column.desc().nulls_last() if sort.startswith("-") else column.asc().nulls_last(), *ordered]


def _check_number(name: str, value: object, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is {shown_value(value)}; it is of type int")
    if not 1 <= value <= most:
        raise ValueError(f"{name} is {shown_value(value)}; allowed: 1 to {most}")


def _stored(session: Session, kind: Kind[Any], row: Any, names: Collection[str]) -> dict[str, Any]:
    """Fields of a row as `check_together` takes them. Secrets are not read: one that is replaced may be unreadable."""
    if kind.stored is not None:
        return kind.stored(row, names)
    found = {name: getattr(row, name) for name in names if name not in kind.secrets}
    secrets = sorted(kind.secrets & set(names))
    if secrets:
        is_there = select(*(getattr(kind.model, name).is_not(None) for name in secrets)).where(kind.model.id == row.id)
        found |= zip(secrets, (there or None for there in session.execute(is_there).one()), strict=True)
    return found


def _save(
    session: Session, kind: Kind[Any], row: Any, values: Mapping[str, Any] | None = None, follow: Follow | None = None
) -> None:
    """Write a new row, or a stored one with these values.

    Raises: the kind's error, when there is one like it already; of two that write it at once the second is told so.
    """
    if kind.twin is None:
        _write(session, row, values, follow)
        return
    key = {name: getattr(row, name) for name in kind.fields if name not in kind.secrets} | dict(values or {})
    try:
        with session.begin_nested():
            _write(session, row, values, follow)
    except IntegrityError as exc:
        if not isinstance(exc.orig, errors.UniqueViolation):
            raise
        twin = kind.twin(key)
        found = session.scalars(with_disabled(twin.statement)).first()
        number = "" if found is None else f", {found.id}{'' if getattr(found, 'active', True) else ' (disabled)'}"
        raise kind.rejected(twin.field, key[twin.field], twin.reason + number) from exc


def _write(session: Session, row: Any, values: Mapping[str, Any] | None, follow: Follow | None) -> None:
    if values is None:
        session.add(row)
    else:
        if follow is not None:
            follow(row, values)
        for name, value in values.items():
            setattr(row, name, value)
        sign(row)
    session.flush()
