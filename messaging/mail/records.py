"""Reading mails for people: one with its whole story, or as lines of a list. Changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, exists, func, or_, select
from sqlalchemy.orm import Session

from messaging.db.newest import Condition
from messaging.delivery.lines import LineSource
from messaging.delivery.recipients import RecipientStatus
from messaging.delivery.status import OPEN_STATUSES, SendStatus
from messaging.delivery.stories import AttemptStory, attempts_of, dead_letter_of, explain
from messaging.errors import RecordNotFound
from messaging.mail.addresses import parse_mailbox
from messaging.mail.channel import NAME, envelope_recipients
from messaging.mail.models import MAIL_SEND_RECORD, MailSendRecord, MailSendServerConfig
from messaging.requests import MessageScope

#: What `result` says of a recipient nothing is known of yet.
OPEN = "open"

#: Fields that hold what a mail says.
BODIES = ("body_text", "body_html", "template_variables")


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
    #: What the request over HTTP was called.
    request_id: str | None
    server_config_id: int | None
    template_id: int | None
    template_code: str | None
    reply_to: str | None
    headers: dict[str, str] | None
    #: When bodies and variables were taken off it, and the hash of what went, in hex.
    redacted_at: datetime | None
    content_sha256: str | None
    body_mode: str | None
    #: What the template is filled with; None unless bodies were asked for, as are the two after it.
    template_variables: dict[str, Any] | None
    body_text: str | None
    body_html: str | None
    #: `file_id`, `file_name`, `content_type` and `content_id` of each attachment.
    files: list[dict[str, Any]]
    channel: str = NAME


def read_story(session: Session, record_id: int, *, with_bodies: bool = False) -> Story:
    """The whole story of one record of the current tenant.

    Raises: RecordNotFound.
    """
    columns = [c for c in MailSendRecord.__table__.c if with_bodies or c.name not in BODIES]
    statement = select(*(getattr(MailSendRecord, c.name) for c in columns)).where(MailSendRecord.id == record_id)
    found = session.execute(statement).one_or_none()
    if found is None:
        raise RecordNotFound(f"no mail record {record_id}")
    row = dict(found._mapping)
    attempts = attempts_of(session, record_id)
    recipients = _recipients(row)
    fields: dict[str, Any] = {name: row.get(name) for name in Story.__dataclass_fields__}
    status = SendStatus(row["status"])
    return Story(
        **fields
        | {
            "status": status,
            "channel": NAME,
            "why": explain(
                status,
                row,
                attempts,
                taken_by="the server",
                not_for=[r.address for r in recipients if r.result != RecipientStatus.ACCEPTED],
            ),
            "scope": MessageScope(row["scope"]),
            "to": row["to_addresses"],
            "cc": row["cc_addresses"],
            "bcc": row["bcc_addresses"],
            "next_attempt_at": row["next_attempt_at"] if status in OPEN_STATUSES else None,
            "server": _server(session, row["server_config_id"]),
            "template": _template(row["template_id"], row["template_code"]),
            "attachments": [_attachment(reference) for reference in row["attachments"] or ()],
            "files": row["attachments"] or [],
            "recipients": recipients,
            "attempts": attempts,
            "dead_letter": dead_letter_of(session, record_id),
        }
    )


def _told(row: Row[Any]) -> tuple[str | None, str | None, list[str]]:
    return row.subject, _template(row.template_id, row.template_code), row.to_addresses


def recipient(text: str) -> str:
    """An address as somebody wrote it, as lists look for it. Raises: ValueError."""
    return parse_mailbox(text).address


def _is_to(address: str) -> Condition:
    """Whether a mailbox of To, Cc or Bcc, with a name or without, is of this address, in any case."""
    bare, named = address.lower(), f" <{address.lower()}>"

    def condition(c: Any) -> ColumnElement[bool]:
        mailboxes = func.jsonb_array_elements_text(
            c.to_addresses.op("||")(c.cc_addresses).op("||")(c.bcc_addresses)
        ).table_valued("value")
        mailbox = func.lower(mailboxes.c.value)
        return exists().where(or_(mailbox == bare, func.right(mailbox, len(named)) == named)).select_from(mailboxes)

    return condition


LINES = LineSource(
    channel=NAME,
    table=MAIL_SEND_RECORD,
    columns=("subject", "template_id", "template_code", "to_addresses"),
    told=_told,
    config_column="server_config_id",
    # No index holds them: each of a mail's rows, five before it is sent, would be entered there anew.
    recipient_columns=("to_addresses", "cc_addresses", "bcc_addresses"),
    recipient=_is_to,
    keys=lambda text, _: [MAIL_SEND_RECORD.c.message_id.in_((text, f"<{text}>"))],
)


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
