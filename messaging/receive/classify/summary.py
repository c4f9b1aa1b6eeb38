"""A classification in one line: the fields that `messaging classify` prints and an API shows (`receive.md` 11)."""

from dataclasses import asdict
from typing import Any

from messaging.receive.classification import BounceRecipient, Classification
from messaging.receive.vocabulary import BounceKind, MailType

_UNDELIVERED = (BounceKind.HARD, BounceKind.SOFT, BounceKind.DELAYED)


def summarise(classification: Classification) -> dict[str, Any]:
    """`type` in lower case; `recipients`, lower-case addresses: of a bounce those failed or delayed; `status`,
    `reply_code`, `action`, `hard_bounce` and `reason` of the worst, None for what is no bounce;
    `original_message_id`; `flags`, those that are set.
    """
    is_bounce = classification.type is MailType.BOUNCE
    worst = classification.worst if is_bounce else None
    return {
        "type": classification.type.value.lower(),
        "recipients": _addresses(classification, only_undelivered=is_bounce),
        "status": worst and worst.status,
        "reply_code": worst and worst.reply_code,
        "action": worst and worst.action,
        "hard_bounce": worst and worst.is_hard_bounce,
        "reason": worst and worst.reason.value,
        "original_message_id": classification.original_message_id,
        "flags": {name: True for name, is_set in asdict(classification.flags).items() if is_set},
    }


def _addresses(classification: Classification, *, only_undelivered: bool) -> list[str]:
    def is_meant(one: BounceRecipient) -> bool:
        return not only_undelivered or one.kind in _UNDELIVERED

    found = [one.recipient.lower() for one in classification.recipients if one.recipient and is_meant(one)]
    return list(dict.fromkeys(found))
