"""The fields of a delivery status notification: one group a message, one a recipient (RFC 3464, 2; RFC 6533, 3)."""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

from messaging.receive.charsets import decode, storable
from messaging.receive.parsed import Part

REPORT_TYPES = frozenset({"message/delivery-status", "message/global-delivery-status"})

#: More recipients than this in one report are left out.
MAX_RECIPIENTS = 1000
MAX_REPORT_CHARS = 1_048_576

_NAMES = (
    "original-envelope-id|reporting-mta|dsn-gateway|received-from-mta|arrival-date|original-recipient|final-recipient|"
    "action|status|remote-mta|diagnostic-code|last-attempt-date|final-log-id|will-retry-until|localized-diagnostic|"
    "x-[a-z0-9-]{1,60}"
)
_FIELD = re.compile(rf"({_NAMES})[ \t]*:[ \t]*(.*)", re.IGNORECASE)
_RECIPIENT_FIELDS = ("final-recipient", "original-recipient", "x-actual-recipient", "x-original-recipient")
_TYPE = re.compile(
    r"\s*(?:rfc[ -]?822|utf-8|smtp|x400|x\.400|unknown|local|system|lmtp|dns|x-[\w-]+)\s*;\s*", re.IGNORECASE
)
_ADDRESS = re.compile(r"[^\s<>()\[\]\\,;:\"@=]{1,64}@[^\s<>()\\,;:\"@]{1,255}")
_QUOTED_LOCAL = re.compile(r"(\"[^\"\r\n]{1,62}\"@[^\s<>()\\,;:\"@]{1,255})")
_CODE_POINT = re.compile(r"\\x\{([0-9A-Fa-f]{1,6})\}")
_XTEXT = re.compile(r"\+([0-9A-F]{2})")


class Report(NamedTuple):
    """The groups of fields, names in lower case, values unfolded."""

    message: dict[str, str]
    recipients: list[dict[str, str]]


def report_text(part: Part) -> str:
    """The content of a report's part, with a transfer encoding removed that is still there; its first MiB."""
    content = part.content[:MAX_REPORT_CHARS]
    encoding = (part.headers.first("Content-Transfer-Encoding") or "").strip().lower()
    if encoding == "base64" and b":" not in content[:200]:
        try:
            content = base64.b64decode(content)
        except binascii.Error:
            pass  # none, or a broken one: the fields are looked for in it as it is
    return storable(decode(content, part.parameters.get("charset")))


def read_report(text: str) -> Report:
    """The groups of a delivery-status body, however its lines are folded and blank lines are doubled."""
    message: dict[str, str] = {}
    recipients: list[dict[str, str]] = []
    for group in _groups(text[:MAX_REPORT_CHARS]):
        is_recipient = any(name in group for name in _RECIPIENT_FIELDS)
        if is_recipient or "action" in group:
            if not is_recipient and recipients and "action" not in recipients[-1]:
                recipients[-1] = {**group, **recipients[-1]}  # a blank line within a group
            elif len(recipients) < MAX_RECIPIENTS:
                recipients.append(group)
        elif recipients and _continues(group, recipients[-1]):
            recipients[-1] = {**group, **recipients[-1]}
        elif recipients and "reporting-mta" not in group:
            continue
        else:
            message = {**group, **message}
    return Report(message, recipients)


def holds_report(text: str) -> bool:
    """Whether a text holds the fields of a recipient, wherever they stand."""
    lowered = text.lower()
    return ("final-recipient:" in lowered or "original-recipient:" in lowered) and (
        "action:" in lowered or "status:" in lowered or "diagnostic-code:" in lowered
    )


def address(value: str | None) -> str | None:
    """The address of a Final-Recipient or its like: without type and brackets; None where it holds none.

    `utf-8;` addresses have their code points decoded (RFC 6533, 3), `rfc822;` ones their xtext (RFC 3461, 4.2).
    """
    if not value:
        return None
    bare = _CODE_POINT.sub(lambda found: _character(found[1]), _TYPE.sub("", value, count=1)).strip().strip("<>'\"")
    if "@" not in bare and "+40" in bare:
        bare = _XTEXT.sub(lambda found: chr(int(found[1], 16)), bare)
    if found := _QUOTED_LOCAL.search(value) or _ADDRESS.search(bare):
        return found[0].rstrip(".'>")
    return None


def untyped(value: str) -> str:
    """A field's value without the type before its `;`: `smtp; 550 …` is `550 …`."""
    head, mark, rest = value.partition(";")
    return rest.strip() if mark and len(head) <= 20 and " " not in head.strip() else value.strip()


def _character(digits: str) -> str:
    point = int(digits, 16)
    return chr(point) if point < 0x110000 and not 0xD800 <= point < 0xE000 else "�"


def _groups(text: str) -> Iterator[dict[str, str]]:
    """Fields between blank lines; a recipient's field that comes a second time begins a group too."""
    group: dict[str, str] = {}
    last: str | None = None
    for line in text.splitlines():
        if not line.strip():
            if group:
                yield group
            group, last = {}, None
        elif (found := _FIELD.match(line)) is not None:
            last = found[1].lower()
            if last in group and last in ("final-recipient", "original-recipient", "action"):
                yield group
                group = {}
            group.setdefault(last, found[2].strip())
        elif last is not None and len(group[last]) < 8000:
            # Folded, or broken by a system that forgot to.
            group[last] = f"{group[last]} {line.strip()}".strip()
    if group:
        yield group


def _continues(group: dict[str, str], before: dict[str, str]) -> bool:
    """Whether a group without a recipient holds what the one before it lacks: each field stood between blank lines."""
    named = {"status", "diagnostic-code", "remote-mta", "last-attempt-date", "will-retry-until"} & group.keys()
    return bool(named) and not named & before.keys()
