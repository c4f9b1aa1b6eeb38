"""Header fields of a received mail, read leniently: nothing here raises, whatever the octets are (RFC 5322, 2.2)."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from messaging.receive.addresses import MAX_ADDRESSES, Mailbox, parse_addresses
from messaging.receive.encoded_words import decode_words

__all__ = ["Headers", "Mailbox", "header_block", "parse_headers"]

#: Bytes of one block that are read; mail servers take 100 to 500 KB.
MAX_BLOCK_BYTES = 524_288
#: Fields of one block that are kept, and lines that are looked at.
MAX_FIELDS = 2_000
_MAX_LINES = 20_000

#: Lines end with CRLF, LF or CR, also mixed, also with the CR doubled that some gateways write.
_LINE_END = re.compile(rb"\r{0,3}\n|\r")
_BLANK_LINE = re.compile(rb"\n\r{0,3}\n|\r\r(?!\r?\n)|\n\r(?!\r{0,2}\n)")
_FIELD = re.compile(r"([!-9;-~]+)[ \t]*:")
#: A field with all its lines, as nearly every one is written; else, without a name, all that is left.
_WHOLE_FIELD = re.compile(r"([!-9;-~]++)[ \t]*+:[ \t]*+([^\n]*+(?:\n[ \t][^\n]*+)*+)(?:\n|\Z)|(?s:.)++")
#: A line of which nobody would think that it is text.
_FIELD_FOR_SURE = re.compile(r"[A-Za-z][A-Za-z0-9-]*:[ \t]|[A-Za-z]+-[A-Za-z0-9-]+:")


class Headers:
    """The fields of one header block, found by name in any case, in their order."""

    def __init__(self, fields: Sequence[tuple[str, str]]) -> None:
        """`fields` hold the values as written, folded; octets beyond ASCII as surrogates (`surrogateescape`)."""
        self._names = names = [name.lower() for name, _ in fields]
        # Rules ask for the same fields again and again: each is unfolded once, and decoded once.
        self._raw = raw = dict[str, list[str]]()
        self._decoded: dict[str, list[str]] = {}
        self._mailboxes: dict[str, list[Mailbox]] = {}
        for name, (_, value) in zip(names, fields, strict=True):
            unfolded = value.replace("\n", "").replace("\r", "") if "\n" in value or "\r" in value else value
            if name in raw:
                raw[name].append(unfolded)
            else:
                raw[name] = [unfolded]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._raw

    def has_any(self, names: frozenset[str]) -> bool:
        """Whether a field is there whose name, in lower case, is one of these."""
        return not names.isdisjoint(self._raw)

    def raw(self, name: str) -> list[str]:
        """The values as written, unfolded, encoded words as they are; not safe to store."""
        values = self._raw.get(name.lower())
        return values.copy() if values is not None else []

    def first_raw(self, name: str) -> str | None:
        """The first value as written, unfolded; None without the field."""
        values = self._raw.get(name.lower())
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        """The values, decoded and unfolded."""
        wanted = name.lower()
        return list(self._all(wanted)) if wanted in self._raw else []

    def first(self, name: str) -> str | None:
        """The first value, decoded and unfolded; None without the field, empty for a blank one."""
        wanted = name.lower()
        values = self._decoded.get(wanted) or self._all(wanted)
        return values[0] if values else None

    def mailboxes(self, name: str) -> list[Mailbox]:
        """The addresses of all fields of this name, at most 10,000."""
        wanted = name.lower()
        values = self._raw.get(wanted)
        if values is None:
            return []
        found = self._mailboxes.get(wanted)
        if found is None:
            every = chain.from_iterable(map(parse_addresses, values))
            found = parse_addresses(values[0]) if len(values) == 1 else list(islice(every, MAX_ADDRESSES))
            self._mailboxes[wanted] = found
        return found.copy()

    def _all(self, wanted: str) -> Sequence[str]:
        values = self._raw.get(wanted)
        if values is None:
            return ()
        decoded = self._decoded.get(wanted)
        if decoded is None:
            decoded = self._decoded[wanted] = [decode_words(value) for value in values]
        return decoded


def parse_headers(block: bytes) -> Headers:
    """The fields of a header block, or of the message that begins with one."""
    return header_block(block, 0, len(block))[0]


def header_block(raw: bytes, start: int, end: int) -> tuple[Headers, int]:
    """The fields of what begins at `start` and ends before `end`, and where its body begins.

    A line that is no field ends the block, as does an empty one; between two fields it counts as a fold that lost its
    white space.
    """
    if (blank := _LINE_END.match(raw, start, end)) is not None:
        return Headers(()), blank.end()
    usual = _usual_block(raw, start, end)
    if usual is not None:
        text, body_start = usual
        found = _usual_fields(text)
        if found is not None:
            return Headers(found), body_start
    blank = _BLANK_LINE.search(raw, start, end)
    block_end, body_start = blank.span() if blank else (end, end)
    block = raw[start : min(block_end, start + MAX_BLOCK_BYTES)]
    fields, lines_read = _fields(block)
    if lines_read is not None:
        body_start = start + _offset_of_line(block, lines_read)
    return Headers(fields), body_start


def _usual_block(raw: bytes, start: int, end: int) -> tuple[str, int] | None:
    """A block whose lines all end with CRLF, with LF in their place, and where its body begins; None for any other."""
    at = raw.find(b"\r\n\r\n", start, min(end, start + MAX_BLOCK_BYTES))
    if at < 0:
        return None
    block = raw[start : at + 2].replace(b"\r\n", b"\n")
    if b"\r" in block or b"\n\n" in block:
        return None
    return block.decode("ascii", "surrogateescape"), at + 4


def _fields(block: bytes) -> tuple[list[tuple[str, str]], int | None]:
    """The fields, and the number of the line that cannot be one of them, where there is such a line."""
    if b"\r" in block:
        # As `_LINE_END` has it, which would cost fifty times the memory.
        block = block.replace(b"\r\r\n", b"\n").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    text = block.decode("ascii", "surrogateescape")
    usual = _usual_fields(text)
    if usual is not None:
        return usual, None
    lines = text.split("\n", _MAX_LINES)
    fields: list[tuple[str, str]] = []
    name, folded = "", [""]
    number: int | None
    for number, line in enumerate(lines[:_MAX_LINES]):
        if line[:1] in (" ", "\t"):
            folded.append(line)
            continue
        field = _FIELD.match(line)
        if field is None:
            if not line or (number == 0 and line.startswith("From ")) or line.startswith(">From "):
                continue
            if number + 1 < len(lines) and _FIELD_FOR_SURE.match(lines[number + 1]):
                folded.append(" " + line)
                continue
            break
        if name:
            fields.append((name, "\n".join(folded)))
            if len(fields) >= MAX_FIELDS:
                return fields, None
        name, folded = field.group(1), [line[field.end() :].lstrip(" \t")]
    else:
        number = None
    if name:
        fields.append((name, "\n".join(folded)))
    return fields, number


def _usual_fields(text: str) -> list[tuple[str, str]] | None:
    """The fields of a block that holds nothing else, and not too many; None for any other."""
    if text.count("\n") >= MAX_FIELDS:
        return None
    fields: list[tuple[str, str]] = _WHOLE_FIELD.findall(text)
    return fields if not fields or fields[-1][0] else None


def _offset_of_line(block: bytes, number: int) -> int:
    line_end = next(islice(_LINE_END.finditer(block), number - 1, None), None) if number else None
    return line_end.end() if line_end else 0
