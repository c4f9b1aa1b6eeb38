"""Pending or Retry -> Sending by version, a chunk in one statement; a lost reply is read again by its token."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Engine, Row
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from messaging.clock import Ticker
from messaging.db.trouble import is_away
from messaging.delivery import statements
from messaging.delivery.announcing import NOBODY, Announcer
from messaging.delivery.channel import Channel, Claim
from messaging.delivery.status import SendStatus

#: A record's id and the version a tick gave it.
Pair = tuple[int, int]


class ClaimUnclear(Exception):
    """The database went away during a claim: whatever it claimed under the token is to be given back."""

    def __init__(self, ids: Sequence[int], token: int) -> None:
        self.ids = ids
        self.token = token
        super().__init__("the database went away during a claim")


class Expired(NamedTuple):
    """A record that ended at its claim."""

    status: SendStatus
    provider: str


@dataclass(frozen=True, slots=True)
class ClaimedChunk:
    """What one claim statement moved."""

    #: In the order of the pairs.
    claims: list[Claim]
    #: Records past their `expires_at`, by id: ended, not to be sent.
    expired: dict[int, Expired]


def claim(
    engine: Engine, channel: Channel, pairs: Sequence[Pair], ticker: Ticker, announcer: Announcer = NOBODY
) -> ClaimedChunk:
    """Claim what is still at the version named; commits its own (an autocommit engine), two at once share nothing.

    When the connection breaks, the rows are read again by their token, and claimed again if the first try left none:
    an unclear claim must neither be sent twice nor wait for the sweep.

    Raises: ClaimUnclear when the database does not answer then either; the driver's error when it refuses.
    """
    token = secrets.randbits(63)
    claimed_at = ticker()  # before the statement is sent: a claim is never younger than this says
    ids = [record_id for record_id, _ in pairs]
    parameters: dict[str, Any] = {"ids": ids, "versions": [version for _, version in pairs], "token": token}
    try:
        with engine.connect() as connection:
            statement = statements.claim(channel.table, announcer.find(connection, channel.name))
            rows: Sequence[Row[Any]] = connection.execute(statement, parameters).fetchall()
    except DBAPIError as exc:
        if not exc.connection_invalidated:
            raise
        try:
            with engine.connect() as connection:
                rows = connection.execute(statements.claimed_by(channel.table), {"ids": ids, "token": token}).fetchall()
                if not rows:
                    claimed_at = ticker()
                    statement = statements.claim(channel.table, announcer.find(connection, channel.name))
                    rows = connection.execute(statement, parameters).fetchall()
        except SQLAlchemyError as still:
            if not is_away(still):
                raise
            raise ClaimUnclear(ids, token) from still
    claims: list[Claim] = []
    expired: dict[int, Expired] = {}
    names = [column.name for column in channel.table.columns]
    for row in rows:
        content = dict(zip(names, row, strict=True))
        provider = channel.provider(content)
        if content["status"] == SendStatus.SENDING:
            claims.append(
                Claim(
                    record_id=content["id"],
                    version=content["version"],
                    token=content["claim_token"],
                    tenant_id=content["tenant_id"],
                    retry_count=content["retry_count"],
                    content=content,
                    claimed_at=claimed_at,
                    provider=provider,
                )
            )
        else:
            expired[content["id"]] = Expired(SendStatus(content["status"]), provider)
    position = {record_id: n for n, record_id in enumerate(ids)}
    claims.sort(key=lambda c: position[c.record_id])
    return ClaimedChunk(claims, expired)
