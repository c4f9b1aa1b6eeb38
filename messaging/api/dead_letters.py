"""Dead letters: sends that used up their attempts, and messages that no worker could process. For the platform."""

from typing import Any

from sqlalchemy.orm import Session

from messaging.api.calls import (
    in_session,
    known_id,
    member_if_given,
    number,
    number_if_given,
    text_if_given,
    whole_if_given,
)
from messaging.api.process import environment
from messaging.delivery import triage
from messaging.delivery.dead_letter_kinds import DeadLetterSource, DeadLetterStatus
from messaging.delivery.triage import DeadLetter, DeadLetterLine

_WHAT = "dead letter"


def list_dead_letters(
    *,
    status: DeadLetterStatus | None = None,
    source: DeadLetterSource | None = None,
    channel: str | None = None,
    event_type: str | None = None,
    record_id: int | None = None,
    source_tenant_id: int | None = None,
    limit: int = 50,
    before: int | None = None,
    after: int | None = None,
    session: Session | None = None,
) -> list[DeadLetterLine]:
    """Dead letters of all tenants, newest first, a page at a time; `before` is the id of the last one before.

    `after` instead: those next above an id.

    Raises:
        TenantMismatch: A tenant asks, and neither the platform nor the system.
        TypeError: A value of another type.
        ValueError: One that cannot be. In both cases nothing was asked, and the transaction is still usable.
    """
    checked: dict[str, Any] = {
        "status": member_if_given("status", status, DeadLetterStatus),
        "source": member_if_given("source", source, DeadLetterSource),
        "channel": text_if_given("channel", channel),
        "event_type": text_if_given("event_type", event_type),
        "record_id": number_if_given("record_id", record_id),
        "source_tenant_id": whole_if_given("source_tenant_id", source_tenant_id),
        "limit": number("limit", limit),
        "before": number_if_given("before", before),
        "after": number_if_given("after", after),
    }
    environment()
    with in_session(session) as s:
        return triage.page(s, **checked)


def get_dead_letter(dead_letter_id: int, *, session: Session | None = None) -> DeadLetter:
    """One dead letter with what it holds.

    Raises:
        RecordNotFound: There is none of this id.
        TenantMismatch: A tenant asks.
    """
    dead_letter_id = known_id(dead_letter_id, what=_WHAT)
    environment()
    with in_session(session) as s:
        return triage.get(s, dead_letter_id)


def resolve_dead_letter(dead_letter_id: int, *, remark: str | None = None, session: Session | None = None) -> None:
    """Say that a dead letter was seen to, for good. Its record stays as it is: `retry` is an action of its own.

    `remark`: at most 3,000 characters.

    Raises:
        RecordNotFound: There is none of this id.
        StateError: It was resolved or discarded before.
        TenantMismatch: A tenant asks.
        EntryRejected: The remark cannot be stored; nothing was written.
    """
    _settle(dead_letter_id, DeadLetterStatus.RESOLVED, remark, session)


def discard_dead_letter(dead_letter_id: int, *, remark: str | None = None, session: Session | None = None) -> None:
    """Say that nothing is to come of a dead letter, for good. Raises: as `resolve_dead_letter`."""
    _settle(dead_letter_id, DeadLetterStatus.DISCARDED, remark, session)


def _settle(dead_letter_id: int, status: DeadLetterStatus, remark: str | None, session: Session | None) -> None:
    dead_letter_id = known_id(dead_letter_id, what=_WHAT)
    environment()
    with in_session(session) as s:
        triage.settle(s, dead_letter_id, status, remark)
