"""First attempts of a chunk: prepare records for a slice of time, then write them back and charge their quota together.

Moves nothing but what it prepared (T4): what failed, was refused or is unclear is told, and the chunk gives it back.
"""

import logging
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from messaging import metrics, tenancy
from messaging.category import MARKER_CATEGORY, MarkerCode
from messaging.clock import Ticker
from messaging.db.trouble import is_away, is_passing, sqlstate
from messaging.delivery.channel import Channel, Claim
from messaging.delivery.outcome import Failure
from messaging.delivery.suppressing import Suppressing
from messaging.delivery.write_back import LedgerConflict, Ready, bucket_of, write_back
from messaging.errors import PreparationError
from messaging.settings import QuotaSettings

logger = logging.getLogger(__name__)

#: Seconds of preparation after which what is prepared is written back and sent, before more is prepared.
PREPARE_SLICE_SECONDS = 0.5


@dataclass(slots=True)
class Preparations:
    """What became of the claims that were looked at; one that is in no list is prepared now, or was before."""

    failed: list[tuple[Claim, Failure]] = field(default_factory=list)
    #: Now that it is known who they are from: everybody open is on the suppression list.
    suppressed: list[Claim] = field(default_factory=list)
    #: Their quota's row was held by others for too long.
    conflicted: list[Claim] = field(default_factory=list)
    #: Somebody else's now.
    lost: list[Claim] = field(default_factory=list)
    #: The database went away: their version may have moved or not.
    unclear: list[Claim] = field(default_factory=list)


class Preparing:
    """Prepares the records of one channel."""

    def __init__(
        self, engine: Engine, channel: Channel, suppressing: Suppressing, quota: QuotaSettings, ticker: Ticker
    ) -> None:
        self._engine = engine
        self._channel = channel
        self._suppressing = suppressing
        self._quota = quota
        self._ticker = ticker

    def prepare_some(self, claims: Sequence[Claim]) -> Preparations:
        """Prepare the first of these for a slice of time, at least one, and write them back in one statement."""
        result = Preparations()
        started = self._ticker()
        ready: list[Ready] = []
        for claim in claims:
            if claim.is_prepared:
                continue
            self._prepare(claim, ready, result)
            if self._ticker() - started >= PREPARE_SLICE_SECONDS:
                break
        if ready:
            self._write_back(ready, result)
        return result

    def _prepare(self, claim: Claim, ready: list[Ready], result: Preparations) -> None:
        with tenancy.tenant(claim.tenant_id):
            try:
                values = self._channel.prepare(claim)
                if self._suppressing.is_stopped(claim, values):
                    result.suppressed.append(claim)
                else:
                    ready.append((claim, values))
            except PreparationError as exc:
                result.failed.append((claim, Failure(exc.category, exc.marker, str(exc))))
            except Exception as exc:  # noqa: BLE001 - one record's bug must not touch the others
                logger.error("preparation raised", extra={"record_id": claim.record_id, **unworded(exc)})
                result.failed.append((claim, unforeseen(MarkerCode.PREPARE_FAILED, exc)))

    def _write_back(self, ready: Sequence[Ready], result: Preparations) -> None:
        name = self._channel.name
        try:
            answer = write_back(self._engine, self._channel, self._quota, ready)
        except LedgerConflict:
            self._conflicted(ready, result)
            return
        except SQLAlchemyError as exc:
            self._refused(ready, exc, result)
            return
        if answer.written:
            metrics.quota(name, "charged", len(answer.written))
        for claim, values in ready:
            if claim.record_id in answer.written:
                claim.version += 1
                claim.content.update((k, v) for k, v in values.items() if v is not None)
                claim.provider = self._channel.provider(claim.content)
            elif claim.record_id in answer.over_limit:
                metrics.quota(name, "exceeded")
                marker = MarkerCode.MONTHLY_QUOTA_EXCEEDED
                why = answer.over_limit[claim.record_id]
                result.failed.append((claim, Failure(MARKER_CATEGORY[marker], marker, why)))
            else:
                result.lost.append(claim)
                metrics.lost_updates(name, "prepare")
                logger.debug("preparation lost", extra={"record_id": claim.record_id})

    def _conflicted(self, ready: Sequence[Ready], result: Preparations) -> None:
        """A usage row stayed locked: its bucket waits, the others of the chunk go on without it."""
        by_bucket: dict[int, list[Ready]] = {}
        for one in ready:
            by_bucket.setdefault(bucket_of(one[0]), []).append(one)
        if len(by_bucket) > 1:
            for group in by_bucket.values():
                self._write_back(group, result)
            return
        metrics.quota(self._channel.name, "conflict", len(ready))
        result.conflicted += [claim for claim, _ in ready]

    def _refused(self, ready: Sequence[Ready], exc: SQLAlchemyError, result: Preparations) -> None:
        """A write-back raised: away gives all back; what the database will not take is found one by one."""
        if is_away(exc) or is_passing(exc):
            logger.warning(
                "database away at the write-back", extra={"error": type(exc).__name__, "sqlstate": sqlstate(exc)}
            )
            result.unclear += [claim for claim, _ in ready]
        elif len(ready) > 1:
            for one in ready:
                self._write_back([one], result)
        else:
            claim = ready[0][0]
            logger.error(
                "preparation refused by the database", extra={"record_id": claim.record_id, "sqlstate": sqlstate(exc)}
            )
            result.failed.append((claim, unforeseen(MarkerCode.PREPARE_FAILED, exc)))


def unworded(exc: Exception) -> dict[str, Any]:
    """A bug for the log: its type and where it came from, not its words, which may hold what was being sent."""
    frames = [f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(exc.__traceback__)]
    return {"error": type(exc).__qualname__, "frames": frames}


def unforeseen(marker: MarkerCode, exc: Exception) -> Failure:
    """A bug's failure: its type, not its words, which may hold what was being sent."""
    return Failure(MARKER_CATEGORY[marker], marker, f"{type(exc).__module__}.{type(exc).__qualname__}")
