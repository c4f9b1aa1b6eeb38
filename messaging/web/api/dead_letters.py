"""`/dead-letters`: sends that used up their attempts, messages that no worker could process. For the platform only."""

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field

from messaging import api
from messaging.access.roles import Permission
from messaging.delivery.dead_letter_kinds import DeadLetterSource, DeadLetterStatus
from messaging.delivery.triage import MAX_REMARK_CHARS
from messaging.web.api.lists import Keyset, Part, part
from messaging.web.api.resource import DbSession, Resource, needs
from messaging.web.api.shapes import Given, Id, Shown, TenantId, Text, Time

routes = Resource("dead letters")

_PLATFORM = [needs(Permission.PLATFORM)]


class DeadLetterListed(Shown):
    """A dead letter as lists show it."""

    id: Id
    #: The record's tenant, or the one a message named.
    source_tenant_id: TenantId | None
    source: DeadLetterSource
    channel: str | None
    original_queue: str
    task_name: str | None
    task_id: str | None
    worker_name: str | None
    event_type: str | None
    #: The record's id.
    event_id: Id | None
    status: DeadLetterStatus
    last_error_msg: str | None
    resolved_remark: str | None
    created_at: Time
    updated_at: Time
    #: Who resolved or discarded it.
    updated_by: str | None


class DeadLetterShown(DeadLetterListed):
    """A dead letter as a whole."""

    #: Of a record channel, provider, code, text, category and count; of a message its body, or as much of it as fits.
    payload: Any


class DeadLetterQuery(Keyset):
    """Which dead letters."""

    status: DeadLetterStatus | None = None
    source: DeadLetterSource | None = None
    channel: Literal["mail", "sms", "webhook"] | None = None
    event_type: Annotated[Text, Field(min_length=1, max_length=100)] | None = None
    #: About this send record.
    record_id: Id | None = None
    source_tenant_id: TenantId | None = None


class Remark(Given):
    """What is said of a dead letter."""

    remark: Annotated[Text, Field(max_length=MAX_REMARK_CHARS)] | None = None


@routes.get("/dead-letters", dependencies=_PLATFORM)
def list_dead_letters(session: DbSession, query: Annotated[DeadLetterQuery, Query()]) -> Part[DeadLetterListed]:
    """Dead letters of all tenants, newest first."""
    found = api.list_dead_letters(
        status=query.status,
        source=query.source,
        channel=query.channel,
        event_type=query.event_type,
        record_id=query.record_id,
        source_tenant_id=query.source_tenant_id,
        limit=query.size + 1,
        before=query.before,
        session=session,
    )
    return part(found, query, DeadLetterListed.model_validate)


@routes.get("/dead-letters/{dead_letter_id}", dependencies=_PLATFORM)
def get_dead_letter(session: DbSession, dead_letter_id: Id) -> DeadLetterShown:
    """One dead letter with what it holds."""
    return DeadLetterShown.model_validate(api.get_dead_letter(dead_letter_id, session=session))


@routes.post("/dead-letters/{dead_letter_id}/resolve", dependencies=_PLATFORM)
def resolve_dead_letter(session: DbSession, dead_letter_id: Id, given: Remark | None = None) -> DeadLetterShown:
    """Say that it was seen to, for good. Its record is not touched: a retry is an action on the record."""
    api.resolve_dead_letter(dead_letter_id, remark=None if given is None else given.remark, session=session)
    return DeadLetterShown.model_validate(api.get_dead_letter(dead_letter_id, session=session))


@routes.post("/dead-letters/{dead_letter_id}/discard", dependencies=_PLATFORM)
def discard_dead_letter(session: DbSession, dead_letter_id: Id, given: Remark | None = None) -> DeadLetterShown:
    """Say that nothing is to come of it, for good."""
    api.discard_dead_letter(dead_letter_id, remark=None if given is None else given.remark, session=session)
    return DeadLetterShown.model_validate(api.get_dead_letter(dead_letter_id, session=session))
