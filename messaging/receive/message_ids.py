"""How a Message-ID is spelled wherever two are compared (RFC 5322, 3.6.4; `receive.md` 6)."""

import hashlib
import re

#: As long as the columns.
MAX_CHARS = 255

_ID = re.compile(r"<[^<>]*>")
_SPACE = re.compile(r"\s+")
#: Nothing else, and nothing to change.
_EVERYDAY = re.compile(r"<[^<>\s\x00]{1,253}>")


def spelled(value: str | None) -> str | None:
    """The first `<…>` of a field, else its trimmed text, without white space; None for a blank one.

    What is longer than 255 characters becomes `hashed:` and the SHA-256 of it, in hex.
    """
    if value is not None and _EVERYDAY.fullmatch(value):
        return value
    return next(iter(all_spelled(value)), None)


def all_spelled(value: str | None) -> list[str]:
    """Each `<…>` of a field such as References, in its order, else its trimmed text."""
    text = (value or "").replace("\x00", "")
    found = [_SPACE.sub("", one) for one in _ID.findall(text)]
    ids = [one for one in found if one != "<>"] or [one for one in [_SPACE.sub("", text)] if one not in ("", "<>")]
    return [one if len(one) <= MAX_CHARS else _hashed(one) for one in ids]


def _hashed(one: str) -> str:
    # A field as written holds octets beyond ASCII as surrogates.
    return f"hashed:{hashlib.sha256(one.encode('utf-8', 'surrogatepass')).hexdigest()}"
