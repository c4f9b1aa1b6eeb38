"""What a mail server's configuration may hold: each field by itself, then what must fit together. Pure.

Refuses when it is saved what would otherwise fail mail by mail; whether the server answers is asked elsewhere
(`messaging.mail.connectivity`).
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import idna

from messaging.errors import ConfigRejected
from messaging.mail import dkim, verp
from messaging.mail.addresses import MAX_REPLY_TO_CHARS, AddressError, parse_mailbox, parse_reply_to

MAX_PORT = 65_535
#: Largest value of an integer column.
MAX_NUMBER = 2**31 - 1
#: Never shown, not even to say what is wrong with them.
SECRET_FIELDS = frozenset({"password", "dkim_private_key"})

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
#: Underscores are in no host name (RFC 1123), but in names that containers are called by.
_HOST_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")


class ServerFields(TypedDict, total=False):
    """The fields of `MailSendServerConfig` that are given; what they mean is said there."""

    name: str
    description: str | None
    protocol: str
    host: str
    port: int
    ssl_enabled: bool
    starttls_enabled: bool
    username: str | None
    password: str | None
    from_address: str | None
    from_name: str | None
    reply_to_address: str | None
    envelope_sender: str | None
    verp: bool
    daily_send_limit: int | None
    rate_limit_per_minute: int | None
    dkim_domain: str | None
    dkim_selector: str | None
    dkim_private_key: str | None
    read_receipt_enabled: bool
    is_default: bool
    active: bool
    sequence: int


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as they are stored: trimmed, blank ones None.

    Raises: ConfigRejected, naming the field; TypeError for a field that there is none of.
    """
    stored: dict[str, Any] = {}
    for field, value in given.items():
        if field not in _CHECKS:
            raise TypeError(f"a mail server has no field {field!r}; it has {', '.join(_CHECKS)}")
        try:
            stored[field] = _CHECKS[field](value)
        except ValueError as exc:
            raise ConfigRejected(field, value, str(exc), is_secret=field in SECRET_FIELDS) from exc
    return stored


def check_together(fields: Mapping[str, Any]) -> None:
    """Refuse what does not fit together; `fields` are all of them, a secret that is not at hand as True.

    Raises: ConfigRejected.
    """
    if fields["starttls_enabled"] and (fields["ssl_enabled"] or fields["protocol"] == "SMTPS"):
        implicit = "ssl_enabled" if fields["ssl_enabled"] else "protocol SMTPS"
        raise ConfigRejected("starttls_enabled", True, f"{implicit} is TLS from the first byte; choose one kind")
    if not fields["from_address"]:
        try:
            parse_mailbox(fields["username"] or "")
        except AddressError:
            reason = f"needed, as the username {fields['username']!r} is no address that mail could be from"
            raise ConfigRejected("from_address", fields["from_address"], reason) from None
    if fields["verp"]:
        sender = fields["envelope_sender"] or fields["from_address"] or fields["username"]
        try:
            verp.address(parse_mailbox(sender).address, verp.MAX_RECORD_ID)
        except (AddressError, verp.VerpError) as exc:
            raise ConfigRejected("verp", True, f"no room for a mark in the envelope sender {sender}: {exc}") from exc
    trio = {name: fields[name] for name in ("dkim_domain", "dkim_selector", "dkim_private_key")}
    for name, value in trio.items():
        if value is None and any(trio.values()):
            raise ConfigRejected(name, None, f"needed, as DKIM signs with all of {', '.join(trio)}")
    if isinstance(trio["dkim_private_key"], str):
        try:
            dkim.check(
                domain=trio["dkim_domain"],
                selector=trio["dkim_selector"],
                private_key_pem=trio["dkim_private_key"],
            )
        except dkim.DkimConfigError as exc:
            raise ConfigRejected(exc.column, trio[exc.column], exc.reason, is_secret=True) from exc


def _text(max_chars: int, *, is_required: bool = False) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if value is not None and not isinstance(value, str):
            raise ValueError("allowed: text")
        text = (value or "").strip()
        if _CONTROL.search(text):
            raise ValueError("allowed: no control characters")
        if len(text) > max_chars:
            raise ValueError(f"it has {len(text)} characters; allowed: {max_chars}")
        if is_required and not text:
            raise ValueError("it is required")
        return text or None

    return check


def _secret(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError("is no text")
    if "\0" in (value or ""):
        raise ValueError("holds a NUL")
    return value or None


def _host(value: Any) -> str:
    text = _text(255, is_required=True)(value) or ""
    try:
        return str(ipaddress.ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        pass
    name = text.lower().removesuffix(".")
    if not name.isascii():
        try:
            name = idna.encode(name).decode("ascii")
        except (idna.IDNAError, UnicodeError):
            raise ValueError("allowed: a host name or an IP address") from None
    if not _HOST_NAME.fullmatch(name):
        raise ValueError("allowed: a host name or an IP address, without scheme and port")
    return name


def _dns_name(max_chars: int) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        text = _text(max_chars)(value)
        if text is not None and ("_" in text or not _HOST_NAME.fullmatch(text.lower())):
            raise ValueError("allowed: labels of ASCII letters, digits and hyphens")
        return text

    return check


def _mailbox(value: Any) -> str | None:
    text = _text(255)(value)
    if text is not None:
        parse_mailbox(text)
    return text


def _reply_to(value: Any) -> str | None:
    reply_to = parse_reply_to(_text(255)(value))
    if reply_to is not None and len(reply_to) > MAX_REPLY_TO_CHARS:
        raise ValueError(f"allowed: {MAX_REPLY_TO_CHARS} characters once normalised")
    return reply_to


def _number(low: int, high: int, *, is_required: bool = True) -> Callable[[Any], int | None]:
    def check(value: Any) -> int | None:
        if value is None and not is_required:
            return None
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"allowed: {low} to {high}" + ("" if is_required else ", or none"))
        return value

    return check


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("allowed: True or False")
    return value


def _protocol(value: Any) -> str:
    if value not in ("SMTP", "SMTPS"):
        raise ValueError("allowed: SMTP, SMTPS")
    return str(value)


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "name": _text(100, is_required=True),
    "description": _text(500),
    "protocol": _protocol,
    "host": _host,
    "port": _number(1, MAX_PORT),
    "ssl_enabled": _switch,
    "starttls_enabled": _switch,
    "username": _text(255),
    "password": _secret,
    "from_address": _mailbox,
    "from_name": _text(100),
    "reply_to_address": _reply_to,
    "envelope_sender": _mailbox,
    "verp": _switch,
    #: 0 is no limit, as None.
    "daily_send_limit": _number(0, MAX_NUMBER, is_required=False),
    "rate_limit_per_minute": _number(0, MAX_NUMBER, is_required=False),
    "dkim_domain": _dns_name(253),
    "dkim_selector": _dns_name(63),
    "dkim_private_key": _secret,
    "read_receipt_enabled": _switch,
    "is_default": _switch,
    "active": _switch,
    "sequence": _number(-MAX_NUMBER, MAX_NUMBER),
}
