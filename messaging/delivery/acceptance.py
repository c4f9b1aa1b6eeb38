"""What accepting a request is for every channel: the batch, who asks, the insert with its keys, counts and the nudge.

A channel checks its own fields (`request_fields` has those that all share), all of them before the first statement, so
that a rejection leaves the caller's transaction as it was.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from messaging import metrics, nudge, tenancy, tracing
from messaging.delivery.insertion import Ahead, Insertion, KeyConflict, Origin, RowT
from messaging.errors import MessageRejected
from messaging.settings import Settings

#: Characters of a trace, a span, a request and of a user's name that the record keeps.
MAX_TRACE_CHARS, MAX_SPAN_CHARS, MAX_REQUEST_ID_CHARS, MAX_USER_NAME_CHARS = 32, 16, 64, 100

RequestT = TypeVar("RequestT")


def check_batch(
    requests: object, kind: type[RequestT], *, channel: str, settings: Settings, single: bool
) -> Sequence[RequestT]:
    """The requests, each there and of the right kind.

    Raises: MessageRejected.
    """
    if requests is None:
        raise MessageRejected(channel, "requests", None, "is missing")
    if not isinstance(requests, Sequence) or isinstance(requests, str | bytes | bytearray):
        raise MessageRejected(channel, "requests", requests, "is not a list of requests")
    if not requests:
        raise MessageRejected(channel, "requests", requests, "is empty")
    if len(requests) > settings.batch_max:
        raise MessageRejected(channel, "requests", len(requests), f"are more than {settings.batch_max}")
    for index, request in enumerate(requests):
        if not isinstance(request, kind):
            reason = "is missing" if request is None else f"is not a {kind.__name__}"
            raise MessageRejected(channel, "request", request, reason, index=None if single else index)
    return requests


def write_accepted(
    session: Session,
    insertion: Insertion[RowT],
    rows: Sequence[RowT],
    *,
    tenant_id: int,
    channel: str,
    mapper: type,
    settings: Settings,
    single: bool,
    ahead: Ahead[RowT] | None = None,
) -> list[int]:
    """Insert checked requests into the session's transaction; answers their records' ids in order.

    One multi-row INSERT. A row whose idempotency key is stored already answers that record's id and writes nothing; a
    key that another open transaction is writing is waited for, at most the lock time-out.

    Raises:
        MessageRejected: a key was used before with another content; nothing is written, and the transaction is usable.
        IdempotencyKeyBusy: another transaction holds a key and does not end; as above.
    """
    connection = session.connection(bind_arguments={"mapper": mapper})
    try:
        written = insertion.write(
            connection,
            rows,
            _origin(tenant_id),
            lock_timeout_seconds=settings.database.lock_timeout_seconds,
            ahead=ahead,
        )
    except KeyConflict as exc:
        raise MessageRejected(
            channel,
            "idempotency_key",
            rows[exc.position].idempotency_key,
            "was used before with another content",
            index=None if single else exc.position,
        ) from None
    if written.inserted:
        metrics.accepted(channel, written.inserted)
        nudge.after_commit(session, settings, channel)
    return written.ids


#: Fields of a row that say nothing of what was asked.
_NOT_ASKED = ("lane", "idempotency_key", "request_hash")


def request_hash(row: Mapping[str, Any]) -> str:
    """SHA-256 over what was asked, in hex; `row` are the fields of the row made of it.

    What was left out does not count, so that a new field makes no repeat look like another request.
    """
    asked = {name: value for name, value in row.items() if value is not None and name not in _NOT_ASKED}
    if "template_variables" in asked:
        asked["template_variables"] = json.loads(asked["template_variables"])
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=datetime.isoformat).encode()).hexdigest()


def _origin(tenant_id: int) -> Origin:
    context = tenancy.current()
    trace_id, span_id = context.trace_id, context.span_id
    if trace_id is None:
        trace_id, span_id = tracing.current_span()
    return Origin(
        tenant_id,
        storable(trace_id, MAX_TRACE_CHARS),
        storable(span_id, MAX_SPAN_CHARS),
        storable(context.request_id, MAX_REQUEST_ID_CHARS),
        context.user_id,
        storable(context.user_name, MAX_USER_NAME_CHARS),
    )


def storable(text: str | None, max_chars: int) -> str | None:
    """What an audit column can hold of a text that the context brings: it is no reason to refuse a request."""
    if text is None:
        return None
    return text.replace("\x00", "").encode("utf-8", "replace").decode()[:max_chars]
