"""Manual retry of one record or many: T15 from a final state, T16 from a waiting one."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Connection, Table, Text, bindparam, func, select

from messaging import audit, metrics
from messaging.category import MarkerCode
from messaging.db.filters import owning_tenant
from messaging.delivery import statements
from messaging.delivery.recipients import REOPENED_BY_RETRY, open_recipients
from messaging.delivery.status import SendStatus
from messaging.errors import RecordNotFound, StateError

#: What became of one of many: asked for another attempt; changed while it was looked at.
REQUEUED, CHANGED = "requeued", "changed meanwhile"

#: Answers a record's envelope recipients.
Recipients = Callable[[Mapping[str, Any]], Sequence[str]]


def retry(connection: Connection, table: Table, recipients: Recipients, record_id: int, *, channel: str) -> None:
    """Ask for another attempt of one record; runs in the caller's transaction.

    Raises: RecordNotFound; StateError for a SENT, SENDING or cancelled record, one of whose recipients nobody is open,
    or one that changed meanwhile.
    """
    rows = _read(connection, table, [record_id])
    if not rows:
        raise RecordNotFound(f"no {channel} record {record_id}")
    refusal = _refusal(rows[0], recipients)
    if refusal:
        raise StateError(f"{channel} record {record_id} {refusal}")
    if not _requeue(connection, table, rows):
        metrics.lost_updates(channel, "requeue")
        raise StateError(f"{channel} record {record_id} changed meanwhile; look at it again")


def retry_batch(
    connection: Connection, table: Table, recipients: Recipients, record_ids: Sequence[int], *, channel: str
) -> int:
    """Ask for another attempt of many; skips what `retry` would refuse, answers how many were requeued."""
    return retry_counted(connection, table, recipients, record_ids, channel=channel)[REQUEUED]


def retry_counted(
    connection: Connection, table: Table, recipients: Recipients, record_ids: Sequence[int], *, channel: str
) -> Counter[str]:
    """As `retry_batch`; answers how many came to what: `REQUEUED`, `CHANGED`, or why `retry` would refuse it."""
    counts: Counter[str] = Counter()
    rows = []
    for row in _read(connection, table, record_ids):
        refusal = _refusal(row, recipients)
        if refusal:
            counts[refusal] += 1
        else:
            rows.append(row)
    counts[REQUEUED] = _requeue(connection, table, rows)
    changed = len(rows) - counts[REQUEUED]
    if changed:
        counts[CHANGED] = changed
        metrics.lost_updates(channel, "requeue", changed)
    return counts


def _read(connection: Connection, table: Table, record_ids: Sequence[int]) -> list[Mapping[str, Any]]:
    """Without the long texts, which nothing here looks at; ids travel as one array, as parameters are limited."""
    columns = [c for c in table.c if not isinstance(c.type, Text)]
    ids = bindparam("ids", list(record_ids), type_=ARRAY(BigInteger))
    statement = select(*columns).where(table.c.id == func.any(ids))
    owner = owning_tenant()
    if owner is not None:
        statement = statement.where(table.c.tenant_id == owner)
    return [dict(row._mapping) for row in connection.execute(statement)]


def _refusal(row: Mapping[str, Any], recipients: Recipients) -> str | None:
    """Why this record cannot be retried; None when it can."""
    status = row["status"]
    if status in (SendStatus.SENT, SendStatus.SENDING):
        return f"is {status}"
    if status == SendStatus.FAILED and row["error_code"] == MarkerCode.CANCELLED:
        return "was cancelled; accept it anew"
    if row["redacted_at"] is not None:
        return "has no content any more; accept it anew"
    if status not in _FINAL:
        return None
    if not open_recipients(recipients(row), _reopened(row)):
        return "has no recipient left to send to"
    return None


_FINAL = (SendStatus.FAILED, SendStatus.DEAD_LETTER)


def _reopened(row: Mapping[str, Any]) -> dict[str, Any]:
    """Recipient results without those that a retry opens again (C9): refused, suppressed, bounced."""
    results = row.get("recipient_results") or {}
    return {a: r for a, r in results.items() if r["result"] not in REOPENED_BY_RETRY}


def _requeue(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
    requeued = connection.execute(
        statements.requeue(table),
        {
            "ids": [row["id"] for row in rows],
            "versions": [row["version"] for row in rows],
            "results": [json.dumps(_reopened(row)) if row["status"] in _FINAL else None for row in rows],
        },
    ).scalars()
    ids = set(requeued)
    audit.note_all(connection, (_noted(table, row) for row in rows if row["id"] in ids))
    return len(ids)


def _noted(table: Table, row: Mapping[str, Any]) -> audit.Entry:
    before = {name: row[name] for name in ("status", "error_code", "retry_count")}
    after = {"status": SendStatus.RETRY, "retry_count": row["retry_count"] + (row["status"] in _FINAL)}
    return audit.Entry("retry", table, row["id"], before, after, tenant_id=row["tenant_id"])
