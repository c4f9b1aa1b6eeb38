"""Rule 10: a message disposition notification, whether it says displayed, deleted or denied (RFC 8098, RFC 3798)."""

import re

from messaging.receive.classification import BounceRecipient, Classification
from messaging.receive.classify.machine_part import find_fields
from messaging.receive.classify.references import receipt_references
from messaging.receive.classify.report_fields import address
from messaging.receive.classify.structure import parts_of, report_type
from messaging.receive.headers import Headers
from messaging.receive.message_ids import spelled
from messaging.receive.parsed import ParsedMail, Part
from messaging.receive.vocabulary import BounceKind, MailType

_PART_TYPES = frozenset({"message/disposition-notification", "message/global-disposition-notification"})
_REPORT_TYPES = frozenset({"disposition-notification", "global-disposition-notification"})
#: As long as the column `type_detail`.
_MAX_DISPOSITION_CHARS = 50
_COMMENT = re.compile(r"\([^()]*\)")
_WORD = re.compile(r"[a-z][a-z-]*")
#: What stands before the `;`; a program that leaves out the `;` has not said what was done with the mail.
_MODES = ("manual-action", "automatic-action", "mdn-sent-")


class ReadReceipt:
    """Knows a receipt by its report type or its machine-readable part; its disposition is the `detail`."""

    order = 10

    def match(self, message: ParsedMail) -> Classification | None:
        """With the final recipient as the only one, and the mail's own Date as the time of reading."""
        parts = list(parts_of(message))
        if not any(map(_is_receipt, parts)):
            return None
        fields = find_fields(parts, _PART_TYPES, "Disposition") or Headers([])
        reader = _reader(fields, message)
        return Classification(
            MailType.READ_RECEIPT,
            recipients=(BounceRecipient(BounceKind.SUCCESS, recipient=reader),) if reader else (),
            detail=_disposition(fields),
            reference_ids=_references(fields, message),
            reported_at=message.date,
        )


def _is_receipt(part: Part) -> bool:
    return part.content_type in _PART_TYPES or report_type(part) in _REPORT_TYPES


def _references(fields: Headers, message: ParsedMail) -> tuple[str, ...]:
    """What the report itself says stands first, also where its part has lost its type."""
    stated = [found for value in fields.raw("Original-Message-ID") if (found := spelled(value)) is not None]
    return tuple(dict.fromkeys((*stated, *receipt_references(message))))


def _disposition(fields: Headers) -> str | None:
    """`displayed` of `manual-action/MDN-sent-manually; displayed/error`; None where it is left out."""
    value = _COMMENT.sub("", fields.first("Disposition") or "").lower()
    stated = value.rpartition(";")[2]
    word = _WORD.search(stated)
    if word is None or word[0].startswith(_MODES):
        return None
    return word[0][:_MAX_DISPOSITION_CHARS]


def _reader(fields: Headers, message: ParsedMail) -> str | None:
    """Who the report is about: the final recipient, else the original one, else whoever sends the receipt."""
    for name in ("Final-Recipient", "Original-Recipient"):
        found = address(fields.first(name))
        if found is not None:
            return found
    return message.from_address


RULE = ReadReceipt()
