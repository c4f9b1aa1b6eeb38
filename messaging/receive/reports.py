"""What a stored mail asks to change about the mail of ours that it is about. Pure; the changes: `mail.receipts`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from messaging.mail.reported_recipients import ReportedRecipient, Spellings, bounce_code
from messaging.receive.dates import parse_date
from messaging.receive.vocabulary import NO_COMPLAINT, USELESS_ADDRESS, BounceKind, MailType

#: Kinds after which a recipient gets nothing.
_FAILED = frozenset({BounceKind.HARD, BounceKind.SOFT})

#: The disposition of a mail that was shown to somebody (RFC 8098, 3.2.6.2); it counts where none is told.
_DISPLAYED = "displayed"


@dataclass(frozen=True, slots=True)
class Failed:
    """Delivery failed for these, at least one."""

    reported: tuple[ReportedRecipient, ...]


@dataclass(frozen=True, slots=True)
class Displayed:
    """Somebody's program displayed it; None: at a time that the receipt does not tell."""

    at: datetime | None


@dataclass(frozen=True, slots=True)
class Complained:
    """These complain of it; none where the report hides who."""

    reported: tuple[ReportedRecipient, ...]


Change: TypeAlias = Failed | Displayed | Complained

#: Columns of a mail that `change_of` looks at.
COLUMNS = (
    *("mail_type", "type_detail", "date_header", "smtp_reply_code", "enhanced_status_code", "diagnostic_message"),
    *("bounce_kind", "hard_bounce", "bounce_recipients"),
)


def change_of(mail: Mapping[str, Any]) -> Change | None:
    """What changes; None for a delay, a delivery, a mail deleted unread and the like: they are only linked."""
    match mail["mail_type"]:
        case MailType.BOUNCE if mail["bounce_kind"] in _FAILED:
            return Failed(_failed(mail))
        case MailType.READ_RECEIPT if (mail["type_detail"] or _DISPLAYED).strip().lower() == _DISPLAYED:
            return Displayed(parse_date(mail["date_header"]))
        case MailType.FEEDBACK_REPORT if mail["type_detail"] not in NO_COMPLAINT:
            return Complained(tuple(ReportedRecipient(_names(one)) for one in mail["bounce_recipients"] or ()))
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The recipients of a report whose text named others as well."""

    #: As in `bounce_recipients`.
    recipients: list[Mapping[str, Any]]
    #: As in `failed_recipients`.
    failed: list[str]


def narrowed(mail: Mapping[str, Any], recipients: Sequence[str]) -> Narrowed | None:
    """Without those that only its text names and that nothing was sent to, where it names one of ours (12.5).

    None: it stays as it is.
    """
    told: Sequence[Mapping[str, Any]] = mail["bounce_recipients"] or ()
    spellings = Spellings(recipients)
    ours = [one for one in told if not one.get("from_text") or spellings.named(_names(one)) is not None]
    if not ours or len(ours) == len(told):
        return None
    return Narrowed(ours, [one["recipient"] for one in ours if one["kind"] in _FAILED and one.get("recipient")])


def _failed(mail: Mapping[str, Any]) -> tuple[ReportedRecipient, ...]:
    """Those that get nothing, the worst first where the mail tells of several; one without a name where of none."""
    told: Sequence[Mapping[str, Any]] = [one for one in mail["bounce_recipients"] or () if one["kind"] in _FAILED]
    return tuple(map(_reported, sorted(told, key=lambda one: one["kind"] != BounceKind.HARD))) or (_summary(mail),)


def _reported(told: Mapping[str, Any]) -> ReportedRecipient:
    return ReportedRecipient(
        names=_names(told),
        code=bounce_code(told.get("reply_code"), told.get("status")),
        text=told.get("diagnostic"),
        is_permanent=told["kind"] == BounceKind.HARD,
        is_useless=told.get("reason") in USELESS_ADDRESS and not told.get("is_doubtful"),
    )


def _names(told: Mapping[str, Any]) -> tuple[str, ...]:
    """Who it was sent to, then what that was resolved to: of a forwarded mail only the first is ours."""
    return tuple(name for name in (told.get("original_recipient"), told.get("recipient")) if name)


def _summary(mail: Mapping[str, Any]) -> ReportedRecipient:
    return ReportedRecipient(
        code=bounce_code(mail["smtp_reply_code"], mail["enhanced_status_code"]),
        text=mail["diagnostic_message"],
        is_permanent=mail["bounce_kind"] == BounceKind.HARD,
        is_useless=bool(mail["hard_bounce"]),
    )
