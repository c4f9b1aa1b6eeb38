"""An envelope sender of its own for each record, so that a bounce says which mail it is about whatever it quotes.

`bounces@example.org` becomes `bounces+{record id}-{mac}@example.org` (VERP; subaddressing, RFC 5233). Whether it is
used is the server configuration's; who reads bounces and what becomes of them is decided elsewhere.
"""

import re

from messaging.db.encryption import MacPurpose, is_mac, mac

#: Octets of a local part and of an address (RFC 5321, 4.5.3.1; a path of 256 octets holds two brackets).
MAX_LOCAL_OCTETS, MAX_ADDRESS_OCTETS = 64, 254
#: Octets of the MAC, written as eight hex digits: what leaves room for a name. A guess is right once in four billion.
MAC_OCTETS = 4
#: A record's id is a bigint.
MAX_RECORD_ID = 2**63 - 1

#: The last mark of a local part, whatever stands before it: forwarders put their own there, `SRS0=HHH=TT=host=local`
#: and `prvs=tag=local` among them. Some write the plus as xtext or URL encoding do (RFC 3461, 4).
_MARK = re.compile(r'(?:\+|\+2B|%2B|=2B)([1-9][0-9]{0,18})-([0-9a-f]{8})"?\Z', re.IGNORECASE | re.ASCII)
#: What may stand around an address: a name before `<`, `rfc822;` in fields of a report (RFC 3464, 2.1.2).
_ADDRESS_TYPE = re.compile(r"\s*[A-Za-z0-9-]+\s*;")


class VerpError(ValueError):
    """No mark fits into this envelope sender; the text says why."""


def address(envelope_sender: str, record_id: int) -> str:
    """`envelope_sender` (`local@domain`, quoted or not, with or without a plus of its own) marked for this record.

    The same for each call as long as the first key stays the same.

    Raises: VerpError, where the result were longer than an address may be.
    """
    local, at, domain = envelope_sender.rpartition("@")
    if not (local and at and domain):
        raise VerpError(f"{envelope_sender!r} is no address that a mark fits into")
    mark = f"+{record_id}-{_mac(record_id).hex()}"
    marked = f'{local[:-1]}{mark}"' if local.startswith('"') and local.endswith('"') else local + mark
    for octets, allowed, what in (
        (len(marked.encode()), MAX_LOCAL_OCTETS, "a local part"),
        (len(f"{marked}@{domain}".encode()), MAX_ADDRESS_OCTETS, "an address"),
    ):
        if octets > allowed:
            raise VerpError(
                f"with the mark of record {record_id} ({len(mark)} octets) it has {what} of {octets} octets;"
                f" allowed: {allowed}; shorten the address or switch verp off"
            )
    return f"{marked}@{domain}"


def read(address: str) -> int | None:
    """The record's id, if `address` is one that `address()` made with any key in use; None for every other.

    Takes an address as bounces bring it: in another case, in angle brackets, behind a name or `rfc822;`, or rewritten
    by a forwarder that keeps the local part at the end of its own.
    """
    text = _ADDRESS_TYPE.sub("", address, count=1).strip()
    if text.endswith(">"):
        text = text[text.rfind("<") + 1 : -1]
    found = _MARK.search(text.rpartition("@")[0])
    if found is None:
        return None
    record_id = int(found[1])
    if record_id > MAX_RECORD_ID:
        return None
    given = bytes.fromhex(found[2])
    return record_id if is_mac(given, MacPurpose.VERP, _message(record_id), octets=MAC_OCTETS) else None


def _mac(record_id: int) -> bytes:
    return mac(MacPurpose.VERP, _message(record_id), octets=MAC_OCTETS)


def _message(record_id: int) -> bytes:
    return b"%d" % record_id
