"""What a list's address asks for: filters as people write them, read one by one, each wrong one told beside its field.

An address is kept as it was written: it leads back to the same list after an action, and can be sent to a colleague.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl, urlencode

from messaging.db.own_rows import MAX_ID

#: Characters of one filter.
MAX_CHARS = 500
#: Rows of a page.
SIZE = 50
#: Parameters of an address that are looked at.
_MAX_PARAMETERS = 40

_DIGITS = re.compile("[0-9]{1,19}")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

#: Reads the text of one filter. Raises: ValueError, whose text is told beside the field.
Reader = Callable[[str], Any]


@dataclass(frozen=True)
class Asked:
    """The filters of one address."""

    #: As they were written, those that there are.
    written: Mapping[str, str]
    #: As they were understood.
    values: Mapping[str, Any] = field(default_factory=dict)
    #: What is wrong, by name.
    errors: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str) -> Any:
        """What was understood; None where it is not asked."""
        return self.values.get(name)

    def text(self, name: str) -> str:
        """What stands in the field."""
        return self.written.get(name, "")

    def query(self, **changed: str | None) -> str:
        """The address with some filters changed, or (None) taken off; from its first page, unless a place is named."""
        kept = {name: text for name, text in self.written.items() if name not in PLACES}
        asked = {name: text for name, text in (kept | changed).items() if text}
        return f"?{urlencode(asked)}" if asked else "?"

    @property
    def here(self) -> str:
        """The address, its page too."""
        return urlencode(self.written)

    @property
    def is_narrowed(self) -> bool:
        """Whether there is a filter at all."""
        return any(name not in PLACES for name in self.written)


#: Parameters that say which page.
PLACES = ("before", "after", "page")


def read(parameters: str, readers: Mapping[str, Reader]) -> Asked:
    """The filters of a query string. Unknown ones, such as another tenant's id, are nobody's business and left out."""
    pairs = parse_qsl(parameters, max_num_fields=None, errors="replace")[:_MAX_PARAMETERS]
    written: dict[str, str] = {}
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name, given in pairs:
        text = given.strip()
        if name not in readers or not text:
            continue
        written[name] = text[:MAX_CHARS]
        try:
            if len(text) > MAX_CHARS or _UNSTORABLE.search(text):
                raise ValueError(f"is not a text of at most {MAX_CHARS} characters that a record can have")
            values[name] = readers[name](text)
            errors.pop(name, None)
        except ValueError as exc:
            values.pop(name, None)
            errors[name] = str(exc)
    return Asked(written, values, errors)


def row_id(text: str) -> int:
    """A row's id."""
    if not _DIGITS.fullmatch(text) or not 1 <= int(text) <= MAX_ID:
        raise ValueError("is not an id")
    return int(text)


def tenant_id(text: str) -> int:
    """A tenant's id, also 0 and below."""
    if not _DIGITS.fullmatch(text.removeprefix("-")) or abs(int(text)) > MAX_ID:
        raise ValueError("is not a tenant's id")
    return int(text)


def moment(text: str) -> datetime:
    """A moment; without a zone it is UTC."""
    try:
        at = datetime.fromisoformat(text)
        return (at.replace(tzinfo=UTC) if at.tzinfo is None else at).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("is not a time such as 2030-01-31 08:00") from None


def one_of(known: type[StrEnum]) -> Reader:
    """A member of an enum."""

    def read_member(text: str) -> Any:
        try:
            return known(text.upper())
        except ValueError:
            raise ValueError(f"is none of {', '.join(known)}") from None

    return read_member


def words(text: str) -> str:
    """Any text."""
    return text
