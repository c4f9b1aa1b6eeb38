"""A prepared mail that sandbox mode sends elsewhere: to one address, and it tells whom it is for. Pure.

`To` and `Cc` become header fields of their own, since a reply to all would reach them otherwise; so do the envelope's
recipients, those of `Bcc` among them. The links of `List-Unsubscribe` go: they would unsubscribe whom it is for.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from messaging.mail.addresses import canonical_mailbox
from messaging.mail.headers import MAX_HEADERS, MAX_VALUE_OCTETS
from messaging.mail.mime import PREPARED_NAMES

TO_FIELD, CC_FIELD, RECIPIENTS_FIELD = "X-Sandbox-To", "X-Sandbox-Cc", "X-Sandbox-Recipients"

#: The record's column.
MAX_SUBJECT_CHARS = 500


def redirected(content: Mapping[str, Any], recipients: Sequence[str], to: str) -> dict[str, Any]:
    """The columns of `content` that change; `recipients` are the envelope's, `to` is an address."""
    told = {
        TO_FIELD: content["to_addresses"],
        CC_FIELD: content["cc_addresses"],
        RECIPIENTS_FIELD: recipients,
    }
    headers = {name: _joined(mailboxes) for name, mailboxes in told.items() if mailboxes}
    given = {name: value for name, value in (content["headers"] or {}).items() if name not in PREPARED_NAMES}
    return {
        "to_addresses": [canonical_mailbox(to)],
        "cc_addresses": [],
        "bcc_addresses": [],
        "subject": f"[to {_named(recipients)}] {content['subject'] or ''}".rstrip()[:MAX_SUBJECT_CHARS],
        "headers": dict([*headers.items(), *given.items()][:MAX_HEADERS]),
    }


def _named(recipients: Sequence[str]) -> str:
    first, others = recipients[0], len(recipients) - 1
    return f"{first} and {others} more" if others else first


def _joined(mailboxes: Sequence[str]) -> str:
    """As many as a header field holds, and how many more there are."""
    for count in range(len(mailboxes), 0, -1):
        more = len(mailboxes) - count
        value = ", ".join(mailboxes[:count]) + (f", and {more} more" if more else "")
        if len(value.encode()) < MAX_VALUE_OCTETS:
            return value
    return "too long to be told here"
