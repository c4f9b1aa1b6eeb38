"""Configurations in operators' hands, whatever their kind: added, changed, copied, switched, deleted.

Runs in the caller's transaction and tenant. What the fields of a kind may hold, and what follows from a change, is said
where the kind is. Secrets go in and never come out: nothing here reads one.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from sqlalchemy import Select, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from messaging.config_kinds import Kind
from messaging.db.active import with_disabled
from messaging.db.own_rows import TO_CHANGE, TO_DELETE, created, get_own, make_default, set_active, sign
from messaging.db.trouble import is_duplicate
from messaging.errors import ChangedMeanwhile

#: Is told a row as it was, and its new values.
Follow: TypeAlias = Callable[[Any, Mapping[str, Any]], None]


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


def require_as_seen(session: Session, kind: Kind[Any], row_id: object, as_of: datetime) -> None:
    """Lock a row of this tenant that is as it was when somebody looked at it, so that what follows changes that one.

    Raises:
        ChangedMeanwhile: It was changed since.
        RecordNotFound, TenantMismatch: As `delete`.
    """
    row = get_own(session, kind.model, row_id, what=kind.what, lock=TO_DELETE)
    if row.updated_at != as_of:
        by = f" by {row.updated_by}" if row.updated_by else ""
        at = f"{row.updated_at:%Y-%m-%d %H:%M:%S} UTC"
        raise ChangedMeanwhile(f"{kind.what} {row_id} was saved{by} at {at}")


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


def _whole(kind: Kind[Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """All fields of a new row, checked."""
    values = kind.check(dict.fromkeys(kind.fields) | dict(kind.defaults) | dict(fields))
    kind.check_together(values)
    return values


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
        if not is_duplicate(exc):
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
