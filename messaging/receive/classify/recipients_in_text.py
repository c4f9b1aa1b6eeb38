"""Whom a report without fields is about: the addresses its text, subject and header name (`receive.md` 12.5)."""

import re
from collections.abc import Iterable

from messaging.receive.classify.originals import returned_headers
from messaging.receive.parsed import ParsedMail

MAX_RECIPIENTS = 50

_LOCAL = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]"
_DOMAIN = r"(?:[A-Za-z0-9_-]{1,63}\.){1,10}(?:[A-Za-z]{2,24}|xn--[A-Za-z0-9-]{1,59})(?![A-Za-z0-9-])"
_PLAIN = rf"(?:(?<!{_LOCAL}){_LOCAL}{{1,64}}|\"[^\s\"<>@]{{1,62}}\")@{_DOMAIN}"
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
#: Postfix and qmail name so whoever failed, be it a postmaster: `<address>: host …`, `<address> (expanded from …`.
_BEYOND_DOUBT = re.compile(r"^(<[^\s<>@]{1,64}@[^\s<>@]{1,255}>)(?::\s| \()", re.MULTILINE)
#: From this place on any sentence may name somebody.
_PROSE = 4
#: Lines and links whose addresses are no recipients.
_NO_RECIPIENTS = re.compile(
    r"^[ \t>|]{0,8}(?:message-?id|in-reply-to|references|from|sender|reply-to|return-path|mail from|x-[\w-]{1,40}|"
    r"absender|von|expéditeur|remitente|mittente|remetente|afzender|nadawca|отправитель|från|差出人|发件人|寄件者|"
    r"보낸 ?사람)[ \t]{0,4}[:：][^\n]*|"
    rf"\b(?:from|von|proveniente da|van|от)[ \t]{{1,4}}['\"(<]{{0,2}}{_PLAIN}|"
    rf"\b(?:forward|report|complain|removal|delist)[a-z]{{0,6}}\b[^\n@]{{0,80}}?\bto[ \t]{{1,4}}['\"(<]{{0,2}}{_PLAIN}|"
    rf"\b(?:contact|write to|e-?mail us at)[ \t:]{{1,4}}['\"(<]{{0,2}}{_PLAIN}|"
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
    r"(?:mailer-?daemon|postmaster|hostmaster|abuse|no-?reply|do-?not-?reply|support|help|helpdesk)(?:[+.-][^@]*)?@",
    re.IGNORECASE,
)
_TO_LINE = re.compile(rf"^[ \t>]{{0,8}}To:[^\n@<>]{{0,200}}?({_ANY})[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)


def named_recipients(message: ParsedMail, text: str) -> list[str]:
    """The recipients that a report names, without its own addressees and those who are in charge of mail."""
    named = [one.address for one in message.headers.mailboxes("X-Failed-Recipients") if "@" in one.address]
    if named:
        return list(dict.fromkeys(named))[:MAX_RECIPIENTS]
    own = _own_addresses(message)
    found: list[str] = []
    if "@" in text:
        cleaned = _NO_RECIPIENTS.sub(" ", _X400_NAME.sub(" ", text))
        undescribed = _DESCRIPTION.sub("\n", cleaned)
        found = _placed(message, undescribed, own)
        if not found and undescribed != cleaned:
            found = _placed(message, cleaned, own)
    return found or _unlike((_bare(one) for one in _ANYWHERE.findall(message.subject or "")), own)


def _placed(message: ParsedMail, cleaned: str, own: set[str]) -> list[str]:
    of_ourselves: list[str] = []
    for number, place in enumerate(_PLACES):
        found = [_bare(one[1]) for one in place.finditer(cleaned)]
        meant = {_bare(one) for one in _BEYOND_DOUBT.findall(cleaned)} if number == 0 else set()
        useful = list(dict.fromkeys(one for one in found if one in meant or not _ROLES.match(one)))
        strangers = _unlike(useful, own)
        if len(strangers) > 1 and number >= _PROSE:
            # Some are whom to ask for help: those that the message went to, if it came back.
            addressed = _addressed(message)
            strangers = [one for one in strangers if one.lower() in addressed] or strangers
        if strangers:
            return strangers[:MAX_RECIPIENTS]
        if number == 0:
            of_ourselves = useful
    return of_ourselves[:MAX_RECIPIENTS]


def recipient_of_original(message: ParsedMail, quoted: str) -> list[str]:
    """To whom the returned message went, where that is one address alone."""
    for headers in returned_headers(message):
        if found := _unlike([one.address for one in headers.mailboxes("To") if "@" in one.address], set()):
            return found if len(found) == 1 else []
    line = _TO_LINE.search(quoted)
    return [_bare(line[1])] if line else []


def _addressed(message: ParsedMail) -> set[str]:
    """To whom the returned message went, lower case."""
    headers = returned_headers(message)
    return {one.address.lower() for header in headers for name in ("To", "Cc") for one in header.mailboxes(name)}


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
    bare = written.removeprefix("<").removeprefix("mailto:").removesuffix(">").strip("'`*|").rstrip(".")
    return bare if '"@' in bare else bare.strip('"')
