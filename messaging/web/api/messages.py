"""What mails and text messages have in common over HTTP: accepted, listed, attempted again, called off."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from messaging import api, tenancy
from messaging.access.roles import Permission
from messaging.delivery.cancel import CancelAnswer
from messaging.delivery.lines import Position, RecordPage
from messaging.delivery.request_fields import MAX_CODE_CHARS, MAX_KEY_CHARS
from messaging.delivery.status import SendStatus
from messaging.requests import MessageScope, Priority
from messaging.web.api.lists import MAX_SIZE, Part, opened, sealed
from messaging.web.api.shapes import Given, Id, Shown, Text, Time
from messaging.web.auth import Identity
from messaging.web.errors import ApiError, invalid

#: Characters that the place of a message in its batch may add to the key of the batch.
_PLACE_CHARS = 6
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_CURSOR = "at"

_Item = TypeVar("_Item")

Code = Annotated[Text, Field(max_length=MAX_CODE_CHARS)]


class MessageGiven(Given):
    """What every message may say."""

    template_code: Code | None = None
    #: Anything JSON can hold, by name.
    template_variables: dict[str, Any] = Field(default_factory=dict)
    scope: MessageScope = MessageScope.TENANT
    priority: Priority | None = None
    #: The same key again answers the first message's id; or send the header `Idempotency-Key`.
    idempotency_key: Annotated[Text, Field(min_length=1, max_length=MAX_KEY_CHARS)] | None = None
    #: Not before.
    send_at: Time | None = None
    #: Not after.
    expires_at: Time | None = None


class Accepted(Shown):
    """A message that goes out once this answer is sent."""

    id: Id


class AllAccepted(Shown):
    """Messages that go out once this answer is sent, in the order in which they were given."""

    ids: list[Id]


class IdsGiven(Given):
    """Rows to do the same with."""

    ids: list[Id] = Field(min_length=1, max_length=500)


class Requeued(Shown):
    """What a retry of many did."""

    #: How many are due now; the others are sent, being sent, called off, or not there.
    requeued: int


class CancelShown(Shown):
    """What a cancel can truthfully say."""

    #: `cancelled`: it was not sent and never will be; `stopped`: an earlier attempt did or may have reached somebody.
    answer: CancelAnswer
    status: SendStatus


class AttemptShown(Shown):
    """One attempt to send."""

    attempt_no: int
    started_at: Time
    ended_at: Time | None
    #: `SENT`, `PARTIAL`, `RETRY`, `FAILED`, `DEAD_LETTER` or `SWEPT`.
    outcome: str | None
    #: Of the error.
    category: str | None
    error_code: str | None
    error_message: str | None
    #: Who it went to, as `smtp` or `TWILIO`, and the server's or provider's id.
    provider: str | None
    config_id: Id | None
    worker_name: str | None
    trace_id: str | None
    request_id: str | None


class Attempts(Shown):
    """The attempt log of one message."""

    items: list[AttemptShown]


def _is_place(cursor: str) -> str:
    position_of(cursor)
    return cursor


def cursor_of(position: Position) -> str:
    """A place in a list of messages, as lists take it again."""
    return sealed(f"{_CURSOR}:{(position.created_at - _EPOCH) // _MICROSECOND}:{position.id}")


def position_of(cursor: str) -> Position:
    """The place that a cursor names. Raises: ValueError."""
    numbers = opened(cursor, _CURSOR)
    try:
        microseconds, record_id = numbers
        return Position(_EPOCH + microseconds * _MICROSECOND, record_id)
    except (ValueError, OverflowError):
        raise ValueError("is no cursor that an answer gave") from None


class MessageQuery(BaseModel):
    """Which messages, and which part of their list."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    size: int = Field(50, ge=1, le=MAX_SIZE)
    #: `next_cursor` of the answer before.
    cursor: Annotated[str, Field(max_length=100), AfterValidator(_is_place)] | None = None
    status: SendStatus | None = None
    template_code: Code | None = None
    error_code: Annotated[Text, Field(max_length=100)] | None = None
    scope: MessageScope | None = None
    #: Accepted at this time or later.
    created_after: Time | None = None
    #: Accepted earlier than this.
    created_before: Time | None = None

    def found(self, session: Session, channel: str, **further: Any) -> RecordPage:
        """The part, of the caller's tenant."""
        return api.list_records(
            channel=channel,
            status=self.status,
            template_code=self.template_code,
            error_code=self.error_code,
            scope=self.scope,
            created_after=self.created_after,
            created_before=self.created_before,
            limit=self.size,
            before=None if self.cursor is None else position_of(self.cursor),
            session=session,
            **further,
        )


class OneQuery(BaseModel):
    """How much of a message is shown."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    #: Bodies and variables too.
    bodies: bool = False


def part_of(found: RecordPage, shape: Callable[[Any], _Item]) -> Part[_Item]:
    """The answer of a list of messages."""
    end = found.next
    return Part(items=[shape(line) for line in found.lines], next_cursor=None if end is None else cursor_of(end))


def check_scope(caller: Identity, *given: MessageGiven) -> None:
    """Raises: ApiError, 403 for a tenant's caller who would use the platform's servers, templates and quota.

    Who may is the platform itself, and a service that an application's own authenticator gives that permission.
    """
    is_open = not tenancy.is_multi_tenancy() or caller.may(Permission.PLATFORM)
    if not is_open and any(one.scope is MessageScope.PLATFORM for one in given):
        raise ApiError(403, "scope PLATFORM is for the platform and its services", field="scope")


class HasKey(Protocol):
    """A body that may name its idempotency key."""

    @property
    def idempotency_key(self) -> str | None: ...


def key_of(given: HasKey, header: str | None) -> str | None:
    """The idempotency key of one message. Raises: ApiError, where body and header disagree."""
    if None not in (header, given.idempotency_key) and header != given.idempotency_key:
        raise invalid("idempotency_key", "differs from the header Idempotency-Key")
    return header or given.idempotency_key


def keys_of(given: Sequence[HasKey], header: str | None) -> list[str | None]:
    """The idempotency keys of a batch: each message's own, else one made of the header and its place.

    Raises: ApiError.
    """
    if header is not None and len(header) > MAX_KEY_CHARS - _PLACE_CHARS:
        raise invalid("Idempotency-Key", f"of a batch is at most {MAX_KEY_CHARS - _PLACE_CHARS} characters long")
    made = [None if header is None else f"{header}#{place}" for place in range(len(given))]
    return [one.idempotency_key or key for one, key in zip(given, made, strict=True)]


def called_off(session: Session, record_id: int, channel: str) -> CancelShown:
    """Cancel a message. Raises: ApiError, 409 where nothing could be called off."""
    answer = api.cancel(record_id, channel=channel, session=session)
    if answer.answer in (CancelAnswer.CANCELLED, CancelAnswer.STOPPED):
        return CancelShown.model_validate(answer)
    problem = ApiError(409, _NOT_CALLED_OFF[answer.answer], code=answer.answer)
    problem.more["status"] = answer.status
    raise problem


_NOT_CALLED_OFF = {
    CancelAnswer.IN_PROGRESS: "a worker has it and nothing was changed; ask again",
    CancelAnswer.ALREADY_FINAL: "it had ended before",
    CancelAnswer.TOO_LATE: "it is sent",
}
