"""Write what was prepared back and charge the monthly quota for it: one statement, one round trip, all or nothing (T4).

A charge without a prepared record, or the reverse, cannot be committed, so a record is charged exactly once. Limits
and months: `operate.md` section 5.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, Row
from sqlalchemy.exc import DBAPIError

from messaging.db.trouble import is_passing
from messaging.delivery import statements
from messaging.delivery.channel import Channel, Claim
from messaging.quota import bucket
from messaging.settings import QuotaSettings

#: A claim and the values of its prepared columns.
Ready = tuple[Claim, Mapping[str, Any]]


class LedgerConflict(Exception):
    """A usage row was held by others for too long; nothing was written or charged."""


#: A month may turn between opening its rows and charging them; it does not turn twice.
_MAX_ROUNDS = 3


@dataclass(slots=True)
class WrittenBack:
    """What became of each record; one that is in neither is somebody else's now."""

    written: set[int] = field(default_factory=set)
    #: Over the limit of their bucket: record id -> why, for an operator. Nothing was written or charged.
    over_limit: dict[int, str] = field(default_factory=dict)


def write_back(engine: Engine, channel: Channel, quota: QuotaSettings, ready: Sequence[Ready]) -> WrittenBack:
    """Write and charge these records of one claim statement; commits its own (an autocommit engine).

    A lost reply is read again by the token, and the rest written once more.

    Raises: LedgerConflict; otherwise what the driver raises.
    """
    given = {name for _, values in ready for name in values}
    statement = statements.prepared(
        channel.table, tuple(name for name in channel.prepared_columns if name in given), channel.name
    )
    parameters = {
        "rows": json.dumps([_row(claim, values) for claim, values in ready], default=datetime.isoformat),
        "token": ready[0][0].token,
        "zone": quota.timezone,
        "default_limit": channel.monthly_default,
    }
    answer = WrittenBack()
    try:
        _charge(engine, statement, parameters, ready, answer)
    except DBAPIError as exc:
        if is_passing(exc):
            raise LedgerConflict from exc
        if not exc.connection_invalidated:
            raise
        answer.written |= _find_written(engine, channel, ready)
        _charge(engine, statement, parameters, ready, answer)
    return answer


def _find_written(engine: Engine, channel: Channel, ready: Sequence[Ready]) -> set[int]:
    """What a statement whose reply was lost has written."""
    parameters = {"ids": [claim.record_id for claim, _ in ready], "token": ready[0][0].token}
    with engine.connect() as connection:
        found = connection.execute(statements.claimed_by(channel.table), parameters).fetchall()
    return {row.id for row in found if row.prepared_at is not None}


def _row(claim: Claim, values: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": claim.record_id, "version": claim.version, "bucket": bucket_of(claim), **values}


def bucket_of(claim: Claim) -> int:
    """Whose quota the record is charged to."""
    return bucket(claim.content["scope"], claim.tenant_id)


def _charge(
    engine: Engine, statement: Any, parameters: Mapping[str, Any], ready: Sequence[Ready], answer: WrittenBack
) -> None:
    """Run the statement; again where a bucket had no usage row of this month yet: once a month."""
    by_id = {claim.record_id: claim for claim, _ in ready}
    for _ in range(_MAX_ROUNDS):
        with engine.connect() as connection:
            rows = connection.execute(statement, parameters).fetchall()
            unopened = sorted({bucket_of(by_id[row.id]) for row in rows if not row.has_usage})
            if unopened:
                connection.execute(statements.open_month(), {"buckets": unopened, "zone": parameters["zone"]})
        answer.written.update(row.id for row in rows if row.is_written)
        answer.over_limit.update(
            (row.id, _over(by_id[row.id], row)) for row in rows if row.has_usage and not row.is_written
        )
        if not unopened:
            return
    raise LedgerConflict


def _over(claim: Claim, row: Row[Any]) -> str:
    return f"the quota of bucket {bucket_of(claim)} is used up: {row.monthly_limit} in {row.period}"
