"""Who did what: the audit log, read."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from messaging.api.calls import in_session, number, number_if_given, text_if_given, time_if_given
from messaging.api.process import environment
from messaging.audit import trail
from messaging.audit.trail import AuditLine


def list_audit_entries(
    *,
    actor: str | None = None,
    action: str | None = None,
    target_type: str | None = None,
    target_id: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 50,
    before: int | None = None,
    after: int | None = None,
    session: Session | None = None,
) -> list[AuditLine]:
    """What operators did in this tenant, newest first, a page at a time.

    `actor` is such as `operator:5`, `target_type` a table's name, `since` inclusive, `until` exclusive. `before` is the
    id of the last entry of the page before; `after` instead asks for those next above an id.

    Raises:
        TypeError: A value of another type.
        ValueError: One that cannot be, or a time without a zone. In both cases nothing was asked, and the transaction
            is still usable.
    """
    checked: dict[str, Any] = {
        "actor": text_if_given("actor", actor),
        "action": text_if_given("action", action),
        "target_type": text_if_given("target_type", target_type),
        "target_id": number_if_given("target_id", target_id),
        "since": time_if_given("since", since),
        "until": time_if_given("until", until),
        "limit": number("limit", limit),
        "before": number_if_given("before", before),
        "after": number_if_given("after", after),
    }
    environment()
    with in_session(session) as s:
        return trail.page(s, **checked)
