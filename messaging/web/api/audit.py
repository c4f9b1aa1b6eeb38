"""`/audit`: who did what in the caller's tenant, with what stood before and after. Read only."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field

from messaging import api
from messaging.access.roles import Permission
from messaging.web.api.lists import Keyset, Part, part
from messaging.web.api.resource import DbSession, Resource, needs
from messaging.web.api.shapes import Id, Shown, Text, Time

routes = Resource("audit")


class AuditShown(Shown):
    """One action of somebody. Secrets are noted as changed, never with their value."""

    id: Id
    at: Time
    #: Such as `operator:5`, `token:7`, `user:12`, `command line`, `application`.
    actor: str
    actor_name: str | None
    #: A verb.
    action: str
    #: A table.
    target_type: str
    #: Null: many rows at once.
    target_id: Id | None
    #: Columns that changed, or all of a deleted row.
    before: dict[str, Any] | None
    #: Columns that changed, or all of a new row.
    after: dict[str, Any] | None
    #: The reason that was given.
    note: str | None
    request_id: str | None
    trace_id: str | None


_Word = Annotated[Text, Field(min_length=1, max_length=50)]


class AuditQuery(Keyset):
    """Which actions."""

    actor: _Word | None = None
    action: _Word | None = None
    target_type: _Word | None = None
    target_id: Id | None = None
    #: Not before.
    since: Time | None = None
    #: Before.
    until: Time | None = None


@routes.get("/audit", dependencies=[needs(Permission.READ)])
def list_audit_entries(session: DbSession, query: Annotated[AuditQuery, Query()]) -> Part[AuditShown]:
    """What was done in the caller's tenant, newest first."""
    found = api.list_audit_entries(
        actor=query.actor,
        action=query.action,
        target_type=query.target_type,
        target_id=query.target_id,
        since=query.since,
        until=query.until,
        limit=query.size + 1,
        before=query.before,
        session=session,
    )
    return part(found, query, AuditShown.model_validate)
