"""What an SMS template may hold: checked whenever one is saved, so that its messages do not fail one by one. Pure."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import inspect

from messaging.db import reading
from messaging.errors import TemplateRejected
from messaging.field_checks import Check, number, switch, text
from messaging.sms.models import SmsTemplate
from messaging.templates.errors import TemplateError
from messaging.templates.render import Source, compile_check

#: Characters of a source; what is rendered has a limit of its own.
MAX_SOURCE_CHARS = 65_536
#: The column.
MAX_SEGMENTS = 2**15 - 1


def check_template(fields: Mapping[str, Any]) -> None:
    """Refuse fields of `SmsTemplate` that cannot be saved; those that are not given are not looked at.

    Raises: TemplateRejected, naming field and value, or the line of a source that does not compile.
    """
    for field, check in _CHECKS.items():
        if field in fields:
            try:
                check(fields[field])
            except ValueError as exc:
                raise TemplateRejected(field, fields[field], str(exc)) from exc
    if fields.get("content") is None:
        return
    try:
        compile_check({"content": Source(fields["content"], escape=False, one_line=False)})
    except TemplateError as exc:
        raise TemplateRejected(exc.column, None, exc.reason, line=exc.line) from exc


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as they are stored.

    Raises: TemplateRejected, as `check_template`; TypeError for a field that there is none of.
    """
    for name in given:
        if name not in _CHECKS:
            raise TypeError(f"an SMS template has no field {name!r}; it has {', '.join(FIELDS)}")
    check_template(given)
    return dict(given)


def check_row(row: SmsTemplate) -> None:
    """Refuse a row that is about to be saved: all of a new one, what was changed of another."""
    state = inspect(row)
    is_new = not state.persistent
    given = {name: getattr(row, name) for name in _CHECKS if is_new or state.attrs[name].history.has_changes()}
    # A switch that was not set is the column's default.
    given = {n: v for n, v in given.items() if v is not None or n not in DEFAULTS or (not is_new or n in state.dict)}
    if given:
        check_template(given)


def check_statement(statement: Any, parameters: Any) -> None:
    """Refuse an INSERT or UPDATE of templates for the values that it holds; what the database computes is not seen."""
    for row in reading.written(statement, parameters):
        check_template({name: value for name, value in row.items() if name in _CHECKS})


def _source(value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise ValueError("is not text")
    if len(value) > MAX_SOURCE_CHARS:
        raise ValueError(f"has {len(value)} characters; at most {MAX_SOURCE_CHARS} are allowed")
    if any(c == "\x00" or "\ud800" <= c <= "\udfff" for c in value):
        raise ValueError("has a character that cannot be stored")


#: Every field an author writes, in the order of files.
_CHECKS: Mapping[str, Check] = {
    "code": text(100, is_required=True),
    "name": text(100, is_required=True),
    "description": text(500),
    "active": switch,
    "strict": switch,
    "redact": switch,
    "to_gsm": switch,
    "max_segments": number(1, MAX_SEGMENTS, is_required=False),
    "content": _source,
}
FIELDS = tuple(_CHECKS)
#: What stands where a field is not given; null for the others, but for `code` and `name`, which are required.
DEFAULTS: Mapping[str, Any] = {"active": True, "strict": False, "redact": False, "to_gsm": False}
