"""Templates as files that a person edits and keeps in git, a folder each:

    order-confirmed/template.yaml   code, name, subject and switches
    order-confirmed/body.html       the sources of the bodies, as they are stored; a missing file is null
    order-confirmed/body.txt

The folder's name is free. What a file leaves out is the column's default: a folder is the whole template. The ids in
`preferred_server_config_id` and `attachments` are those of one database.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
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
from messaging.files import StoredFile
from messaging.folders import entries, read_text
from messaging.mail.models import MailSendServerConfig, MailTemplate
from messaging.mail.template_checks import DEFAULTS, FIELDS, FILE_KEYS, MAX_SOURCE_CHARS, UNSTORABLE, check_template
from messaging.tenancy import is_multi_tenancy

SETTINGS_FILE = "template.yaml"
#: Column -> the file it stands in; all others stand in `SETTINGS_FILE`.
BODY_FILES = {"body_html": "body.html", "body_text": "body.txt"}
MAX_SETTINGS_BYTES = 64 * 1024
#: UTF-8 takes up to four for a character.
MAX_BODY_BYTES = 4 * MAX_SOURCE_CHARS
#: Characters of a folder's name.
MAX_FOLDER_CHARS = 80

_KEYS = tuple(field for field in FIELDS if field not in BODY_FILES)
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

    def refused(self, field: str, reason: str) -> FileRejected:
        """The error that names the field's file."""
        file = f"{self.name}/{BODY_FILES.get(field, SETTINGS_FILE)}"
        return FileRejected(file, reason, key=str(self.fields.get("code")), field=field)


def import_templates(session: Session, folder: Path, *, dry_run: bool = False) -> list[TemplateChange]:
    """Create or update this tenant's templates from the folders in `folder`, in the caller's transaction.

    Templates that have no folder are left alone. Everything is read and checked before anything is written; with
    `dry_run` nothing is written at all. Imports of one tenant wait for each other.

    Raises:
        FileRejected: Names file, field and value.
        TenantMismatch: No one tenant is set.
    """
    owner = _one_tenant()
    templates = read_templates(folder)
    if not dry_run:
        lock = func.pg_advisory_xact_lock(func.hashtextextended(f"messaging.import_templates {owner}", 0))
        session.execute(select(lock))
    _check_references(session, templates)
    stored = {
        row.code: row
        for row in session.scalars(
            with_disabled(select(MailTemplate).where(MailTemplate.code.in_(t.fields["code"] for t in templates)))
        )
    }
    if dry_run:
        return [_change(template, stored.get(template.fields["code"])) for template in templates]
    try:
        with session.begin_nested():
            return [_apply(session, template, stored.get(template.fields["code"])) for template in templates]
    except IntegrityError as exc:
        raise FileRejected(".", "a template with one of these codes was created meanwhile; import again") from exc


def export_templates(session: Session, folder: Path, codes: Sequence[str] | None = None) -> list[Path]:
    """Write this tenant's templates (None: all), disabled ones too, as folders in `folder`; answers those folders.

    The same templates make the same files. Folders of templates that are gone are left alone.

    Raises:
        FileRejected: A code has no template, or a folder cannot be written.
        TenantMismatch: No one tenant is set.
    """
    _one_tenant()
    statement = with_disabled(select(MailTemplate).order_by(MailTemplate.code))
    if codes is not None:
        statement = statement.where(MailTemplate.code.in_(code for code in codes if not UNSTORABLE.search(code)))
    rows = session.scalars(statement).all()
    missing = set(codes or ()) - {row.code for row in rows}
    if missing:
        raise FileRejected(str(folder), f"there is no mail template {min(missing)!r}")
    written = []
    for row, name in zip(rows, _folder_names([row.code for row in rows]), strict=True):
        try:
            written.append(_export(row, folder / name))
        except OSError as exc:
            raise FileRejected(name, f"cannot be written ({exc.strerror})", key=row.code) from exc
    return written


def read_templates(folder: Path) -> list[TemplateFolder]:
    """The templates that the folder holds, checked.

    Raises: FileRejected.
    """
    templates: dict[str, TemplateFolder] = {}
    for path in entries(folder):
        if path.is_file():
            if path.name.upper().startswith("README"):
                continue
            raise FileRejected(path.name, f"is not a folder; each template has one, with a {SETTINGS_FILE}")
        template = _read(path)
        twin = templates.setdefault(template.fields["code"], template)
        if twin is not template:
            raise template.refused("code", f"code is {template.fields['code']!r}, as in {twin.name}/{SETTINGS_FILE}")
    return list(templates.values())


def file_references(value: Any) -> list[dict[str, Any]] | None:
    """The attachments of a template as they are stored: every key of every file."""
    return [{key: item.get(key) for key in FILE_KEYS} for item in value] if value else None


def _one_tenant() -> int | None:
    """The tenant whose templates are meant; None with multi-tenancy off. Raises: TenantMismatch."""
    owner = owning_tenant()
    if owner is None and is_multi_tenancy():
        raise TenantMismatch("templates are imported and exported for one tenant; say which")
    return owner


def _read(path: Path) -> TemplateFolder:
    files = {file.name: file for file in entries(path)}
    for name, file in files.items():
        if name not in (SETTINGS_FILE, *BODY_FILES.values()) or not file.is_file():
            known = ", ".join((SETTINGS_FILE, *BODY_FILES.values()))
            raise FileRejected(f"{path.name}/{name}", f"is no part of a template; its files are {known}")
    shown = f"{path.name}/{SETTINGS_FILE}"
    if SETTINGS_FILE not in files:
        raise FileRejected(shown, "is missing")
    try:
        given = strict_yaml.load(read_text(files[SETTINGS_FILE], shown, max_bytes=MAX_SETTINGS_BYTES))
    except strict_yaml.YamlRefused as exc:
        raise FileRejected(shown, str(exc)) from exc
    for key in given:
        if key not in _KEYS:
            raise FileRejected(shown, f"there is no field {key!r}; the fields are {', '.join(_KEYS)}", field=key)
    fields = dict.fromkeys(FIELDS) | DEFAULTS | given
    for column, name in BODY_FILES.items():
        if name in files:
            fields[column] = read_text(files[name], f"{path.name}/{name}", max_bytes=MAX_BODY_BYTES)
    template = TemplateFolder(path.name, fields)
    try:
        check_template(fields)
    except TemplateRejected as exc:
        raise template.refused(exc.field, str(exc)) from exc
    fields["attachments"] = file_references(fields["attachments"])
    return template


def _check_references(session: Session, templates: Sequence[TemplateFolder]) -> None:
    """Refuse ids of servers and files that this tenant does not have."""
    servers = {t.fields["preferred_server_config_id"] for t in templates} - {None}
    files = {item["file_id"] for t in templates for item in t.fields["attachments"] or ()}
    known = with_disabled(select(MailSendServerConfig.id).where(MailSendServerConfig.id.in_(servers)))
    known_servers = set(session.scalars(known)) if servers else set()
    known_files = set(session.scalars(select(StoredFile.id).where(StoredFile.id.in_(files)))) if files else set()
    for template in templates:
        server = template.fields["preferred_server_config_id"]
        if server is not None and server not in known_servers:
            raise template.refused(
                "preferred_server_config_id", f"preferred_server_config_id is {server}: the tenant has no such server"
            )
        for item in template.fields["attachments"] or ():
            if item["file_id"] not in known_files:
                raise template.refused(
                    "attachments", f"attachments: file_id is {item['file_id']}: the tenant has no such file"
                )


def _change(template: TemplateFolder, row: MailTemplate | None) -> TemplateChange:
    fields = template.fields
    if row is None:
        return TemplateChange(fields["code"], Action.CREATED)
    stored = {field: getattr(row, field) for field in FIELDS}
    stored["attachments"] = file_references(stored["attachments"])
    differing = tuple(field for field in FIELDS if stored[field] != fields[field])
    return TemplateChange(fields["code"], Action.UPDATED if differing else Action.UNCHANGED, differing)


def _apply(session: Session, template: TemplateFolder, row: MailTemplate | None) -> TemplateChange:
    change = _change(template, row)
    if row is None:
        session.add(MailTemplate(**template.fields))
    for field in change.fields:
        setattr(row, field, template.fields[field])
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


def _export(row: MailTemplate, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SETTINGS_FILE).write_text(settings_text(row), encoding="utf-8", newline="\n")
    for column, name in BODY_FILES.items():
        source = getattr(row, column)
        if source is None:
            (folder / name).unlink(missing_ok=True)
        else:
            (folder / name).write_bytes(source.encode())
    return folder


def settings_text(row: MailTemplate) -> str:
    """What stands in the settings' file: the fields that are not null, in their order."""
    values = {key: getattr(row, key) for key in _KEYS}
    if values["attachments"]:
        values["attachments"] = [{k: v for k, v in item.items() if v is not None} for item in values["attachments"]]
    return strict_yaml.dump({key: value for key, value in values.items() if value is not None and value != []})
