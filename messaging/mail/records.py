"""Reading mail records for people: one with its whole story, or a page of them, newest first. Changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from messaging.db.filters import owning_tenant
from messaging.delivery.dead_letter import DeadLetterMessage, DeadLetterSource
from messaging.delivery.recipients import RecipientStatus
from messaging.delivery.record import AttemptOutcome, SendAttempt
from messaging.delivery.status import OPEN_STATUSES, SendStatus
from messaging.errors import RecordNotFound
from messaging.mail.channel import envelope_recipients
from messaging.mail.models import MailSendRecord, MailSendServerConfig
from messaging.requests import MessageScope
from messaging.tenancy import SINGLE_TENANT_ID, is_multi_tenancy

#: What `result` says of a recipient nothing is known of yet.
OPEN = "open"


@dataclass(frozen=True, slots=True)
class RecipientStory:
    """One envelope recipient and what its server said."""

    address: str
    #: A `RecipientStatus`, or `OPEN`.
    result: str
    code: str | None
    text: str | None
    at: str | None


@dataclass(frozen=True, slots=True)
class AttemptStory:
    """One row of the attempt log."""

    attempt_no: int
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    category: str | None
    error_code: str | None
    error_message: str | None
    worker_name: str | None


@dataclass(frozen=True, slots=True)
class Story:
    """Everything that is known of one record. Bodies are None unless they were asked for."""

    id: int
    tenant_id: int
    status: SendStatus
    #: One sentence: why the record stands where it stands.
    why: str
    error_code: str | None
    error_message: str | None
    subject: str | None
    to: list[str]
    cc: list[str]
    bcc: list[str]
    scope: MessageScope
    priority: str | None
    idempotency_key: str | None
    created_at: datetime
    send_at: datetime | None
    expires_at: datetime | None
    prepared_at: datetime | None
    sent_at: datetime | None
    #: None once the record is final.
    next_attempt_at: datetime | None
    retry_count: int
    #: An attempt may have reached somebody without it being recorded.
    uncertain: bool
    message_id: str | None
    from_address: str | None
    #: `name (host:port)` of the server it was prepared for or pinned to.
    server: str | None
    #: The template it asks for: a code, or `id 5`.
    template: str | None
    #: Names that the template asked for and did not get; None before preparation, and when it got all.
    missing_variables: list[str] | None
    #: `report.pdf (application/pdf, file 5)`, the template's too once it is prepared.
    attachments: list[str]
    unsubscribe_list: str | None
    recipients: list[RecipientStory]
    attempts: list[AttemptStory]
    #: State of its dead letter; None without one.
    dead_letter: str | None
    bounced: bool
    bounce_code: str | None
    read_receipt_received_at: datetime | None
    trace_id: str | None
    body_mode: str | None
    body_text: str | None
    body_html: str | None


@dataclass(frozen=True, slots=True)
class Line:
    """One record in a list."""

    id: int
    tenant_id: int
    created_at: datetime
    status: SendStatus
    retry_count: int
    error_code: str | None
    #: None where the template's is not rendered yet.
    subject: str | None
    #: As `Story.template`.
    template: str | None
    to: list[str]
    next_attempt_at: datetime | None


def read_story(session: Session, record_id: int, *, with_bodies: bool = False) -> Story:
    """The whole story of one record of the current tenant.

    Raises: RecordNotFound.
    """
    columns = [c for c in MailSendRecord.__table__.c if with_bodies or c.name not in ("body_text", "body_html")]
    statement = select(*(getattr(MailSendRecord, c.name) for c in columns)).where(MailSendRecord.id == record_id)
    found = session.execute(statement).one_or_none()
    if found is None:
        raise RecordNotFound(f"no mail record {record_id}")
    row = dict(found._mapping)
    attempts = _attempts(session, record_id)
    recipients = _recipients(row)
    fields: dict[str, Any] = {name: row.get(name) for name in Story.__dataclass_fields__}
    status = SendStatus(row["status"])
    return Story(
        **fields
        | {
            "status": status,
            "why": explain(status, row, recipients, attempts),
            "scope": MessageScope(row["scope"]),
            "to": row["to_addresses"],
            "cc": row["cc_addresses"],
            "bcc": row["bcc_addresses"],
            "next_attempt_at": row["next_attempt_at"] if status in OPEN_STATUSES else None,
            "server": _server(session, row["server_config_id"]),
            "template": _template(row["template_id"], row["template_code"]),
            "attachments": [_attachment(reference) for reference in row["attachments"] or ()],
            "recipients": recipients,
            "attempts": attempts,
            "dead_letter": _dead_letter(session, record_id),
        }
    )


def page(
    session: Session, *, status: SendStatus | None = None, limit: int = 20, before: int | None = None
) -> list[Line]:
    """Records of the current tenant, newest first; `before` is the id of the last one of the page before.

    Across tenants they are in order of their ids, the one order an index gives there.

    Raises: RecordNotFound, when `before` is none of them.
    """
    r = MailSendRecord
    owner = _one_owner()
    statement = select(
        r.id,
        r.tenant_id,
        r.created_at,
        r.status,
        r.retry_count,
        r.error_code,
        r.subject,
        r.template_id,
        r.template_code,
        r.to_addresses,
        r.next_attempt_at,
    )
    if status is not None:
        statement = statement.where(r.status == status)
    if owner is None:
        statement = statement.order_by(r.id.desc())
        if before is not None:
            statement = statement.where(r.id < before)
    else:
        statement = statement.where(r.tenant_id == owner).order_by(r.created_at.desc(), r.id.desc())
        if before is not None:
            created_at = session.execute(select(r.created_at).where(r.id == before)).scalar_one_or_none()
            if created_at is None:
                raise RecordNotFound(f"no mail record {before}")
            statement = statement.where(tuple_(r.created_at, r.id) < (created_at, before))
    return [
        Line(
            row.id,
            row.tenant_id,
            row.created_at,
            SendStatus(row.status),
            row.retry_count,
            row.error_code,
            row.subject,
            _template(row.template_id, row.template_code),
            row.to_addresses,
            row.next_attempt_at if row.status in OPEN_STATUSES else None,
        )
        for row in session.execute(statement.limit(limit))
    ]


def explain(
    status: SendStatus, row: Mapping[str, Any], recipients: list[RecipientStory], attempts: list[AttemptStory]
) -> str:
    """One sentence: why a record stands where it stands. `row` holds `error_code`, `error_message`, `retry_count`."""
    error = _error(row["error_code"], row["error_message"])
    earlier = _earlier(attempts)
    match status:
        case SendStatus.PENDING:
            return "accepted, and not yet taken by a worker"
        case SendStatus.SENDING:
            return "a worker has it now" + earlier
        case SendStatus.RETRY:
            return f"waits for another attempt: {error}" if error else "waits for another attempt"
        case SendStatus.SENT:
            refused = [r.address for r in recipients if r.result != RecipientStatus.ACCEPTED]
            taken = "taken by the server" + (f", but not for {', '.join(refused)}: {error}" if refused else "")
            return taken + earlier
        case SendStatus.FAILED:
            return (error or "failed") + earlier
        case SendStatus.DEAD_LETTER:
            return f"given up after {len(attempts)} attempts: {error}"


def _error(code: str | None, message: str | None) -> str:
    return ": ".join(part for part in (code, " ".join((message or "").split())) if part)


def _earlier(attempts: list[AttemptStory]) -> str:
    """What came before the attempt that settled it, e.g. ` at attempt 3, after RETRY (SMTP_450_4.2.0), ...`."""
    unsettled = [a for a in attempts if a.outcome in (AttemptOutcome.RETRY, AttemptOutcome.SWEPT)]
    if not unsettled:
        return ""
    told = ", ".join(f"{a.outcome} ({a.error_code})" if a.error_code else f"{a.outcome}" for a in unsettled)
    return f" at attempt {unsettled[-1].attempt_no + 1}, after {told}"


def _one_owner() -> int | None:
    """The one tenant that is read; None across tenants."""
    return owning_tenant() if is_multi_tenancy() else SINGLE_TENANT_ID


def _recipients(row: Mapping[str, Any]) -> list[RecipientStory]:
    results = row["recipient_results"]
    told = []
    for address in envelope_recipients(row):
        result = results.get(address, {})
        told.append(
            RecipientStory(
                address, result.get("result", OPEN), result.get("code"), result.get("text"), result.get("at")
            )
        )
    return told


def _attempts(session: Session, record_id: int) -> list[AttemptStory]:
    names = AttemptStory.__dataclass_fields__
    statement = select(*(getattr(SendAttempt, name) for name in names)).where(SendAttempt.record_id == record_id)
    return [AttemptStory(*row) for row in session.execute(statement.order_by(SendAttempt.attempt_no))]


def _server(session: Session, config_id: int | None) -> str | None:
    if config_id is None:
        return None
    c = MailSendServerConfig.__table__.c  # a tenant's record may go out by the platform's server
    found = session.execute(select(c.name, c.host, c.port).where(c.id == config_id)).one_or_none()
    return f"{found.name} ({found.host}:{found.port})" if found else f"{config_id}, which is gone"


def _template(template_id: int | None, code: str | None) -> str | None:
    """What names the template: an id beats a code."""
    return code if template_id is None else f"id {template_id}"


def _attachment(reference: Mapping[str, Any]) -> str:
    described = (reference.get("content_type"), f"file {reference['file_id']}", _inline(reference.get("content_id")))
    return f"{reference['file_name']} ({', '.join(filter(None, described))})"


def _inline(content_id: str | None) -> str | None:
    return content_id and f"inline as cid:{content_id}"


def _dead_letter(session: Session, record_id: int) -> str | None:
    d = DeadLetterMessage
    statement = select(d.status).where(d.event_id == record_id, d.source == DeadLetterSource.SEND_EXHAUSTED)
    found: str | None = session.execute(statement.order_by(d.id.desc()).limit(1)).scalar_one_or_none()
    return found
