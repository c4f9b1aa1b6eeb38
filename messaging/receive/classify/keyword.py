"""Rule 99: reports that their words alone give away (`receive.md` 11)."""

from messaging.receive.classification import Classification
from messaging.receive.classify import senders
from messaging.receive.classify.dsn import by_text
from messaging.receive.classify.evidence import Evidence
from messaging.receive.parsed import ParsedMail

#: Of answers, of the programs people write with, of trackers that carry their words.
_MARKS_OF_PERSON = frozenset(
    {
        "in-reply-to",
        "references",
        "user-agent",
        "x-mailer",
        "thread-index",
        "thread-topic",
        "x-originating-ip",
        "x-jira-fingerprint",
        "x-github-reason",
    }
)


class Keyword:
    """A bounce by its subject or by its text, where a machine or a code stands behind the words.

    Neither the answer of a person who writes "rejected" nor a shop's word on a parcel that came back is one.
    """

    order = 99

    def match(self, message: ParsedMail) -> Classification | None:
        return by_text(message) if _is_report(message) else None


def _is_report(message: ParsedMail) -> bool:
    if senders.is_answer(message):
        return False
    signs = Evidence(message)
    if signs.is_bulk or signs.is_notice:
        return False
    if senders.is_machine(message):
        if senders.has_envelope_sender(message):
            return signs.has_certain_subject and signs.tells_an_outcome and signs.shows_what_failed
        if signs.begins_certainly:
            return True
        if signs.has_possible_subject and signs.shows_what_failed and (signs.has_original or signs.names_recipient):
            return signs.tells_an_outcome or (signs.quotes_server and signs.names_useless_address)
        return signs.tells_an_outcome and signs.quotes_server and signs.names_recipient
    return (
        signs.has_possible_subject
        and not senders.has_envelope_sender(message)
        and not _has_marks_of_person(message)
        and signs.quotes_server
        and (signs.tells_an_outcome or signs.has_original)
    )


def _has_marks_of_person(message: ParsedMail) -> bool:
    """Whether it answers something, or comes from a program that people write with: they ask about reports, too."""
    return message.headers.has_any(_MARKS_OF_PERSON)


RULE = Keyword()
