"""What is known of a received mail once it is classified, as plain values in the words of `vocabulary`."""

from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from messaging.receive.vocabulary import USELESS_ADDRESS, BounceKind, BounceReason, MailType

#: The worst first.
_KINDS = (BounceKind.HARD, BounceKind.SOFT, BounceKind.DELAYED, BounceKind.SUCCESS)


@dataclass(frozen=True, slots=True)
class BounceRecipient:
    """What a bounce says of one recipient (RFC 3464, 2.3)."""

    kind: BounceKind
    reason: BounceReason = BounceReason.OTHER
    #: Without type and brackets, as written; None when a report names nobody.
    recipient: str | None = None
    original_recipient: str | None = None
    #: `failed`, `delayed`, `delivered`, `relayed` or `expanded`; None when nothing says it.
    action: str | None = None
    #: Enhanced status code (RFC 3463), e.g. `5.1.1`.
    status: str | None = None
    #: SMTP reply code, e.g. `550`.
    reply_code: str | None = None
    #: As sent, at most 2,000 characters.
    diagnostic: str | None = None
    remote_mta: str | None = None
    last_attempt: str | None = None
    will_retry_until: str | None = None
    #: True where words alone say that the address is of no use, and neither the enhanced code does nor the answer is
    #: one to RCPT: content filters say "user unknown" too, after DATA.
    is_doubtful: bool | None = None
    #: True where it stands in a text, and no field of a report names it: it may be nobody who was written to.
    from_text: bool | None = field(default=None, compare=False)

    @property
    def is_permanent(self) -> bool:
        """Whether another try would fail too."""
        return self.kind is BounceKind.HARD

    @property
    def is_hard_bounce(self) -> bool:
        """Whether the address is of no use, beyond doubt; a mail refused as spam says nothing about its address."""
        return self.reason in USELESS_ADDRESS and not self.is_doubtful

    def as_json(self) -> dict[str, Any]:
        """For `bounce_recipients`; what is None is left out."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}


@dataclass(frozen=True, slots=True)
class Flags:
    """What is true of a mail beside its type."""

    mailing_list: bool = False
    bulk: bool = False
    encrypted: bool = False
    signed: bool = False
    spam: bool = False


@dataclass(frozen=True, slots=True)
class Classification:
    """The answer of a rule, then of the whole chain."""

    type: MailType
    flags: Flags = field(default_factory=Flags)
    #: Of a bounce and of a feedback report, in the mail's order; of a read receipt the final recipient.
    recipients: tuple[BounceRecipient, ...] = ()
    #: Of a read receipt its disposition (`displayed`), of a feedback report its type (`abuse`), of an invitation its
    #: method (`REQUEST`).
    detail: str | None = None
    #: Message-IDs of the mail it may be about, the likeliest first, as `messaging.receive.message_ids` spells them.
    reference_ids: tuple[str, ...] = ()
    #: The send record that a genuine VERP address names.
    verp_record_id: int | None = None
    #: When a read receipt says it was read; None when that cannot be read.
    reported_at: datetime | None = None

    @property
    def worst(self) -> BounceRecipient | None:
        """The first recipient of the worst kind; the summary is its."""
        return min(self.recipients, key=lambda one: _KINDS.index(one.kind), default=None)

    @property
    def failed(self) -> tuple[BounceRecipient, ...]:
        """Those that will not get it."""
        return tuple(one for one in self.recipients if one.kind in (BounceKind.HARD, BounceKind.SOFT))

    @property
    def original_message_id(self) -> str | None:
        """The likeliest candidate."""
        return self.reference_ids[0] if self.reference_ids else None

    def with_flags(self, **changed: bool) -> "Classification":
        """The same with other flags; for flag detectors."""
        return replace(self, flags=replace(self.flags, **changed))


_TEXTS = (
    *("recipient", "original_recipient", "action", "status", "reply_code", "diagnostic", "remote_mta", "last_attempt"),
    "will_retry_until",
)
#: A bigint, as ids of records are.
_MAX_ID = 2**63 - 1


def checked(answer: object) -> Classification:
    """What a rule or a detector answers, if it can be stored: anybody writes those.

    Raises: TypeError, which names what is wrong.
    """
    if not isinstance(answer, Classification):
        raise TypeError("the answer is a Classification")
    _check(isinstance(answer.type, MailType), "type")
    _check(isinstance(answer.flags, Flags), "flags")
    _check(answer.detail is None or isinstance(answer.detail, str), "detail")
    _check(isinstance(answer.reference_ids, tuple), "reference_ids")
    _check(all(isinstance(one, str) for one in answer.reference_ids), "reference_ids")
    record_id: object = answer.verp_record_id
    _check(record_id is None or (isinstance(record_id, int) and 0 < record_id <= _MAX_ID), "verp_record_id")
    for one in answer.recipients:
        _check(isinstance(one, BounceRecipient), "recipients")
        _check(isinstance(one.kind, BounceKind), "kind")
        _check(isinstance(one.reason, BounceReason), "reason")
        for name in _TEXTS:
            value = getattr(one, name)
            _check(value is None or isinstance(value, str), name)
    return answer


def _check(is_right: bool, name: str) -> None:
    if not is_right:
        raise TypeError(f"{name} of the Classification is of another type")
