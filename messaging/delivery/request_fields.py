"""Fields of a request, checked: of the right kind, and what PostgreSQL and its driver take; for any channel.

Those that all channels have (owner, key, times, template) are checked here; the others by the channel's acceptance.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

from messaging import tenancy
from messaging.delivery.record import LANE_HIGH, LANE_LOW, LANE_NORMAL
from messaging.errors import MessageRejected
from messaging.header_text import clean_text
from messaging.requests import MessageScope, Priority
from messaging.settings import Settings
from messaging.templates.given import VariableError, to_json

#: Characters of an idempotency key, and of a template's code.
MAX_KEY_CHARS, MAX_CODE_CHARS = 255, 100
#: Characters of a text whatever the settings say: PostgreSQL holds 1 GB in a field, and a character has 4 octets.
MAX_STORABLE_CHARS = 100_000_000
#: Largest id of a bigint column.
MAX_ID = 2**63 - 1

#: The lane of each priority.
LANES = {None: LANE_NORMAL, Priority.HIGH: LANE_HIGH, Priority.NORMAL: LANE_NORMAL, Priority.LOW: LANE_LOW}

_Member = TypeVar("_Member", bound=StrEnum)


class RequestFields:
    """Checks values of one request after the other; what is refused names the field and the request's index."""

    def __init__(self, channel: str, settings: Settings, now: datetime) -> None:
        self._channel = channel
        self._now = now
        self._is_multi_tenancy = settings.multi_tenancy
        #: Of the request that is being checked; None for a single one.
        self._index: int | None = None
        #: Owner of all records of this call, known once a scope was checked.
        self.tenant_id = tenancy.SINGLE_TENANT_ID

    def _refused(self, field: str, value: object, reason: str) -> MessageRejected:
        return MessageRejected(self._channel, field, value, reason, index=self._index)

    def _scope(self, value: Any) -> MessageScope:
        """The scope; settles the owner of the records."""
        scope = self._member("scope", value, MessageScope)
        if scope is None:
            raise self._refused("scope", None, "is missing")
        self.tenant_id = self._owner(scope)
        return scope

    def _owner(self, scope: MessageScope) -> int:
        if not self._is_multi_tenancy:
            return tenancy.SINGLE_TENANT_ID
        tenant_id = tenancy.current().tenant_id
        if tenant_id is not None:
            return tenant_id
        if scope is MessageScope.PLATFORM:
            return tenancy.PLATFORM_TENANT_ID
        raise self._refused("scope", scope.value, "needs a current tenant and none is set")

    def _key(self, value: Any) -> str | None:
        key = self._text("idempotency_key", value)
        if key is None:
            return None
        if not key.strip():
            raise self._refused("idempotency_key", value, "is blank")
        if "\x00" in key:
            raise self._refused("idempotency_key", value, "holds a NUL character")
        if len(key) > MAX_KEY_CHARS:
            raise self._refused("idempotency_key", value, f"is longer than {MAX_KEY_CHARS} characters")
        return key

    def _times(self, given_send_at: Any, given_expires_at: Any) -> tuple[datetime | None, datetime | None]:
        """When it may go out, and until when."""
        send_at = self._time("send_at", given_send_at)
        expires_at = self._time("expires_at", given_expires_at)
        if expires_at is not None:
            if expires_at <= self._now:
                raise self._refused("expires_at", given_expires_at, "is not later than now")
            if send_at is not None and expires_at <= send_at:
                raise self._refused("expires_at", given_expires_at, "is not later than send_at")
        return send_at, expires_at

    def _template_code(self, value: Any) -> str | None:
        code = self._line("template_code", value, MAX_CODE_CHARS)
        return code if code and not code.isspace() else None

    def _variables(self, value: Any) -> str | None:
        """The variables as JSON text; None without one."""
        if value is None or value == {}:
            return None
        try:
            variables = to_json(value)
        except VariableError as exc:
            raise self._refused("template_variables", exc.path, exc.reason) from exc
        if len(variables) > MAX_STORABLE_CHARS:
            raise self._refused("template_variables", len(variables), "are too large, in characters of JSON")
        return variables

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
