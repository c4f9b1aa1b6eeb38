"""What stands on the wire: ids as decimal strings, times in UTC, text that a column can hold, bodies that say no more.

A body or query with a member that is not known is refused: above all a `tenant_id`, which only the caller has.
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)

from messaging.db.own_rows import MAX_ID

_ID_PATTERN = "^[1-9][0-9]{0,18}$"


def _is_of_a_row(value: Any, info: ValidationInfo) -> bool:
    """Whether a number comes from our own code, for an answer, and not from the wire."""
    return type(value) is int and bool((info.config or {}).get("from_attributes"))


def _id(value: Any, info: ValidationInfo) -> int:
    """Raises: ValueError, for what no row's id can be; said so before any database sees it."""
    if _is_of_a_row(value, info):
        return int(value)
    if type(value) is not str or not value.isascii() or not value.isdecimal() or value[0] == "0" or len(value) > 19:
        raise ValueError("is not an id: a decimal number as a string")
    number = int(value)
    if number > MAX_ID:
        raise ValueError(f"is not an id: at most {MAX_ID}")
    return number


def _whole(value: Any, info: ValidationInfo) -> int:
    """As `_id`, with 0 and below: a tenant's id. Raises: ValueError."""
    if _is_of_a_row(value, info):
        return int(value)
    digits = value.removeprefix("-") if type(value) is str else ""
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 19 or not -MAX_ID <= int(value) <= MAX_ID:
        raise ValueError("is not an id: a decimal number as a string")
    return int(value)


#: U+0000, and halves of characters, which JSON may hold and UTF-8 may not.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def _storable(value: str) -> str:
    if found := _UNSTORABLE.search(value):
        raise ValueError(f"has the character U+{ord(found[0]):04X}")
    return value


def _time_text(value: Any) -> Any:
    """Numbers are no times: seconds or milliseconds, nobody knows."""
    if isinstance(value, str) and not value.lstrip("+-").replace(".", "", 1).isdigit():
        return value
    if isinstance(value, datetime):
        return value
    raise ValueError("is no ISO 8601 time with its zone, such as 2030-01-31T08:00:00Z")


def _utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("is outside the years 1 to 9999 in UTC") from None


#: A row's id: an int here, a decimal string on the wire, where a number is refused.
Id = Annotated[
    int,
    BeforeValidator(_id),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _ID_PATTERN, "examples": ["42"]}),
]
#: A tenant's id: also 0 and below.
TenantId = Annotated[
    int,
    BeforeValidator(_whole),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": "^-?[0-9]{1,19}$", "examples": ["7"]}),
]
#: A person's id in the application, which makes it.
UserId = TenantId
#: A moment, in UTC.
Time = Annotated[AwareDatetime, BeforeValidator(_time_text), AfterValidator(_utc)]
#: Text that PostgreSQL can hold.
Text = Annotated[str, AfterValidator(_storable)]


class Given(BaseModel):
    """A body that a caller sends."""

    # Names only: an error never repeats the value. `strict` would refuse enums and times, which JSON has as text.
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, frozen=True)

    def sent(self) -> dict[str, Any]:
        """The fields that stood in the body, for a PATCH: what is left out stays."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class Shown(BaseModel):
    """A body that is answered; may be made of a row: `Shape.model_validate(row)`."""

    model_config = ConfigDict(from_attributes=True)
