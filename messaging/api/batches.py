"""Batch jobs: another attempt for all records that fit a filter, with progress, and a stop."""

from collections.abc import Mapping
from typing import Unpack

from sqlalchemy.orm import Session

from messaging import batch_jobs, tenancy
from messaging.api.calls import in_session, known_id, number, number_if_given
from messaging.api.process import environment
from messaging.api.stories import Narrowed, checked_filter
from messaging.batches.models import BatchJob
from messaging.db.filters import owning_tenant
from messaging.errors import TenantMismatch


def retry_all(
    *,
    channel: str,
    written: Mapping[str, str],
    of_tenant_id: int | None = None,
    of_all_tenants: bool = False,
    session: Session | None = None,
    **asked: Unpack[Narrowed],
) -> int:
    """Begin to ask for another attempt of all records of a channel that fit and are there now; answers the job's id.

    Of the current tenant's records; the platform may ask for those of another tenant or of all: whoever calls for it
    has found out that they may. `written` is the filter as people wrote it, to be shown with the job. A tick does the
    work within seconds; what was never attempted and records that are accepted later are left alone.

    Raises:
        TypeError, ValueError: As `list_records`.
        TenantMismatch: A tenant asks for another one's.
    """
    whose = owning_tenant()
    if whose == tenancy.PLATFORM_TENANT_ID and (of_all_tenants or of_tenant_id is not None):
        whose = None if of_all_tenants else of_tenant_id
    elif of_all_tenants or of_tenant_id not in (None, whose):
        raise TenantMismatch("records of other tenants are the platform's to retry")
    narrowed = checked_filter(channel, **asked)
    environment()
    with in_session(session) as s:
        return batch_jobs.begin_retry(s, channel=channel, asked=narrowed, written=written, of_tenant_id=whose)


def get_batch_job(job_id: int, *, session: Session | None = None) -> BatchJob:
    """One job of this tenant. Raises: RecordNotFound."""
    job_id = known_id(job_id, what="batch job")
    environment()
    with in_session(session) as s:
        return batch_jobs.get(s, job_id)


def list_batch_jobs(
    *, limit: int = 50, before: int | None = None, after: int | None = None, session: Session | None = None
) -> list[BatchJob]:
    """Jobs of this tenant, newest first; below an id, or next above one. Raises: TypeError, ValueError."""
    limit, before, after = number("limit", limit), number_if_given("before", before), number_if_given("after", after)
    environment()
    with in_session(session) as s:
        return batch_jobs.newest(s, limit=limit, before=before, after=after)


def stop_batch_job(job_id: int, *, session: Session | None = None) -> None:
    """End a job after the step under way; what it did stays done.

    Raises:
        RecordNotFound: No such job in this tenant.
        StateError: It has ended.
    """
    job_id = known_id(job_id, what="batch job")
    environment()
    with in_session(session) as s:
        batch_jobs.stop(s, job_id)
