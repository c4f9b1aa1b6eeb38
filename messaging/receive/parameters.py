"""Content-Type and Content-Disposition: a word and its parameters, read leniently (RFC 2045, 2183, 2231)."""

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from messaging.receive.charsets import decode, storable
from messaging.receive.encoded_words import decode_words

#: Up to which length a Content-Type is remembered: nearly all mails have one of a few.
_MAX_KEPT_CHARS = 100
#: Parameters of one field that are looked at.
MAX_PARAMETERS = 500

_TYPE = re.compile(r"\s*([!#-'*+.\w^`{|}~-]+)\s*/\s*([!#-'*+.\w^`{|}~-]+)", re.ASCII)
_WORD = re.compile(r"[\w!#$&^.+-]+", re.ASCII)
#: A quoted value may lack its end; then it ends where an unquoted one does.
_PARAMETER = re.compile(r';\s*+([^\s=;"]++)\s*+=\s*+(?:"([^"\\]*+(?:\\.[^"\\]*+)*)"|([^;]*))', re.DOTALL)
#: `name*`, `name*0`, `name*0*` (RFC 2231, 3 and 4).
_EXTENDED_NAME = re.compile(r"([^*]+)\*(?:(\d{1,3})(\*)?)?", re.ASCII)
#: In a Windows path, which some programs give as a file name, a backslash is one.
_PAIR = re.compile(r'\\(["\\])')
#: Unquoted, these hold spaces; any other value ends at the first one, or where a comment begins.
_WITH_SPACES = frozenset(["name", "filename", "boundary"])
_END_OF_TOKEN = re.compile(r"[\s(]")


def parse_content_type(value: str | None) -> tuple[str | None, dict[str, str]]:
    """The type in lower case, None where the field is missing or names none, and its parameters by lower-case name."""
    if value is None:
        return None, {}
    if len(value) > _MAX_KEPT_CHARS:
        return _content_type(value)
    content_type, parameters = _kept_content_type(value)
    return content_type, parameters.copy()


def _content_type(value: str) -> tuple[str | None, dict[str, str]]:
    found = _TYPE.match(value)
    content_type = f"{found.group(1)}/{found.group(2)}".lower() if found else None
    return content_type, parse_parameters(value)


_kept_content_type = lru_cache(maxsize=64)(_content_type)


def parse_disposition(value: str | None) -> tuple[str | None, dict[str, str]]:
    """The word in lower case, None where the field is missing or begins with none, and its parameters."""
    if value is None:
        return None, {}
    found = _WORD.match(value.strip(' \t"'))
    word = found.group().lower() if found else None
    parameters = parse_parameters(value)
    return None if word in parameters else word, parameters


def parse_parameters(value: str | None) -> dict[str, str]:
    """The parameters of a field, `value` being as written and unfolded.

    Values are decoded: continuations and charsets (RFC 2231), and the encoded words that are not allowed there and
    common. Of two with one name the first counts, the extended form before the plain one.
    """
    if not value or "=" not in value:
        return {}
    plain: dict[str, str] = {}
    pieces: dict[str, dict[int, tuple[str, bool]]] = {}
    # The semicolon may be missing, or the word before it.
    text = value if ";" in value else ";" + value.split(None, 1)[-1]
    for number, found in enumerate(_PARAMETER.finditer(text)):
        if number == MAX_PARAMETERS:
            break
        name = found.group(1).lower()
        extended = _EXTENDED_NAME.fullmatch(name)
        text = _value(extended.group(1) if extended else name, found.group(2), found.group(3))
        if extended is None:
            plain.setdefault(name, text)
        else:
            index, is_encoded = extended.group(2), extended.group(2) is None or extended.group(3) is not None
            pieces.setdefault(extended.group(1), {}).setdefault(int(index or 0), (text, is_encoded))
    # A boundary is compared with octets, and may look like an encoded word.
    decoded = {
        name: text if name == "boundary" and text.isascii() else decode_words(text) for name, text in plain.items()
    }
    decoded |= {name: _joined(by_number) for name, by_number in pieces.items()}
    return {storable(name): storable(text) for name, text in decoded.items()}


def _value(name: str, quoted: str | None, unquoted: str | None) -> str:
    if quoted is not None:
        return _PAIR.sub(r"\1", quoted)
    text = (unquoted or "").strip().removeprefix('"')
    end = None if name in _WITH_SPACES else _END_OF_TOKEN.search(text)
    return text[: end.start()] if end else text


def _joined(by_number: dict[int, tuple[str, bool]]) -> str:
    """A value that came in pieces, or with a charset, or both."""
    charset = None
    raw: list[bytes] = []
    for position, number in enumerate(sorted(by_number)):
        text, is_encoded = by_number[number]
        if is_encoded and position == 0 and text.count("'") >= 2:
            charset, _, text = text.split("'", 2)
        octets = text.encode("utf-8", "surrogateescape")
        raw.append(unquote_to_bytes(octets) if is_encoded else octets)
    joined = decode(b"".join(raw), charset)
    return decode_words(joined) if "=?" in joined else joined
