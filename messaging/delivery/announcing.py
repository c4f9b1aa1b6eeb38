"""Telling whoever asked what became of records: as part of the statement that changes them, or of its transaction.

So an event is told by whoever won the change, once, or not at all. Delivery knows no listener: an entry point hands in
an `Announcer`. Where nobody listens the statements are those without any of this.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Protocol

from sqlalchemy import Connection, Table, TextClause, text

from messaging.delivery.status import SendStatus


class EventType(StrEnum):
    """What is told of a record."""

    #: The other side took it, for at least one recipient.
    SENT = "message.sent"
    #: It ended without success; `error_code` says why.
    FAILED = "message.failed"
    #: Its attempts are used up.
    DEAD_LETTER = "message.dead_letter"
    #: Somebody called it off.
    CANCELLED = "message.cancelled"
    #: A receipt says that a text message is on the handset.
    DELIVERED = "message.delivered"
    #: A receipt says that it will not get there.
    UNDELIVERED = "message.undelivered"
    #: A report says that a mail which was sent did not get there.
    BOUNCED = "message.bounced"
    #: A recipient's program displayed a mail.
    READ = "message.read"


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a statement that changes records adds in order to tell of it."""

    #: The channel of the records.
    channel: str
    #: `INSERT ... SELECT` from rows `told`: channel, record_id, tenant_id, event_type, data (jsonb), trace_id, span_id,
    #: request_id.
    insert: str


class Announcer(Protocol):
    """Whoever knows who listens."""

    def find(
        self, connection: Connection, channel: str, tenant_ids: Collection[int] | None = None
    ) -> Announcement | None:
        """What to add to a change of records of these tenants; None where none of them listens.

        `tenant_ids` None: whose records they are is not known yet. `connection` is the one that will make the change;
        it may be asked who listens, about once a second. Raises what the driver raises.
        """


class _Nobody:
    def find(
        self, connection: Connection, channel: str, tenant_ids: Collection[int] | None = None
    ) -> Announcement | None:
        return None


#: Nobody listens.
NOBODY: Announcer = _Nobody()

#: Columns of a record, as far as its channel has them, that an event tells beside its id and channel.
_TOLD = (
    *("status", "error_code", "error_message", "retry_count", "idempotency_key", "message_id", "provider_message_id"),
    *("sent_at", "bounce_code", "delivery_status", "delivery_status_updated_at", "read_receipt_received_at"),
)
#: Those that only lead back to what asked for it.
_TRACED = ("trace_id", "span_id", "request_id")

#: The event of a record that has this status now; of others there is none.
EVENT_OF_STATUS = (
    f"CASE m.told_status WHEN '{SendStatus.SENT}' THEN '{EventType.SENT}'"
    f" WHEN '{SendStatus.FAILED}' THEN '{EventType.FAILED}'"
    f" WHEN '{SendStatus.DEAD_LETTER}' THEN '{EventType.DEAD_LETTER}' END"
)


def event(kind: EventType) -> str:
    """The same event for every record."""
    return f"'{kind}'"


def returned(table: Table, announcement: Announcement | None, alias: str = "r") -> str:
    """What the RETURNING of a change adds for `announced`: named apart from what it answers anyway."""
    if announcement is None:
        return ""
    return "".join(f", {alias}.{name} AS told_{name}" for name in (*_TOLD, *_TRACED) if name in table.c)


def announced(table: Table, announcement: Announcement | None, moved: str, event_type: str = EVENT_OF_STATUS) -> str:
    """CTEs behind the one called `moved` (with id, tenant_id and what `returned` names); empty where nobody listens.

    `event_type` is SQL over its rows `m`; null tells nothing.
    """
    if announcement is None:
        return ""
    data = ", ".join(f"'{name}', {_shown(table, name)}" for name in _TOLD if name in table.c)
    traced = ", ".join(f"m.told_{name} AS {name}" for name in _TRACED)
    channel = f"'{announcement.channel}'"
    return f""",
        told AS (
            SELECT {channel} AS channel, m.id AS record_id, m.tenant_id, {event_type} AS event_type, {traced},
                jsonb_strip_nulls(jsonb_build_object('id', m.id::text, 'channel', {channel}, {data})) AS data
            FROM {moved} m WHERE {event_type} IS NOT NULL),
        announced AS ({announcement.insert})"""


def _shown(table: Table, name: str) -> str:
    """A column as JSON has it; a time in UTC, whatever the zone of the session."""
    if name.endswith("_at"):
        return f"""to_char(m.told_{name} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""
    return f"m.told_{name}"


@lru_cache
def tell(table: Table, kind: EventType, announcement: Announcement) -> TextClause:
    """Tell of a record as it stands, in the transaction that has just changed it. Parameter `id`."""
    return text(f"""
        WITH moved AS (
            SELECT r.id, r.tenant_id{returned(table, announcement)} FROM {table.name} r WHERE r.id = :id)
        {announced(table, announcement, "moved", event(kind))}
        SELECT 1
    """)
