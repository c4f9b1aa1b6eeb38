"""Reports without fields: whom a text says a delivery failed for, and why (`receive.md` 12.5)."""

import re
from collections.abc import Iterator

from messaging.receive.classification import BounceRecipient
from messaging.receive.classify import codes, kinds, reasons
from messaging.receive.classify.originals import own_text, quoted_text
from messaging.receive.classify.phrases import comparable, outcome
from messaging.receive.classify.recipients_in_text import named_recipients, recipient_of_original
from messaging.receive.parsed import ParsedMail
from messaging.receive.vocabulary import BounceKind

MAX_TEXT_CHARS = 65_536
MAX_DIAGNOSTIC_CHARS = 500
#: Of a line before an address that belongs to what is said of it, such as `550 5.1.1 <address>`.
MAX_HEAD_CHARS = 200
#: Of what is said of one of the recipients that a report's fields name.
MAX_AROUND_CHARS = 8192
#: Places of one address that are looked at.
MAX_OCCURRENCES = 20

#: In a transcript of a session (Sendmail).
_ANSWER = re.compile(r"^<<< ([^\n]*)", re.MULTILINE)


def read_text(message: ParsedMail, named: list[str] | None = None) -> tuple[BounceRecipient, ...]:
    """What the text of a report says, for each recipient it names; one without an address where it names none.

    `named`: what `named_recipients` said, if it has been asked.
    """
    whole = message.rule_text[:MAX_TEXT_CHARS]
    text = own_text(whole)
    addresses = (named_recipients(message, text) if named is None else named) or recipient_of_original(
        message, quoted_text(whole)
    )
    delayed = is_delayed(message, text)
    delivered = None if delayed else _delivered(message, text)
    subject = message.subject or ""
    found = list(_evidence(text, addresses))
    is_only = len(found) == 1
    # What stands before the only recipient; for one of several also what is said of all.
    before = text.removesuffix(found[0][1]) if is_only else text
    recipients = []
    for address, evidence in found:
        # What the far end answered tells more than what a server says of it.
        answers = _ANSWER.findall(evidence) or (_ANSWER.findall(before) if is_only else [])
        said = tuple(one for one in ("\n".join(answers), codes.quoted_reply(evidence)) if one)
        around = tuple(one for one in (evidence, before, subject) if one)
        recipients.append(_recipient(address, said, around, delayed=delayed, delivered=delivered))
    return tuple(recipients)


def is_delayed(message: ParsedMail, text: str) -> bool:
    """Whether subject or text say that it is still being tried."""
    return outcome("delayed").is_in(comparable(f"{message.subject or ''} {text}"))


def refine(text: str, address: str | None, *, is_only: bool) -> str:
    """What a report's text says of one recipient: what stands around the address, or all where it is the only one."""
    around = next(_evidence(text, [address]))[1] if address else ""
    return (around or (text if is_only else ""))[:MAX_AROUND_CHARS]


def _recipient(
    address: str | None, said: tuple[str, ...], around: tuple[str, ...], *, delayed: bool, delivered: str | None
) -> BounceRecipient:
    """What a report quotes of servers, and what it says `around` that, the most telling first, of one address."""
    texts = (*said, *around)
    reply = next((found for text in texts if (found := codes.reply_code(text))), None)
    class_ = reply[0] if reply else None
    status = next((found for text in texts if (found := codes.enhanced_code(text, class_))), None) or next(
        (found for text in texts if (found := codes.enhanced_code(text))), None
    )
    kind = _kind(texts, status, reply, delayed=delayed)
    action = kinds.ACTION_OF[kind]
    if delivered and "5" not in (status or reply or " ")[:1]:
        kind, action = BounceKind.SUCCESS, delivered
    reason = reasons.reason(said, status, reply, around)
    return BounceRecipient(
        kind=kind,
        reason=reason,
        recipient=address,
        action=action,
        status=status,
        reply_code=reply,
        diagnostic=" ".join("".join(around[:1]).split())[:MAX_DIAGNOSTIC_CHARS] or None,
        is_doubtful=reasons.is_doubtful(reason, status, reply, "\n".join(texts)),
        from_text=True,
    )


def _kind(texts: tuple[str, ...], status: str | None, reply: str | None, *, delayed: bool) -> BounceKind:
    classes = {code[0] for code in (status, reply) if code}
    if "5" in classes:
        return BounceKind.HARD
    if delayed:
        return BounceKind.DELAYED
    if "4" in classes:
        is_final = outcome("failed").is_in(comparable(" ".join(texts)))
        return BounceKind.SOFT if is_final else BounceKind.DELAYED
    return kinds.kind(None, status, reply)


def _delivered(message: ParsedMail, text: str) -> str | None:
    compared = comparable(f"{message.subject or ''} {text}")
    if not outcome("delivered").is_in(compared):
        return None
    return "relayed" if outcome("relayed").is_in(compared) else "delivered"


def _evidence(text: str, addresses: list[str]) -> Iterator[tuple[str | None, str]]:
    """Each address with the text that speaks of it: from where it stands to where the next one does."""
    if not addresses:
        yield None, text
        return
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter whose lower case is longer
        lowered = text
    starts = sorted((at, address) for address in addresses for at in _occurrences(lowered, address.lower()))
    ends = [*(at for at, _ in starts[1:]), len(text)][: len(starts)]
    found: dict[str, list[str]] = {address: [] for address in addresses}
    for (at, address), end in zip(starts, ends, strict=True):
        line = max(text.rfind("\n", 0, at) + 1, at - MAX_HEAD_CHARS)
        found[address].append(text[at if "@" in text[line:at] else line : end])
    for address, pieces in found.items():
        yield address, "\n".join(pieces)


def _occurrences(text: str, address: str) -> Iterator[int]:
    at = text.find(address)
    for _ in range(MAX_OCCURRENCES):
        if at < 0:
            return
        yield at
        at = text.find(address, at + len(address))
