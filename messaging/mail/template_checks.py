"""What a mail template may hold: checked whenever one is saved, so that its mails do not fail one by one later. Pure.

`reply_to` is parsed at preparation only, as it is there that an address is needed.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import inspect

from messaging.db import reading
from messaging.errors import TemplateRejected
from messaging.mail.attachments import AttachmentError, checked_references
from messaging.mail.models import MailTemplate
from messaging.mail.templates import SOURCES, source_of
from messaging.requests import BodyMode, Priority
from messaging.templates.errors import TemplateError
from messaging.templates.finding import MAX_ID, UNSTORABLE
from messaging.templates.render import compile_check

MAX_CODE_CHARS = 100
#: Characters of a body; what is rendered has a limit of its own.
MAX_SOURCE_CHARS = 1_048_576
MAX_ATTACHMENTS = 100

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")

#: The keys of an attachment; see `messaging.requests.FileRef`.
FILE_KEYS = ("file_id", "file_name", "content_type", "content_id")


def check_template(fields: Mapping[str, Any]) -> None:
    """Refuse fields of `MailTemplate` that cannot be saved; those that are not given are not looked at.

    Raises: TemplateRejected, naming field and value, or the line of a template that does not compile.
    """
    for field, check in _CHECKS.items():
        if field in fields:
            reason = check(fields[field])
            if reason is not None:
                raise TemplateRejected(field, fields[field], reason)
    columns = {column: source_of(column, fields[column]) for column in SOURCES if fields.get(column) is not None}
    try:
        compile_check(columns)
    except TemplateError as exc:
        raise TemplateRejected(exc.column, None, exc.reason, line=exc.line) from exc


def file_references(value: Any) -> list[dict[str, Any]] | None:
    """The attachments of a template as they are stored: every key of every file."""
    return [{key: item.get(key) for key in FILE_KEYS} for item in value] if value else None


def check_row(row: MailTemplate) -> None:
    """Refuse a row that is about to be saved: all of a new one, what was changed of another."""
    state = inspect(row)
    if not state.persistent:
        # A switch or mode that was not set is the column's default; a code or name that was not set is missing.
        fields = {name: getattr(row, name) for name in _CHECKS}
        check_template({n: v for n, v in fields.items() if v is not None or n not in _WITH_DEFAULT or n in state.dict})
        return
    changed = {name: getattr(row, name) for name in _CHECKS if state.attrs[name].history.has_changes()}
    if changed:
        check_template(changed)


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as they are stored.

    Raises: TemplateRejected, as `check_template`; TypeError for a field that there is none of.
    """
    for name in given:
        if name not in _CHECKS:
            raise TypeError(f"a mail template has no field {name!r}; it has {', '.join(FIELDS)}")
    check_template(given)
    return {name: file_references(value) if name == "attachments" else value for name, value in given.items()}


def check_statement(statement: Any, parameters: Any) -> None:
    """Refuse an INSERT or UPDATE of templates for the values that it holds; what the database computes is not seen."""
    for row in reading.written(statement, parameters):
        check_template({name: value for name, value in row.items() if name in _CHECKS})


def _text(max_chars: int, *, is_required: bool = False, is_line: bool = False) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if value is None:
            return "is required" if is_required else None
        if not isinstance(value, str):
            return "is not text"
        if len(value) > max_chars:
            return f"has {len(value)} characters; at most {max_chars} are allowed"
        if is_required and not value.strip():
            return "is blank"
        if is_line and (_CONTROL.search(value) or value != value.strip()):
            return "is not one line without spaces at its ends"
        return "has a character that cannot be stored" if UNSTORABLE.search(value) else None

    return check


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "is neither true nor false"


def _body_mode(value: Any) -> str | None:
    return None if isinstance(value, str) and value in list(BodyMode) else f"is none of {', '.join(BodyMode)}"


def _priority(value: Any) -> str | None:
    is_known = value is None or (isinstance(value, str) and value in list(Priority))
    return None if is_known else f"is none of {', '.join(Priority)}"


def _id(value: Any) -> str | None:
    is_id = value is None or (type(value) is int and 1 <= value <= MAX_ID)
    return None if is_id else "is not an id"


def _attachments(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > MAX_ATTACHMENTS:
        return f"is not a list of at most {MAX_ATTACHMENTS} files"
    for item in value:
        if not isinstance(item, dict) or not set(item) <= set(FILE_KEYS):
            return f"has an entry that is not a mapping of {', '.join(FILE_KEYS)}"
        if item.get("file_id") is None or _id(item["file_id"]) is not None:
            return "has an entry without the id of a stored file"
        if _text(255, is_required=True)(item.get("file_name")) is not None:
            return "has an entry without a file_name of at most 255 characters"
        if any(_text(255)(item.get(key)) is not None for key in ("content_type", "content_id")):
            return "has an entry whose content_type or content_id is not text of at most 255 characters"
    try:
        checked_references(value)
    except AttachmentError as exc:
        return f"has an entry that no mail can carry: {exc}"
    return None


#: Every field an author writes, in the order of messages and files; answers the reason against a value.
_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "code": _text(MAX_CODE_CHARS, is_required=True, is_line=True),
    "name": _text(100, is_required=True),
    "description": _text(500),
    "subject": _text(500),
    "body_mode": _body_mode,
    "active": _flag,
    "strict": _flag,
    "redact": _flag,
    "inline_css": _flag,
    "default_priority": _priority,
    "reply_to": _text(255),
    "preferred_server_config_id": _id,
    "attachments": _attachments,
    "body_html": _text(MAX_SOURCE_CHARS),
    "body_text": _text(MAX_SOURCE_CHARS),
}
#: What stands where a field is not given; null for the others, but for `code` and `name`, which are required.
DEFAULTS: dict[str, Any] = {
    "body_mode": BodyMode.HTML_WITH_DERIVED_PLAIN.value,
    "active": True,
    "strict": False,
    "redact": False,
    "inline_css": False,
}
_WITH_DEFAULT = frozenset(DEFAULTS)
FIELDS = tuple(_CHECKS)
