"""Header fields of a received mail, read leniently: nothing here raises, whatever the octets are (RFC 5322, 2047)."""

import email
import email.header
import email.utils
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from messaging.receive.charsets import decode, storable


class Mailbox(NamedTuple):
    """One address of an address list."""

    #: Decoded; empty without one.
    name: str
    #: Bare; text that is no address stays as it is.
    address: str


class Headers:
    """The fields of one header block, found by name in any case, in their order."""

    def __init__(self, fields: Sequence[tuple[str, str]]) -> None:
        """`fields` hold the values as written, folded; octets beyond ASCII as surrogates (`surrogateescape`)."""
        self._fields = [(name.lower(), value) for name, value in fields]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._fields)

    def __contains__(self, name: str) -> bool:
        return any(own == name.lower() for own, _ in self._fields)

    def raw(self, name: str) -> list[str]:
        """The values as written, unfolded, encoded words as they are."""
        wanted = name.lower()
        return [_unfold(value) for own, value in self._fields if own == wanted]

    def all(self, name: str) -> list[str]:
        """The values, decoded and unfolded."""
        return [decode_words(value) for value in self.raw(name)]

    def first(self, name: str) -> str | None:
        """The first value, decoded and unfolded; None without the field, empty for a blank one."""
        return next(iter(self.all(name)), None)

    def mailboxes(self, name: str) -> list[Mailbox]:
        """The addresses of all fields of this name."""
        found = email.utils.getaddresses(self.raw(name))
        return [Mailbox(decode_words(label), storable(address)) for label, address in found if label or address]


def parse_headers(block: bytes) -> Headers:
    """The fields of a header block, or of the message that begins with one."""
    head = block.replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    return Headers(email.message_from_bytes(head + b"\n\n").raw_items())  # type: ignore[arg-type]


def decode_words(value: str) -> str:
    """A value with its encoded words decoded (RFC 2047); what cannot be decoded stays as it is."""
    text = ""
    try:
        pieces = email.header.decode_header(value)
    except ValueError:
        pieces = [(value, None)]
    for piece, charset in pieces:
        octets = piece.encode("utf-8", "surrogateescape") if isinstance(piece, str) else piece
        text += decode(octets, charset)
    return storable(text.strip())


def _unfold(value: str) -> str:
    return "".join(value.splitlines()) if "\n" in value or "\r" in value else value
