"""What an attempt makes of its record, and how that is written: by version and claim token, with the attempt log.

`judge` is pure. `OutcomeWriter` writes a group of outcomes in one statement; an outcome that lost its version because
the sweep came first is recorded late (T14); any other loss is counted and never forced.
"""

import json
import logging
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

from sqlalchemy import Connection

from messaging import metrics
from messaging.category import MARKER_CATEGORY, ErrorCategory, MarkerCode
from messaging.clock import Ticker
from messaging.delivery import statements
from messaging.delivery.announcing import NOBODY, Announcement, Announcer
from messaging.delivery.channel import Channel, Claim
from messaging.delivery.recipients import (
    RecipientResult,
    RecipientStatus,
    Results,
    has_accepted,
    merge,
    only_accepted,
    open_recipients,
)
from messaging.delivery.record import AttemptOutcome
from messaging.delivery.retry import DeadLetter, Fail, Retry, decide
from messaging.delivery.status import SendStatus
from messaging.settings import RetrySettings

logger = logging.getLogger(__name__)

#: Longest `error_message` of a record.
MAX_MESSAGE_CHARS = 1000
MAX_CODE_CHARS = 100
MAX_MESSAGE_ID_CHARS = 255


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed as a whole, or what decides among refused recipients."""

    category: ErrorCategory
    code: str
    text: str
    retry_after_seconds: float | None = None
    is_uncertain: bool = False


@dataclass(slots=True)
class Outcome:
    """One record's state after an attempt; belongs to one thread until it is handed to the committer."""

    claim: Claim
    status: SendStatus
    #: For the attempt log.
    log_outcome: str
    retry_count: int
    #: Seconds until due; None unless RETRY.
    delay_seconds: float | None = None
    category: ErrorCategory | None = None
    error_code: str | None = None
    error_message: str | None = None
    #: Recipient results, whole; None leaves them.
    results: Results | None = None
    is_uncertain: bool = False
    #: What a late outcome knows: recipients closed before, those it adds as accepted, and whether nobody is open then.
    late_results: Results | None = None
    is_late_sent: bool = False
    #: Recipients that were not contacted because of the suppression list.
    suppressed: int = 0
    #: What the other side will call the message; None leaves what the record has.
    provider_message_id: str | None = None
    config_id: int | None = None
    #: Boot seconds.
    started_at: float = 0.0
    ended_at: float = 0.0

    @property
    def tally_key(self) -> str:
        """The key under which a delivery task counts this outcome."""
        return self.status.lower()

    def without_text(self) -> "Outcome":
        """The same outcome without anything that a database could refuse (C11).

        Who accepted stays known: it decides who is never sent to again.
        """
        return replace(
            self,
            error_message=None,
            results=_without_text(self.results),
            late_results=_without_text(self.late_results),
        )


_NOBODY: Mapping[str, RecipientResult] = {}


def _without_text(results: Results | None) -> Results | None:
    return None if results is None else {address: {**entry, "text": ""} for address, entry in results.items()}


def judge(
    claim: Claim,
    recipients: Sequence[str],
    learnt: Mapping[str, RecipientResult] | Failure,
    *,
    at: str,
    retry: RetrySettings,
    rng: random.Random,
    suppressed: Mapping[str, RecipientResult] = _NOBODY,
) -> Outcome:
    """Decide what becomes of the record (`send.md`, sections 9.4 and 11).

    `recipients` are all of the record's; `learnt` is a result for each that the attempt named, or why there is none;
    `suppressed` are those it must not name, which closes them whatever became of the others; `at` is an ISO time. Pure
    but for `rng`.
    """
    before = claim.results
    if isinstance(learnt, Failure):
        outcome = _by_category(claim, learnt, before, retry, rng)
        outcome.results = merge(before, suppressed, at) if suppressed else None
        outcome.suppressed = len(suppressed)
        return outcome
    learnt = {**suppressed, **learnt}
    results = merge(before, learnt, at)
    still_open = open_recipients(recipients, results)
    if still_open:
        deciding = _deciding(learnt, still_open)
        outcome = _by_category(claim, deciding, results, retry, rng)
    else:
        outcome = _closed(claim, recipients, results, learnt)
    outcome.results = results
    outcome.suppressed = len(suppressed)
    if outcome.log_outcome == AttemptOutcome.SENT:  # everybody accepted, so the same is known late
        outcome.late_results, outcome.is_late_sent = results, True
    else:
        outcome.late_results = merge(before, only_accepted(learnt), at)
        outcome.is_late_sent = not open_recipients(recipients, outcome.late_results)
    outcome.provider_message_id = next((r.message_id for r in learnt.values() if r.message_id is not None), None)
    return outcome


def _deciding(learnt: Mapping[str, RecipientResult], still_open: Sequence[str]) -> Failure:
    """Among recipients refused for now: a rate limit if there is one, else the first."""
    deferred = [learnt[r] for r in still_open if r in learnt]
    chosen = next((d for d in deferred if d.category is ErrorCategory.QUOTA), deferred[0])
    return Failure(chosen.category or ErrorCategory.TRANSIENT, chosen.code, chosen.text)


def _closed(
    claim: Claim,
    recipients: Sequence[str],
    results: Results,
    learnt: Mapping[str, RecipientResult],
) -> Outcome:
    """Nobody is open: SENT if anybody was ever accepted, else FAILED; the first refusal says why."""
    refused = next((r for r in recipients if results[r]["result"] != RecipientStatus.ACCEPTED), None)
    if refused is None:
        return Outcome(claim, SendStatus.SENT, AttemptOutcome.SENT, claim.retry_count)
    is_sent = has_accepted(results)
    return Outcome(
        claim,
        SendStatus.SENT if is_sent else SendStatus.FAILED,
        AttemptOutcome.PARTIAL if is_sent else AttemptOutcome.FAILED,
        claim.retry_count,
        category=learnt[refused].category if refused in learnt else ErrorCategory.PERMANENT,
        error_code=results[refused]["code"],
        error_message=results[refused]["text"],
    )


def _by_category(
    claim: Claim,
    failure: Failure,
    results: Results,
    retry: RetrySettings,
    rng: random.Random,
) -> Outcome:
    """RETRY while the category and the budget allow it; then the end, which is SENT when somebody was accepted."""
    outcome = Outcome(
        claim,
        SendStatus.RETRY,
        AttemptOutcome.RETRY,
        claim.retry_count,
        category=failure.category,
        error_code=failure.code,
        error_message=failure.text,
        is_uncertain=failure.is_uncertain,
    )
    decision = decide(
        failure.category,
        claim.retry_count,
        settings=retry,
        rng=rng,
        retry_after_seconds=failure.retry_after_seconds,
    )
    match decision:
        case Retry(delay_seconds=delay):
            return replace(outcome, retry_count=claim.retry_count + 1, delay_seconds=delay)
        case Fail():
            return _ended(outcome, SendStatus.FAILED, AttemptOutcome.FAILED, results)
        case DeadLetter():
            return _ended(outcome, SendStatus.DEAD_LETTER, AttemptOutcome.DEAD_LETTER, results)
        case _ as unreachable:
            assert_never(unreachable)


def _ended(outcome: Outcome, status: SendStatus, log_outcome: str, results: Results) -> Outcome:
    if has_accepted(results):
        return replace(outcome, status=SendStatus.SENT, log_outcome=AttemptOutcome.PARTIAL)
    return replace(outcome, status=status, log_outcome=log_outcome)


def _storable(text: str | None, limit: int) -> str | None:
    """Text that PostgreSQL takes: no NUL, no lone surrogate, cut."""
    if text is None or (text.isascii() and len(text) <= limit and "\x00" not in text):
        return text
    return text[:limit].replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


def _storable_results(results: Results | None) -> dict[str, dict[str, Any]] | None:
    if results is None:
        return None
    return {
        address: {k: _storable(v, MAX_MESSAGE_CHARS) if isinstance(v, str) else v for k, v in entry.items()}
        for address, entry in results.items()
    }


def _named(outcome: Outcome) -> dict[str, Any]:
    """By what an outcome is found in the logs."""
    claim = outcome.claim
    return {
        "record_id": claim.record_id,
        "tenant_id": claim.tenant_id,
        "trace_id": claim.content.get("trace_id"),
        "request_id": claim.content.get("request_id"),
        "attempt_no": claim.attempt_no,
    }


def _has_redacted(group: Sequence[Outcome]) -> bool:
    """Whether a record's template asks for its content to be taken off; else nothing of the statement speaks of it."""
    return any(outcome.claim.content.get("redact") for outcome in group)


class OutcomeWriter:
    """Writes groups of outcomes of one channel."""

    def __init__(self, channel: Channel, worker_name: str, ticker: Ticker, announcer: Announcer = NOBODY) -> None:
        self._channel = channel
        self._ticker = ticker
        self._announcer = announcer
        self._constants = {
            "channel": channel.name,
            "queue": channel.queue,
            "worker_name": worker_name[:255],
        }

    def write(
        self, connection: Connection, group: Sequence[Outcome], *, is_repeat: bool = False
    ) -> dict[tuple[int, int], str]:
        """Write a group; answers the tally key of each claim whose outcome stands. One autocommitted statement.

        A group may hold two claims of one record: the outcome of an old one, and of the one that has the record now.

        `is_repeat`: the reply to an earlier commit of this group was lost, so what stands already counts as written.
        """
        table = self._channel.table
        statement = statements.outcomes(table, self._find_announcement(connection, group), redacts=_has_redacted(group))
        rows = connection.execute(statement, self._parameters(group, is_late=False)).fetchall()
        due_to_sent = {(row.id, row.token): row.due_to_sent for row in rows}
        stand = [outcome for outcome in group if outcome.claim.key in due_to_sent]
        lost = [outcome for outcome in group if outcome.claim.key not in due_to_sent]
        applied = {outcome.claim.key: outcome.tally_key for outcome in stand}
        self._report(stand, due_to_sent)
        if lost and is_repeat:
            lost = self._drop_recorded(connection, lost, applied)
        if lost:
            self._write_late(connection, lost, applied)
        return applied

    def _find_announcement(self, connection: Connection, group: Sequence[Outcome]) -> Announcement | None:
        """What to tell of these outcomes; a record that goes on is not told of."""
        ended = {outcome.claim.tenant_id for outcome in group if outcome.status is not SendStatus.RETRY}
        return self._announcer.find(connection, self._channel.name, ended) if ended else None

    def _drop_recorded(
        self, connection: Connection, lost: Sequence[Outcome], applied: dict[tuple[int, int], str]
    ) -> list[Outcome]:
        parameters = {
            "ids": [o.claim.record_id for o in lost],
            "versions": [o.claim.version for o in lost],
            "tokens": [o.claim.token for o in lost],
        }
        rows = connection.execute(statements.recorded(self._channel.table), parameters).fetchall()
        found = {(row.id, row.token) for row in rows}
        stand = [outcome for outcome in lost if outcome.claim.key in found]
        applied |= {outcome.claim.key: outcome.tally_key for outcome in stand}
        self._report(stand, {})
        return [o for o in lost if o.claim.key not in found]

    def _write_late(self, connection: Connection, lost: Sequence[Outcome], applied: dict[tuple[int, int], str]) -> None:
        name = self._channel.name
        table = self._channel.table
        statement = statements.late_outcomes(
            table, self._find_announcement(connection, lost), redacts=_has_redacted(lost)
        )
        rows = connection.execute(statement, self._parameters(lost, is_late=True)).fetchall()
        late = {(row.id, row.token): row.status for row in rows}
        for outcome in lost:
            key, record_id = outcome.claim.key, outcome.claim.record_id
            if key in late:
                applied[key] = late[key].lower()
                metrics.late_outcomes(name, late[key].lower())
                if late[key] == SendStatus.SENT:
                    metrics.sent(name, outcome.claim.provider)
                logger.warning("late outcome recorded", extra={"record_id": record_id, "status": late[key]})
            else:
                metrics.lost_updates(name, "outcome")
                logger.warning(
                    "outcome lost, the newer state stands",
                    extra={"record_id": record_id, "outcome": outcome.log_outcome},
                )

    def _report(self, stand: Sequence[Outcome], due_to_sent: Mapping[tuple[int, int], float | None]) -> None:
        """Count and log what was written; what went well shares one line, as a line costs more than its write."""
        name = self._channel.name
        plainly_sent = [o for o in stand if o.log_outcome == AttemptOutcome.SENT]
        if plainly_sent:
            for provider, count in Counter(o.claim.provider for o in plainly_sent).items():
                metrics.sent(name, provider, count)
            logger.info("sent", extra={"channel": name, "records": [_named(o) for o in plainly_sent]})
        suppressed = sum(outcome.suppressed for outcome in stand)
        if suppressed:
            metrics.suppressed(name, suppressed)
        for outcome in stand:
            waited = due_to_sent.get(outcome.claim.key)
            if waited is not None:
                metrics.due_to_sent_seconds(name, outcome.claim.provider, waited)
            if outcome.log_outcome != AttemptOutcome.SENT:
                self._report_failure(outcome)

    def _report_failure(self, outcome: Outcome) -> None:
        name, provider = self._channel.name, outcome.claim.provider
        fields = _named(outcome) | {"category": outcome.category, "error_code": outcome.error_code}
        if outcome.status is SendStatus.SENT:
            metrics.sent(name, provider)
            metrics.partial(name, provider)
            logger.warning("sent to some recipients only", extra=fields)
            return
        metrics.failed(name, provider, outcome.tally_key)
        if outcome.status is SendStatus.RETRY:
            logger.info("send to be retried", extra={"delay_seconds": outcome.delay_seconds, **fields})
        elif outcome.error_code == MarkerCode.SUPPRESSED:
            logger.error("not sent, all are suppressed", extra={"reason": outcome.error_message, **fields})
        elif outcome.error_code in MARKER_CATEGORY:
            # Ours: nobody gets an exception for it, and its words name columns and settings, never a mail's content.
            logger.error(
                "send failed, an operator must act",
                extra={"status": outcome.status, "reason": outcome.error_message, **fields},
            )
        elif outcome.category is ErrorCategory.AUTH:
            logger.error("send failed, an operator must act", extra={"status": outcome.status, **fields})
        else:
            logger.warning("send failed", extra={"status": outcome.status, **fields})

    def _parameters(self, group: Sequence[Outcome], *, is_late: bool) -> dict[str, Any]:
        now = self._ticker()
        rows = [_row(outcome, now, is_late) for outcome in group]
        return {"rows": json.dumps(rows, ensure_ascii=False), **self._constants}


def _row(outcome: Outcome, now: float, is_late: bool) -> dict[str, Any]:
    """The columns of `statements.OUTCOME_COLUMNS`."""
    claim = outcome.claim
    status, results = outcome.status, outcome.results
    if is_late:
        status = SendStatus.SENT if outcome.is_late_sent else SendStatus.RETRY
        results = outcome.late_results
    return {
        "id": claim.record_id,
        "version": claim.version,
        "token": claim.token,
        "status": status,
        "retry_count": outcome.retry_count,
        "delay": outcome.delay_seconds,
        "error_code": _storable(outcome.error_code, MAX_CODE_CHARS),
        "error_message": _storable(outcome.error_message, MAX_MESSAGE_CHARS),
        "results": _storable_results(results),
        "uncertain": outcome.is_uncertain,
        "attempt_no": claim.attempt_no,
        "outcome": outcome.log_outcome,
        "category": outcome.category,
        "config_id": outcome.config_id,
        "provider": claim.provider,
        "provider_message_id": _storable(outcome.provider_message_id, MAX_MESSAGE_ID_CHARS),
        "started_ago": now - outcome.started_at,
        "ended_ago": now - outcome.ended_at,
    }
