"""What a stored mail asks to change about the mail of ours that it is about. Pure; the changes: `mail.receipts`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias

from messaging.mail.reported_recipients import ReportedRecipient, bounce_code
from messaging.receive.classification import Classification
from messaging.receive.vocabulary import USELESS_ADDRESS, BounceKind, LinkStatus, MailType

#: Types of mail that speak of one of ours.
LINKABLE_TYPES = frozenset({MailType.BOUNCE, MailType.READ_RECEIPT, MailType.FEEDBACK_REPORT})

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
    *("failed_recipients", "bounce_kind", "bounce_reason", "bounce_recipients"),
)


def link_status_of(classification: Classification) -> LinkStatus:
    """What a mail is stored with: PENDING when it says which mail of ours it may be about."""
    is_about_ours = classification.reference_ids or classification.verp_record_id is not None
    return LinkStatus.PENDING if classification.type in LINKABLE_TYPES and is_about_ours else LinkStatus.NONE


def change_of(mail: Mapping[str, Any]) -> Change | None:
    """What changes; None for a delay, a delivery, a mail deleted unread and the like: they are only linked."""
    match mail["mail_type"]:
        case MailType.BOUNCE if mail["bounce_kind"] in _FAILED:
            return Failed(_failed(mail))
        case MailType.READ_RECEIPT if (mail["type_detail"] or _DISPLAYED).strip().lower() == _DISPLAYED:
            return Displayed(moment(mail["date_header"]))
        case MailType.FEEDBACK_REPORT:
            return Complained(tuple(ReportedRecipient((name,)) for name in mail["failed_recipients"] or ()))
        case _:
            return None


def moment(date_field: str | None) -> datetime | None:
    """The time of a Date field; None when it cannot be read or has no zone."""
    try:
        at = parsedate_to_datetime(date_field or "")
    except (ValueError, OverflowError, TypeError):
        return None
    return at if at.tzinfo is not None else None


def _failed(mail: Mapping[str, Any]) -> tuple[ReportedRecipient, ...]:
    """Those that get nothing, the worst first where the mail tells of several; one without a name where of none."""
    told: Sequence[Mapping[str, Any]] = [one for one in mail["bounce_recipients"] or () if one["kind"] in _FAILED]
    return tuple(map(_reported, sorted(told, key=lambda one: one["kind"] != BounceKind.HARD))) or (_summary(mail),)


def _reported(told: Mapping[str, Any]) -> ReportedRecipient:
    names = (told.get("original_recipient"), told.get("recipient"))
    return ReportedRecipient(
        names=tuple(name for name in names if name),
        code=bounce_code(told.get("reply_code"), told.get("status")),
        text=told.get("diagnostic"),
        is_permanent=told["kind"] == BounceKind.HARD,
        is_useless=told.get("reason") in USELESS_ADDRESS,
    )


def _summary(mail: Mapping[str, Any]) -> ReportedRecipient:
    return ReportedRecipient(
        code=bounce_code(mail["smtp_reply_code"], mail["enhanced_status_code"]),
        text=mail["diagnostic_message"],
        is_permanent=mail["bounce_kind"] == BounceKind.HARD,
        is_useless=mail["bounce_reason"] in USELESS_ADDRESS,
    )
