"""Why a delivery failed: the text is asked first, then the codes, as servers send 5.1.1 in front of many stories
(`receive.md` 12.2).
"""

import re
from functools import cache

from messaging.receive.classify.phrases import Ranking, comparable, table
from messaging.receive.vocabulary import USELESS_ADDRESS, BounceReason

_R = BounceReason

#: What is unknown then is the sender: Postfix, Exim, Sendmail.
_ANSWER_TO_MAIL = re.compile(
    r"(?:in reply to|after|response to|answer to) (?:pipelined )?mail from\b|^>>> mail from:[^\n]*\n<<< [45]",
    re.IGNORECASE | re.MULTILINE,
)

_ANSWER_TO_RCPT = re.compile(r"\brcpt\b|does not like recipient|recipient address rejected", re.IGNORECASE)
#: Some refuse so what their customers filter: Postfix, Exim, Sendmail.
_ANSWER_TO_DATA = re.compile(
    r"(?:in reply to|after|response to|answer to) (?:end of )?data\b|end of message|^>>> data[^\n]*\n<<< [45]",
    re.IGNORECASE | re.MULTILINE,
)

#: Of a text that is searched: what a server says is short, and one report may have it for each of its recipients.
MAX_TEXT_CHARS = 8192

#: By subject and detail of the enhanced code (RFC 3463, 3; the later ones of the IANA registry).
_BY_STATUS = {
    "1.0": _R.USER_UNKNOWN,
    "1.1": _R.USER_UNKNOWN,
    "1.2": _R.HOST_UNKNOWN,
    "1.3": _R.USER_UNKNOWN,
    "1.6": _R.USER_UNKNOWN,
    "1.7": _R.POLICY,
    "1.8": _R.POLICY,
    "1.10": _R.HOST_UNKNOWN,
    "2.1": _R.SUSPENDED,
    "2.2": _R.MAILBOX_FULL,
    "2.3": _R.SIZE,
    "3.2": _R.HOST_UNKNOWN,
    "3.4": _R.SIZE,
    "4.4": _R.HOST_UNKNOWN,
    "4.5": _R.RATE,
    "4.7": _R.EXPIRED,
    "5.3": _R.RATE,
}
#: What a code of class 4 says for now, and not of the address.
_FOR_NOW = frozenset({"1.10", "3.2", "4.4"})
#: By subject alone, where the detail says nothing.
_BY_SUBJECT = {"6": _R.CONTENT, "7": _R.POLICY}
#: By the reply code, where it is all there is (RFC 5321, 4.2.3; RFC 7504).
_BY_REPLY = {
    "421": _R.RATE,
    "452": _R.MAILBOX_FULL,
    "521": _R.HOST_UNKNOWN,
    "530": _R.POLICY,
    "534": _R.POLICY,
    "535": _R.POLICY,
    "538": _R.POLICY,
    "552": _R.MAILBOX_FULL,
    "542": _R.USER_UNKNOWN,  # MessageLabs: not on the list of registered addresses
    "556": _R.HOST_UNKNOWN,
}


def reason(texts: tuple[str, ...], status: str | None, reply_code: str | None) -> BounceReason:
    """The reason that the first telling text gives, else the codes, else OTHER."""
    is_transient = (status or reply_code or "").startswith("4")
    for text in texts:
        if found := from_text(text, is_transient=is_transient):
            is_of_sender = found in USELESS_ADDRESS and any(_ANSWER_TO_MAIL.search(one) for one in texts)
            return _R.POLICY if is_of_sender else found
    return from_codes(status, reply_code)


def from_text(text: str, *, is_transient: bool = False) -> BounceReason | None:
    """What the words say; None for none that is known."""
    if not text:
        return None
    compared = comparable(text[:MAX_TEXT_CHARS])
    tables, ranking = _tables()
    rank = ranking.first(compared)
    if rank is None:
        return None
    name, is_permanent = tables[rank]
    return _R.OTHER if is_permanent and is_transient else name


def from_codes(status: str | None, reply_code: str | None) -> BounceReason:
    """What the codes alone say."""
    if status:
        subject = status.partition(".")[2]
        if status.startswith("4") and subject in _FOR_NOW:
            return _R.OTHER
        found = _BY_STATUS.get(subject) or _BY_SUBJECT.get(subject.partition(".")[0])
        if found:
            return found
    return _BY_REPLY.get(reply_code or "", _R.OTHER)


def is_doubtful(found: BounceReason, status: str | None, reply_code: str | None, said: str) -> bool | None:
    """True where an unknown user is known by words alone: the reply has no enhanced code, or that of a mailbox that is
    there (x.2.z) or of a policy (x.7.z), and nothing says that RCPT was answered so; or it is the 550 of RCPT, given
    to DATA, and no code says so.
    """
    if found is not _R.USER_UNKNOWN or _ANSWER_TO_RCPT.search(said) or "5.1.1" in said:
        return None
    subject = status.split(".")[1] if status else None
    is_bare = subject in ("2", "7") or (subject is None and reply_code is not None)
    return True if is_bare or (subject != "1" and reply_code == "550" and _ANSWER_TO_DATA.search(said)) else None


@cache
def _tables() -> tuple[list[tuple[BounceReason, bool]], Ranking]:
    """By rank the reason, and whether its wordings count only where no code says that it is for now; the wordings."""
    found = table("reasons")["reason"]
    names = [(BounceReason(one["name"]), "is_permanent" in one) for one in found]
    return names, Ranking(one["phrases"] for one in found)
