"""Reading text messages for people: one with its whole story, or as lines of a list. Changes nothing."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, select
from sqlalchemy.orm import Session

from messaging.delivery.lines import LineSource
from messaging.delivery.status import OPEN_STATUSES, SendStatus
from messaging.delivery.stories import AttemptStory, attempts_of, dead_letter_of, explain
from messaging.errors import RecordNotFound
from messaging.requests import MessageScope
from messaging.sms.acceptance import CHANNEL
from messaging.sms.models import SMS_PROVIDER_CONFIG, SMS_SEND_RECORD, SmsProviderConfig, SmsSendRecord
from messaging.sms.numbers import parse_number
from messaging.tenancy import PLATFORM_TENANT_ID

#: Characters of a text that a list shows.
_START_CHARS = 80

#: Fields that hold what a text message says.
BODIES = ("content", "template_variables", "template_params")


@dataclass(frozen=True, slots=True)
class SmsStory:
    """Everything that is known of one text message. The text is None unless it was asked for."""

    id: int
    channel: str
    tenant_id: int
    status: SendStatus
    #: One sentence: why the record stands where it stands.
    why: str
    error_code: str | None
    error_message: str | None
    phone_number: str
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
    #: An attempt may have reached the number without it being recorded.
    uncertain: bool
    #: `name (TWILIO)` of the provider it was prepared for or pinned to.
    provider: str | None
    #: What the provider calls it.
    provider_message_id: str | None
    #: What receipts said of it, and when.
    delivery_status: str
    delivery_status_updated_at: datetime | None
    region_code: str | None
    encoding: str | None
    segments: int | None
    #: Code of the template it asks for.
    template: str | None
    #: Names that the template asked for and did not get; None before preparation, and when it got all.
    missing_variables: list[str] | None
    external_template_id: str | None
    sign_name: str | None
    attempts: list[AttemptStory]
    #: State of its dead letter; None without one.
    dead_letter: str | None
    trace_id: str | None
    #: What the request over HTTP was called.
    request_id: str | None
    provider_config_id: int | None
    provider_type: str | None
    #: When text and variables were taken off it, and the hash of what went, in hex.
    redacted_at: datetime | None
    content_sha256: str | None
    #: What the template is filled with; None unless the text was asked for.
    template_variables: dict[str, Any] | None
    content: str | None


def recipient(text: str) -> str:
    """A number as somebody wrote it, as lists look for it. Raises: ValueError."""
    return parse_number(text)


def _keys(text: str, owner: int | None) -> list[ColumnElement[bool]]:
    """What a provider calls a message, of each provider that may have sent it: the index begins with them."""
    c, providers = SMS_SEND_RECORD.c, SMS_PROVIDER_CONFIG.c
    theirs = select(providers.id)
    if owner is not None:
        theirs = theirs.where(providers.tenant_id.in_((owner, PLATFORM_TENANT_ID)))
    return [and_(c.provider_config_id.in_(theirs), c.provider_message_id == text)]


def _also(row: Row[Any]) -> dict[str, Any]:
    """The start of its text, None where it is not rendered yet or redacted; segments; what receipts said."""
    text = None if row.content is None else row.content[:_START_CHARS]
    return {
        "text": text,
        "is_redacted": row.redacted_at is not None,
        "segments": row.segments,
        "delivery": row.delivery_status,
    }


LINES = LineSource(
    channel=CHANNEL,
    table=SMS_SEND_RECORD,
    columns=("phone_number", "template_code", "content", "segments", "delivery_status", "redacted_at"),
    told=lambda row: (None, row.template_code, [row.phone_number]),
    config_column="provider_config_id",
    recipient_columns=("phone_number",),
    recipient=lambda number: lambda c: c.phone_number == number,
    keys=_keys,
    also=_also,
    is_by_recipient=True,
)


def read_story(session: Session, record_id: int, *, with_bodies: bool = False) -> SmsStory:
    """The whole story of one record of the current tenant.

    Raises: RecordNotFound.
    """
    columns = [c.name for c in SmsSendRecord.__table__.c if with_bodies or c.name not in BODIES]
    statement = select(*(getattr(SmsSendRecord, name) for name in columns)).where(SmsSendRecord.id == record_id)
    found = session.execute(statement).one_or_none()
    if found is None:
        raise RecordNotFound(f"no sms record {record_id}")
    row = dict(found._mapping)
    attempts = attempts_of(session, record_id)
    fields: dict[str, Any] = {name: row.get(name) for name in SmsStory.__dataclass_fields__}
    status = SendStatus(row["status"])
    return SmsStory(
        **fields
        | {
            "channel": CHANNEL,
            "status": status,
            "why": explain(status, row, attempts, taken_by="the provider", not_for=()),
            "scope": MessageScope(row["scope"]),
            "next_attempt_at": row["next_attempt_at"] if status in OPEN_STATUSES else None,
            "provider": _provider(session, row["provider_config_id"]),
            "template": row["template_code"],
            "attempts": attempts,
            "dead_letter": dead_letter_of(session, record_id),
        }
    )


def _provider(session: Session, config_id: int | None) -> str | None:
    if config_id is None:
        return None
    c = SmsProviderConfig.__table__.c  # a tenant's record may go out by the platform's provider
    found = session.execute(select(c.name, c.provider_type).where(c.id == config_id)).one_or_none()
    return f"{found.name} ({found.provider_type})" if found else f"{config_id}, which is gone"
