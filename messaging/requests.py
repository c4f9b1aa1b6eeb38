"""What a caller hands in: frozen request objects and the enums they use. Checked by acceptance, not here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class BodyMode(StrEnum):
    """Which bodies a mail has, and whether a person reviewed its plain text."""

    #: One authored `text/html` part.
    HTML = "HTML"
    #: One authored `text/plain` part.
    PLAIN = "PLAIN"
    #: `multipart/alternative`; the plain text was derived from the html by machine.
    HTML_WITH_DERIVED_PLAIN = "HTML_WITH_DERIVED_PLAIN"
    #: `multipart/alternative`; both bodies were authored.
    HTML_WITH_AUTHORED_PLAIN = "HTML_WITH_AUTHORED_PLAIN"


class SuppressionReason(StrEnum):
    """Why an address or number is on the suppression list."""

    #: A mail came back: the address is of no use.
    HARD_BOUNCE = "HARD_BOUNCE"
    #: The recipient told its provider that a mail was not wanted.
    COMPLAINT = "COMPLAINT"
    #: The recipient answered STOP, or the provider says that it did.
    OPT_OUT = "OPT_OUT"
    #: The recipient left a mailing list.
    UNSUBSCRIBED = "UNSUBSCRIBED"
    #: An operator put it there.
    MANUAL = "MANUAL"


class NotificationType(StrEnum):
    """Where a notification comes from."""

    #: The application itself.
    SYSTEM = "SYSTEM"
    #: A step of a process that waits for somebody.
    WORKFLOW = "WORKFLOW"
    #: A person.
    MANUAL = "MANUAL"


class Priority(StrEnum):
    """The priority headers of a mail, and the order of dispatch within its tenant."""

    HIGH = "HIGH"
    NORMAL = "NORMAL"
    LOW = "LOW"


class MessageScope(StrEnum):
    """Whose servers (and templates and quota) a message uses."""

    #: The current tenant's, with the platform's default server as fallback.
    TENANT = "TENANT"
    #: The platform's.
    PLATFORM = "PLATFORM"


@dataclass(frozen=True, kw_only=True)
class FileRef:
    """A stored file that goes with a mail."""

    file_id: int
    #: What the recipient sees; need not be the stored file's own name.
    file_name: str
    #: None: `application/octet-stream`.
    content_type: str | None = None
    #: Makes it an inline image: the html names it as `cid:` and this, without angle brackets.
    content_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """A file given with the request: stored in the same transaction, equal content within one call once."""

    content: bytes = field(repr=False)
    file_name: str
    content_type: str | None = None
    content_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class SendMail:
    """One mail: all recipients share one MIME message and one send record.

    Limits and grammar: see `messaging.api.send_mail`. Never mutated.
    """

    #: At least one recipient; one RFC 5322 mailbox per entry, as are `cc` and `bcc`.
    to: Sequence[str]
    cc: Sequence[str] = ()
    #: Envelope only, never a header.
    bcc: Sequence[str] = ()
    #: At most 500 characters after control characters became spaces.
    subject: str | None = None
    text_body: str | None = None
    html_body: str | None = None
    #: Declared intent for the bodies; None takes what is given.
    body_mode: BodyMode | None = None
    #: At most 100; a list that is not empty replaces the template's completely.
    attachments: Sequence[FileRef | Attachment] = ()
    #: The tenant's (with scope PLATFORM the platform's) active template of this code gives what the request leaves out.
    template_code: str | None = None
    #: That very template, active or not; beats `template_code`.
    template_id: int | None = None
    #: What the template is filled with; anything JSON can hold, the order of keys is kept.
    template_variables: Mapping[str, Any] = field(default_factory=dict)
    #: One string of 1..n mailboxes; blank is not given.
    reply_to: str | None = None
    #: Pins a server of the tenant (or of the platform, with scope PLATFORM).
    server_config_id: int | None = None
    #: None: the server's configuration decides.
    read_receipt_requested: bool | None = None
    priority: Priority | None = None
    scope: MessageScope = MessageScope.TENANT
    #: At most 255 characters; the same tenant and key again answers the first record's id.
    idempotency_key: str | None = None
    #: Not before; timezone-aware.
    send_at: datetime | None = None
    #: Not after; timezone-aware, later than now and than `send_at`.
    expires_at: datetime | None = None
    #: Further headers from the allowed names.
    headers: Mapping[str, str] = field(default_factory=dict)
    #: The list this mail belongs to: adds the headers of RFC 8058. Needs exactly one recipient.
    unsubscribe_list: str | None = None
    #: Adds `Auto-Submitted: auto-generated` (RFC 3834), so that no vacation responder answers.
    auto_submitted: bool = True


@dataclass(frozen=True, kw_only=True)
class SendSms:
    """One text message to one number; one send record.

    Limits and grammar: see `messaging.api.send_sms`. Never mutated.
    """

    #: E.164 with the plus, no separators: `+4915112345678`.
    phone_number: str
    #: At most 2,000 characters; beats the template's text, which then still chooses provider and sender.
    content: str | None = None
    #: The tenant's (with scope PLATFORM the platform's) active template of this code.
    template_code: str | None = None
    #: What the template is filled with; anything JSON can hold, the order of keys is kept.
    template_variables: Mapping[str, Any] = field(default_factory=dict)
    #: Pins a provider and skips the routing by country.
    provider_config_id: int | None = None
    #: Used where the template's binding has none.
    sign_name: str | None = None
    #: The provider's own template; used where the template's binding has none.
    external_template_id: str | None = None
    #: Whose templates and quota are used.
    scope: MessageScope = MessageScope.TENANT
    #: The order of dispatch within the tenant; nothing on the wire.
    priority: Priority | None = None
    #: At most 255 characters; the same tenant and key again answers the first record's id.
    idempotency_key: str | None = None
    #: Not before; timezone-aware.
    send_at: datetime | None = None
    #: Not after; timezone-aware, later than now and than `send_at`.
    expires_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class SendInbox:
    """One notification for one person.

    Limits: see `messaging.api.send_inbox`. Never mutated.
    """

    #: The application's id of the person.
    recipient_id: int
    #: At most 200 characters, not blank.
    title: str
    #: Not blank.
    content: str
    notification_type: NotificationType = NotificationType.SYSTEM
    #: What of the application it is about, at most 50 characters, and which.
    source_model: str | None = None
    source_id: int | None = None
    #: From then on neither listed nor counted for that person; timezone-aware, may be past.
    expires_at: datetime | None = None
    #: At most 255 characters; the same tenant, person and key again answers the first one's id.
    idempotency_key: str | None = None
