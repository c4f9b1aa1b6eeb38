"""Rule 12: a recipient's complaint, passed on by the recipient's mail system (RFC 5965, RFC 6591, and older shapes)."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from messaging.receive.classification import BounceRecipient, Classification
from messaging.receive.classify.machine_part import find_fields
from messaging.receive.classify.originals import returned_headers
from messaging.receive.classify.phrases import table
from messaging.receive.classify.references import bounce_references
from messaging.receive.classify.report_fields import address
from messaging.receive.classify.structure import header_words, parts_of, report_type
from messaging.receive.headers import Headers
from messaging.receive.parsed import ParsedMail, Part
from messaging.receive.vocabulary import NO_COMPLAINT, BounceKind, MailType

_PART_TYPE = "message/feedback-report"
#: Of the report, who complains (RFC 5965, 3.2 and 3.3).
_REPORT_FIELDS = ("Original-Rcpt-To", "Removal-Recipient", "Original-Recipient")
#: Of the returned message, who it was delivered to: what systems write that know it, before what the sender wrote.
_DELIVERY_FIELDS = ("X-Apparently-To", "Delivered-To", "X-Original-To", "Envelope-To")
_MICROSOFT_FIELDS = ("X-HmXmrOriginalRecipient",)
#: As long as the column `type_detail`.
_MAX_TYPE_CHARS = 50


class Shape(NamedTuple):
    """A complaint that is no standard report; what is empty is not asked for."""

    senders: tuple[str, ...]
    header: str
    value: str
    subject: str
    #: A field of the returned message.
    original_header: str
    feedback_type: str
    #: Whether the recipient sends it in person, rather than stands in the returned message.
    is_by_recipient: bool

    def fits(self, message: ParsedMail, sender: str, subject: str) -> bool:
        """Whether all that is asked for is there; sender and subject in lower case."""
        if self.senders and not sender.endswith(self.senders):
            return False
        if self.subject and not subject.startswith(self.subject):
            return False
        if self.header and not (
            self.header in message.headers
            and any(value.strip().lower().startswith(self.value) for value in message.headers.all(self.header))
        ):
            return False
        if not self.original_header:
            return True
        # Nobody has written a word: it is not passed on by a person.
        return not message.rule_text.strip() and any(
            self.original_header in headers for headers in returned_headers(message)
        )


class FeedbackReport:
    """Knows a report by its type or its machine-readable part, and the older shapes by their table.

    Its `detail` is the feedback type; its recipients are those who complain, none where the report hides them or where
    nobody does.
    """

    order = 12

    def match(self, message: ParsedMail) -> Classification | None:
        """With the returned message's Message-ID first."""
        parts = list(parts_of(message))
        is_standard = any(map(_is_standard, parts))
        shape = None if is_standard else _shape_of(message)
        if not is_standard and shape is None:
            return None
        fields = (find_fields(parts, (_PART_TYPE,), "Feedback-Type") if is_standard else None) or Headers([])
        stated = next(iter(header_words(fields, "Feedback-Type")), "")
        feedback_type = stated[:_MAX_TYPE_CHARS] or (shape.feedback_type if shape is not None else None)
        if feedback_type in NO_COMPLAINT:
            complaining = []
        elif shape is not None and shape.is_by_recipient:
            complaining = [message.from_address] if message.from_address else []
        else:
            complaining = _complaining(fields, message)
        return Classification(
            MailType.FEEDBACK_REPORT,
            recipients=tuple(BounceRecipient(BounceKind.SUCCESS, recipient=one) for one in complaining),
            detail=feedback_type,
            reference_ids=bounce_references(message),
        )


def _is_standard(part: Part) -> bool:
    return part.content_type == _PART_TYPE or report_type(part) == "feedback-report"


def _complaining(fields: Headers, message: ParsedMail) -> list[str]:
    """Their addresses, by the first that tells: the report, the returned message's delivery, its only recipient."""
    for found in _told(fields, message):
        addresses = list(dict.fromkeys(one for one in found if not _is_redacted(one)))
        if addresses:
            return addresses
    return []


def _told(fields: Headers, message: ParsedMail) -> Iterator[list[str]]:
    yield _addresses(fields, _REPORT_FIELDS)
    yield _addresses(message.headers, _MICROSOFT_FIELDS)
    for headers in returned_headers(message):
        yield _addresses(headers, _MICROSOFT_FIELDS)
        yield _addresses(headers, _DELIVERY_FIELDS)[:1]
        addressed = [one.address for name in ("To", "Cc") for one in headers.mailboxes(name) if "@" in one.address]
        # Of several, nobody can tell who complains.
        yield addressed if len(addressed) == 1 else []


def _addresses(headers: Headers, names: Iterable[str]) -> list[str]:
    stated = (one for name in names for value in headers.all(name) for one in value.split(","))
    return [found for one in stated if (found := address(one)) is not None]


def _is_redacted(text: str) -> bool:
    local = text.rpartition("@")[0].lower().strip("[]<>*\"'")
    return not local or local in _redacted()


def _shape_of(message: ParsedMail) -> Shape | None:
    sender, subject = (message.from_address or "").lower(), (message.subject or "").lower()
    firsts = _firsts()
    if not (
        sender.endswith(firsts.senders)
        or message.headers.has_any(firsts.headers)
        or (firsts.is_original_asked and not message.rule_text.strip())
        or subject.startswith(firsts.subjects)
    ):
        return None
    for shape in _shapes():
        if shape.fits(message, sender, subject):
            return shape
    return None


@cache
def _shapes() -> tuple[Shape, ...]:
    return tuple(
        Shape(
            senders=tuple(one.get("from", ())),
            header=one.get("header", ["", ""])[0],
            value=one.get("header", ["", ""])[1],
            subject=one.get("subject", ""),
            original_header=one.get("original_header", ""),
            feedback_type=one["feedback_type"],
            is_by_recipient=one["complains"] == "sender",
        )
        for one in table("complaints")["shape"]
    )


class _Firsts(NamedTuple):
    """What the shapes ask for first: hardly a mail has any of it."""

    senders: tuple[str, ...]
    #: In lower case.
    headers: frozenset[str]
    subjects: tuple[str, ...]
    #: Whether one asks for nothing but a returned message.
    is_original_asked: bool


@cache
def _firsts() -> _Firsts:
    others = [shape for shape in _shapes() if not shape.senders]
    return _Firsts(
        senders=tuple(sender for shape in _shapes() for sender in shape.senders),
        headers=frozenset(shape.header.lower() for shape in others if shape.header),
        subjects=tuple(shape.subject for shape in others if shape.subject and not shape.header),
        is_original_asked=any(not shape.header and not shape.subject for shape in others),
    )


@cache
def _redacted() -> frozenset[str]:
    return frozenset(table("complaints")["redacted"]["local_parts"])


RULE = FeedbackReport()
