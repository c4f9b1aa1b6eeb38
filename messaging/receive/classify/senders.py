"""Whether a program wrote a mail, as far as its header says (RFC 5321, 4.5.5; RFC 3834, 5; RFC 2142, 5)."""

import re
from functools import cache, lru_cache

from messaging.receive.classify.phrases import Phrases, comparable, table
from messaging.receive.headers import Headers
from messaging.receive.parsed import ParsedMail

_NO_REPLY = re.compile(r"(?:no|not)[-_.]?reply\Z")
_TAG = re.compile(r"[+=].*\Z|[-_.]?\d+\Z", re.DOTALL)


def is_daemon(message: ParsedMail) -> bool:
    """Whether it comes from a program that does nothing but report."""
    return _is_daemon(message.from_address)


def is_postmaster(message: ParsedMail) -> bool:
    """Whether it comes in the name of the person in charge, or of the mail system."""
    return _is_postmaster(message.from_address, message.from_name)


def is_machine(message: ParsedMail) -> bool:
    """Whether a program of any kind sent it: no envelope sender, or an address such as `noreply@`."""
    return _is_of_machine(message.headers, message.from_address, message.from_name)


def has_null_path(message: ParsedMail) -> bool:
    """Whether the envelope sender is empty, as of every report."""
    return _has_null_path(message.headers)


def has_envelope_sender(message: ParsedMail) -> bool:
    """Whether a report of it would have gone to somebody: no report has one, as two servers would report for ever."""
    return _has_envelope_sender(message.headers)


def is_automatic(message: ParsedMail) -> bool:
    """Whether Auto-Submitted says that no person sent it (RFC 3834, 5)."""
    value = (message.headers.first("Auto-Submitted") or "").strip().lower()
    return bool(value) and not value.startswith("no")


def is_answer(message: ParsedMail) -> bool:
    """Whether the subject begins as those of answers and of forwarded mail do: `Re:`, `Fwd:`, `WG:`."""
    subject = message.subject
    if not subject or (":" not in subject and "：" not in subject):
        return False
    return _answers().match(subject) is not None


# One rule after the other asks the same of one mail, in some threads at once.


@lru_cache(maxsize=4)
def _is_of_machine(headers: Headers, address: str | None, name: str | None) -> bool:
    if not address or _has_null_path(headers) or _is_daemon(address) or _is_postmaster(address, name):
        return True
    if "X-MLServer" in headers:  # fml reports from the address of the list
        return True
    return _is_machine(_local(address)) or any(map(_is_machine, map(_local, headers.raw("Return-Path"))))


@lru_cache(maxsize=4)
def _has_null_path(headers: Headers) -> bool:
    paths = headers.raw("Return-Path") + headers.raw("From")
    return "<>" in ["".join(path.split()) for path in paths[:3] if "@" not in path]


@lru_cache(maxsize=4)
def _has_envelope_sender(headers: Headers) -> bool:
    if "X-MLServer" in headers:
        return False
    paths = headers.raw("Return-Path")
    return any("@" in path and not _local(path).startswith(_reporters()) for path in paths[:3])


def _is_daemon(address: str | None) -> bool:
    local = _local(address)
    return local in _locals("daemons") or local.startswith(("mailer-daemon", "mailerdaemon"))


@lru_cache(maxsize=8)
def _is_postmaster(address: str | None, name: str | None) -> bool:
    local = _local(address)
    if local in _locals("postmasters") or local.startswith("postmaster"):
        return True
    return _names().is_in(comparable(name or "")[:200])


@lru_cache(maxsize=16)
def _is_machine(local: str) -> bool:
    if local in _locals("machines") or local.startswith("administrator"):
        return True
    return local.endswith("reply") and _NO_REPLY.search(local) is not None


@lru_cache(maxsize=16)
def _local(address: str | None) -> str:
    if not address:
        return ""
    local = address.strip(" \t<>'\"").lower().partition("@")[0].strip("'\" ")
    return local if local.isalpha() else _TAG.sub("", local)


@cache
def _locals(kind: str) -> frozenset[str]:
    return frozenset(table("senders")[kind])


@cache
def _reporters() -> tuple[str, ...]:
    return tuple(_locals("daemons") | _locals("postmasters"))


@cache
def _names() -> Phrases:
    return Phrases(table("senders")["names"])


@cache
def _answers() -> re.Pattern[str]:
    choices = "|".join(map(re.escape, table("subjects")["answers"]))
    return re.compile(
        rf"\s{{0,9}}(?:\[[^\]\r\n]{{0,40}}\]\s{{0,3}})?(?:{choices})(?:\[\d{{1,3}}\]|\(\d{{1,3}}\))?\s{{0,2}}[:：]",
        re.IGNORECASE,
    )
