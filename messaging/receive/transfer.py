"""Transfer encodings of parts, undone as well as can be (RFC 2045, 6): nothing raises, all of it takes linear time.

What names an encoding that nobody knows is taken as it is.
"""

import binascii
import re

_TOKEN = re.compile(r"[A-Za-z0-9-]+")
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NOISE = bytes(octet for octet in range(256) if octet not in _BASE64 + b"=")
_PIECE = re.compile(rb"[A-Za-z0-9+/]+")
_LINE = re.compile(rb"[^\r\n]+")
_SPACED_SOFT_BREAK = re.compile(rb"=[ \t]+(?=[\r\n])")
_UU_BEGIN = re.compile(rb"^begin [0-7]{3,4} ", re.MULTILINE)
_UU_NAMES = frozenset(["uuencode", "x-uuencode", "uue", "x-uue"])


def undo(encoding: str | None, octets: bytes) -> bytes:
    """The content that was encoded; `encoding` is the field's value, perhaps with a comment or a stray semicolon."""
    token = _TOKEN.search(encoding) if encoding else None
    match token.group().lower() if token else None:
        case "base64":
            return decode_base64(octets)
        case "quoted-printable":
            return decode_quoted_printable(octets)
        case name if name in _UU_NAMES:
            return decode_uuencoded(octets)
    return octets


def decode_base64(octets: bytes) -> bytes:
    """Base64 with noise, with no padding or too much of it, in several pieces, or with a footer after its end."""
    padding = octets.find(b"=")
    if padding < 0 or not octets[padding:].strip(b"= \t\r\n"):
        try:
            return binascii.a2b_base64(octets)
        except binascii.Error:
            return _decoded(octets.translate(None, _NOISE + b"="))
    rest = octets[padding:]
    if len(rest.translate(None, _NOISE)) < len(rest.translate(None, b" \t\r\n")):
        # A footer that somebody appended is no base64; further pieces are.
        return _decoded(octets[:padding].translate(None, _NOISE))
    decoded = bytearray()
    for piece in _PIECE.finditer(octets.translate(None, _NOISE)):
        decoded += _decoded(piece.group())
    return bytes(decoded)


def decode_quoted_printable(octets: bytes) -> bytes:
    """Quoted-printable; `=` before anything but two hexadecimal digits or a line end stays."""
    if b"=" not in octets:
        return octets
    # The decoder leaves spaces before the line end of a soft break, and after `=` and CR drops all up to the next LF.
    repaired, position = bytearray(), 0
    for found in _SPACED_SOFT_BREAK.finditer(octets):
        repaired += octets[position : found.start() + 1]
        position = found.end()
    whole = repaired + octets[position:] if position else octets
    return binascii.a2b_qp(whole.replace(b"=\r\n", b"=\n").replace(b"=\r", b"=\n"))


def decode_uuencoded(octets: bytes) -> bytes:
    """The first file of a uuencoded text, line by line; a line that is none ends it."""
    begin = _UU_BEGIN.search(octets)
    if begin is None:
        return octets
    decoded = bytearray()
    first_line_end = octets.find(b"\n", begin.end())
    for found in _LINE.finditer(octets, first_line_end if first_line_end >= 0 else len(octets)):
        line = found.group()
        if line.rstrip() in (b"end", b"`"):
            break
        try:
            decoded += binascii.a2b_uu(line)
        except binascii.Error:
            # Some encoders write more than the length says; what it says is there.
            try:
                decoded += binascii.a2b_uu(line[: (((line[0] - 32) & 63) * 4 + 5) // 3])
            except binascii.Error:
                break
    return bytes(decoded)


def _decoded(octets: bytes) -> bytes:
    """Clean base64 without padding; the last character of a torn one is dropped."""
    if len(octets) % 4 == 1:
        octets = octets[:-1]
    return binascii.a2b_base64(octets + b"=" * (-len(octets) % 4))
