"""Rule 20: delivery status notifications (RFC 3464, 6522, 6533), whatever a mail system broke in their form."""

from messaging.receive.classification import BounceRecipient, Classification
from messaging.receive.classify import delivery_status, free_text, senders
from messaging.receive.classify.evidence import Evidence
from messaging.receive.classify.nested import inner_mails
from messaging.receive.classify.originals import own_text
from messaging.receive.classify.provider_events import read_event
from messaging.receive.classify.recipients_in_text import named_recipients
from messaging.receive.classify.references import bounce_references, verp_record_id
from messaging.receive.classify.report_fields import (
    MAX_REPORT_CHARS,
    REPORT_TYPES,
    holds_report,
    read_report,
    report_text,
)
from messaging.receive.parsed import ParsedMail
from messaging.receive.vocabulary import MailType


class Dsn:
    """A bounce by the fields of its delivery-status part, one recipient a group; and a provider's event of one.

    A part that is such by its type alone makes a bounce; fields in a part of another type do where a program sent the
    mail. A person who hands a report on does not send one.
    """

    order = 20

    def match(self, message: ParsedMail) -> Classification | None:
        if (event := read_event(message)) is not None:
            recipients, references = event
            return Classification(MailType.BOUNCE, recipients=recipients, reference_ids=references)
        texts = field_texts(message)
        if not texts:
            return None
        found = read_fields(message, texts)
        return bounce(message, found) if found else by_text(message)


def field_texts(message: ParsedMail) -> list[str]:
    """The texts of a mail that hold a report's fields."""
    texts = [report_text(part) for part in message.walk() if part.content_type in REPORT_TYPES]
    if texts:
        return [] if _is_handed_on(message) else texts
    return _misplaced(message)


def read_fields(message: ParsedMail, texts: list[str]) -> tuple[BounceRecipient, ...]:
    """What the fields in these texts say."""
    return tuple(one for text in texts for one in delivery_status.recipients(message, read_report(text)))


def by_text(message: ParsedMail) -> Classification:
    """A bounce whose own fields say nothing: by a report within it, else by its text."""
    named = named_recipients(message, own_text(message.rule_text))
    if not named:
        for inner in inner_mails(message):
            if (texts := field_texts(inner)) and (found := read_fields(inner, texts)):
                outer = bounce(message, found)
                within = bounce_references(inner)
                ids = tuple(dict.fromkeys((*within, *outer.reference_ids)))
                return Classification(
                    outer.type, recipients=found, reference_ids=ids, verp_record_id=outer.verp_record_id
                )
    return bounce(message, free_text.read_text(message, named))


def bounce(message: ParsedMail, recipients: tuple[BounceRecipient, ...]) -> Classification:
    """A bounce with what it may be about."""
    return Classification(
        MailType.BOUNCE,
        recipients=recipients,
        reference_ids=bounce_references(message),
        verp_record_id=verp_record_id(message),
    )


def _is_handed_on(message: ParsedMail) -> bool:
    root = message.root
    is_report = root is not None and root.content_type == "multipart/report"
    return not is_report and senders.is_answer(message) and not senders.is_machine(message)


def _misplaced(message: ParsedMail) -> list[str]:
    """Texts that hold the fields though their type does not say so, in what a program sent."""
    parts = [
        part
        for part in message.walk()
        if part.content_type.startswith(("text/", "multipart/", "application/", "message/del"))
        and part.content.find(b"inal-", 0, MAX_REPORT_CHARS) >= 0
    ]
    # In hardly a mail; who sent it takes longer to tell.
    if not parts or not (Evidence(message).is_report or senders.is_machine(message) or senders.is_automatic(message)):
        return []
    return [text for part in parts if holds_report(text := report_text(part))]


RULE = Dsn()
