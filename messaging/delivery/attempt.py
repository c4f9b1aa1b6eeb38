"""The story of one attempt: claim, prepare once, send outside any transaction, record the outcome.

A chunk is claimed and prepared together; each record is sent, judged and timed alone, and its outcome is handed to the
committer at once. Source: the protocol, section 2.
"""

import json
import logging
import random
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from messaging import metrics, tenancy
from messaging.category import MARKER_CATEGORY, MarkerCode
from messaging.clock import Clock, Ticker
from messaging.db.trouble import is_away, is_passing, sqlstate
from messaging.delivery import statements
from messaging.delivery.channel import Channel, Claim
from messaging.delivery.claim import ClaimUnclear, Pair, claim
from messaging.delivery.committer import Committer, Release, Tally, Unclear
from messaging.delivery.gate import ClaimTooOld, SendGate, SendLimits
from messaging.delivery.outcome import Failure, judge
from messaging.delivery.recipients import RecipientResult, open_recipients
from messaging.delivery.status import SendStatus
from messaging.errors import DeliveryError, PreparationError
from messaging.settings import Settings

logger = logging.getLogger(__name__)

#: Seconds of preparation after which what is prepared is written back and sent, before more is prepared.
PREPARE_SLICE_SECONDS = 0.5

#: Seconds after which a claim given back because a dependency was down, or because it was too old, is due again.
RELEASE_WAIT_SECONDS = (5.0, 30.0)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What every attempt of a worker process shares."""

    engine: Engine  #: autocommit
    channel: Channel
    committer: Committer
    settings: Settings
    clock: Clock
    ticker: Ticker
    rng: random.Random
    is_stopping: Callable[[], bool]
    #: Told when a send begins and ends, so that one that hangs is noticed (C16).
    watch: "SendWatch"

    @property
    def limits(self) -> SendLimits:
        d = self.settings.delivery
        return SendLimits(d.send_budget_seconds, d.send_max_seconds, d.reply_wait_seconds)


class SendWatch:
    """Which sends are under way in this process, and since when."""

    def __init__(self, ticker: Ticker) -> None:
        self._ticker = ticker
        self._lock = threading.Lock()
        self._claimed_at: dict[int, float] = {}

    def begin(self, claim: Claim) -> None:
        """A record's attempt begins in this thread."""
        with self._lock:
            self._claimed_at[threading.get_ident()] = claim.claimed_at

    def end(self) -> None:
        """This thread's attempt is over."""
        with self._lock:
            self._claimed_at.pop(threading.get_ident(), None)

    def oldest_seconds(self) -> float:
        """Age of the oldest claim that is being sent; 0 when none is."""
        with self._lock:
            return max((self._ticker() - at for at in self._claimed_at.values()), default=0.0)


def attempt(delivery: Delivery, pairs: Sequence[Pair]) -> dict[str, int]:
    """Deliver a chunk; answers how many of its records became sent, retry, failed, dead_letter, released, not_mine.

    Raises: the driver's error when the database is away at the claim; nothing was claimed then, or the sweep has it.
    """
    channel = delivery.channel
    try:
        chunk = claim(delivery.engine, channel, pairs, delivery.ticker)
    except ClaimUnclear as exc:
        delivery.committer.release_unclear(Unclear(exc.ids, exc.token, delivery.rng.uniform(*RELEASE_WAIT_SECONDS)))
        raise exc.__cause__ or exc from None
    tally = Tally()
    lost = len(pairs) - len(chunk.claims) - len(chunk.expired)
    if lost:
        tally.count_now("not_mine", lost)
        metrics.lost_updates(channel.name, "claim", lost)
        logger.debug("claims lost", extra={"channel": channel.name, "count": lost})
    for status in chunk.expired:
        tally.count_now(status.lower(), 1)
        if status is SendStatus.SENT:
            metrics.sent(channel.name, channel.provider)
        else:
            metrics.failed(channel.name, channel.provider, "failed")
    work = _Chunk(delivery, chunk.claims, tally)
    try:
        work.run()
    except BaseException:
        work.release_rest("dependency")  # C19: whatever escapes gives the rest back first
        raise
    delivery.committer.hurry()
    return tally.wait()


class _Chunk:
    """The claims of one task, worked off in order."""

    def __init__(self, delivery: Delivery, claims: list[Claim], tally: Tally) -> None:
        self._delivery = delivery
        self._claims = claims
        self._tally = tally
        #: Position of the next claim that is neither begun nor given back.
        self._next = 0
        self._hold_until = delivery.ticker() + delivery.settings.delivery.chunk_hold_seconds

    def run(self) -> None:
        if not self._claims:
            return
        delivery = self._delivery
        try:
            delivery.channel.load(self._claims)
        except SQLAlchemyError as exc:
            logger.warning("database away before the send", extra={"error": type(exc).__name__})
            self.release_rest("dependency")
            return
        is_first = True
        while self._next < len(self._claims):
            if not is_first and delivery.ticker() >= self._hold_until:
                self.release_rest("hold")
            elif delivery.is_stopping():
                self.release_rest("stopping")
            else:
                if not self._claims[self._next].is_prepared and not self._prepare_some():
                    continue
                current = self._claims[self._next]
                self._next += 1
                is_first = False
                self._one(current)

    def release_rest(self, reason: str) -> None:
        """Give back what is not begun (T11)."""
        rest, self._next = self._claims[self._next :], len(self._claims)
        for claimed in rest:
            self._release(claimed, reason)

    def _release(self, claimed: Claim, reason: str) -> None:
        delivery = self._delivery
        delay = 0.0 if reason in ("hold", "stopping") else delivery.rng.uniform(*RELEASE_WAIT_SECONDS)
        message = _RELEASE_MESSAGES[reason]
        delivery.committer.submit(Release(claimed, delay, reason, message=message), self._tally)

    # -- preparation ------------------------------------------------------------------------------------------------

    def _prepare_some(self) -> bool:
        """Prepare the next claims for a slice of time and write them back; answers whether the next one may be sent."""
        delivery = self._delivery
        started = delivery.ticker()
        ready: list[tuple[Claim, dict[str, Any]]] = []
        position = self._next
        while position < len(self._claims) and delivery.ticker() - started < PREPARE_SLICE_SECONDS:
            claimed = self._claims[position]
            if claimed.is_prepared:
                position += 1
                continue
            with tenancy.tenant(claimed.tenant_id):
                try:
                    ready.append((claimed, dict(delivery.channel.prepare(claimed))))
                    position += 1
                except PreparationError as exc:
                    self._drop(position)
                    self._record(claimed, Failure(exc.category, exc.marker, str(exc)), started)
                except Exception as exc:  # noqa: BLE001 - one record's bug must not touch the others
                    logger.error("preparation raised", extra={"record_id": claimed.record_id, **_unworded(exc)})
                    self._drop(position)
                    self._record(claimed, _unforeseen(MarkerCode.PREPARE_FAILED, exc), started)
        if ready:
            self._write_back(ready)
        return self._next < len(self._claims) and self._claims[self._next].is_prepared

    def _drop(self, position: int) -> None:
        del self._claims[position]

    def _write_back(self, ready: list[tuple[Claim, dict[str, Any]]]) -> None:
        """T4, one statement for all; a record that did not move is somebody else's now."""
        delivery = self._delivery
        names = delivery.channel.prepared_columns
        rows = [{"id": c.record_id, "version": c.version, **values} for c, values in ready]
        try:
            moved = self._write_prepared(names, [c for c, _ in ready], json.dumps(rows, default=datetime.isoformat))
        except SQLAlchemyError as exc:
            self._refused(ready, exc)
            return
        for claimed, values in ready:
            if claimed.record_id in moved:
                claimed.version += 1
                claimed.content.update((k, v) for k, v in values.items() if v is not None)
            else:
                self._claims.remove(claimed)
                self._tally.count_now("not_mine", 1)
                metrics.lost_updates(delivery.channel.name, "prepare")
                logger.debug("preparation lost", extra={"record_id": claimed.record_id})

    def _refused(self, ready: list[tuple[Claim, dict[str, Any]]], exc: SQLAlchemyError) -> None:
        """A write-back raised: away gives all back; what the database will not take is found one by one."""
        if is_away(exc) or is_passing(exc):
            logger.warning(
                "database away at the write-back", extra={"error": type(exc).__name__, "sqlstate": sqlstate(exc)}
            )
            self._release_unclear([claimed for claimed, _ in ready])
            self.release_rest("dependency")
        elif len(ready) > 1:
            for one in ready:
                self._write_back([one])
        else:
            claimed = ready[0][0]
            logger.error(
                "preparation refused by the database", extra={"record_id": claimed.record_id, "sqlstate": sqlstate(exc)}
            )
            self._claims.remove(claimed)
            self._record(claimed, _unforeseen(MarkerCode.PREPARE_FAILED, exc), self._delivery.ticker())

    def _release_unclear(self, claims: Sequence[Claim]) -> None:
        """Their write-back may have moved their version or not: they are given back by their token."""
        delivery = self._delivery
        delay = delivery.rng.uniform(*RELEASE_WAIT_SECONDS)
        for claimed in claims:
            self._claims.remove(claimed)
        self._tally.count_now("released", len(claims))
        ids = [claimed.record_id for claimed in claims]
        delivery.committer.release_unclear(Unclear(ids, claims[0].token, delay))

    def _write_prepared(self, names: tuple[str, ...], claims: Sequence[Claim], rows: str) -> set[int]:
        """Ids that moved. A lost reply is read again by the token, and the rest written once more."""
        delivery = self._delivery
        table = delivery.channel.table
        token = claims[0].token
        parameters = {"rows": rows, "token": token}
        try:
            with delivery.engine.connect() as connection:
                return set(connection.execute(statements.prepared(table, names), parameters).scalars())
        except DBAPIError as exc:
            if not exc.connection_invalidated:
                raise
        with delivery.engine.connect() as connection:
            found = connection.execute(
                statements.claimed_by(table), {"ids": [c.record_id for c in claims], "token": token}
            ).fetchall()
            written = {row.id for row in found if row.prepared_at is not None}
            return written | set(connection.execute(statements.prepared(table, names), parameters).scalars())

    # -- sending ----------------------------------------------------------------------------------------------------

    def _one(self, claimed: Claim) -> None:
        """Send one record; nothing it raises touches the others."""
        delivery = self._delivery
        with tenancy.tenant(claimed.tenant_id):
            recipients: Sequence[str] = ()
            started = delivery.ticker()
            delivery.watch.begin(claimed)
            try:
                recipients = delivery.channel.recipients(claimed.content)
                to_name = open_recipients(recipients, claimed.results)
                gate = SendGate(claimed.claimed_at, delivery.limits, delivery.ticker)
                learnt: dict[str, RecipientResult] | Failure = (
                    dict(delivery.channel.send(claimed, to_name, gate)) if to_name else {}
                )
            except ClaimTooOld:
                self._release(claimed, "old")
                return
            except DeliveryError as exc:
                learnt = Failure(exc.category, exc.code, exc.text, exc.retry_after_seconds, exc.is_uncertain)
            except PreparationError as exc:
                learnt = Failure(exc.category, exc.marker, str(exc))
            except SQLAlchemyError as exc:
                logger.warning("database away during the send's preparation", extra={"error": type(exc).__name__})
                self._release(claimed, "dependency")
                return
            except Exception as exc:  # noqa: BLE001 - one record's bug must not touch the others
                logger.error("send raised", extra={"record_id": claimed.record_id, **_unworded(exc)})
                learnt = _unforeseen(MarkerCode.UNEXPECTED, exc)
            finally:
                delivery.watch.end()
            metrics.send_seconds(delivery.channel.name, delivery.channel.provider, delivery.ticker() - started)
            self._record(claimed, learnt, started, recipients)

    def _record(
        self,
        claimed: Claim,
        learnt: dict[str, RecipientResult] | Failure,
        started: float,
        recipients: Sequence[str] = (),
    ) -> None:
        delivery = self._delivery
        outcome = judge(
            claimed,
            recipients,
            learnt,
            at=_iso(delivery.clock()),
            retry=delivery.settings.retry,
            rng=delivery.rng,
        )
        outcome.config_id = delivery.channel.config_id(claimed)
        outcome.started_at = started
        outcome.ended_at = delivery.ticker()
        delivery.committer.submit(outcome, self._tally)


_RELEASE_MESSAGES = {
    "hold": "given back: its chunk was worked on for DELIVERY__CHUNK_HOLD_SECONDS",
    "stopping": "given back: its worker is stopping",
    "dependency": "given back: a dependency of the worker was away",
    "old": "given back: the claim was too old to start or end a send",
}


def _unworded(exc: Exception) -> dict[str, object]:
    """A bug for the log: its type and where it came from, not its words, which may hold what was being sent."""
    frames = [f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(exc.__traceback__)]
    return {"error": type(exc).__qualname__, "frames": frames}


def _unforeseen(marker: MarkerCode, exc: Exception) -> Failure:
    """A bug's failure: its type, not its words, which may hold what was being sent."""
    return Failure(MARKER_CATEGORY[marker], marker, f"{type(exc).__module__}.{type(exc).__qualname__}")


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="seconds")
