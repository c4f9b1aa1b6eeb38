"""Adding to the audit log, in the transaction of what is told. Who acts is read from the context."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlalchemy import Connection, Table, insert
from sqlalchemy.orm import Session

from messaging import tenancy
from messaging.audit.models import AUDIT_LOG, AuditEntry

#: Stands for the value of a secret.
HIDDEN = "***"

#: Longest text that an entry repeats; of a longer one, such as a template's body, it keeps the beginning and the hash.
MAX_TEXT_CHARS = 2000

#: Who acts where the context names nobody: the program that uses the library.
_APPLICATION = "application"

#: User and password in an address.
_CREDENTIALS = re.compile(r"(?<=://)[^/?#\s]*@")


@dataclass(frozen=True, slots=True)
class Entry:
    """One action on one row, or on many at once."""

    #: A verb.
    action: str
    target: Table
    #: None: many rows at once.
    target_id: int | None
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    #: The reason that was given.
    note: str | None = None
    #: Whose log it goes into; None is the current tenant's, across tenants the platform's.
    tenant_id: int | None = None


def note(
    where: Session | Connection,
    action: str,
    target: Table,
    target_id: int | None,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    note: str | None = None,
    tenant_id: int | None = None,
) -> None:
    """Note one action; the arguments are those of `Entry`. Secrets are not to be among the values."""
    note_all(where, [Entry(action, target, target_id, before, after, note, tenant_id)])


def note_all(where: Session | Connection, entries: Iterable[Entry]) -> None:
    """Note several actions of the same somebody, in their order."""
    context = tenancy.current()
    actor = context.actor or (_APPLICATION if context.user_id is None else f"user:{context.user_id}")
    who = {
        "actor": cut(actor, 50),
        "actor_name": cut(context.user_name, 100),
        "request_id": cut(context.request_id, 64),
        "trace_id": cut(context.trace_id, 32),
    }
    rows = [
        {
            "tenant_id": _log_of(context, entry.tenant_id),
            "action": entry.action,
            "target_type": entry.target.name,
            "target_id": entry.target_id,
            "before": None if entry.before is None else shown(entry.before),
            "after": None if entry.after is None else shown(entry.after),
            "note": cut(entry.note, 500),
            **who,
        }
        for entry in entries
    ]
    if rows:
        connection = where if isinstance(where, Connection) else where.connection(bind_arguments={"mapper": AuditEntry})
        connection.execute(insert(AUDIT_LOG), rows)


def cut(text: str | None, limit: int) -> str | None:
    """As much of a text as its column holds."""
    return None if text is None else text[:limit]


def shown(value: Any) -> Any:
    """A value as JSON has it and an entry shows it: long texts shortened, credentials in an address left out."""
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return _shown_text(str(value))
        case Mapping():
            return {str(key): shown(one) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [shown(one) for one in (sorted(value) if isinstance(value, set | frozenset) else value)]
        case date():  # and datetime
            return value.isoformat()
        case _:
            return _shown_text(str(value))


def _shown_text(text: str) -> str:
    if "://" in text:
        text = _CREDENTIALS.sub(f"{HIDDEN}@", text)
    if len(text) <= MAX_TEXT_CHARS:
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return f"{text[:MAX_TEXT_CHARS]}… ({len(text)} characters, SHA-256 {digest})"


def _log_of(context: tenancy.Context, named: int | None) -> int:
    if tenancy.is_single_tenant():
        return tenancy.SINGLE_TENANT_ID
    if named is not None:
        return named
    return tenancy.PLATFORM_TENANT_ID if context.tenant_id is None else context.tenant_id
