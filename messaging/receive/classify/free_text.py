"""Reports without fields: whom a text says a delivery failed for, and why (`receive.md` 12.5)."""

import re
from collections.abc import Iterable, Iterator

from messaging.receive.classification import BounceRecipient
from messaging.receive.classify import codes, kinds, reasons
from messaging.receive.classify.originals import own_text, quoted_text, returned_headers
from messaging.receive.classify.phrases import comparable, outcome
from messaging.receive.parsed import ParsedMail
from messaging.receive.vocabulary import BounceKind

MAX_TEXT_CHARS = 65_536
MAX_RECIPIENTS = 50
MAX_DIAGNOSTIC_CHARS = 500
#: Of a line before an address that belongs to what is said of it, such as `550 5.1.1 <address>`.
MAX_HEAD_CHARS = 200
#: Of what is said of one of the recipients that a report's fields name.
MAX_AROUND_CHARS = 8192
#: Places of one address that are looked at.
MAX_OCCURRENCES = 20

_LOCAL = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]"
_DOMAIN = r"(?:[A-Za-z0-9_-]{1,63}\.){1,10}(?:[A-Za-z]{2,24}|xn--[A-Za-z0-9-]{1,59})(?![A-Za-z0-9-])"
_PLAIN = rf"(?<!{_LOCAL}){_LOCAL}{{1,64}}@{_DOMAIN}"
#: In brackets also a quoted local part, letters of all languages, a host without a dot.
_BRACKETED = r"<(?:mailto:)?[^\s<>@]{1,128}@[^\s<>@]{1,255}>"
_ANY = rf"(?:{_BRACKETED}|{_PLAIN})"
_ANYWHERE = re.compile(_ANY)
_LABELS = (
    r"(?:failed |final |original |intended |envelope )?recipients?(?: address(?:es)?)?|to|rcpt to|e-?mail address|"
    r"address|mailbox|user|empfänger|an|destinataires?|à|destinatari[oa]s?|para|a|ontvanger|geadresseerde|aan|"
    r"odbiorca|adresat|do|příjemce|komu|получатель|кому|адресат|одержувач|alıcı|mottagare|till|modtager|mottaker|til|"
    r"vastaanottaja|címzett|destinatar|παραλήπτης|宛先|送信先|あて先|收件人|收件者|收信人|받는 ?사람|수신자|người nhận"
)
_BULLETS = r"[ \t>*•·●◆■・*\[\]'\"-]{0,20}"
#: Where a recipient stands, the surest place first.
_PLACES = tuple(
    re.compile(pattern, re.MULTILINE | re.IGNORECASE)
    for pattern in (
        # A line of its own, or at the head of one: Postfix, qmail, Exim, Sendmail, Exchange.
        rf"^{_BULLETS}(?:[45]\d\d[ -](?:[45]\.\d{{1,3}}\.\d{{1,3}} )?)?({_ANY})['\"\]]{{0,2}}[ \t]{{0,4}}"
        rf"(?:$|\r|:(?=\s)|\.\.\.|\(|[,;] | - |(?:on|am|le|el|il|em|op|den|dnia|at) [A-Z]?[a-z]{{0,9}}[.,]? ?\d)",
        rf"^{_BULLETS}(?:{_LABELS})[ \t]{{0,8}}[:：][ \t]{{0,8}}(?:rfc822;[ \t]*)?[^\s@<>]{{0,40}}?[ \t]?({_ANY})",
        rf"\brcpt to:[ \t]{{0,4}}({_ANY})",
        rf"\b[45]\d\d[ -](?:#?[45]\.\d{{1,3}}\.\d{{1,3}}[ :]{{1,3}})?['\"(\[]?({_ANY})",
        rf"\b(?:to|reach|recipients?|user|mailbox|address|account|for|an|à|para|a|aan|do)[ \t\r\n:]{{1,6}}"
        rf"['\"(\[]?({_ANY})",
        rf"({_ANY})",
    )
)
#: Lines and links whose addresses are no recipients.
_NO_RECIPIENTS = re.compile(
    r"^[ \t>|]{0,8}(?:message-?id|in-reply-to|references|from|sender|reply-to|return-path|mail from|x-[\w-]{1,40}|"
    r"absender|von|expéditeur|remitente|mittente|remetente|afzender|nadawca|отправитель|från|差出人|发件人|寄件者|"
    r"보낸 ?사람)[ \t]{0,4}[:：][^\n]*|"
    rf"\b(?:from|von|proveniente da|van|от)[ \t]{{1,4}}['\"(<]{{0,2}}{_PLAIN}|"
    r"https?://\S{1,2000}|\bmail from:[ \t]{0,4}<[^\n>]{0,320}>|\b(?:message-?)?id[ =:]{1,3}<[^\n>]{1,500}>",
    re.MULTILINE | re.IGNORECASE,
)
#: What stands before the address of an X.400 name (Exchange 5.5): `c=US;a= ;p=Org;dda:SMTP=`.
_X400_NAME = re.compile(r"\b(?:dda:)?smtp[=:]", re.IGNORECASE)
#: The head of the message as a report describes it: `To:` there names whom it was for, not for whom it failed.
_DESCRIPTION = re.compile(
    r"^[ \t]*(?:to|an|à|para|a|aan|do|komu|кому|till|til|vastaanottaja|címzett|宛先|收件人|收件者|받는 ?사람)"
    r"[ \t]*[:：][^\n]*\n"
    r"(?:[ \t]*(?:b?cc|kopie)[ \t]*:[^\n]*\n)?"
    r"[ \t]*(?:subject|betreff|objet|sujet|asunto|oggetto|assunto|onderwerp|temat|předmět|тема|ämne|emne|aihe|tárgy|"
    r"件名|主题|主旨|제목)[ \t]*[:：]",
    re.MULTILINE | re.IGNORECASE,
)
_ROLES = re.compile(
    r"(?:mailer-?daemon|postmaster|hostmaster|abuse|no-?reply|do-?not-?reply|support|helpdesk)(?:[+.-][^@]*)?@",
    re.IGNORECASE,
)


def read_text(message: ParsedMail, named: list[str] | None = None) -> tuple[BounceRecipient, ...]:
    """What the text of a report says, for each recipient it names; one without an address where it names none.

    `named`: what `named_recipients` said, if it has been asked.
    """
    whole = message.rule_text[:MAX_TEXT_CHARS]
    text = own_text(whole)
    addresses = (named_recipients(message, text) if named is None else named) or _of_returned(
        message, quoted_text(whole)
    )
    delayed = is_delayed(message, text)
    delivered = None if delayed else _delivered(message, text)
    subject = message.subject or ""
    found = list(_evidence(text, addresses))
    # What stands before the only recipient; for one of several also what is said of all.
    others = (text if len(found) > 1 else text.removesuffix(found[0][1]), subject)
    return tuple(
        _recipient(address, evidence, others, delayed=delayed, delivered=delivered) for address, evidence in found
    )


def is_delayed(message: ParsedMail, text: str) -> bool:
    """Whether subject or text say that it is still being tried."""
    return outcome("delayed").is_in(comparable(f"{message.subject or ''} {text}"))


def refine(text: str, address: str | None, *, is_only: bool) -> str:
    """What a report's text says of one recipient: what stands around the address, or all where it is the only one."""
    around = next(_evidence(text, [address]))[1] if address else ""
    return (around or (text if is_only else ""))[:MAX_AROUND_CHARS]


def _recipient(
    address: str | None, evidence: str, others: tuple[str, ...], *, delayed: bool, delivered: str | None
) -> BounceRecipient:
    # What the far end answered tells more than what a server says of it.
    texts = tuple(text for text in ("\n".join(_ANSWER.findall(evidence)), evidence, *others) if text)
    reply = next((found for text in texts if (found := codes.reply_code(text))), None)
    class_ = reply[0] if reply else None
    status = next((found for text in texts if (found := codes.enhanced_code(text, class_))), None) or next(
        (found for text in texts if (found := codes.enhanced_code(text))), None
    )
    kind = _kind(texts, status, reply, delayed=delayed)
    action = kinds.ACTION_OF[kind]
    if delivered and "5" not in (status or reply or " ")[:1]:
        kind, action = BounceKind.SUCCESS, delivered
    reason = reasons.reason(texts, status, reply)
    return BounceRecipient(
        kind=kind,
        reason=reason,
        recipient=address,
        action=action,
        status=status,
        reply_code=reply,
        diagnostic=" ".join(evidence.split())[:MAX_DIAGNOSTIC_CHARS] or None,
        is_doubtful=reasons.is_doubtful(reason, status, reply, evidence),
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


def named_recipients(message: ParsedMail, text: str) -> list[str]:
    """The recipients that a report names, without its own addressees and those who are in charge of mail."""
    named = [one.address for one in message.headers.mailboxes("X-Failed-Recipients") if "@" in one.address]
    if named:
        return list(dict.fromkeys(named))[:MAX_RECIPIENTS]
    if "@" not in text:
        return []
    own = _own_addresses(message)
    cleaned = _NO_RECIPIENTS.sub(" ", _X400_NAME.sub(" ", text))
    undescribed = _DESCRIPTION.sub("\n", cleaned)
    return _placed(undescribed, own) or (_placed(cleaned, own) if undescribed != cleaned else [])


def _placed(cleaned: str, own: set[str]) -> list[str]:
    of_ourselves: list[str] = []
    for place in _PLACES:
        found = [_bare(one[1]) for one in place.finditer(cleaned)]
        useful = list(dict.fromkeys(one for one in found if not _ROLES.match(one)))
        strangers = _unlike(useful, own)
        if strangers:
            return strangers[:MAX_RECIPIENTS]
        if place is _PLACES[0]:
            of_ourselves = useful
    return of_ourselves[:MAX_RECIPIENTS]


def _of_returned(message: ParsedMail, quoted: str) -> list[str]:
    """To whom the returned message went, where that is one address alone."""
    for headers in returned_headers(message):
        if found := _unlike([one.address for one in headers.mailboxes("To") if "@" in one.address], set()):
            return found if len(found) == 1 else []
    line = _TO_LINE.search(quoted)
    return [_bare(line[1])] if line else []


#: In a transcript of a session (Sendmail).
_ANSWER = re.compile(r"^<<< ([^\n]*)", re.MULTILINE)
_TO_LINE = re.compile(rf"^[ \t>]{{0,8}}To:[^\n@<>]{{0,200}}?({_ANY})[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)


def _own_addresses(message: ParsedMail) -> set[str]:
    """Those to whom a report goes and from whom it comes, lower case."""
    fields = ("From", "To", "Reply-To", "Return-Path", "Delivered-To", "X-Original-To", "Envelope-To", "Sender", "Cc")
    own = {one.address.lower() for name in fields for one in message.headers.mailboxes(name)}
    for headers in returned_headers(message):
        own |= {one.address.lower() for name in ("From", "Sender", "Return-Path") for one in headers.mailboxes(name)}
    return own


def _unlike(found: Iterable[str], own: set[str]) -> list[str]:
    kept: dict[str, str] = {}
    for one in found:
        if one.lower() not in own:
            kept.setdefault(one.lower(), one)
    return list(kept.values())


def _bare(written: str) -> str:
    return written.removeprefix("<").removeprefix("mailto:").removesuffix(">").strip("'\"`*|").rstrip(".")
