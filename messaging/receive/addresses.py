"""Address lists as they come, read leniently and in linear time, alike on every Python (RFC 5322, 3.4 and 4.4).

Structure first, encoded words after (RFC 2047, 6.2). What `messaging.mail.addresses` accepts for sending is narrower.
"""

import re
from typing import NamedTuple

from messaging.receive.charsets import storable
from messaging.receive.encoded_words import decode_words

#: Addresses of one list; no mail that a person reads has as many.
MAX_ADDRESSES = 10_000
#: Characters within which a quoted string, a comment or an address in angle brackets ends.
_MAX_TOKEN_CHARS = 4_000
#: Words and spaces of a display name that are read.
_MAX_PIECES = 1_000

_QUOTED = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*"', re.DOTALL)
_ANGLE = re.compile(rf'<([^<>"]*+(?:{_QUOTED.pattern}[^<>"]*+)*)>', re.DOTALL)
_ENCODED_WORD = re.compile(r'=\?[^?\s]++\?[bBqQ]\?[^?<>"]*+\?=')
_LITERAL = re.compile(r'\[[^\[\]<>,;"]*+\]')
_ATOM = re.compile(r"""[^\s"<>()\[\],;:=]++""")
_SPACE = re.compile(r"\s+")
_SEPARATORS = re.compile(r"[,;\s]+")
_COMMENT_MARK = re.compile(r"\\.|[()]", re.DOTALL)
_AROUND_AT = re.compile(" ?@ ?")
_PAIR = re.compile(r"\\(.)", re.DOTALL)
#: `<@relay.example,@hub.example:user@host.example>` (RFC 5322, 4.4), and what people paste.
_BEFORE_ADDRESS = re.compile(r"\A(?:@[^:<>\"]*|mailto|smtp):", re.IGNORECASE)
#: A whole field within an encoded word, and the characters up to which it is looked for: it takes a square of them.
_MAX_INNER_CHARS = 500
_INNER_ADDRESS = re.compile(r"(.*)<([^<>\s]+@[^<>\s]+)>\s*", re.DOTALL)
#: By far the most fields: one mailbox, no encoded word, no escape, no comment.
_EVERYDAY = re.compile(
    r"""(?:"([^"\\=]*+)"\s*+|([A-Za-z0-9.'-]++(?:\s[A-Za-z0-9.'-]++)*)\s)?"""
    r"""<([^\s<>"'@,;:()=\\]++@[^\s<>"'@,;:()=\\]++)>""",
    re.ASCII,
)


class Mailbox(NamedTuple):
    """One address of an address list."""

    #: Decoded; empty without one.
    name: str
    #: Bare; text that is no address stays as it is.
    address: str


def parse_addresses(value: str) -> list[Mailbox]:
    """The mailboxes of an unfolded field, those within groups among them, at most 10,000.

    Semicolons divide as commas do; quotes and brackets that nobody closes are passed over; the comma of
    `Last, First <a@b>` belongs to the name.
    """
    everyday = _EVERYDAY.fullmatch(value.strip()) if len(value) < _MAX_TOKEN_CHARS else None
    if everyday is not None and value.isascii():
        quoted, plain, address = everyday.groups()
        return [Mailbox(storable(_one_spaced(quoted or plain or "")), storable(address))]
    return _Reader(value).mailboxes()


class _Reader:
    def __init__(self, value: str) -> None:
        self._value = value
        self._at = 0
        self._found: list[Mailbox] = []
        #: By opening character: up to where it is known that none closes, so that nothing is scanned twice.
        self._unclosed_until = {'"': 0, "<": 0, "(": 0}
        #: The entry before a comma, if it may be the first half of a name.
        self._surname: str | None = None
        self._begin_entry()

    def mailboxes(self) -> list[Mailbox]:
        while self._at < len(self._value) and len(self._found) < MAX_ADDRESSES:
            self._step(self._value[self._at])
        self._end_entry()
        return self._found[:MAX_ADDRESSES]

    def _begin_entry(self) -> None:
        #: What stands before the angle brackets: quoted strings with their quotes, words, spaces.
        self._pieces: list[str] = []
        self._comments: list[str] = []
        self._angle: str | None = None

    def _step(self, char: str) -> None:
        match char:
            case '"':
                self._quoted()
            case "<":
                self._bracketed()
            case "(":
                self._comment()
            case "," | ";":
                self._end_entry(is_comma=char == ",")
                self._at = self._end_of(_SEPARATORS)
            case ":":
                # What stood before it is the name of a group, which nobody asks for.
                self._pieces.clear()
                self._at += 1
            case _:
                self._word(char)

    def _word(self, char: str) -> None:
        pattern = _ENCODED_WORD if char == "=" else _LITERAL if char == "[" else _SPACE if char.isspace() else _ATOM
        found = pattern.match(self._value, self._at, self._at + _MAX_TOKEN_CHARS)
        if found is None:
            self._at += 1
            if char not in ">)":
                self._append(char)
            return
        self._at = found.end()
        self._append(" " if pattern is _SPACE else found.group())

    def _append(self, piece: str) -> None:
        if len(self._pieces) < _MAX_PIECES:
            self._pieces.append(piece)

    def _end_of(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._value, self._at)
        return found.end() if found else self._at

    def _closed(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        opening, start = self._value[self._at], self._at
        found = None
        if start >= self._unclosed_until[opening]:
            found = pattern.match(self._value, start, start + _MAX_TOKEN_CHARS)
            if found is None:
                self._unclosed_until[opening] = start + _MAX_TOKEN_CHARS
        self._at = found.end() if found else start + 1
        return found

    def _quoted(self) -> None:
        found = self._closed(_QUOTED)
        if found is not None:
            self._append(found.group())

    def _bracketed(self) -> None:
        found = self._closed(_ANGLE)
        if found is None:
            return
        if self._angle:
            self._end_entry()
        self._angle = found.group(1)

    def _comment(self) -> None:
        start = self._at
        if start < self._unclosed_until["("]:
            self._at += 1
            return
        depth = 0
        for mark in _COMMENT_MARK.finditer(self._value, start, start + _MAX_TOKEN_CHARS):
            depth += {"(": 1, ")": -1}.get(mark.group(), 0)
            if depth == 0:
                if len(self._comments) < _MAX_PIECES:
                    self._comments.append(_PAIR.sub(r"\1", self._value[start + 1 : mark.start()]))
                self._append(" ")
                self._at = mark.end()
                return
        self._unclosed_until["("] = start + _MAX_TOKEN_CHARS
        self._at += 1

    def _end_entry(self, *, is_comma: bool = False) -> None:
        pieces, comments, angle, surname = self._pieces, self._comments, self._angle, self._surname
        self._begin_entry()
        self._surname = None
        comment = decode_words(_one_spaced(" ".join(comments)))
        if angle is None:
            found = _unbracketed(_one_spaced("".join(pieces)), comment)
            self._found += found
            if is_comma and len(found) == 1 and _is_surname(found[0]):
                self._surname = found[0].address
            return
        name = decode_words(_one_spaced("".join(map(_unquoted, pieces))))
        if name and surname:
            self._found.pop()
            name = f"{surname}, {name}"
        mailbox = Mailbox(name or comment, _address(angle))
        if mailbox.name or mailbox.address:
            self._found.append(mailbox)


def _is_surname(mailbox: Mailbox) -> bool:
    # `root, Ann <ann@example.com>` is a local user and another one.
    return not mailbox.name and "@" not in mailbox.address and not mailbox.address.islower()


def _unbracketed(text: str, comment: str) -> list[Mailbox]:
    """What an entry without angle brackets holds: an address, several with spaces between, or text that is none."""
    if len(text) > 1 and _QUOTED.fullmatch(text):
        text = _unquoted(text)
    if "=?" in text:
        text = decode_words(text)
        inner = _INNER_ADDRESS.fullmatch(text) if len(text) <= _MAX_INNER_CHARS else None
        if inner is not None:
            return [Mailbox(_one_spaced(inner.group(1).replace('"', "")), inner.group(2))]
    elif "@" not in text:
        text = decode_words(_unquoted_all(text))
    if "@" not in text:
        return [Mailbox(comment, text)] if text else []
    text = _AROUND_AT.sub("@", text)
    words = [text] if text.startswith('"') else text.split(" ")
    addresses = [_address(word) for word in words if "@" in word]
    if len(addresses) > 1:
        return [Mailbox("", address) for address in addresses]
    rest = " ".join(_unquoted(word) for word in words if "@" not in word)
    return [Mailbox(decode_words(rest) or comment, address) for address in addresses]


def _address(text: str) -> str:
    """An address as written, less a source route, white space and quotes around the whole."""
    if "=?" in text:
        text = decode_words(text)
    text = _BEFORE_ADDRESS.sub("", text.strip()) if ":" in text else text
    if '"' not in text:
        text = _SPACE.sub("", text).strip("'")
    return decode_words(text)


def _unquoted(piece: str) -> str:
    return _PAIR.sub(r"\1", piece[1:-1]) if len(piece) > 1 and piece[0] == piece[-1] == '"' else piece


def _unquoted_all(text: str) -> str:
    return _QUOTED.sub(lambda found: _unquoted(found.group()), text)


def _one_spaced(text: str) -> str:
    return " ".join(text.split())
