"""Templates as files that a person edits and keeps in git, a folder each: its settings in YAML, its sources beside it.

The folder's name is free. What a file leaves out is the column's default: a folder is the whole template. Which fields
a template has, and which of them stand in files of their own, its `Kind` says: each channel has one.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from messaging import strict_yaml
from messaging.db.active import with_disabled
from messaging.db.filters import owning_tenant
from messaging.errors import FileRejected, TemplateRejected, TenantMismatch
from messaging.folders import entries, read_text
from messaging.templates.finding import UNSTORABLE
from messaging.tenancy import is_multi_tenancy

SETTINGS_FILE = "template.yaml"
MAX_SETTINGS_BYTES = 64 * 1024
#: Characters of a folder's name.
MAX_FOLDER_CHARS = 80

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Action(StrEnum):
    """What an import does with one template."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class TemplateChange:
    """What an import did, or would do, with one template."""

    code: str
    action: Action
    #: The fields that differ from what was stored.
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TemplateFolder:
    """One template as its folder has it; all fields of it."""

    name: str
    fields: dict[str, Any]
    source_files: Mapping[str, str]

    def refused(self, field: str, reason: str) -> FileRejected:
        """The error that names the field's file."""
        file = f"{self.name}/{self.source_files.get(field, SETTINGS_FILE)}"
        return FileRejected(file, reason, key=str(self.fields.get("code")), field=field)


def _any_references(session: Session, templates: Sequence[TemplateFolder]) -> None:
    """For templates that name no other rows."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The templates of one channel."""

    #: What messages call one: `mail template`.
    what: str
    model: type[Any]
    #: All fields of a template, in the order of its settings.
    fields: tuple[str, ...]
    #: Column -> the file it stands in; all others stand in `SETTINGS_FILE`.
    source_files: Mapping[str, str]
    #: Of a file of these.
    max_source_bytes: int
    #: What stands where a field is not given; None for the others.
    defaults: Mapping[str, Any]
    #: Raises TemplateRejected for fields that cannot be saved.
    check: Callable[[Mapping[str, Any]], None]
    #: Raises FileRejected for ids of rows that the tenant does not have.
    check_references: Callable[[Session, Sequence[TemplateFolder]], None] = _any_references
    #: Fields whose stored value is not that of the file: what it is.
    stored_as: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    #: Fields that the file has more shortly than the row.
    shown_as: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    @property
    def settings(self) -> tuple[str, ...]:
        """The fields in `SETTINGS_FILE`."""
        return tuple(name for name in self.fields if name not in self.source_files)

    def values(self, row: Any) -> dict[str, Any]:
        """The fields of a stored template as they are compared and shown."""
        found = {name: getattr(row, name) for name in self.fields}
        return found | {name: stored(found[name]) for name, stored in self.stored_as.items()}


def import_templates(session: Session, kind: Kind, folder: Path, *, dry_run: bool = False) -> list[TemplateChange]:
    """Create or update this tenant's templates from the folders in `folder`, in the caller's transaction.

    Templates that have no folder are left alone. Everything is read and checked before anything is written; with
    `dry_run` nothing is written at all. Imports of one tenant wait for each other.

    Raises:
        FileRejected: Names file, field and value.
        TenantMismatch: No one tenant is set.
    """
    owner = _one_tenant()
    templates = read_templates(kind, folder)
    if not dry_run:
        lock = func.pg_advisory_xact_lock(func.hashtextextended(f"messaging.import_templates {owner}", 0))
        session.execute(select(lock))
    kind.check_references(session, templates)
    codes = [template.fields["code"] for template in templates]
    stored = {
        row.code: row for row in session.scalars(with_disabled(select(kind.model).where(kind.model.code.in_(codes))))
    }
    if dry_run:
        return [_change(kind, template, stored.get(template.fields["code"])) for template in templates]
    try:
        with session.begin_nested():
            return [_apply(session, kind, template, stored.get(template.fields["code"])) for template in templates]
    except IntegrityError as exc:
        raise FileRejected(".", "a template with one of these codes was created meanwhile; import again") from exc


def export_templates(session: Session, kind: Kind, folder: Path, codes: Sequence[str] | None = None) -> list[Path]:
    """Write this tenant's templates (None: all), disabled ones too, as folders in `folder`; answers those folders.

    The same templates make the same files. Folders of templates that are gone are left alone.

    Raises:
        FileRejected: A code has no template, or a folder cannot be written.
        TenantMismatch: No one tenant is set.
    """
    _one_tenant()
    statement = with_disabled(select(kind.model).order_by(kind.model.code))
    if codes is not None:
        statement = statement.where(kind.model.code.in_(code for code in codes if not UNSTORABLE.search(code)))
    rows = session.scalars(statement).all()
    missing = set(codes or ()) - {row.code for row in rows}
    if missing:
        raise FileRejected(str(folder), f"there is no {kind.what} {min(missing)!r}")
    written = []
    for row, name in zip(rows, _folder_names([row.code for row in rows]), strict=True):
        try:
            written.append(_export(kind, row, folder / name))
        except OSError as exc:
            raise FileRejected(name, f"cannot be written ({exc.strerror})", key=row.code) from exc
    return written


def read_templates(kind: Kind, folder: Path) -> list[TemplateFolder]:
    """The templates that the folder holds, checked.

    Raises: FileRejected.
    """
    templates: dict[str, TemplateFolder] = {}
    for path in entries(folder):
        if path.is_file():
            if path.name.upper().startswith("README"):
                continue
            raise FileRejected(path.name, f"is not a folder; each template has one, with a {SETTINGS_FILE}")
        template = _read(kind, path)
        twin = templates.setdefault(template.fields["code"], template)
        if twin is not template:
            raise template.refused("code", f"code is {template.fields['code']!r}, as in {twin.name}/{SETTINGS_FILE}")
    return list(templates.values())


def settings_text(kind: Kind, row: Any) -> str:
    """What stands in the settings' file: the fields that are not null, in their order."""
    values = {name: getattr(row, name) for name in kind.settings}
    values |= {name: shown(values[name]) for name, shown in kind.shown_as.items()}
    return strict_yaml.dump({key: value for key, value in values.items() if value is not None and value != []})


def _one_tenant() -> int | None:
    """The tenant whose templates are meant; None with multi-tenancy off. Raises: TenantMismatch."""
    owner = owning_tenant()
    if owner is None and is_multi_tenancy():
        raise TenantMismatch("templates are imported and exported for one tenant; say which")
    return owner


def _read(kind: Kind, path: Path) -> TemplateFolder:
    files = {file.name: file for file in entries(path)}
    known = (SETTINGS_FILE, *kind.source_files.values())
    for name, file in files.items():
        if name not in known or not file.is_file():
            raise FileRejected(f"{path.name}/{name}", f"is no part of a template; its files are {', '.join(known)}")
    shown = f"{path.name}/{SETTINGS_FILE}"
    if SETTINGS_FILE not in files:
        raise FileRejected(shown, "is missing")
    try:
        given = strict_yaml.load(read_text(files[SETTINGS_FILE], shown, max_bytes=MAX_SETTINGS_BYTES))
    except strict_yaml.YamlRefused as exc:
        raise FileRejected(shown, str(exc)) from exc
    for key in given:
        if key not in kind.settings:
            known_fields = ", ".join(kind.settings)
            raise FileRejected(shown, f"there is no field {key!r}; the fields are {known_fields}", field=key)
    fields: dict[str, Any] = dict.fromkeys(kind.fields) | dict(kind.defaults) | given
    for column, name in kind.source_files.items():
        if name in files:
            fields[column] = read_text(files[name], f"{path.name}/{name}", max_bytes=kind.max_source_bytes)
    template = TemplateFolder(path.name, fields, kind.source_files)
    try:
        kind.check(fields)
    except TemplateRejected as exc:
        raise template.refused(exc.field, str(exc)) from exc
    for name, stored in kind.stored_as.items():
        fields[name] = stored(fields[name])
    return template


def _change(kind: Kind, template: TemplateFolder, row: Any | None) -> TemplateChange:
    fields = template.fields
    if row is None:
        return TemplateChange(fields["code"], Action.CREATED)
    stored = kind.values(row)
    differing = tuple(name for name in kind.fields if stored[name] != fields[name])
    return TemplateChange(fields["code"], Action.UPDATED if differing else Action.UNCHANGED, differing)


def _apply(session: Session, kind: Kind, template: TemplateFolder, row: Any | None) -> TemplateChange:
    change = _change(kind, template, row)
    if row is None:
        session.add(kind.model(**template.fields))
    for name in change.fields:
        setattr(row, name, template.fields[name])
    return change


def _folder_names(codes: Sequence[str]) -> list[str]:
    """A folder's name for each code: the code itself where a file can be called that, and no other differs by case."""
    folded = [code.casefold() for code in codes]
    names = []
    for code in codes:
        name = _UNSAFE.sub("-", code).strip(".-")[:MAX_FOLDER_CHARS]
        if name != code or folded.count(code.casefold()) > 1:
            name = f"{name or 'template'}-{hashlib.sha256(code.encode()).hexdigest()[:8]}"
        names.append(name)
    return names


def _export(kind: Kind, row: Any, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SETTINGS_FILE).write_text(settings_text(kind, row), encoding="utf-8", newline="\n")
    for column, name in kind.source_files.items():
        source = getattr(row, column)
        if source is None:
            (folder / name).unlink(missing_ok=True)
        else:
            (folder / name).write_bytes(source.encode())
    return folder
