"""What the functions of the public face have in common: whose transaction, which record, which request."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import Connection, Table
from sqlalchemy.orm import Session

from messaging import audit
from messaging.api.process import environment
from messaging.db.session import transaction
from messaging.delivery.request_fields import MAX_ID
from messaging.errors import MessageRejected, RecordNotFound, shown_value
from messaging.mail.models import MailSendRecord
from messaging.receive.charsets import storable
from messaging.requests import SendInbox, SendMail, SendSms

RequestT = TypeVar("RequestT", SendMail, SendSms, SendInbox)
Member = TypeVar("Member", bound=StrEnum)


@contextmanager
def in_session(session: Session | None) -> Iterator[Session]:
    """The caller's session, or a transaction of its own.

    Raises: TypeError for a session that is awaited.
    """
    if session is not None:
        if hasattr(type(session), "run_sync"):
            raise TypeError(
                f"session is an {type(session).__name__}, whose calls are awaited; write"
                " `await session.run_sync(lambda s: send_mail(..., session=s))`"
            )
        yield session
        return
    with transaction(environment().engine) as own:
        yield own


def note_trial(
    table: Table, row_id: int, *, success: bool, error: str | None, action: str = "test", **found: int
) -> None:
    """Note in the audit log that somebody tried a configuration, and what came of it; in a transaction of its own."""
    with in_session(None) as session:
        audit.note(session, action, table, row_id, after={"success": success, "error": error, **found})


@contextmanager
def in_connection(session: Session | None) -> Iterator[Connection]:
    """The same session's connection to our tables, also where the session is bound to several databases."""
    with in_session(session) as s:
        yield s.connection(bind_arguments={"mapper": MailSendRecord})


def known_id(value: object, *, what: str = "record") -> int:
    """A row's id. What is none is told before the database sees it: an error there ends the caller's transaction.

    Raises: TypeError; RecordNotFound for a number that no id can be.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"a {what} id is an int, not {shown_value(value)}")
    if not 1 <= value <= MAX_ID:
        raise RecordNotFound(f"no {what} {shown_value(value)}")
    return int(value)


def number(name: str, value: object) -> int:
    """An id or a count that narrows a list, from 1 on. Raises: TypeError, ValueError; they name the argument."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is {shown_value(value)}; it is of type int")
    if not 1 <= value <= MAX_ID:
        raise ValueError(f"{name} is {shown_value(value)}; allowed: 1 to {MAX_ID}")
    return int(value)


def number_if_given(name: str, value: object) -> int | None:
    """As `number`; None stays None."""
    return None if value is None else number(name, value)


def whole_if_given(name: str, value: object) -> int | None:
    """As `number_if_given`, with 0 and below: a tenant's id. Raises: TypeError, ValueError."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is {shown_value(value)}; it is of type int")
    if not -MAX_ID <= value <= MAX_ID:
        raise ValueError(f"{name} is {shown_value(value)}; allowed: {-MAX_ID} to {MAX_ID}")
    return int(value)


def text_if_given(name: str, value: object, *, max_chars: int = 255) -> str | None:
    """A text that narrows a list; None stays None. Raises: TypeError, ValueError; they name the argument."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{name} is {shown_value(value)}; it is of type str")
    if len(value) > max_chars or storable(value) != value:
        raise ValueError(f"{name} is {shown_value(value)}; allowed: at most {max_chars} characters that can be stored")
    return value


def time_if_given(name: str, value: object) -> datetime | None:
    """A time that narrows a list; None stays None. Raises: TypeError, ValueError; they name the argument."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise TypeError(f"{name} is {shown_value(value)}; it is of type datetime")
    if value.utcoffset() is None:
        raise ValueError(f"{name} is {shown_value(value)}; it needs a time zone")
    return value


def member(name: str, value: object, kind: type[Member]) -> Member:
    """A member of an enum, or its value. Raises: TypeError, ValueError; they name the argument."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {shown_value(value)}; it is of type {kind.__name__}")
    if value not in kind.__members__:
        raise ValueError(f"{name} is {shown_value(str(value))}; allowed: {', '.join(kind)}")
    return kind[value]


def member_if_given(name: str, value: object, kind: type[Member]) -> Member | None:
    """As `member`; None stays None."""
    return None if value is None else member(name, value, kind)


def given(
    function: str, kind: type[RequestT], channel: str, request: RequestT | None, fields: Mapping[str, Any]
) -> RequestT | None:
    """The request, or the one that the fields make.

    Raises: TypeError for a mix of both and for a field there is none of; MessageRejected where a required one is
    missing.
    """
    if not fields:
        return request
    if request is not None:
        raise TypeError(f"{function} takes a {kind.__name__} or its fields, not both")
    known = kind.__dataclass_fields__
    unknown = sorted(set(fields) - set(known))
    if unknown:
        raise TypeError(f"{function} has no field {unknown[0]!r}; it has {', '.join(known)}")
    missing = [
        name
        for name, field in known.items()
        if name not in fields and field.default is MISSING and field.default_factory is MISSING
    ]
    if missing:
        raise MessageRejected(channel, missing[0], None, "is required")
    return kind(**fields)
