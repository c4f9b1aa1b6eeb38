"""First attempt only: choose the server, settle From, Reply-To, receipt and Message-ID, derive the plain text.

Everything that will be sent is written back, so that a retry replays the record. Nothing here does I/O.
"""

import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from messaging.category import MarkerCode
from messaging.config_cache import Config, ConfigCache
from messaging.errors import PreparationError
from messaging.mail.addresses import AddressError, Mailbox, parse_mailbox, parse_reply_to
from messaging.mail.headers import clean_text
from messaging.mail.servers import resolve_server
from messaging.requests import BodyMode

#: Columns that preparation fills; None leaves one as it is.
PREPARED_COLUMNS = (
    "server_config_id",
    "from_address",
    "from_name",
    "envelope_sender",
    "reply_to",
    "read_receipt_requested",
    "body_mode",
    "body_text",
    "message_id",
    "prepared_at",
)

#: The record's columns.
MAX_FROM_NAME_CHARS = 100
MAX_MESSAGE_ID_CHARS = 255
MAX_REPLY_TO_CHARS = 255


def prepare_mail(
    record: Mapping[str, Any], configs: ConfigCache, *, now: datetime, max_body_chars: int
) -> dict[str, Any]:
    """Values for `PREPARED_COLUMNS`.

    Raises: PreparationError.
    """
    config = resolve_server(record, configs)
    sender = _sender(config)
    mode, text = _derived(record, max_body_chars)
    receipt = record["read_receipt_requested"]
    return {
        "server_config_id": config["id"],
        "from_address": sender.address,
        "from_name": _from_name(config, sender),
        "envelope_sender": _envelope_sender(config) or sender.address,
        "reply_to": _reply_to(record, config),
        "read_receipt_requested": config["read_receipt_enabled"] if receipt is None else receipt,
        "body_mode": mode,
        "body_text": text,
        "message_id": _message_id(record["id"], sender.address),
        "prepared_at": now,
    }


def _unusable(config: Config, column: str, exc: Exception) -> PreparationError:
    return PreparationError(MarkerCode.CONFIG_NOT_RESOLVABLE, f"{column} of mail server {config['id']}: {exc}")


def _sender(config: Config) -> Mailbox:
    """The From mailbox: `from_address`, else the username."""
    column = "from_address" if config["from_address"] else "username"
    try:
        return parse_mailbox(config[column] or "")
    except AddressError as exc:
        raise _unusable(config, column, exc) from exc


def _from_name(config: Config, sender: Mailbox) -> str | None:
    name = clean_text(config["from_name"] or sender.display_name)
    if len(name) > MAX_FROM_NAME_CHARS:
        # The configuration's own column is no longer, but the name within `from_address` may be.
        column = "from_name" if config["from_name"] else "from_address"
        raise _unusable(config, column, ValueError(f"has a name of over {MAX_FROM_NAME_CHARS} characters"))
    return name or None


def _envelope_sender(config: Config) -> str | None:
    if not config["envelope_sender"]:
        return None
    try:
        return parse_mailbox(config["envelope_sender"]).address
    except AddressError as exc:
        raise _unusable(config, "envelope_sender", exc) from exc


def _reply_to(record: Mapping[str, Any], config: Config) -> str | None:
    """Request before configuration; None when neither names one (or the request's stands already)."""
    if record["reply_to"]:
        return None
    try:
        reply_to = parse_reply_to(config["reply_to_address"])
    except AddressError as exc:
        raise _unusable(config, "reply_to_address", exc) from exc
    if reply_to is not None and len(reply_to) > MAX_REPLY_TO_CHARS:
        raise _unusable(config, "reply_to_address", ValueError(f"over {MAX_REPLY_TO_CHARS} characters once normalised"))
    return reply_to


def _derived(record: Mapping[str, Any], max_body_chars: int) -> tuple[BodyMode, str | None]:
    """Mode and derived text; text is None where nothing is to be derived."""
    mode = BodyMode(record["body_mode"])
    if mode is not BodyMode.HTML_WITH_DERIVED_PLAIN or record["body_text"] is not None:
        return mode, None
    # Loads lxml, which most workers never need.
    from messaging.mail.derived_text import derive_text

    text = derive_text(record["body_html"])
    if text is None:
        return BodyMode.HTML, None
    if len(text) > max_body_chars:
        raise PreparationError(
            MarkerCode.BODY_TOO_LARGE, f"derived text has {len(text)} characters; allowed: {max_body_chars}"
        )
    return mode, text


def _message_id(record_id: int, from_address: str) -> str:
    """`<record id . random @ domain of From>`: never the machine's name, one for all attempts."""
    local, domain = f"<{record_id}.{secrets.token_hex(12)}@", from_address.rpartition("@")[2]
    while len(local) + len(domain) + 1 > MAX_MESSAGE_ID_CHARS:
        domain = domain.partition(".")[2]  # a parent domain is as much the sender's
    return f"{local}{domain}>"
