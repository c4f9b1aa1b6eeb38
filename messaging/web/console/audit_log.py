"""The audit log: who did what, with what stood before and after."""

from functools import partial
from typing import Any

from fastapi import Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from messaging import api
from messaging.access.roles import Permission
from messaging.audit.trail import AuditLine
from messaging.channels import CHANNELS
from messaging.web.api.resource import Caller, DbSession, needs
from messaging.web.console import asking
from messaging.web.console.asking import Asked
from messaging.web.console.audience import is_platform, seen_by
from messaging.web.console.keyset import IdPage, id_page
from messaging.web.console.pages import Pages, page
from messaging.web.console.records import Channel

routes = Pages()

_READERS: dict[str, asking.Reader] = {
    "actor": asking.words,
    "action": asking.words,
    "object": asking.words,
    "id": asking.row_id,
    "since": asking.moment,
    "until": asking.moment,
    "before": asking.row_id,
    "after": asking.row_id,
}

#: Pages of the objects that have one, by table.
_PATHS = {channel.table.name: f"/{name}" for name, channel in CHANNELS.items() if name in set(Channel)} | {
    "dead_letter_message": "/dead-letters"
}


@routes.get("/audit", dependencies=[needs(Permission.READ)])
def list_audit_entries(request: Request, caller: Caller, session: DbSession) -> Response:
    """The list."""
    tenant: dict[str, asking.Reader] = {"tenant": asking.tenant_id} if is_platform(caller) else {}
    asked = asking.read(request.url.query, _READERS | tenant)
    with seen_by(caller, asked.get("tenant")):
        found: IdPage[Any] = IdPage([]) if asked.errors else id_page(asked, partial(_read, session, asked))
    return page(request, "audit.html", asked=asked, found=found, changes=_changes, linked=_linked)


def _read(session: Session, asked: Asked, **part: Any) -> Any:
    return api.list_audit_entries(
        actor=asked.get("actor"),
        action=asked.get("action"),
        target_type=asked.get("object"),
        target_id=asked.get("id"),
        since=asked.get("since"),
        until=asked.get("until"),
        session=session,
        **part,
    )


def _changes(line: AuditLine) -> list[tuple[str, Any, Any]]:
    """Columns that an action changed, with what stood before and after; None: nothing."""
    before, after = line.before or {}, line.after or {}
    return [(name, before.get(name), after.get(name)) for name in dict.fromkeys((*before, *after))]


def _linked(line: AuditLine) -> str | None:
    """The path of the page of what it was done to; None where there is none."""
    path = _PATHS.get(line.target_type)
    return None if path is None or line.target_id is None else f"{path}/{line.target_id}"
