"""A provider's event as the text of a mail: Amazon SES by way of SNS (its page "Notification contents")."""

import json
from typing import Any

from messaging.receive.classification import BounceRecipient
from messaging.receive.classify import codes, kinds, reasons
from messaging.receive.message_ids import spelled
from messaging.receive.parsed import ParsedMail

MAX_RECIPIENTS = 100
MAX_DIAGNOSTIC_CHARS = 2000


def read_event(message: ParsedMail) -> tuple[tuple[BounceRecipient, ...], tuple[str, ...]] | None:
    """Recipients and Message-IDs of a bounce's notification; None for every other mail."""
    if "bouncedRecipients" not in message.rule_text:
        return None
    event = _event(message.rule_text)
    bounced = event.get("bounce")
    if not isinstance(bounced, dict) or not isinstance(bounced.get("bouncedRecipients"), list):
        return None
    found = [one for one in bounced["bouncedRecipients"][:MAX_RECIPIENTS] if isinstance(one, dict)]
    recipients = tuple(_recipient(one, bounced) for one in found)
    return recipients, _references(event.get("mail"))


def _event(text: str) -> dict[str, Any]:
    """The object in a text, out of the envelope of SNS where it has one."""
    found: Any = _object(text)
    if isinstance(found, dict) and isinstance(found.get("Message"), str):
        found = _object(found["Message"])
    return found if isinstance(found, dict) else {}


def _object(text: str) -> Any:
    text = text.replace("\r", "").replace("\n", "")  # wrapped on its way, also within its strings
    start = text.find("{")
    try:
        # What stands behind it is a note of how to unsubscribe.
        return json.JSONDecoder().raw_decode(text[start:])[0] if start >= 0 else None
    except (ValueError, RecursionError):
        return None  # cut or broken: no event


def _recipient(one: dict[str, Any], bounced: dict[str, Any]) -> BounceRecipient:
    diagnostic = _text(one.get("diagnosticCode")) or ""
    action = _text(one.get("action")) or "failed"
    status = codes.finer(codes.enhanced_code(_text(one.get("status")) or ""), (codes.enhanced_code(diagnostic),))
    reply = codes.reply_code(diagnostic.partition(";")[2] or diagnostic)
    is_transient = bounced.get("bounceType") == "Transient"
    told = kinds.kind(action, status or ("4.0.0" if is_transient else None), reply)
    said = f"{bounced.get('bounceType')} {bounced.get('bounceSubType')}"
    return BounceRecipient(
        kind=told,
        reason=reasons.reason((diagnostic, said), status, reply),
        recipient=_text(one.get("emailAddress")),
        action=action if action in kinds.ACTIONS else "failed",
        status=status,
        reply_code=reply,
        diagnostic=diagnostic[:MAX_DIAGNOSTIC_CHARS] or None,
    )


def _references(mail: Any) -> tuple[str, ...]:
    """The message's own Message-ID; what the provider names it by is none."""
    if not isinstance(mail, dict):
        return ()
    common, fields = mail.get("commonHeaders"), mail.get("headers")
    own = common.get("messageId") if isinstance(common, dict) else None
    named = [
        one.get("value")
        for one in (fields if isinstance(fields, list) else [])
        if isinstance(one, dict) and str(one.get("name")).lower() == "message-id"
    ]
    found = [spelled(_text(one)) for one in (*named, own)]
    return tuple(dict.fromkeys(one for one in found if one))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
