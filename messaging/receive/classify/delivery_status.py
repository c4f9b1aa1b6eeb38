"""The fields of a report to what they say of each recipient, refined by the report's own text (`receive.md` 12.1)."""

from messaging.receive.classification import BounceRecipient
from messaging.receive.classify import codes, free_text, kinds, reasons
from messaging.receive.classify.originals import own_text
from messaging.receive.classify.report_fields import Report, address, untyped
from messaging.receive.parsed import ParsedMail

MAX_DIAGNOSTIC_CHARS = 2000
#: Recipients of one report for whom its text is searched, too.
MAX_REFINED = 50

#: What some write in the place of RFC 3464's words.
_ACTIONS = {
    "failure": "failed",
    "fail": "failed",
    "error": "failed",
    "undeliverable": "failed",
    "bounced": "failed",
    "expired": "failed",
    "delay": "delayed",
    "deferred": "delayed",
    "deliver": "delivered",
    "relay": "relayed",
    "expand": "expanded",
}


def recipients(message: ParsedMail, report: Report) -> tuple[BounceRecipient, ...]:
    """One for each group that names a recipient or an action."""
    text = own_text(message.rule_text)
    is_only = len(report.recipients) == 1
    found = []
    for number, group in enumerate(report.recipients):
        one = _recipient(message, group, text if number < MAX_REFINED else "", is_only=is_only)
        if one is not None:
            found.append(one)
    return tuple(found)


def _recipient(message: ParsedMail, group: dict[str, str], text: str, *, is_only: bool) -> BounceRecipient | None:
    final = address(group.get("final-recipient"))
    original = address(group.get("original-recipient")) or address(group.get("x-original-recipient"))
    actual = address(group.get("x-actual-recipient"))
    named = final or original or actual
    if original and final and "." not in final.rpartition("@")[2]:
        named = original  # the name of a machine within their house
    action = _action(group.get("action"))
    if named is None and action is None and "status" not in group:
        return None
    if named is None and is_only:
        named = next((one.recipient for one in free_text.read_text(message)), None)
    diagnostic = group.get("diagnostic-code") or ""
    said = untyped(diagnostic)
    around = free_text.refine(text, named, is_only=is_only)
    status = codes.enhanced_code(group.get("status", ""))
    class_ = _class(action, status)
    reply = codes.reply_code(said) or codes.reply_code(group.get("status", "")) or codes.reply_code(around)
    status = codes.finer(status, (codes.enhanced_code(said, class_),))
    if status is None or codes.is_generic(status):
        status = codes.finer(status, (codes.enhanced_code(around, class_),))
    if action is None and text and free_text.is_delayed(message, text):
        action = "delayed"
    kind = kinds.kind(action, status, reply)
    quoted = (said, group.get("status", ""), codes.quoted_reply(around))
    reason = reasons.reason(quoted, status, reply, (around,))
    return BounceRecipient(
        kind=kind,
        reason=reason,
        recipient=named,
        original_recipient=original,
        action=action or kinds.ACTION_OF[kind],
        status=status,
        reply_code=reply,
        diagnostic=diagnostic[:MAX_DIAGNOSTIC_CHARS] or None,
        remote_mta=untyped(group.get("remote-mta", "")) or None,
        last_attempt=group.get("last-attempt-date") or None,
        will_retry_until=group.get("will-retry-until") or None,
        is_doubtful=reasons.is_doubtful(reason, status, reply, f"{said} {around}"),
    )


def _action(value: str | None) -> str | None:
    words = (value or "").lower().replace("(", " ").replace(";", " ").split()
    word = words[0].strip(".,:'\"") if words else ""
    word = _ACTIONS.get(word, word)
    return word if word in kinds.ACTIONS else None


def _class(action: str | None, status: str | None) -> str | None:
    """The class that finer codes must have."""
    return status[0] if status else {"failed": None, "delayed": "4"}.get(action or "")
