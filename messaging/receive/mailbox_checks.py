"""What a mailbox's configuration may hold: each field by itself, then what must fit together. Pure.

Refuses when it is saved what would otherwise fail fetch by fetch; whether the mailbox answers is asked elsewhere
(`messaging.receive.connectivity`).
"""

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from messaging import field_checks
from messaging.errors import ConfigRejected
from messaging.field_checks import MAX_NUMBER, MAX_PORT, host, number, one_of, secret, switch, text
from messaging.receive.vocabulary import MailboxAuth, Protocol

#: Never shown, not even to say what is wrong with them.
SECRET_FIELDS = frozenset({"password"})

#: What a mailbox without folders named is read from; the only folder that POP3 knows.
INBOX = "INBOX"
#: Longest name of one folder, as long as the column of its watermark.
MAX_FOLDER_CHARS = 100
#: Beat's tick comes every 15 s.
MIN_INTERVAL_SECONDS = 15
#: A year: what is fetched less often is not fetched.
MAX_INTERVAL_SECONDS = 31_536_000

#: Where a server of this protocol usually listens (RFC 8314, 7.3; RFC 1939, 3; RFC 9051, 2.1).
USUAL_PORT = {Protocol.IMAP: 143, Protocol.IMAPS: 993, Protocol.POP3: 110, Protocol.POP3S: 995}


class MailboxFields(TypedDict, total=False):
    """The fields of `MailReceiveServerConfig` that are given; what they mean is said there."""

    name: str
    description: str | None
    protocol: str
    host: str
    port: int
    ssl_enabled: bool
    username: str | None
    password: str | None
    auth: str
    fetch_interval_seconds: int | None
    fetch_folders: str | None
    is_default: bool
    active: bool
    sequence: int


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as they are stored: trimmed, blank ones None.

    Raises: ConfigRejected, naming the field; TypeError for a field that there is none of.
    """
    return field_checks.checked(given, _CHECKS, what="a mailbox", secrets=SECRET_FIELDS)


def check_together(fields: Mapping[str, Any]) -> None:
    """Refuse what does not fit together; `fields` are all of them, a secret that is not at hand as True.

    Raises: ConfigRejected.
    """
    if not fields["username"]:
        raise ConfigRejected("username", fields["username"], "needed: no mailbox is read without a login")
    if fields["auth"] == MailboxAuth.PASSWORD and not fields["password"]:
        raise ConfigRejected("password", None, f"needed, as auth is {MailboxAuth.PASSWORD}", is_secret=True)


def folders(stored: str | None) -> list[str]:
    """The folders that are read, in order: a comma list, blanks and repeats dropped; none named is the INBOX.

    INBOX is INBOX in any case (RFC 9051, 5.1); every other name is as it is written.
    """
    names = [name.strip() for name in (stored or "").split(",")]
    named = [INBOX if name.upper() == INBOX else name for name in names if name]
    return list(dict.fromkeys(named)) or [INBOX]


def drains(protocol: str) -> bool:
    """Whether what is stored is deleted from the server: so with POP3, which has no other way to tell what is new."""
    return protocol in (Protocol.POP3, Protocol.POP3S)


def is_tls(protocol: str, *, ssl_enabled: bool) -> bool:
    """Whether a connection is TLS from its first byte; nothing switches that off for IMAPS and POP3S."""
    return ssl_enabled or protocol in (Protocol.IMAPS, Protocol.POP3S)


def _folder_list(value: Any) -> str | None:
    given = text(255)(value)
    for name in folders(given):
        if len(name) > MAX_FOLDER_CHARS:
            raise ValueError(f"folder {name[:20]!r}... has {len(name)} characters; allowed: {MAX_FOLDER_CHARS}")
    return None if given is None else ",".join(folders(given))


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "name": text(100, is_required=True),
    "description": text(500),
    "protocol": one_of(*Protocol),
    "host": host,
    "port": number(1, MAX_PORT),
    "ssl_enabled": switch,
    "username": text(255),
    "password": secret(),
    "auth": one_of(*MailboxAuth),
    "fetch_interval_seconds": number(MIN_INTERVAL_SECONDS, MAX_INTERVAL_SECONDS, is_required=False),
    "fetch_folders": _folder_list,
    "is_default": switch,
    "active": switch,
    "sequence": number(-MAX_NUMBER, MAX_NUMBER),
}
