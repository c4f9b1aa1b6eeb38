"""Batch jobs: another attempt for all records that fit a filter, in steps, each a transaction with its counts.

The row of a job is locked for a step: two workers make no step twice, and one that vanishes leaves the job as it was
before its step. What a step does to a record is what a single retry does, conditional on the record's version.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Engine, func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from messaging import audit, records, tenancy
from messaging.batches.models import BATCH_JOB, BatchJob, BatchState
from messaging.channels import CHANNELS
from messaging.clock import Ticker
from messaging.db.own_rows import created, get_own
from messaging.db.trouble import is_away, is_passing
from messaging.delivery import requeue
from messaging.delivery.lines import Position, RecordFilter
from messaging.delivery.status import SendStatus
from messaging.errors import StateError
from messaging.requests import MessageScope
from messaging.tenancy import Context

logger = logging.getLogger(__name__)

#: Records of one step.
STEP_RECORDS = 500
#: Seconds of one tick: dispatch and the sweep wait in the same queue.
TICK_SECONDS = 0.7

RETRY = "retry"
_WHAT = "batch job"
_TIMES = ("created_after", "created_before")


@dataclass
class Done:
    """What one tick did."""

    steps: int = 0
    records: int = 0


def begin_retry(
    session: Session, *, channel: str, asked: RecordFilter, written: Mapping[str, str], of_tenant_id: int | None
) -> int:
    """Begin to ask for another attempt of all records that fit and are there now; answers the job's id.

    Of tenant `of_tenant_id`, or (None) of all, which the caller has found out to be allowed.
    """
    now: datetime = session.execute(select(func.now())).scalar_one()
    until = now if asked.created_before is None else min(now, asked.created_before)
    fields = {name: value for name, value in asdict(asked).items() if value is not None} | {"created_before": until}
    stored = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in fields.items()}
    job = BatchJob(
        actor=tenancy.current().actor or "application",
        channel=channel,
        action=RETRY,
        filter={"asked": stored, "written": dict(written)},
        of_tenant_id=of_tenant_id,
        **created(),
    )
    session.add(job)
    session.flush()
    audit.note(session, "begin batch retry", BATCH_JOB, job.id, after={"channel": channel, "filter": dict(written)})
    return job.id


def get(session: Session, job_id: int) -> BatchJob:
    """A job of this tenant. Raises: RecordNotFound."""
    return get_own(session, BatchJob, job_id, what=_WHAT)


def newest(session: Session, *, limit: int, before: int | None = None, after: int | None = None) -> list[BatchJob]:
    """Jobs of this tenant, newest first, below or next above an id."""
    statement = select(BatchJob).limit(limit)
    if after is not None:
        rows = session.scalars(statement.where(BatchJob.id > after).order_by(BatchJob.id)).all()
        return list(reversed(rows))
    if before is not None:
        statement = statement.where(BatchJob.id < before)
    return list(session.scalars(statement.order_by(BatchJob.id.desc())))


def stop(session: Session, job_id: int) -> None:
    """End a job after the step under way.

    Raises: RecordNotFound; StateError, when it has ended.
    """
    job = get_own(session, BatchJob, job_id, what=_WHAT, lock={})
    if job.state != BatchState.RUNNING:
        raise StateError(f"batch job {job_id} has ended: {job.state}")
    job.stop_requested = True
    session.flush()
    audit.note(session, "stop batch job", BATCH_JOB, job_id)


def go_on(engine: Engine, *, ticker: Ticker, is_stopping: Callable[[], bool] = lambda: False) -> Done:
    """Make steps of the jobs that run, the oldest first, until time is up or none is left."""
    done = Done()
    until = ticker() + TICK_SECONDS
    while ticker() < until and not is_stopping():
        looked_at = _step(engine)
        if looked_at is None:
            break
        done.steps += 1
        done.records += looked_at
    return done


def _step(engine: Engine) -> int | None:
    """One step of one job; answers how many records it looked at, None without a job that nobody else works on."""
    with tenancy.all_tenants(), Session(engine) as session, session.begin():
        job = session.scalars(
            select(BatchJob)
            .where(BatchJob.state == BatchState.RUNNING)
            .order_by(BatchJob.id)
            .limit(1)
            .with_for_update(skip_locked=True)
        ).one_or_none()
        if job is None:
            return None
        if job.stop_requested:
            _end(session, job, BatchState.STOPPED)
            return 0
        try:
            with session.begin_nested(), _acting(job):
                counts, end = _retry_some(session, job)
        except Exception as exc:
            if isinstance(exc, SQLAlchemyError) and (is_away(exc) or is_passing(exc)):
                raise
            logger.exception("a batch job failed", extra={"job_id": job.id})
            job.error_message = type(exc).__name__
            _end(session, job, BatchState.FAILED)
            return 0
        job.seen += counts.total()
        job.counts = dict(Counter(job.counts) + counts)
        if end is None:
            _end(session, job, BatchState.DONE)
        else:
            job.last_created_at, job.last_id = end.created_at, end.id
        return counts.total()


def _retry_some(session: Session, job: BatchJob) -> tuple[Counter[str], Position | None]:
    """Ask for another attempt of the next records; answers what came of them, and where the next step begins."""
    channel = CHANNELS[job.channel]
    before = None
    if job.last_created_at is not None and job.last_id is not None:
        before = Position(job.last_created_at, job.last_id)
    page = records.page(session, channel=job.channel, asked=_asked(job), limit=STEP_RECORDS, before=before)
    connection = session.connection(bind_arguments={"clause": channel.table})
    # What was never attempted goes out when its time has come.
    ids = [line.id for line in page.lines if line.status is not SendStatus.PENDING]
    counts = requeue.retry_counted(connection, channel.table, channel.recipients, ids, channel=job.channel)
    if len(page.lines) > len(ids):
        counts["waits for its first attempt"] = len(page.lines) - len(ids)
    return counts, page.next


def _asked(job: BatchJob) -> RecordFilter:
    stored: dict[str, Any] = dict(job.filter["asked"])
    for name in _TIMES:
        if name in stored:
            stored[name] = datetime.fromisoformat(stored[name]).astimezone(UTC)
    if "status" in stored:
        stored["status"] = SendStatus(stored["status"])
    if "scope" in stored:
        stored["scope"] = MessageScope(stored["scope"])
    return RecordFilter(**stored)


def _acting(job: BatchJob, *, of_all: bool = False) -> AbstractContextManager[object]:
    """The operator who began it, among the records it is of."""
    is_confined = tenancy.is_multi_tenancy() and not of_all and job.of_tenant_id is not None
    return tenancy.acting_as(
        Context(
            tenant_id=job.of_tenant_id if is_confined else None,
            cross_tenant=not is_confined,
            actor=job.actor,
            user_id=job.created_by_id,
            user_name=job.created_by,
        )
    )


def _end(session: Session, job: BatchJob, state: BatchState) -> None:
    job.state = state
    job.finished_at = func.now()
    session.flush()
    after = {"state": state.value, "seen": job.seen, "counts": job.counts}
    with _acting(job, of_all=True):
        audit.note(session, "end batch job", BATCH_JOB, job.id, after=after, tenant_id=job.tenant_id)
