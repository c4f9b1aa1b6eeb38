"""Delivery receipts: kept as they came, then applied to the record they are about.

A receipt is stored before it is applied, and applied again later when its record does not know its message id yet: the
`receipts` tick does that for a day. A record is found by configuration and message id together, never by the provider's
type, as whoever has an account there can name any id. Reading a provider's shapes is each provider's, the HTTP side is
`messaging.web`. Source: `sms.md` section 8.

Everything here runs across tenants: a receipt comes with no tenant, and the platform's account serves many.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, Row, TextClause, insert
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from messaging.db.engine import autocommitting
from messaging.db.trouble import is_away, is_passing
from messaging.delivery.announcing import NOBODY, Announcement, Announcer
from messaging.sms import receipt_statements as statements
from messaging.sms.acceptance import CHANNEL
from messaging.sms.models import SMS_RECEIPT, DeliveryStatus, SmsSendRecord

if TYPE_CHECKING:
    # With it comes what talks to providers, 4 MB that the workers of ticks do without.
    from messaging.sms.providers.base import Receipt

logger = logging.getLogger(__name__)

#: Waiting receipts that one statement of the tick looks at.
PAGE_ROWS = 1000

#: Statements of one tick, newest receipts first: receipts of an account that also others send with wait in vain, and
#: must not keep a tick busy for ever.
MAX_PAGES = 100

#: How often a write that met another one is made.
MAX_WRITES = 4

#: Longest message id, as the columns have it; a longer one is nobody's.
MAX_MESSAGE_ID_CHARS = 255


@dataclass(frozen=True, slots=True)
class Applied:
    """What a look at stored receipts came to."""

    #: Receipts whose record is there; the others wait.
    applied: int
    #: Receipts that were looked at.
    looked_at: int


def record_delivery_status(
    provider_config_id: int,
    provider_message_id: str,
    status: DeliveryStatus | str,
    at: datetime | None = None,
    *,
    engine: Engine | None = None,
    session: Session | None = None,
    announcer: Announcer = NOBODY,
) -> bool:
    """Note what a provider says became of a message; the record's own `status` stays SENT.

    A final value never goes back to UNKNOWN; of two final ones the later `at` stands; the same receipt again changes
    nothing. `at` is timezone-aware, None is now. With `session` it runs in the caller's transaction, else it commits
    its own on `engine`. A receipt that may come before the record knows its id belongs into `store_receipts`.

    Answers whether there is such a record, whether or not this receipt changed it.

    Raises: ValueError for a status there is none of or a time without a zone; TypeError without engine and session.
    """
    if at is not None and at.tzinfo is None:
        raise ValueError("the time of a receipt has no time zone")
    parameters = {
        "config_id": provider_config_id,
        "message_id": _message_id(provider_message_id),
        "status": DeliveryStatus(status),
        "at": at,
    }
    if session is not None:
        connection = session.connection(bind_arguments={"mapper": SmsSendRecord})
        row = connection.execute(statements.record(announcer.find(connection, CHANNEL)), parameters).one()
    elif engine is not None:
        row = _commit(engine, announcer, statements.record, parameters)
    else:
        raise TypeError("record_delivery_status needs an engine or a session")
    if not row.is_known:
        logger.info("receipt of no known message", extra={"provider_config_id": provider_config_id})
    return bool(row.is_known)


def store_receipts(
    connection: Connection,
    *,
    provider_config_id: int,
    tenant_id: int,
    raw: bytes | str,
    receipts: "Sequence[Receipt]",
) -> list[int]:
    """Keep what one request of a provider said; answers the rows' ids. Runs in the caller's transaction.

    One row for each receipt. The body stands in the first, as a batch of a thousand would be stored a thousand times;
    the others have an empty one and share its `received_at`. A body without a receipt is kept in a row that waits for
    nothing. `tenant_id` is the configuration's.
    """
    body = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    rows: list[dict[str, Any]] = [
        {"provider_message_id": _message_id(receipt.provider_message_id), "status": receipt.status, "at": receipt.at}
        for receipt in receipts
    ] or [{"provider_message_id": None, "status": None, "at": None}]
    for number, row in enumerate(rows):
        row |= {
            "tenant_id": tenant_id,
            "provider_config_id": provider_config_id,
            "raw": "" if number else _storable(body),
        }
    # In the order they were told, which is the order in which receipts of the same moment count.
    statement = insert(SMS_RECEIPT).returning(SMS_RECEIPT.c.id, sort_by_parameter_order=True)
    return list(connection.execute(statement, rows).scalars())


def apply_receipts(engine: Engine, receipt_ids: Sequence[int], announcer: Announcer = NOBODY) -> Applied:
    """Apply stored receipts to their records; those without one wait. Commits its own transaction; idempotent."""
    if not receipt_ids:
        return Applied(0, 0)
    row = _commit(engine, announcer, statements.apply_stored, {"receipt_ids": list(receipt_ids)})
    return Applied(row.applied, row.looked_at)


def take_receipts(
    engine: Engine,
    *,
    provider_config_id: int,
    tenant_id: int,
    raw: bytes | str,
    receipts: "Sequence[Receipt]",
    announcer: Announcer = NOBODY,
) -> Applied:
    """Store what one request of a provider said, commit it, then apply it: what a receipt endpoint calls.

    Once it is stored the provider may be told so: what then cannot be applied is left to the tick.

    Raises: what the driver raises when it cannot be stored.
    """
    with engine.begin() as connection:
        ids = store_receipts(
            connection, provider_config_id=provider_config_id, tenant_id=tenant_id, raw=raw, receipts=receipts
        )
    try:
        applied = apply_receipts(engine, ids, announcer)
    except SQLAlchemyError as exc:
        if not (is_passing(exc) or is_away(exc)):
            raise
        logger.warning("receipts stored and left to the tick", extra={"provider_config_id": provider_config_id})
        return Applied(0, len(ids))
    if applied.applied < applied.looked_at:
        logger.info(
            "receipts of no known message wait",
            extra={"provider_config_id": provider_config_id, "waiting": applied.looked_at - applied.applied},
        )
    return applied


def apply_waiting(
    engine: Engine, *, announcer: Announcer = NOBODY, page_rows: int = PAGE_ROWS, max_pages: int = MAX_PAGES
) -> Applied:
    """The `receipts` tick: apply what was stored within a day and whose record knows its message id by now.

    Commits page by page, newest receipts first. Two ticks at once do no harm.
    """
    applied = looked_at = 0
    before: Mapping[str, Any] = {"before": None, "before_id": None}
    for _ in range(max_pages):
        row = _commit(engine, announcer, statements.apply_waiting, {"rows": page_rows, **before})
        applied += row.applied
        looked_at += row.looked_at
        if row.looked_at < page_rows:
            break
        before = {"before": row.last_received_at, "before_id": row.last_id}
    return Applied(applied, looked_at)


def _commit(
    engine: Engine,
    announcer: Announcer,
    statement: Callable[[Announcement | None], TextClause],
    parameters: Mapping[str, Any],
) -> Row[Any]:
    """Run one statement in a transaction of its own, again when another transaction got in its way."""
    writes = 0
    while True:
        writes += 1
        try:
            with autocommitting(engine).connect() as connection:
                announcement = announcer.find(connection, CHANNEL)
                return connection.execute(statement(announcement), parameters).one()
        except SQLAlchemyError as exc:
            if writes == MAX_WRITES or not is_passing(exc):
                raise


def _message_id(value: str) -> str | None:
    """An id as a column holds it; None for what no record can have."""
    is_storable = 0 < len(value) <= MAX_MESSAGE_ID_CHARS and _storable(value) == value
    return value if is_storable else None


def _storable(value: str) -> str:
    """Text that PostgreSQL takes: no NUL, no lone surrogate."""
    return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
