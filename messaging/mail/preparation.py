"""First attempt only: settle everything that will be sent, in the order of `send.md` section 9.2.

Template, attachments, reply-to, priority, server, From, envelope sender, Message-ID: all of it is written back, so that
a retry replays the record. Nothing here does I/O; what is read comes from caches that were filled for the chunk.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from messaging.category import MarkerCode
from messaging.config_cache import Config, ConfigCache
from messaging.errors import PreparationError
from messaging.mail import unsubscribe, verp
from messaging.mail.addresses import AddressError, Mailbox, from_canonical, parse_mailbox, parse_reply_to
from messaging.mail.attachments import AttachmentError, checked_references
from messaging.mail.headers import clean_text
from messaging.mail.servers import resolve_server
from messaging.mail.templates import Templates, find_template, render_template, template_name, with_derived_text
from messaging.requests import BodyMode, Priority
from messaging.templates.filling import check_storable
from messaging.templates.render import Renderer

#: Columns that preparation may fill; one that it does not name, or names None, stays as it is.
PREPARED_COLUMNS = (
    "server_config_id",
    "from_address",
    "from_name",
    "envelope_sender",
    "subject",
    "body_mode",
    "body_html",
    "body_text",
    "attachments",
    "reply_to",
    "priority",
    "read_receipt_requested",
    "headers",
    "missing_variables",
    "message_id",
    "redact",
    "prepared_at",
)

#: The record's columns.
MAX_FROM_NAME_CHARS = 100
MAX_MESSAGE_ID_CHARS = 255
MAX_REPLY_TO_CHARS = 255


@dataclass(frozen=True, slots=True)
class Sources:
    """What a worker process prepares from."""

    configs: ConfigCache
    templates: Templates
    renderer: Renderer
    max_body_chars: int
    #: Where unsubscribe links lead; None: nowhere.
    public_base_url: str | None


def has_template(record: Mapping[str, Any]) -> bool:
    """Whether the record names a template."""
    return record["template_id"] is not None or record["template_code"] is not None


def prepare_mail(record: Mapping[str, Any], sources: Sources, *, now: datetime) -> dict[str, Any]:
    """Values for those of `PREPARED_COLUMNS` that are to be filled.

    Raises: PreparationError.
    """
    template = find_template(record, sources.templates) if has_template(record) else None
    if template is None:
        prepared = _direct(record, sources)
    else:
        prepared = _from_template(template, record, sources)
    preferred_id = None if template is None else template["preferred_server_config_id"]
    config = resolve_server(record, sources.configs, preferred_id=preferred_id)
    sender = _sender(config)
    receipt = record["read_receipt_requested"]
    if "reply_to" not in prepared and not record["reply_to"]:
        prepared["reply_to"] = _reply_to(config, "reply_to_address", f"mail server {config['id']}")
    prepared |= {
        "server_config_id": config["id"],
        "from_address": sender.address,
        "from_name": _from_name(config, sender),
        "envelope_sender": _envelope_sender(config, record["id"], sender),
        "read_receipt_requested": config["read_receipt_enabled"] if receipt is None else receipt,
        "message_id": _message_id(record["id"], sender.address),
        "prepared_at": now,
    }
    if record["unsubscribe_list"] is not None:
        prepared["headers"] = _with_unsubscribe(record, sources.public_base_url)
    return prepared


def _direct(record: Mapping[str, Any], sources: Sources) -> dict[str, Any]:
    """Bodies of the request: only a plain text that is to be derived is missing."""
    given = record["body_text"]
    mode, text = with_derived_text(
        BodyMode(record["body_mode"]), record["body_html"], given, max_body_chars=sources.max_body_chars
    )
    return {"body_mode": mode, "body_text": text if given is None else None}


def _from_template(template: Mapping[str, Any], record: Mapping[str, Any], sources: Sources) -> dict[str, Any]:
    """What the template gives of what the request leaves out."""
    rendered = render_template(template, record, sources.renderer, max_body_chars=sources.max_body_chars)
    for column in ("subject", "body_html", "body_text"):
        check_storable(template_name(template), column, getattr(rendered, column))
    prepared: dict[str, Any] = {"missing_variables": list(rendered.missing) or None}
    for column in ("subject", "body_mode", "body_html", "body_text"):
        text = getattr(rendered, column)
        prepared[column] = None if text == record[column] else text
    if template["redact"]:
        prepared["redact"] = True
    if not record["attachments"] and template["attachments"]:
        prepared["attachments"] = _attachments(template)
    if not record["reply_to"]:
        reply_to = _reply_to(template, "reply_to", f"mail template {template['id']}")
        if reply_to is not None:
            prepared["reply_to"] = reply_to
    if record["priority"] is None and template["default_priority"] in Priority.__members__:
        prepared["priority"] = template["default_priority"]
    return prepared


def _attachments(template: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        return checked_references(template["attachments"])
    except AttachmentError as exc:
        raise PreparationError(
            MarkerCode.ATTACHMENT_NOT_FOUND, f"attachments of mail template {template['id']}: {exc}"
        ) from exc


def _unusable(config: Config, column: str, exc: Exception) -> PreparationError:
    return PreparationError(MarkerCode.CONFIG_NOT_RESOLVABLE, f"{column} of mail server {config['id']}: {exc}")


#: Kept, as few configurations serve many records.
_configured_mailbox = lru_cache(maxsize=256)(parse_mailbox)


def _sender(config: Config) -> Mailbox:
    """The From mailbox: `from_address`, else the username."""
    column = "from_address" if config["from_address"] else "username"
    try:
        return _configured_mailbox(config[column] or "")
    except AddressError as exc:
        raise _unusable(config, column, exc) from exc


def _from_name(config: Config, sender: Mailbox) -> str | None:
    name = clean_text(config["from_name"] or sender.display_name)
    if len(name) > MAX_FROM_NAME_CHARS:
        # The configuration's own column is no longer, but the name within `from_address` may be.
        column = "from_name" if config["from_name"] else "from_address"
        raise _unusable(config, column, ValueError(f"has a name of over {MAX_FROM_NAME_CHARS} characters"))
    return name or None


def _envelope_sender(config: Config, record_id: int, sender: Mailbox) -> str:
    """The configured one, else the From address; marked for this record where the configuration wants that."""
    address = sender.address
    if config["envelope_sender"]:
        try:
            address = _configured_mailbox(config["envelope_sender"]).address
        except AddressError as exc:
            raise _unusable(config, "envelope_sender", exc) from exc
    if not config["verp"]:
        return address
    try:
        return verp.address(address, record_id)
    except verp.VerpError as exc:
        raise _unusable(config, "verp", exc) from exc


def _reply_to(row: Mapping[str, Any], column: str, whose: str) -> str | None:
    """A template's or a server's list of mailboxes, normalised; None when it names none."""
    try:
        reply_to = parse_reply_to(row[column])
        if reply_to is not None and len(reply_to) > MAX_REPLY_TO_CHARS:
            raise AddressError(f"is over {MAX_REPLY_TO_CHARS} characters once normalised")
    except AddressError as exc:
        raise PreparationError(MarkerCode.CONFIG_NOT_RESOLVABLE, f"{column} of {whose}: {exc}") from exc
    return reply_to


def _with_unsubscribe(record: Mapping[str, Any], base_url: str | None) -> dict[str, str]:
    """The record's further headers and those of RFC 8058."""
    if base_url is None:
        raise PreparationError(
            MarkerCode.CONFIG_NOT_RESOLVABLE, "unsubscribe_list: PUBLIC_BASE_URL is not set, so a link leads nowhere"
        )
    mailboxes: list[str] = [*record["to_addresses"], *record["cc_addresses"], *record["bcc_addresses"]]
    [mailbox] = mailboxes
    link = unsubscribe.url(
        base_url,
        record_id=record["id"],
        tenant_id=record["tenant_id"],
        list_name=record["unsubscribe_list"],
        address=from_canonical(mailbox).address,
    )
    return {**(record["headers"] or {}), **unsubscribe.header_fields(link)}


def _message_id(record_id: int, from_address: str) -> str:
    """`<record id . random @ domain of From>`: never the machine's name, one for all attempts."""
    local, domain = f"<{record_id}.{secrets.token_hex(12)}@", from_address.rpartition("@")[2]
    while len(local) + len(domain) + 1 > MAX_MESSAGE_ID_CHARS:
        domain = domain.partition(".")[2]  # a parent domain is as much the sender's
    return f"{local}{domain}>"
