"""Addresses: one RFC 5322 mailbox per text, with RFC 6531 local parts and IDN domains. Decides what is accepted.

Stricter than the RFC where guessing would change who gets the mail: no group, no space or comment beside the `@`, no
obsolete form but dots in a display name, host names and address literals as RFC 5321 4.1.2 has them. No DNS is asked.
"""

import base64
import binascii
import re
import unicodedata
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address

import idna

#: Octets of a local part (RFC 5321, 4.5.3.1.1).
MAX_LOCAL_OCTETS = 64
#: Octets of an address: a path of 256 less its angle brackets (RFC 5321, 4.5.3.1.3).
MAX_ADDRESS_OCTETS = 254
#: Characters of a display name: what one line may hold (RFC 5322, 2.1.1).
MAX_NAME_CHARS = 998
#: Characters of one entry as given, so that nothing long is scanned: a longest name, encoded.
MAX_ENTRY_CHARS = 16_000
#: Characters of a reply-to list once normalised.
MAX_REPLY_TO_CHARS = 255

_ATEXT = r"A-Za-z0-9!#$%&'*+/=?^_`{|}~\-"
_HOST = r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(?:\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*"
#: The two everyday forms, in ASCII: no `?`, so that there is no encoded-word in it.
_EVERYDAY_LOCAL = r"[A-Za-z0-9!#$%&'*+/=^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=^_`{|}~-]+)*"
_PLAIN = re.compile(rf"({_EVERYDAY_LOCAL})@({_HOST})", re.ASCII)
_NAMED = re.compile(
    rf"([A-Za-z0-9!#$%&'*+/^_`{{|}}~-]+(?: [A-Za-z0-9!#$%&'*+/^_`{{|}}~-]+)*) <({_EVERYDAY_LOCAL})@({_HOST})>", re.ASCII
)

#: Never part of an address, quoted or not: controls, the two other line ends of Unicode, what UTF-8 cannot encode.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
#: A run of characters that are no ASCII special of RFC 5322 and no space.
_WORD = re.compile(r'[^ ()<>\[\]:;@\\,"]+')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_COMMENT_PART = re.compile(r"[^()\\]+|\\.")
_LITERAL = re.compile(r"\[([0-9A-Za-z:.]+)\]")
_HOST_NAME = re.compile(_HOST, re.ASCII)
_DOT_ATOM = re.compile(rf"[{_ATEXT}\u0080-\U0010ffff]+(?:\.[{_ATEXT}\u0080-\U0010ffff]+)*")
#: A phrase that needs no quotes: words with single spaces between them.
_PLAIN_NAME = re.compile(rf"[{_ATEXT}\u0080-\U0010ffff]+(?: [{_ATEXT}\u0080-\U0010ffff]+)*")
_CANONICAL_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)" <(.*)>')
_ENCODED_WORD = re.compile(r"=\?([^?*]+)(?:\*[^?]*)?\?([bBqQ])\?([^?]*)\?=")
#: Charsets of encoded-words that are decoded. A fixed list: Python's codecs also name things that are no charset, and
#: the registry remembers every unknown name it was asked for.
_CHARSETS = frozenset(
    ["utf-8", "us-ascii", "gb2312", "gbk", "gb18030", "big5", "shift_jis", "euc-jp", "iso-2022-jp", "euc-kr"]
    + ["koi8-r", "koi8-u", "tis-620"]
    + [f"iso-8859-{n}" for n in range(1, 17) if n != 12]
    + [f"windows-{n}" for n in (874, *range(1250, 1259))]
)
_Q_OCTET = re.compile(rb"=([0-9A-Fa-f]{2})")
_QUOTED_PAIR = re.compile(r"\\(.)")
_NEEDS_PAIR = re.compile(r'(["\\])')
#: Quoted-strings are passed over, a run of separators outside them is found; so are `<...>`, for the split.
_LIST_BREAK = re.compile(r'"(?:[^"\\]|\\.)*"?|([;\r\n])', re.DOTALL)
_LIST_PART = re.compile(r'(?:"(?:[^"\\]|\\.)*"?|<(?:"(?:[^"\\]|\\.)*"?|[^>"])*>?|[^,;\r\n"<])+', re.DOTALL)


class AddressError(ValueError):
    """Not an acceptable address; the text says why."""


@dataclass(frozen=True, slots=True)
class Mailbox:
    """One address, with the name it is shown under."""

    #: Decoded Unicode; empty when there is none.
    display_name: str
    #: `local@domain`, the domain in its ASCII form.
    address: str

    def canonical(self) -> str:
        """The stored form: `local@domain` or `Display <local@domain>`; parses to this same mailbox."""
        name = self.display_name
        if not name:
            return self.address
        # A name that reads like an encoded-word is quoted, as within quotes nothing is decoded (RFC 2047, 5).
        if _PLAIN_NAME.fullmatch(name) and "=?" not in name:
            return f"{name} <{self.address}>"
        return f"{_quote(name)} <{self.address}>"


def parse_mailbox(text: str) -> Mailbox:
    """The one mailbox that `text` is.

    Raises: AddressError.
    """
    plain = _everyday(text)
    if plain is not None:
        return plain
    scanner = _scanner(text)
    mailbox = scanner.mailbox()
    scanner.skip_cfws()
    if not scanner.at_end():
        raise AddressError(f"has something after the address: {scanner.rest()!r}")
    return mailbox


def canonical_mailbox(text: str) -> str:
    """`parse_mailbox(text).canonical()`, at a third of the price for everyday addresses.

    Raises: AddressError.
    """
    match = _PLAIN.fullmatch(text)
    if match is not None:
        local, domain = match.groups()
        if len(local) <= MAX_LOCAL_OCTETS and len(text) <= MAX_ADDRESS_OCTETS:
            return text if domain.islower() else f"{local}@{domain.lower()}"
    return parse_mailbox(text).canonical()


def from_canonical(text: str) -> Mailbox:
    """The mailbox of a stored canonical text. Checks nothing: the text went through `parse_mailbox` once."""
    if text[-1] != ">":
        return Mailbox("", text)
    if text[0] != '"':
        name, _, address = text.partition(" <")
        return Mailbox(name, address[:-1])
    match = _CANONICAL_QUOTED.fullmatch(text)
    if match is None:
        raise AddressError(f"is not a canonical mailbox: {text!r}")
    return Mailbox(_QUOTED_PAIR.sub(r"\1", match[1]), match[2])


def parse_mailbox_list(text: str) -> list[Mailbox]:
    """The mailboxes of a comma-separated list, at least one.

    Raises: AddressError, for an empty list, an empty or invalid entry or a group.
    """
    scanner = _scanner(text)
    mailboxes = [scanner.mailbox()]
    while True:
        scanner.skip_cfws()
        if scanner.at_end():
            return mailboxes
        if scanner.peek() != ",":
            raise AddressError(f"has something after the address: {scanner.rest()!r}")
        scanner.pos += 1
        mailboxes.append(scanner.mailbox())


def parse_reply_to(text: str | None) -> str | None:
    """A reply-to list as it is stored: separators `;` and line ends became commas; None when blank.

    A list with neither outside double quotes stays exactly as given, trimmed.

    Raises: AddressError.
    """
    if text is None or not text.strip():
        return None
    if len(text) > MAX_ENTRY_CHARS:
        raise AddressError(f"is {len(text)} characters long; at most {MAX_REPLY_TO_CHARS} are allowed")
    if any(match[1] for match in _LIST_BREAK.finditer(text)):
        parts = (part.strip() for part in _LIST_PART.findall(text))
        normalised = ", ".join(part for part in parts if part)
    else:
        normalised = text.strip()
    if len(normalised) > MAX_REPLY_TO_CHARS:
        raise AddressError(f"is {len(normalised)} characters long; at most {MAX_REPLY_TO_CHARS} are allowed")
    parse_mailbox_list(normalised)
    return normalised


def _everyday(text: str) -> Mailbox | None:
    """The mailbox of a text in one of the two everyday forms; None sends the text to the scanner."""
    match = _PLAIN.fullmatch(text)
    if match is not None:
        name, (local, domain) = "", match.groups()
    else:
        match = _NAMED.fullmatch(text)
        if match is None:
            return None
        name, local, domain = match.groups()
    if len(local) > MAX_LOCAL_OCTETS or len(local) + 1 + len(domain) > MAX_ADDRESS_OCTETS or len(name) > MAX_NAME_CHARS:
        return None
    return Mailbox(name, f"{local}@{domain.lower()}")


def _scanner(text: str) -> "_Scanner":
    if len(text) > MAX_ENTRY_CHARS:
        raise AddressError(f"is {len(text)} characters long; at most {MAX_ENTRY_CHARS} are allowed")
    if not text.strip():
        raise AddressError("is blank")
    forbidden = _FORBIDDEN.search(text)
    if forbidden:
        raise AddressError(f"holds the control character U+{ord(forbidden[0]):04X}")
    return _Scanner(text)


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of a phrase, or a local part that may still become one."""

    text: str
    is_quoted: bool
    #: Whether a space or comment stands before it.
    is_apart: bool


class _Scanner:
    """Reads one text from left to right (RFC 5322, 3.2 and 3.4). All loops advance: linear in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0

    def at_end(self) -> bool:
        return self.pos == len(self.text)

    def peek(self) -> str:
        """The next character, or an empty text at the end."""
        return self.text[self.pos : self.pos + 1]

    def rest(self) -> str:
        return self.text[self.pos : self.pos + 40]

    def skip_cfws(self) -> bool:
        """Pass over spaces and comments; answers whether there were any."""
        start = self.pos
        while True:
            char = self.peek()
            if char == " ":
                self.pos += 1
            elif char == "(":
                self._skip_comment()
            else:
                return self.pos > start

    def _skip_comment(self) -> None:
        depth = 0
        while True:
            char = self.peek()
            if char == "(":
                depth += 1
                self.pos += 1
            elif char == ")":
                depth -= 1
                self.pos += 1
                if depth == 0:
                    return
            else:
                part = _COMMENT_PART.match(self.text, self.pos)
                if part is None:
                    raise AddressError("has a comment that does not end")
                self.pos = part.end()

    def mailbox(self) -> Mailbox:
        """A name-addr or an addr-spec."""
        words: list[_Word] = []
        while True:
            is_apart = self.skip_cfws()
            char = self.peek()
            if char == "<":
                name = _display_name(words)
                return Mailbox(name, self._angle_addr())
            if char == "@":
                return Mailbox("", self._addr_spec(words, is_apart))
            words.append(self._word(is_apart))

    def _word(self, is_apart: bool) -> _Word:
        if self.peek() == '"':
            quoted = _QUOTED.match(self.text, self.pos)
            if quoted is None:
                raise AddressError("has a quoted string that does not end")
            self.pos = quoted.end()
            return _Word(_QUOTED_PAIR.sub(r"\1", quoted[1]), True, is_apart)
        word = _WORD.match(self.text, self.pos)
        if word is None:
            raise AddressError(_why_no_word(self.peek()))
        self.pos = word.end()
        return _Word(word[0], False, is_apart)

    def _angle_addr(self) -> str:
        self.pos += 1
        self.skip_cfws()
        words: list[_Word] = []
        if self.peek() not in ("", "@", ">"):
            words.append(self._word(False))
        is_apart = self.skip_cfws()
        if self.peek() != "@":
            raise AddressError("has no single address within its angle brackets")
        address = self._addr_spec(words, is_apart)
        self.skip_cfws()
        if self.peek() != ">":
            raise AddressError("has no single address within its angle brackets")
        self.pos += 1
        return address

    def _addr_spec(self, words: list[_Word], is_apart: bool) -> str:
        if not words:
            raise AddressError("has no local part")
        if is_apart:
            raise AddressError("has a space or comment before the @")
        if len(words) > 1:
            raise AddressError("has a local part of several words")
        local = _local_part(words[0])
        self.pos += 1
        address = f"{local}@{self._domain()}"
        if len(address.encode()) > MAX_ADDRESS_OCTETS:
            raise AddressError(f"has an address of more than {MAX_ADDRESS_OCTETS} octets")
        return address

    def _domain(self) -> str:
        if self.peek() == "[":
            literal = _LITERAL.match(self.text, self.pos)
            if literal is None:
                raise AddressError("has a malformed address literal")
            self.pos = literal.end()
            return f"[{_literal(literal[1])}]"
        word = _WORD.match(self.text, self.pos)
        if word is None:
            raise AddressError("has no domain right after the @")
        self.pos = word.end()
        return _host_name(word[0])


def _why_no_word(char: str) -> str:
    match char:
        case "":
            return "has no @"
        case ",":
            return "holds an unquoted comma: one mailbox is allowed"
        case ":" | ";":
            return "is a group, or holds an unquoted colon or semicolon"
        case _:
            return f"holds an unquoted {char!r}"


def _local_part(word: _Word) -> str:
    """A checked local part in its shortest spelling: `"john"@` and `john@` are one address (RFC 5321, 4.1.2)."""
    text = word.text
    if not text:
        raise AddressError("has an empty local part")
    if not word.is_quoted and not _DOT_ATOM.fullmatch(text):
        raise AddressError("has a local part with a dot at its start or end or two in a row")
    is_atom = _DOT_ATOM.fullmatch(text) is not None
    for char in text:
        if ord(char) > 0x7F:
            category = unicodedata.category(char)[0]
            if category == "C" or (category == "Z" and not word.is_quoted):
                raise AddressError(f"has U+{ord(char):04X} in its local part")
            is_atom = is_atom and category != "Z"
    # Some parsers decode these, and then the mail goes elsewhere; RFC 2047 (5) forbids them here.
    if _ENCODED_WORD.search(text):
        raise AddressError("has an encoded-word in its local part")
    local = text if is_atom else _quote(text)
    if len(local.encode()) > MAX_LOCAL_OCTETS:
        raise AddressError(f"has a local part of more than {MAX_LOCAL_OCTETS} octets")
    return local


def _host_name(text: str) -> str:
    """A domain as a lower-case host name; Unicode labels become A-labels (IDNA 2008).

    Mapped are case and composition alone. The wider mappings of UTS 46 delete invisible characters, which joins what
    the reader sees apart or together.
    """
    if len(text) > MAX_ADDRESS_OCTETS:
        raise AddressError("has a domain that is too long")
    name = text.lower()
    if not name.isascii():
        try:
            name = idna.encode(unicodedata.normalize("NFC", name), strict=True).decode("ascii")
        except (idna.IDNAError, UnicodeError) as exc:
            raise AddressError("has a domain that is not valid under IDNA 2008") from exc
    if not _HOST_NAME.fullmatch(name):
        raise AddressError("has a domain that is not a host name")
    return name


def _literal(text: str) -> str:
    tag, colon, address = text.partition(":")
    try:
        if not colon:
            return str(IPv4Address(text))
        if tag.lower() == "ipv6":
            return f"IPv6:{IPv6Address(address)}"
    except AddressValueError as exc:
        raise AddressError("has a malformed address literal") from exc
    raise AddressError("has a malformed address literal")


def _display_name(words: list[_Word]) -> str:
    if words and not words[0].is_quoted and words[0].text.startswith("."):
        raise AddressError("has a name that begins with an unquoted dot")
    pieces: list[str] = []
    encoded: list[tuple[str, bytes]] = []
    for word in words:
        decoded = None if word.is_quoted else _encoded_word(word.text)
        if decoded is not None:
            if encoded and encoded[-1][0] == decoded[0]:
                # A character may be split over two encoded-words, against the rule; senders do it.
                decoded = (decoded[0], encoded.pop()[1] + decoded[1])
            elif not encoded and pieces and word.is_apart:
                pieces.append(" ")
            encoded.append(decoded)
            continue
        if encoded:
            pieces.extend(_decoded(*part) for part in encoded)
            encoded.clear()
        if pieces and word.is_apart:
            pieces.append(" ")
        pieces.append(word.text)
    pieces.extend(_decoded(*part) for part in encoded)
    name = "".join(pieces).strip(" ")
    forbidden = _FORBIDDEN.search(name)
    if forbidden:
        raise AddressError(f"has the control character U+{ord(forbidden[0]):04X} in its encoded name")
    if len(name) > MAX_NAME_CHARS:
        raise AddressError(f"has a name of more than {MAX_NAME_CHARS} characters")
    return name


def _encoded_word(text: str) -> tuple[str, bytes] | None:
    """Charset and octets of an RFC 2047 encoded-word; None when it is none, or one that nobody can decode."""
    match = _ENCODED_WORD.fullmatch(text)
    if match is None or not match[3].isascii():
        return None
    charset, kind, content = match[1].lower(), match[2].lower(), match[3].encode("ascii")
    if charset not in _CHARSETS:
        return None  # The text stays as it is (RFC 2047, 6.2).
    try:
        if kind == "b":
            octets = base64.b64decode(content + b"=" * (-len(content) % 4), validate=True)
        else:
            octets = _Q_OCTET.sub(lambda m: bytes((int(m[1], 16),)), content.replace(b"_", b" "))
    except binascii.Error:
        return None
    return charset, octets


def _decoded(charset: str, octets: bytes) -> str:
    try:
        return octets.decode(charset)
    except UnicodeDecodeError as exc:
        raise AddressError(f"has an encoded name that is not valid {charset}") from exc


def _quote(text: str) -> str:
    return '"' + _NEEDS_PAIR.sub(r"\\\1", text) + '"'
