"""A message as octets that are counted before they are read, read as often as it is sent, and never held all at once.

Who builds one: `messaging.mail.mime`; who sends it: `messaging.mail.smtp`. Knows nothing of what the octets mean.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, Self


class SourceFailed(Exception):
    """A piece could not be read to its end, or is not as long as it said: the message cannot be sent as it is."""


class Piece(Protocol):
    """Octets from elsewhere, 7-bit, whole lines ended by CRLF."""

    @property
    def size(self) -> int:
        """Exact number of octets."""

    def chunks(self) -> Iterator[bytes]:
        """The octets, from the beginning each time. Raises: OSError."""


class Message:
    """Octets of RFC 5322, CRLF line ends, made of what is at hand and of pieces that are read when they are needed."""

    __slots__ = ("_pieces", "size")

    def __init__(self, pieces: Sequence[bytes | Piece]) -> None:
        self._pieces = pieces
        #: Exact number of octets, as RFC 1870 counts them.
        self.size = sum(len(piece) if isinstance(piece, bytes) else piece.size for piece in pieces)

    @classmethod
    def of(cls, octets: bytes) -> Self:
        """A message that is at hand as a whole."""
        return cls((octets,))

    @property
    def whole(self) -> bytes | None:
        """All octets where they are at hand anyway; None where they are to be read."""
        if len(self._pieces) == 1 and isinstance(self._pieces[0], bytes):
            return self._pieces[0]
        return None

    @property
    def is_ascii(self) -> bool:
        """Whether no octet has its eighth bit set."""
        return all(piece.isascii() for piece in self._pieces if isinstance(piece, bytes))

    def chunks(self) -> Iterator[bytes]:
        """All octets in order, from the beginning each time; one reading at a time.

        Raises: SourceFailed.
        """
        for piece in self._pieces:
            if isinstance(piece, bytes):
                yield piece
            else:
                yield from _checked(piece)

    def after(self, fields: bytes) -> "Message":
        """This message with header fields before it: whole lines, each ended by CRLF."""
        first, *rest = self._pieces
        if isinstance(first, bytes):
            return Message((fields + first, *rest))
        return Message((fields, *self._pieces))


def _checked(piece: Piece) -> Iterator[bytes]:
    """A piece's chunks, if they are as many octets as it said: a shorter file would end the mail in its middle."""
    left = piece.size
    try:
        for chunk in piece.chunks():
            left -= len(chunk)
            if left < 0:
                break
            yield chunk
    except OSError as exc:
        raise SourceFailed(f"reading an attachment failed: {exc.strerror or type(exc).__name__}") from exc
    if left:
        raise SourceFailed("an attachment is not as long as it was when the message was built")
