"""Results per recipient of one record, and what the recipients still open make of it (`send.md` section 9.4). Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from messaging.category import ErrorCategory


class RecipientStatus(StrEnum):
    """What is known of one recipient; all but DEFERRED close it."""

    #: The other side took the message for it: never sent to again by this record.
    ACCEPTED = "accepted"
    #: Refused for good.
    REFUSED = "refused"
    #: On the suppression list.
    SUPPRESSED = "suppressed"
    #: Accepted once, then a bounce came back.
    BOUNCED = "bounced"
    #: Refused for now: still open.
    DEFERRED = "deferred"


#: Closed until a manual retry opens them again (T15).
REOPENED_BY_RETRY = frozenset({RecipientStatus.REFUSED, RecipientStatus.SUPPRESSED, RecipientStatus.BOUNCED})
_CLOSED = REOPENED_BY_RETRY | {RecipientStatus.ACCEPTED}

#: The stored form: envelope address -> {"result", "code", "text", "at"}.
Results = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RecipientResult:
    """What one attempt learnt of one recipient."""

    status: RecipientStatus
    #: As `error_code` would say it, e.g. `SMTP_250` or `SMTP_550_5.1.1`.
    code: str
    #: The other side's words.
    text: str
    #: None when accepted.
    category: ErrorCategory | None = None
    #: What the other side will call the message, e.g. in a receipt; None where it gave it no name.
    message_id: str | None = None


def open_recipients(recipients: Iterable[str], results: Results) -> list[str]:
    """The recipients that a next attempt names, in order."""
    return [r for r in recipients if r not in results or results[r]["result"] not in _CLOSED]


def has_accepted(results: Results) -> bool:
    """Whether somebody's server took the message."""
    return any(r["result"] == RecipientStatus.ACCEPTED for r in results.values())


def merge(results: Results, learnt: Mapping[str, RecipientResult], at: str) -> dict[str, Mapping[str, Any]]:
    """`results` with what an attempt learnt; `at` is an ISO time. A recipient once accepted stays accepted."""
    merged = dict(results)
    for address, new in learnt.items():
        if address in merged and merged[address]["result"] == RecipientStatus.ACCEPTED:
            continue
        merged[address] = {"result": str(new.status), "code": new.code, "text": new.text, "at": at}
    return merged


def only_accepted(learnt: Mapping[str, RecipientResult]) -> dict[str, RecipientResult]:
    """What a late outcome may still add (T14)."""
    return {a: r for a, r in learnt.items() if r.status is RecipientStatus.ACCEPTED}
