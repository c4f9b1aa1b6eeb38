"""What a mail server's configuration may hold: each field by itself, then what must fit together. Pure.

Refuses when it is saved what would otherwise fail mail by mail; whether the server answers is asked elsewhere
(`messaging.mail.connectivity`).
"""

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from messaging import field_checks
from messaging.errors import ConfigRejected
from messaging.field_checks import HOST_NAME, MAX_NUMBER, MAX_PORT, host, number, one_of, secret, switch, text
from messaging.mail import dkim, verp
from messaging.mail.addresses import MAX_REPLY_TO_CHARS, AddressError, parse_mailbox, parse_reply_to

#: Never shown, not even to say what is wrong with them.
SECRET_FIELDS = frozenset({"password", "dkim_private_key"})


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
    return field_checks.checked(given, _CHECKS, what="a mail server", secrets=SECRET_FIELDS)


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


def _dns_name(max_chars: int) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        name = text(max_chars)(value)
        if name is not None and ("_" in name or not HOST_NAME.fullmatch(name.lower())):
            raise ValueError("allowed: labels of ASCII letters, digits and hyphens")
        return name

    return check


def _mailbox(value: Any) -> str | None:
    mailbox = text(255)(value)
    if mailbox is not None:
        parse_mailbox(mailbox)
    return mailbox


def _reply_to(value: Any) -> str | None:
    reply_to = parse_reply_to(text(255)(value))
    if reply_to is not None and len(reply_to) > MAX_REPLY_TO_CHARS:
        raise ValueError(f"allowed: {MAX_REPLY_TO_CHARS} characters once normalised")
    return reply_to


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "name": text(100, is_required=True),
    "description": text(500),
    "protocol": one_of("SMTP", "SMTPS"),
    "host": host,
    "port": number(1, MAX_PORT),
    "ssl_enabled": switch,
    "starttls_enabled": switch,
    "username": text(255),
    "password": secret(),
    "from_address": _mailbox,
    "from_name": text(100),
    "reply_to_address": _reply_to,
    "envelope_sender": _mailbox,
    "verp": switch,
    #: 0 is no limit, as None.
    "daily_send_limit": number(0, MAX_NUMBER, is_required=False),
    "rate_limit_per_minute": number(0, MAX_NUMBER, is_required=False),
    "dkim_domain": _dns_name(253),
    "dkim_selector": _dns_name(63),
    "dkim_private_key": secret(),
    "read_receipt_enabled": switch,
    "is_default": switch,
    "active": switch,
    "sequence": number(-MAX_NUMBER, MAX_NUMBER),
}
