"""The story of one attempt: claim, prepare once, send outside any transaction, record the outcome.

A chunk is claimed and prepared together; each record is sent, judged and timed alone, and its outcome is handed to the
committer at once. Source: the protocol, section 2.
"""

import logging
import random
import threading
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from messaging import metrics, tenancy, tracing
from messaging.category import MarkerCode
from messaging.clock import Clock, Ticker
from messaging.db.trouble import is_away, is_passing, is_unfit
from messaging.delivery.announcing import Announcer
from messaging.delivery.channel import Channel, Claim, RateLimits
from messaging.delivery.claim import ClaimUnclear, Pair, claim
from messaging.delivery.committer import Committer, Release, Tally, Unclear
from messaging.delivery.gate import ClaimTooOld, SendDeferred, SendGate, SendLimits
from messaging.delivery.outcome import Failure, judge
from messaging.delivery.preparing import Preparing, unforeseen, unworded
from messaging.delivery.recipients import RecipientResult, open_recipients
from messaging.delivery.status import SendStatus
from messaging.delivery.suppressing import Suppressing
from messaging.delivery.windows import ChunkWindows, has_place
from messaging.errors import DeliveryError, PreparationError
from messaging.rate_limit import Full, RateLimitUnavailable, RateWindows
from messaging.settings import Settings

logger = logging.getLogger(__name__)

#: Seconds after which a claim given back because a dependency was down, because it was too old, or for the sake of
#: another message, is due again.
RELEASE_WAIT_SECONDS = (5.0, 30.0)

#: Seconds after which a claim given back because its quota's row was busy is due again.
LEDGER_WAIT_SECONDS = (1.0, 5.0)


class Reason(Enum):
    """Why a claim is given back unsent (T11): label of the metric, wait, what the record says."""

    HOLD = ("hold", (0.0, 0.0), "given back: its chunk was worked on for DELIVERY__CHUNK_HOLD_SECONDS")
    STOPPING = ("stopping", (0.0, 0.0), "given back: its worker is stopping")
    DEPENDENCY = ("dependency", RELEASE_WAIT_SECONDS, "given back: a dependency of the worker was away")
    OLD = ("old", RELEASE_WAIT_SECONDS, "given back: the claim was too old to start or end a send")
    TWIN = (
        "dependency",
        RELEASE_WAIT_SECONDS,
        "given back: the same is being sent to the same number, and what was found of it at the provider may be that",
    )
    LEDGER = (
        "dependency",
        LEDGER_WAIT_SECONDS,
        "given back: the month's usage was locked by others for longer than DATABASE__LOCK_TIMEOUT_SECONDS",
        MarkerCode.QUOTA_LEDGER_CONFLICT,
    )
    WINDOWS_AWAY = (
        "dependency",
        RELEASE_WAIT_SECONDS,
        "given back: Redis does not answer, so the server's limits cannot be checked",
        MarkerCode.RATE_LIMIT_UNAVAILABLE,
    )

    def __init__(
        self,
        label: str,
        wait_seconds: tuple[float, float],
        message: str,
        code: MarkerCode = MarkerCode.CLAIM_RELEASED,
    ) -> None:
        self.label = label
        self.wait_seconds = wait_seconds
        self.message = message
        self.code = code


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
    windows: RateWindows
    #: Told when a send begins and ends, so that one that hangs is noticed (C16).
    watch: "SendWatch"
    #: Told what ends at its claim.
    announcer: Announcer

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
        chunk = claim(delivery.engine, channel, pairs, delivery.ticker, delivery.announcer)
    except ClaimUnclear as exc:
        delivery.committer.release_unclear(Unclear(exc.ids, exc.token, delivery.rng.uniform(*RELEASE_WAIT_SECONDS)))
        raise exc.__cause__ or exc from None
    tally = Tally()
    lost = len(pairs) - len(chunk.claims) - len(chunk.expired)
    if lost:
        tally.count_now("not_mine", lost)
        metrics.lost_updates(channel.name, "claim", lost)
        logger.debug("claims lost", extra={"channel": channel.name, "count": lost})
    for record_id, (status, provider) in chunk.expired.items():
        tally.count_now(status.lower(), 1)
        logger.error("expired before it was sent", extra={"record_id": record_id, "status": status})
        if status is SendStatus.SENT:
            metrics.sent(channel.name, provider)
        else:
            metrics.failed(channel.name, provider, "failed")
    work = _Chunk(delivery, chunk.claims, tally)
    try:
        work.run()
    except BaseException:
        work.release_rest(Reason.DEPENDENCY)  # C19: whatever escapes gives the rest back first
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
        self._windows = ChunkWindows(delivery.windows, delivery.channel.name)
        self._suppressing = Suppressing(delivery.engine, delivery.channel)
        self._preparing = Preparing(
            delivery.engine, delivery.channel, self._suppressing, delivery.settings.quota, delivery.ticker
        )
        self._limits = delivery.limits
        self._hold_until = delivery.ticker() + delivery.settings.delivery.chunk_hold_seconds

    def run(self) -> None:
        if not self._claims:
            return
        delivery = self._delivery
        try:
            delivery.channel.load(self._claims)
            self._suppressing.load(self._claims)
        except SQLAlchemyError as exc:
            logger.warning("database away before the send", extra={"error": type(exc).__name__})
            self.release_rest(Reason.DEPENDENCY)
            return
        self._end_suppressed()
        is_first = True
        while self._next < len(self._claims):
            if not is_first and delivery.ticker() >= self._hold_until:
                self.release_rest(Reason.HOLD)
            elif delivery.is_stopping():
                self.release_rest(Reason.STOPPING)
            else:
                if not self._claims[self._next].is_prepared and not self._prepare_some():
                    is_first = False  # what failed was begun, and may have taken its time
                    continue
                current = self._claims[self._next]
                self._next += 1
                is_first = False
                self._one(current)

    def release_rest(self, reason: Reason) -> None:
        """Give back what is not begun (T11)."""
        rest, self._next = self._claims[self._next :], len(self._claims)
        for claimed in rest:
            full = self._windows.pop_full(claimed)
            if full is None:
                self._release(claimed, reason)
            else:
                self._hold_back(claimed, full)

    def _release(self, claimed: Claim, reason: Reason) -> None:
        delay = self._delivery.rng.uniform(*reason.wait_seconds)
        code = reason.code
        if code is MarkerCode.CLAIM_RELEASED and has_place(claimed):
            code = MarkerCode.QUOTA_EXCEEDED  # else it would go to the end of its window's line
        self._delivery.committer.submit(
            Release(claimed, delay, reason.label, code=code, message=reason.message), self._tally
        )

    def _hold_back(self, claimed: Claim, full: Full) -> None:
        """A window of the record's configuration is full (T10)."""
        config_id = self._delivery.channel.config_id(claimed)
        message = f"the {full.window} window of configuration {config_id} is full; due at the place reserved in it"
        self._delivery.committer.submit(
            Release(claimed, full.wait_seconds, None, code=MarkerCode.QUOTA_EXCEEDED, message=message), self._tally
        )

    # -- suppression list -------------------------------------------------------------------------------------------

    def _end_suppressed(self) -> None:
        """What has nobody left because of the list ends before anything is prepared or charged for it."""
        started = self._delivery.ticker()
        unread = self._suppressing.unread
        stopped = [claimed for claimed in self._claims if self._suppressing.is_stopped(claimed)]
        self._drop({claimed.record_id for claimed in stopped} | unread.keys())
        for claimed in stopped:
            self._record_suppressed(claimed, started)
        for claimed, exc in unread.values():
            logger.error("recipients not read", extra={"record_id": claimed.record_id, **unworded(exc)})
            self._record(claimed, unforeseen(MarkerCode.UNEXPECTED, exc), started)

    def _record_suppressed(self, claimed: Claim, started: float) -> None:
        self._record(claimed, {}, started, self._delivery.channel.recipients(claimed.content))

    def _drop(self, record_ids: Set[int]) -> None:
        """Go on without these, none of which is begun."""
        self._claims = [claimed for claimed in self._claims if claimed.record_id not in record_ids]

    # -- preparation ------------------------------------------------------------------------------------------------

    def _prepare_some(self) -> bool:
        """Prepare the next claims for a slice of time; answers whether the next one may be sent."""
        delivery = self._delivery
        started = delivery.ticker()
        result = self._preparing.prepare_some(self._claims[self._next :])
        gone = {c.record_id for c in (*result.lost, *result.conflicted, *result.unclear, *result.suppressed)}
        self._drop(gone | {claimed.record_id for claimed, _ in result.failed})
        for claimed, failure in result.failed:
            self._record(claimed, failure, started)
        for claimed in result.suppressed:
            self._record_suppressed(claimed, started)
        for claimed in result.conflicted:
            self._release(claimed, Reason.LEDGER)
        if result.lost:
            self._tally.count_now("not_mine", len(result.lost))
        if result.unclear:
            self._release_unclear(result.unclear)
            self.release_rest(Reason.DEPENDENCY)
        return self._next < len(self._claims) and self._claims[self._next].is_prepared

    def _release_unclear(self, claims: Sequence[Claim]) -> None:
        """Their write-back may have moved their version or not: they are given back by their token."""
        delivery = self._delivery
        delay = delivery.rng.uniform(*RELEASE_WAIT_SECONDS)
        self._tally.count_now("released", len(claims))
        ids = [claimed.record_id for claimed in claims]
        delivery.committer.release_unclear(Unclear(ids, claims[0].token, delay))

    # -- sending ----------------------------------------------------------------------------------------------------

    def _one(self, claimed: Claim) -> None:
        """Send one record; nothing it raises touches the others."""
        delivery = self._delivery
        content = claimed.content
        with tenancy.of_record(content), tracing.sending(delivery.channel.name, content, claimed.attempt_no):
            recipients: Sequence[str] = ()
            started = delivery.ticker()
            gate: SendGate | None = None
            delivery.watch.begin(claimed)
            try:
                recipients = delivery.channel.recipients(claimed.content)
                suppressed = self._suppressing.results(claimed)
                to_name = [r for r in open_recipients(recipients, claimed.results) if r not in suppressed]
                if to_name and not self._may_send(claimed):
                    return
                gate = SendGate(claimed.claimed_at, self._limits, delivery.ticker)
                learnt: dict[str, RecipientResult] | Failure = (
                    dict(delivery.channel.send(claimed, to_name, gate)) if to_name else {}
                )
            except ClaimTooOld:
                self._release(claimed, Reason.OLD)
                return
            except SendDeferred:
                self._release(claimed, Reason.TWIN)
                return
            except RateLimitUnavailable:
                self._release(claimed, Reason.WINDOWS_AWAY)
                return
            except DeliveryError as exc:
                learnt = Failure(exc.category, exc.code, exc.text, exc.retry_after_seconds, exc.is_uncertain)
            except PreparationError as exc:
                learnt = Failure(exc.category, exc.marker, str(exc))
            except SQLAlchemyError as exc:
                if is_away(exc) or is_passing(exc) or is_unfit(exc):
                    logger.warning("database away during the send's preparation", extra={"error": type(exc).__name__})
                    self._release(claimed, Reason.DEPENDENCY)
                    return
                # A value that the database does not take is refused each time: given back, it would never end.
                learnt = _unexpected(claimed, gate, exc)
            except Exception as exc:  # noqa: BLE001 - one record's bug must not touch the others
                learnt = _unexpected(claimed, gate, exc)
            finally:
                delivery.watch.end()
            metrics.send_seconds(delivery.channel.name, claimed.provider, delivery.ticker() - started)
            self._record(claimed, learnt, started, recipients)

    def _may_send(self, claimed: Claim) -> bool:
        """Take one send of the windows of the record's configuration; one that is full holds the record back (T10)."""
        limits = self._delivery.channel.rate_limits(claimed)
        full = None if limits is None else self._windows.find_full(claimed, limits, self._later)
        if full is not None:
            self._hold_back(claimed, full)
        return full is None

    def _later(self) -> list[tuple[Claim, RateLimits | None]]:
        """The prepared records whose turn has not come, with the limits they will meet."""
        later = []
        for claimed in self._claims[self._next :]:
            if claimed.is_prepared:
                with suppress(PreparationError):  # told when its turn has come
                    later.append((claimed, self._delivery.channel.rate_limits(claimed)))
        return later

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
            suppressed=self._suppressing.results(claimed),
        )
        outcome.config_id = delivery.channel.config_id(claimed)
        outcome.started_at = started
        outcome.ended_at = delivery.ticker()
        delivery.committer.submit(outcome, self._tally)


def _unexpected(claimed: Claim, gate: SendGate | None, exc: Exception) -> Failure:
    """A failure that nobody foresaw; what the far side took of the message is unknown once its last byte may be out."""
    logger.error("send raised", extra={"record_id": claimed.record_id, **unworded(exc)})
    is_uncertain = gate is not None and gate.is_last_byte_free
    return replace(unforeseen(MarkerCode.UNEXPECTED, exc), is_uncertain=is_uncertain)


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="seconds")
