"""One header field as folded lines: text, names and addresses within RFC 5322 (2.1.1, 3.4), RFC 2047 and RFC 6532.

Only writes; what may stand in a field is decided by its callers. Nothing here depends on the server or the locale.
"""

import binascii
import re
from collections.abc import Iterable, Sequence

from messaging.mail.addresses import Mailbox, from_canonical

#: Characters a line should not exceed where it can be broken (RFC 5322, 2.1.1).
LINE_CHARS = 78
#: Characters a line with an encoded-word in it may have (RFC 2047, 2).
ENCODED_LINE_CHARS = 76
#: Octets a line must never exceed, CRLF not counted (RFC 5322, 2.1.1; RFC 6532, 3.4).
MAX_LINE_OCTETS = 998
#: Characters of an encoded-word (RFC 2047, 2).
MAX_WORD_CHARS = 75
#: Characters an encoded-word has at least, however long the name of the field before it.
_MIN_WORD_CHARS = 40
#: Characters of a word or a quoted-string that is written as it is: fits beside any field name of this package.
_MAX_PLAIN_CHARS = 64

_ATEXT = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
_ATOMS = re.compile(rf"{_ATEXT}{{1,{_MAX_PLAIN_CHARS}}}(?: {_ATEXT}{{1,{_MAX_PLAIN_CHARS}}})*")
_WORDS = re.compile(rf"[!-~]{{1,{_MAX_PLAIN_CHARS}}}(?: [!-~]{{1,{_MAX_PLAIN_CHARS}}})*")
_LITERAL = re.compile(r" *[^ ]+")
_SPECIAL_IN_QUOTES = re.compile(r'(["\\])')

_WORD_OVERHEAD = len("=?utf-8?q??=")
#: The octets that Q leaves alone also within a phrase (RFC 2047, 5 rule 3), and the space.
_Q_SAFE = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!*+-/ "
_Q_CHAR = {char: char for char in _Q_SAFE.decode()} | {" ": "_"}


class FieldError(ValueError):
    """A value that no lines of a header can hold."""


def text_field(name: str, text: str) -> str:
    """An unstructured field (RFC 5322, 3.6.5): as it is where every reader sees it so, else in encoded-words."""
    if not text:
        return f"{name}:"
    # What looks like an encoded-word would be decoded, and a run of spaces does not survive every reader.
    if "=?" not in text and _WORDS.fullmatch(text):
        if len(name) + 2 + len(text) <= LINE_CHARS:
            return f"{name}: {text}"
        return _folded(name, text.split(" "))
    return _folded(name, encoded_words(text, _word_chars(name)))


def literal_field(name: str, value: str) -> str:
    """A field whose ASCII value is written as it is, folded only at its spaces; none of them is lost.

    Raises: FieldError, where a part without spaces does not fit a line.
    """
    if len(name) + 2 + len(value) <= LINE_CHARS:
        return f"{name}: {value}"
    first, *rest = _LITERAL.findall(value.strip(" "))
    return _folded(name, [first, *(part[1:] for part in rest)])


def mailbox_field(name: str, mailboxes: Sequence[Mailbox]) -> str:
    """An address field; display names as atoms, a quoted-string or encoded-words, addresses never encoded.

    Raises: FieldError.
    """
    tokens: list[str] = []
    for mailbox in mailboxes:
        if tokens:
            tokens[-1] += ","
        if mailbox.display_name:
            tokens += _phrase(mailbox.display_name, _word_chars(name))
            tokens.append(f"<{mailbox.address}>")
        else:
            tokens.append(mailbox.address)
    return _folded(name, tokens)


def canonical_field(name: str, stored: Sequence[str]) -> str:
    """An address field of stored canonical mailboxes, which mostly are what the field has to say already."""
    joined = ", ".join(stored)
    if is_ready(name, joined):
        return f"{name}: {joined}"
    return mailbox_field(name, [from_canonical(text) for text in stored])


def is_ready(name: str, addresses: str) -> bool:
    """Whether a valid address list can be written without a change: one line, ASCII, nothing a reader alters."""
    return (
        len(name) + 2 + len(addresses) <= LINE_CHARS
        and addresses.isascii()
        and "=?" not in addresses
        and "  " not in addresses
    )


def phrase_field(name: str, phrases: Sequence[str], *, ending: str = "") -> str:
    """A field of comma-separated phrases (Keywords), or of one phrase and an `ending` (List-Id)."""
    tokens: list[str] = []
    for phrase in phrases:
        if tokens:
            # Beside an encoded-word stands a space, not a comma (RFC 2047, 5 rule 3).
            tokens.append(",")
        tokens += _phrase(phrase, _word_chars(name))
    if ending:
        tokens.append(ending)
    return _folded(name, tokens)


def _phrase(text: str, word_chars: int) -> list[str]:
    if "=?" not in text:
        if _ATOMS.fullmatch(text):
            return text.split(" ")
        if len(text) <= _MAX_PLAIN_CHARS and _WORDS.fullmatch(text):
            return ['"' + _SPECIAL_IN_QUOTES.sub(r"\\\1", text) + '"']
    return encoded_words(text, word_chars)


def _word_chars(name: str) -> int:
    """How long encoded-words may be so that the first one stands on the line of the field's name."""
    return max(_MIN_WORD_CHARS, min(MAX_WORD_CHARS, ENCODED_LINE_CHARS - len(name) - 2))


def encoded_words(text: str, word_chars: int) -> list[str]:
    """The whole text in encoded-words of at most `word_chars` characters.

    A reader drops the space between two of them, so nothing is gained or lost.
    """
    octets = text.encode()
    room = word_chars - _WORD_OVERHEAD
    quoted = len(octets.translate(None, _Q_SAFE))
    if 6 * quoted > len(octets):
        return _b_words(octets, room)
    return _q_words(text, room)


def _b_words(octets: bytes, room: int) -> list[str]:
    step = room // 4 * 3
    words: list[str] = []
    start = 0
    while start < len(octets):
        end = start + step
        while end < len(octets) and octets[end] & 0xC0 == 0x80:  # inside a character
            end -= 1
        words.append(f"=?utf-8?b?{binascii.b2a_base64(octets[start:end], newline=False).decode()}?=")
        start = end
    return words


def _q_words(text: str, room: int) -> list[str]:
    words: list[str] = []
    word = ""
    for char in text:
        piece = _Q_CHAR.get(char) or "".join(f"={octet:02X}" for octet in char.encode())
        if len(word) + len(piece) > room:
            words.append(f"=?utf-8?q?{word}?=")
            word = piece
        else:
            word += piece
    words.append(f"=?utf-8?q?{word}?=")
    return words


def _folded(name: str, tokens: Iterable[str]) -> str:
    """The tokens, a space before each, on lines of at most 78 characters where a token allows it.

    Only to keep a token under 998 octets, or an encoded-word within its own limit, does it begin below the name: some
    readers take a field whose first line is empty for an empty one, and some verifiers of signatures fail over it.
    """
    lines: list[str] = []
    line = f"{name}:"
    for token in tokens:
        is_encoded = "=?" in token
        room = ENCODED_LINE_CHARS if is_encoded or "=?" in line else LINE_CHARS
        is_first = not lines and line == f"{name}:"
        is_fitting = len(line) + 1 + len(token) <= room
        if is_fitting or (is_first and not is_encoded and _octets(f"{line} {token}") <= MAX_LINE_OCTETS):
            line = f"{line} {token}"
            continue
        lines.append(line)
        line = f" {token}"
        if _octets(line) > MAX_LINE_OCTETS:
            raise FieldError(
                f"{name} holds {len(token)} characters without a break; a line has {MAX_LINE_OCTETS} octets"
            )
    lines.append(line)
    return "\r\n".join(lines)


def _octets(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
