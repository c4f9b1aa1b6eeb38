"""Rule 30: reports without fields that their sender or their form gives away (RFC 5321, 4.5.5)."""

from messaging.receive.classification import Classification
from messaging.receive.classify import senders
from messaging.receive.classify.dsn import by_text
from messaging.receive.classify.evidence import Evidence
from messaging.receive.parsed import ParsedMail


class MailerDaemon:
    """A bounce by its sender, `mailer-daemon@` or `postmaster@`, or by the form that only reports have.

    A postmaster is a person too: what answers a mail, and what tells of no delivery, is not taken for a report.
    """

    order = 30

    def match(self, message: ParsedMail) -> Classification | None:
        return by_text(message) if _is_report(message) else None


def _is_report(message: ParsedMail) -> bool:
    signs = Evidence(message)
    has_null_path = senders.has_null_path(message)
    if signs.is_report or (signs.names_failed and not senders.is_answer(message)):
        return True
    if (senders.is_answer(message) and not has_null_path) or signs.is_notice:
        return False
    if senders.is_daemon(message):
        return True
    if senders.is_postmaster(message):
        if signs.has_certain_subject:
            return True
        if "Return-Path" in message.headers and not has_null_path:
            return signs.tells_an_outcome and (signs.shows_what_failed or signs.has_possible_subject)
        return signs.tells_an_outcome or signs.has_code or signs.has_original
    is_automatic = has_null_path or senders.is_automatic(message)
    if signs.is_bulk or not is_automatic:
        return False
    if senders.has_envelope_sender(message):
        return signs.has_certain_subject and signs.returns_message and signs.tells_an_outcome
    if signs.has_certain_subject:
        return signs.tells_an_outcome or signs.has_code or signs.shows_what_failed
    if signs.quotes_server and signs.names_useless_address and has_null_path:
        return True
    return signs.tells_an_outcome and (
        (signs.quotes_server and (has_null_path or signs.has_original))
        or (signs.has_possible_subject and signs.names_useless_address)
    )


RULE = MailerDaemon()
