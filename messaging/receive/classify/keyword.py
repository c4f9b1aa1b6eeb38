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
    is_machine = senders.is_machine(message)
    if signs.has_certain_subject:
        if is_machine and not signs.is_bulk:
            return True
        return not signs.is_bulk and signs.tells_an_outcome and (signs.has_code or signs.has_original)
    if signs.is_bulk:
        return False
    if signs.has_possible_subject:
        return signs.has_code and (is_machine or (signs.tells_an_outcome and signs.has_original))
    return is_machine and signs.has_code and signs.tells_an_outcome


RULE = Keyword()
