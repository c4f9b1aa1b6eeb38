"""Single values of a request, checked: of the right kind, and what PostgreSQL and its driver take; for any channel.

Which fields a request has, and what they mean, is the channel's acceptance.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

from messaging.errors import MessageRejected
from messaging.header_text import clean_text

#: Largest id of a bigint column.
MAX_ID = 2**63 - 1

_Member = TypeVar("_Member", bound=StrEnum)


class RequestFields:
    """Checks values of one request after the other; what is refused names the field and the request's index."""

    def __init__(self, channel: str) -> None:
        self._channel = channel
        #: Of the request that is being checked; None for a single one.
        self._index: int | None = None

    def _refused(self, field: str, value: object, reason: str) -> MessageRejected:
        return MessageRejected(self._channel, field, value, reason, index=self._index)

    def _line(self, field: str, value: Any, max_chars: int) -> str | None:
        """A name that is stored as it is."""
        if value is None:
            return None
        text = self._text(field, value)
        if text is not None and len(text) > max_chars:
            raise self._refused(field, value, f"is longer than {max_chars} characters")
        if text is not None and clean_text(text) != text.strip():
            raise self._refused(field, value, "holds a control character")
        return text

    def _text(self, field: str, value: Any) -> str | None:
        """An exact `str` (the driver refuses a mix with its subclasses) that UTF-8 can encode."""
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._refused(field, value, "is not text")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as exc:
                raise self._refused(field, value, "holds a lone surrogate, which is no character") from exc
        return value if type(value) is str else str.__str__(value)

    def _member(self, field: str, value: Any, kind: type[_Member]) -> _Member | None:
        if value is None or type(value) is kind:
            return value
        if isinstance(value, str):
            try:
                return kind(value)
            except ValueError:
                pass
        raise self._refused(field, value, f"is none of {', '.join(kind)}")

    def _id(self, field: str, value: Any) -> int | None:
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_ID:
            raise self._refused(field, value, "is not an id")
        return int(value)

    def _flag(self, field: str, value: Any, *, is_optional: bool) -> bool | None:
        if isinstance(value, bool) or (value is None and is_optional):
            return value
        raise self._refused(field, value, "is neither True nor False")

    def _time(self, field: str, value: Any) -> datetime | None:
        if value is None:
            return None
        if not isinstance(value, datetime):
            raise self._refused(field, value, "is not a datetime")
        if value.utcoffset() is None:
            raise self._refused(field, value, "has no time zone")
        try:
            utc = value.astimezone(UTC)
        except OverflowError as exc:
            raise self._refused(field, value, "is out of range") from exc
        return datetime(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, UTC)
