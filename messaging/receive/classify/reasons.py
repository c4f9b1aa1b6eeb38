"""Why a delivery failed, and whether that makes its address useless (`receive.md` 12.2).

What decides, in this order. The words, of which the more telling table of `wordings/reasons.toml` counts: servers send
5.1.1 in front of many stories. But a code of a useless address outweighs words that are general (`is_weak`), those of
another story where an unknown user is told of, too, and what a report says beside the server's reply; and what is
unknown in an answer to MAIL, or beside a code of the sender, is the sender. Then the codes. What names of hosts and
addresses hold is no word of a story.

An unknown user is doubtful where neither the code, nor the command that was answered, nor a wording that RCPT alone
gets (`certain`) says so: see `is_doubtful`.
"""

import re
from functools import cache
from typing import NamedTuple

from messaging.receive.classify.phrases import Phrases, Ranking, comparable, table
from messaging.receive.vocabulary import USELESS_ADDRESS, BounceReason

_R = BounceReason

# All of them are for text in lower case, in which they are found four times as fast.
#: What is unknown then is the sender: Postfix, Exim, Sendmail, qmail.
_ANSWER_TO_MAIL = re.compile(
    r"(?:in reply to|after|response to|answer to) (?:pipelined )?mail from\b|but sender was rejected|"
    r"^>>> mail from:[^\n]*\n<<< [45]",
    re.MULTILINE,
)

#: Of clients that name no command: qmail, Sun Messaging Server, Gmail of old by the number of a state.
_ANSWER_TO_RCPT = re.compile(
    r"\brcpt(?:\b|_)|does not like recipient|recipient (?:address |was )rejected|has rejected address|\(state 1[2-5]\)",
)
#: Some refuse so what their customers filter: Postfix, Exim, Sendmail, qmail, Gmail of old.
_ANSWER_TO_DATA = re.compile(
    r"(?:in reply to|after|response to|answer to|at) (?:the )?(?:data|end of (?:data|message))\b|"
    r"failed after i sent the message|did not like our data|\[body\]|\(state 1[78]\)|^>>> data[^\n]*\n<<< (?:4|5[^0])",
    re.MULTILINE,
)
#: Addresses, and hosts with their IP address: their names tell nothing, whatever words they hold.
_NAMES = re.compile(
    r"(?<![^\s<>@()\[\]:;,\"])[^\s<>@()\[\]:;,\"]{0,64}@[a-z0-9._-]{1,255}|"
    r"(?<![a-z0-9.-])[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8}\.?(?= ?[\[(]\d)",
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
#: Of the sender, whatever the words say of a name.
_OF_SENDER = frozenset({"1.7", "1.8", "7.27"})
#: Stories for which a code of an unknown user counts more, where the words hold that story too.
_OUTWEIGHED = frozenset({_R.SPAM, _R.CONTENT, _R.RATE, _R.EXPIRED, _R.OTHER})
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

#: Replies that only RCPT gets.
_OF_RCPT = frozenset({"542", "551"})


class _Wordings(NamedTuple):
    name: BounceReason
    #: They count only where no code says that it is for now.
    is_permanent: bool
    #: A code of an unknown user counts more.
    is_weak: bool


def reason(
    texts: tuple[str, ...], status: str | None, reply_code: str | None, around: tuple[str, ...] = ()
) -> BounceReason:
    """The reason that the first telling text gives, else the codes, else OTHER. `texts`: what a server said;
    `around`: what a report says beside it, asked only where that holds no code of a useless address.
    """
    coded = from_codes(status, reply_code)
    subject = (status or "").partition(".")[2]
    is_coded = coded in USELESS_ADDRESS and any(status in text for text in texts if status)
    for text in (*texts, *(() if is_coded else around)):
        if found := _said(text, coded, status, reply_code):
            is_of_sender = subject in _OF_SENDER or any(
                _ANSWER_TO_MAIL.search(one.lower()) for one in (*texts, *around)
            )
            return _R.POLICY if found in USELESS_ADDRESS and is_of_sender else found
    return coded


def from_text(text: str) -> BounceReason | None:
    """What the words say; None for none that is known."""
    return _said(text, _R.OTHER, None, None)


def _said(text: str, coded: BounceReason, status: str | None, reply_code: str | None) -> BounceReason | None:
    if not text:
        return None
    compared = comparable(_NAMES.sub("@", text[:MAX_TEXT_CHARS].lower()))
    tables, ranking = _tables()
    rank = ranking.first(compared)
    if rank is None:
        return None
    found = tables[rank]
    if found.is_weak and coded in USELESS_ADDRESS:
        return coded
    if found.name in _OUTWEIGHED and coded is _R.USER_UNKNOWN and _unknown_user().is_in(compared):
        return coded
    is_transient = (status or reply_code or "").startswith("4")
    return _R.OTHER if found.is_permanent and is_transient else found.name


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
    """True where words alone say that a user is unknown: neither an enhanced code of an address (x.1.z) does, nor was
    RCPT answered so, nor are they words that RCPT alone gets. Filters say the same after DATA.
    """
    if found is not _R.USER_UNKNOWN or (status and status.split(".")[1] == "1") or reply_code in _OF_RCPT:
        return None
    if "5.1.1" in said or "#5.1.0" in said:
        return None
    lowered = said.lower()
    if _ANSWER_TO_RCPT.search(lowered) and not _ANSWER_TO_DATA.search(lowered):
        return None
    return None if _certain().is_in(comparable(said)) else True


@cache
def _tables() -> tuple[list[_Wordings], Ranking]:
    """The tables by rank, and their wordings."""
    found = table("reasons")["reason"]
    names = [_Wordings(BounceReason(one["name"]), "is_permanent" in one, "is_weak" in one) for one in found]
    return names, Ranking(one["phrases"] for one in found)


@cache
def _unknown_user() -> Phrases:
    return Phrases(
        phrase for one in table("reasons")["reason"] if one["name"] == _R.USER_UNKNOWN for phrase in one["phrases"]
    )


@cache
def _certain() -> Phrases:
    known = table("reasons")
    named = [phrase for one in known["reason"] if "is_certain" in one for phrase in one["phrases"]]
    return Phrases([*known["certain"], *named])
