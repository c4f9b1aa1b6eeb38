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
    work = _WriteBack(engine, channel, quota, ready)
    try:
        work.charge()
    except DBAPIError as exc:
        if is_passing(exc):
            raise LedgerConflict from exc
        if not exc.connection_invalidated:
            raise
        work.find_written()
        work.charge()
    return work.answer


def bucket_of(claim: Claim) -> int:
    """Whose quota the record is charged to."""
    return bucket(claim.content["scope"], claim.tenant_id)


class _WriteBack:
    """One write-back, as far as it got."""

    def __init__(self, engine: Engine, channel: Channel, quota: QuotaSettings, ready: Sequence[Ready]) -> None:
        self.answer = WrittenBack()
        self._engine = engine
        self._channel = channel
        self._claims = {claim.record_id: claim for claim, _ in ready}
        self._token = ready[0][0].token
        given = {name for _, values in ready for name in values}
        names = tuple(name for name in channel.prepared_columns if name in given)
        self._statement = statements.prepared(channel.table, names, channel.name)
        self._parameters = {
            "rows": json.dumps([_row(claim, values) for claim, values in ready], default=datetime.isoformat),
            "token": self._token,
            "zone": quota.timezone,
            "default_limit": channel.monthly_default,
        }

    def charge(self) -> None:
        """Run the statement; again where a bucket had no usage row of this month yet: once a month."""
        for _ in range(_MAX_ROUNDS):
            with self._engine.connect() as connection:
                rows = connection.execute(self._statement, self._parameters).fetchall()
                unopened = sorted({bucket_of(self._claims[row.id]) for row in rows if not row.has_usage})
                if unopened:
                    zone = self._parameters["zone"]
                    connection.execute(statements.open_month(), {"buckets": unopened, "zone": zone})
            for row in rows:
                if row.is_written:
                    self.answer.written.add(row.id)
                elif row.has_usage:
                    self.answer.over_limit[row.id] = self._over(row)
            if not unopened:
                return
        raise LedgerConflict

    def find_written(self) -> None:
        """What a statement whose reply was lost has written."""
        with self._engine.connect() as connection:
            found = connection.execute(
                statements.claimed_by(self._channel.table), {"ids": list(self._claims), "token": self._token}
            ).fetchall()
        self.answer.written.update(row.id for row in found if row.prepared_at is not None)

    def _over(self, row: Row[Any]) -> str:
        whose = bucket_of(self._claims[row.id])
        return f"the quota of bucket {whose} is used up: {row.monthly_limit} in {row.period}"


def _row(claim: Claim, values: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": claim.record_id, "version": claim.version, "bucket": bucket_of(claim), **values}
