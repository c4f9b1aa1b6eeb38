"""Whom of a record's recipients a report of delivery is about. Reports spell addresses in ways of their own. Pure.

The report is known to be about the record (by its Message-ID or its VERP address); which of its recipients it means is
asked here: by name as far as that goes, then by there being only one who can be meant (`receive.md` 13).
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import idna

from messaging.delivery.recipients import RecipientStatus, Results
from messaging.suppression import mail_address

#: The column of the record.
MAX_BOUNCE_CODE_CHARS = 20

#: Who is closed in these ways never got the message.
_NOT_REACHED = frozenset({RecipientStatus.REFUSED, RecipientStatus.SUPPRESSED})


@dataclass(frozen=True, slots=True)
class ReportedRecipient:
    """What a report says of one recipient."""

    #: As the report spells them: the recipient as it was sent to (RFC 3464, 2.3.1), then the one it was resolved to;
    #: none where it names nobody.
    names: tuple[str, ...] = ()
    #: Reply code and enhanced status code as in `550 5.1.1`, one of the two, or None.
    code: str | None = None
    #: The other side's words.
    text: str | None = None
    #: Whether another try would fail too.
    is_permanent: bool = True
    #: Whether the address is of no use.
    is_useless: bool = False


@dataclass(frozen=True, slots=True)
class Meant:
    """A recipient of the record that a report is about."""

    #: As the record spells it.
    address: str
    reported: ReportedRecipient
    #: Whether it is this very mailbox that failed. False: the report names somebody else, and this one is the only one
    #: it can be about; or what failed is what its mail was resolved to, which may be one of ten people behind an alias.
    is_named: bool


def bounce_code(reply_code: str | None, status: str | None) -> str | None:
    """The codes as the record shows them, e.g. `550 5.1.1`; None without any."""
    return " ".join(filter(None, (reply_code, status)))[:MAX_BOUNCE_CODE_CHARS].strip() or None


def meant(recipients: Sequence[str], results: Results, reported: Sequence[ReportedRecipient]) -> list[Meant]:
    """The recipients that a report is about, each once, in the record's order.

    A report that names nobody, or nobody of ours (a forward, an alias), is about the only recipient whose server took
    the message, if there is only one; else about nobody by name, and the answer is empty.
    """
    by_name: dict[str, Meant] = {}
    unknown: list[ReportedRecipient] = []
    spellings = Spellings(recipients)
    for one in reported:
        address = spellings.named(one.names)
        if address is None:
            unknown.append(one)
            continue
        found = Meant(address, one, _local_of_mailbox(one.names[-1]) == _local_of_mailbox(address))
        if address not in by_name or _worth(found) > _worth(by_name[address]):
            by_name[address] = found
    if by_name:
        return [by_name[address] for address in recipients if address in by_name]
    reached = _reached(recipients, results)
    if len(reached) != 1 or not unknown:
        return []
    worst = min(unknown, key=lambda one: not one.is_permanent)
    return [Meant(reached[0], worst, all(map(_is_no_address, worst.names)))]


def _worth(found: Meant) -> tuple[bool, bool]:
    """What counts where a report tells of one recipient twice."""
    return found.reported.is_permanent, found.is_named


def _is_no_address(name: str) -> bool:
    """A person's name, as some mail systems have in the place of an address; anything else may be somebody else's."""
    return "@" not in name and " " in name.strip()


def _reached(recipients: Sequence[str], results: Results) -> list[str]:
    """Those who can have got the message."""
    return [r for r in recipients if r not in results or results[r]["result"] not in _NOT_REACHED]


class Spellings:
    """The recipients of a record, to be known by what reports call them; made once for many names."""

    def __init__(self, recipients: Sequence[str]) -> None:
        self._recipients = recipients
        self._by_key: dict[Callable[[str], str], dict[str, list[str]]] = {}

    def named(self, names: Iterable[str]) -> str | None:
        """The recipient that one of these names means, the first name that fits wins; None when none does.

        As it stands, then in any case and form, then without what follows a plus (RFC 5233), as a server may report the
        mailbox that `user+tag` led to; a name without a domain (`LOCAL; user`) is a local part. A name that fits two
        recipients alike is nobody's.
        """
        whole, local = _partition(names)
        for key, given in ((_bare, whole), (_key, whole), (_key_of_mailbox, whole), (_local_part, local)):
            for name in given:
                found = self._with(key).get(key(name), [])
                if len(found) == 1:
                    return found[0]
        return None

    def _with(self, key: Callable[[str], str]) -> dict[str, list[str]]:
        if key not in self._by_key:
            found = self._by_key.setdefault(key, {})
            for recipient in self._recipients:
                found.setdefault(key(recipient), []).append(recipient)
        return self._by_key[key]


def _partition(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Names that are addresses, and those that are local parts at most."""
    whole: list[str] = []
    local: list[str] = []
    for name in names:
        (whole if "@" in name else local).append(name)
    return whole, local


def _bare(address: str) -> str:
    return address.strip().strip("<>").strip()


def _key(address: str) -> str:
    """What two spellings of one address share: no brackets, no needless quotes, one case, the domain in A-labels."""
    local, _, domain = unicodedata.normalize("NFC", _bare(address)).rpartition("@")
    if len(local) > 2 and local[0] == local[-1] == '"' and "\\" not in local:
        local = local[1:-1]
    return mail_address(f"{local}@{_ascii_domain(domain.rstrip('.'))}")


def _key_of_mailbox(address: str) -> str:
    """The same, without the detail of the local part."""
    local, _, domain = _key(address).rpartition("@")
    return f"{local.partition('+')[0] or local}@{domain}"


def _local_of_mailbox(name: str) -> str:
    return _key_of_mailbox(name if "@" in name else f"{_bare(name)}@").rpartition("@")[0]


def _local_part(name: str) -> str:
    return _key(name if "@" in name else f"{_bare(name)}@").rpartition("@")[0]


def _ascii_domain(domain: str) -> str:
    if domain.isascii():
        return domain
    try:
        return idna.encode(domain.lower(), strict=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        return domain
