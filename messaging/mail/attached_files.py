"""An attached file as a MIME part: its fields, and its content encoded while it is read (RFC 2045, RFC 2183).

Not here: where it is stored (`messaging.files`), and where the part stands in the message (`messaging.mail.mime`).
"""

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import SEEK_END
from typing import BinaryIO

from messaging.files import clean_file_name
from messaging.mail.header_fields import MAX_LINE_OCTETS
from messaging.mail.media_types import MESSAGE, OCTET_STREAM, media_type, parameter, parameter_of_old
from messaging.mail.message import Piece

#: Octets that make one line of base64, 76 characters (RFC 2045, 6.8).
_LINE_OCTETS = 57
_LINE_CHARS = 76
#: Octets read at once: whole lines, some 64 KiB when encoded.
_READ_OCTETS = 840 * _LINE_OCTETS
#: What stands between angle brackets in Content-ID, so that the field is one line.
_CONTENT_ID = re.compile(r"[!-;=?-~]{1,250}")


class ContentIdError(ValueError):
    """A content id that no Content-ID field can hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttachedFile:
    """A file that goes with a mail, opened; read from its beginning as often as the message is."""

    #: Seekable; nobody else reads it meanwhile.
    content: BinaryIO = field(repr=False)
    #: As the caller gave it.
    file_name: str
    #: None: `application/octet-stream`.
    content_type: str | None = None
    #: Without angle brackets; makes it an inline image where there is an html body.
    content_id: str | None = None


def content_id_field(content_id: str) -> str:
    """The field's value (RFC 2045, 7), with the angle brackets that a `cid:` URL leaves out. Raises: ContentIdError."""
    if not _CONTENT_ID.fullmatch(content_id):
        raise ContentIdError("a content_id is 1 to 250 printable ASCII characters without spaces and angle brackets")
    return f"<{content_id}>"


def file_part(file: AttachedFile, *, is_inline: bool, token: bytes) -> list[bytes | Piece]:
    """One part: its fields, a blank line, the content. `token` is in every boundary and therefore in no content.

    Raises: ContentIdError; UnicodeEncodeError for a name that is no text; OSError.
    """
    kind = media_type(file.content_type)
    body: Piece | None = None
    if kind == MESSAGE:
        body = _as_it_is(file.content, token)
        kind = MESSAGE if body else OCTET_STREAM
    encoding = "7bit" if body else "base64"
    name = clean_file_name(file.file_name)
    fields = [
        f"Content-Type: {kind}{parameter_of_old('name', name)}",
        f"Content-Disposition: {'inline' if is_inline else 'attachment'}{parameter('filename', name)}",
        f"Content-Transfer-Encoding: {encoding}",
    ]
    if is_inline and file.content_id is not None:
        fields.append(f"Content-ID: {content_id_field(file.content_id)}")
    return ["\r\n".join([*fields, "", ""]).encode("ascii"), body or _Base64(file.content)]


class _Base64:
    """A file's content in lines of base64."""

    def __init__(self, content: BinaryIO) -> None:
        self._content = content
        octets = content.seek(0, SEEK_END)
        self.size = (octets + 2) // 3 * 4 + (octets + _LINE_OCTETS - 1) // _LINE_OCTETS * 2

    def chunks(self) -> Iterator[bytes]:
        self._content.seek(0)
        while octets := self._content.read(_READ_OCTETS):
            encoded = binascii.b2a_base64(octets, newline=False)
            lines = [encoded[start : start + _LINE_CHARS] for start in range(0, len(encoded), _LINE_CHARS)]
            yield b"\r\n".join([*lines, b""])


class _Lines:
    """A text file's content, its lines ended by CRLF."""

    def __init__(self, content: BinaryIO, size: int) -> None:
        self._content = content
        self.size = size

    def chunks(self) -> Iterator[bytes]:
        self._content.seek(0)
        while lines := self._content.readlines(_READ_OCTETS):
            yield b"".join(map(_crlf, lines))


def _as_it_is(content: BinaryIO, token: bytes) -> _Lines | None:
    """A mail as a part without an encoding; None where it would not arrive unchanged, or is none.

    Such a one goes in base64 as a file of no particular type: servers refuse `message/rfc822` in base64, programs show
    it empty.
    """
    content.seek(0)
    size = 0
    while line := content.readline(MAX_LINE_OCTETS + 3):
        text = line.removesuffix(b"\r\n").removesuffix(b"\n")
        is_fit = (
            len(text) <= MAX_LINE_OCTETS
            and text.isascii()
            and b"\0" not in text
            and b"\r" not in text
            and text != b"."
            and not text.startswith(b"From ")
            and token not in text
        )
        if not is_fit:
            return None
        size += len(_crlf(line))
    return _Lines(content, size) if size else None


def _crlf(line: bytes) -> bytes:
    return line if line.endswith(b"\r\n") or not line.endswith(b"\n") else line[:-1] + b"\r\n"
