"""Links by which a recipient leaves a list with one click, and the header fields that name them (RFC 8058).

A link holds a signed token and shows neither list nor address. Who answers it, and what leaving means, is decided by
the HTTP application and the suppression list.
"""

import base64
import re
from dataclasses import dataclass

from messaging.db.encryption import MacPurpose, is_mac, mac

#: Where the HTTP application answers tokens, below the base URL.
PATH = "/hooks/unsubscribe/"

#: Octets of the MAC, at which nobody guesses a token however often they ask.
_MAC_OCTETS = 16
#: Octets that tell whether a record is still about the address and list it was signed for.
_SUBJECT_OCTETS = 4
#: A token's characters: those of a length, two numbers, subject and MAC; never one more than a multiple of four.
_TOKEN = re.compile(r"(?:[A-Za-z0-9_-]{4}){7,15}(?:[A-Za-z0-9_-]{2,3})?")


@dataclass(frozen=True, slots=True)
class UnsubscribeToken:
    """What a link that we signed says."""

    record_id: int
    #: The tenant the record belongs to.
    tenant_id: int
    _subject: bytes

    def is_about(self, *, list_name: str, address: str) -> bool:
        """Whether the link was made for this list and address: what the record found by `record_id` must say too.

        It does not where a database was put back to an older state and gave the same id to another mail.
        """
        return is_mac(self._subject, MacPurpose.UNSUBSCRIBE, _subject(list_name, address), octets=_SUBJECT_OCTETS)


def url(base_url: str, *, record_id: int, tenant_id: int, list_name: str, address: str) -> str:
    """The link for this record under `base_url` (`https://mail.example.com`, with or without a path): about 80 octets.

    The same for each call as long as the first key stays the same. `address` without a display name.
    """
    record = record_id.to_bytes(_octets_of(record_id), "big", signed=True)
    tenant = tenant_id.to_bytes(_octets_of(tenant_id), "big", signed=True)
    subject = mac(MacPurpose.UNSUBSCRIBE, _subject(list_name, address), octets=_SUBJECT_OCTETS)
    payload = bytes([len(record)]) + record + tenant + subject
    return base_url.rstrip("/") + PATH + _encoded(payload + _mac(payload))


def read(token: str) -> UnsubscribeToken | None:
    """What the token says, if it was signed with any key in use; None for every other text."""
    if not _TOKEN.fullmatch(token):
        return None
    octets = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    payload, given = octets[:-_MAC_OCTETS], octets[-_MAC_OCTETS:]
    # The last character may hold bits that no octet is made of: one token has one spelling.
    is_ours = is_mac(given, MacPurpose.UNSUBSCRIBE, _signed(payload), octets=_MAC_OCTETS)
    if not is_ours or _encoded(octets) != token:
        return None
    ids, subject = payload[1:-_SUBJECT_OCTETS], payload[-_SUBJECT_OCTETS:]
    record, tenant = ids[: payload[0]], ids[payload[0] :]
    return UnsubscribeToken(
        int.from_bytes(record, "big", signed=True), int.from_bytes(tenant, "big", signed=True), subject
    )


def header_fields(link: str) -> dict[str, str]:
    """The two fields that a mail with this link carries; DKIM must cover both (RFC 8058, 3.1 and 4)."""
    return {"List-Unsubscribe": f"<{link}>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"}


def _mac(payload: bytes) -> bytes:
    return mac(MacPurpose.UNSUBSCRIBE, _signed(payload), octets=_MAC_OCTETS)


def _signed(payload: bytes) -> bytes:
    return b"token\0" + payload


def _subject(list_name: str, address: str) -> bytes:
    return f"subject\0{list_name}\0{address}".encode()


def _octets_of(number: int) -> int:
    return number.bit_length() // 8 + 1


def _encoded(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode("ascii")
