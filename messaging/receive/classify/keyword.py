"""Rule 99: reports that their words alone give away (`receive.md` 11)."""

from messaging.receive.classification import Classification
from messaging.receive.classify import senders
from messaging.receive.classify.dsn import by_text
from messaging.receive.classify.evidence import Evidence
from messaging.receive.parsed import ParsedMail


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
    is_machine = senders.is_machine(message)
    if signs.has_certain_subject and is_machine:
        return True
    if signs.has_possible_subject:
        if is_machine:
            return signs.tells_an_outcome and (signs.quotes_server or signs.has_original or signs.names_useless_address)
        return signs.quotes_server and (signs.tells_an_outcome or signs.has_original) and not _answers(message)
    return is_machine and signs.quotes_server and signs.tells_an_outcome


def _answers(message: ParsedMail) -> bool:
    return any(name in message.headers for name in ("In-Reply-To", "References"))


RULE = Keyword()
