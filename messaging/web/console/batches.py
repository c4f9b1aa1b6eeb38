"""Another attempt for all records that a list's filter fits: asked first, then watched, and stopped if need be."""

from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Form, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from messaging.access.roles import Permission
from messaging.api import batches, stories
from messaging.batches.models import BatchState
from messaging.delivery.requeue import REQUEUED
from messaging.delivery.status import SendStatus
from messaging.delivery.tallies import MAX_COUNTED
from messaging.errors import StateError
from messaging.web.api.resource import Caller, DbSession, needs
from messaging.web.api.shapes import Id
from messaging.web.console import asking
from messaging.web.console.asked_first import ask_first
from messaging.web.console.asking import Asked
from messaging.web.console.audience import is_platform, seen_by
from messaging.web.console.keyset import IdPage, id_page
from messaging.web.console.pages import Pages, done, page, url
from messaging.web.console.records import WORDS, Channel, asked_of, narrowed
from messaging.web.console.tables import Cell, Column, Listing

routes = Pages()

_PATH = "/batches"
_READ, _OPERATE = [needs(Permission.READ)], [needs(Permission.OPERATE)]

_READERS: dict[str, asking.Reader] = {"before": asking.row_id, "after": asking.row_id}
_SIGNS = {
    BatchState.RUNNING: "sending",
    BatchState.DONE: "sent",
    BatchState.STOPPED: "discarded",
    BatchState.FAILED: "failed",
}

#: Statuses of which another attempt may be asked for.
_RETRIED = (SendStatus.RETRY, SendStatus.FAILED, SendStatus.DEAD_LETTER)


def came_to(counts: dict[str, int]) -> str:
    """What came of the records, in words: `12 requeued, 3 skipped: 2 is SENT, 1 was cancelled`."""
    skipped = {reason: count for reason, count in sorted(counts.items()) if reason != REQUEUED}
    words = f"{counts.get(REQUEUED, 0):,} requeued"
    if skipped:
        reasons = ", ".join(f"{count:,} {reason.partition(';')[0]}" for reason, count in skipped.items())
        words += f", {sum(skipped.values()):,} skipped: {reasons}"
    return words


def _filter_words(written: dict[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in written.items()) or "all"


def _state(job: Any) -> Cell:
    word = "Stopping" if job.state == BatchState.RUNNING and job.stop_requested else job.state.capitalize()
    return Cell(word, status=_SIGNS[BatchState(job.state)])


@routes.get(_PATH, dependencies=_READ)
def list_jobs(request: Request, session: DbSession) -> Response:
    """The jobs."""
    asked = asking.read(request.url.query, _READERS)

    def read(**part: Any) -> Any:
        return batches.list_batch_jobs(session=session, **part)

    found: IdPage[Any] = IdPage([]) if asked.errors else id_page(asked, read)
    listing = Listing(
        "Batch jobs",
        _PATH,
        "batch job",
        (
            Column("State", _state, "c-status"),
            Column("Id", lambda job: Cell(str(job.id), path=f"{_PATH}/{job.id}"), "c-id", is_number=True),
            Column("Of", lambda job: WORDS[Channel(job.channel)]["all"], "c-with"),
            Column("Which", lambda job: _filter_words(job.filter["written"]), "c-to"),
            Column("Came to", lambda job: came_to(job.counts), "c-what"),
            Column("By", lambda job: job.created_by or job.actor, "c-error"),
            Column("Begun (UTC)", lambda job: job.created_at, "c-when"),
        ),
        asked,
        found.lines,
        newer=found.newer,
        older=found.older,
    )
    return page(request, "list.html", list=listing)


@routes.get(f"{_PATH}/{{job_id}}", dependencies=_READ)
def show_job(request: Request, session: DbSession, job_id: Id) -> Response:
    """One job, which tells itself again while it runs."""
    job = batches.get_batch_job(job_id, session=session)
    return page(
        request,
        "batch.html",
        job=job,
        state=_state(job),
        words=WORDS[Channel(job.channel)],
        which=_filter_words(job.filter["written"]),
        came_to=came_to(job.counts),
        is_running=job.state == BatchState.RUNNING,
    )


@routes.get(f"{_PATH}/{{job_id}}/stop", dependencies=_OPERATE)
def ask_stop(request: Request, session: DbSession, job_id: Id) -> Response:
    """Whether it is to end."""
    job = batches.get_batch_job(job_id, session=session)
    return ask_first(
        request,
        f"Stop batch job {job_id}?",
        "It ends after the step under way. What it has requeued stays requeued.",
        verb="Stop",
        action=f"{_PATH}/{job_id}/stop",
        leave=f"{_PATH}/{job_id}",
        what={"So far": came_to(job.counts)},
        refusal="" if job.state == BatchState.RUNNING else f"It has ended: {job.state.lower()}.",
    )


@routes.post(f"{_PATH}/{{job_id}}/stop", dependencies=_OPERATE)
def stop_job(request: Request, session: DbSession, job_id: Id) -> Response:
    """End it."""
    target = url(request, f"{_PATH}/{job_id}")
    try:
        batches.stop_batch_job(job_id, session=session)
    except StateError as exc:
        return done(request, target, f"Nothing was changed: {exc}.", is_refusal=True)
    return done(request, target, "It ends after the step under way.")


@routes.get("/{channel}/retry-all", dependencies=_OPERATE)
def ask_retry_all(request: Request, caller: Caller, session: DbSession, channel: Channel) -> Response:
    """Whether all that the filter fits are to be tried again: which, and how many at least."""
    asked = asked_of(request, caller)
    refusal = _refusal(asked)
    how_many = ""
    if not refusal:
        with seen_by(caller, asked.get("tenant")):
            how_many = _how_many(session, channel, asked)
    written = _written(asked)
    return ask_first(
        request,
        f"Retry all {WORDS[channel]['all'].lower()} that match?",
        f"{how_many} can be requeued. Left alone are sent and cancelled ones, those being sent, and those that wait for"
        " their first attempt.",
        verb="Retry all",
        action=f"/{channel}/retry-all",
        leave=f"/{channel}?{asked.here}",
        what={"Filter": _filter_words(written)},
        fields={"query": asked.here},
        refusal=refusal,
        is_dangerous=True,
    )


@routes.post("/{channel}/retry-all", dependencies=_OPERATE)
def retry_all(
    request: Request,
    caller: Caller,
    session: DbSession,
    channel: Channel,
    query: Annotated[str, Form(max_length=8000)] = "",
) -> Response:
    """Begin."""
    asked = asked_of(request, caller, query)
    refusal = _refusal(asked)
    if refusal:
        return done(request, url(request, f"/{channel}") + f"?{asked.here}", refusal, is_refusal=True)
    fits = narrowed(asked)
    if asked.get("q"):
        fits["recipient"] = asked.get("q")
    of_tenant_id = asked.get("tenant") if is_platform(caller) else None
    try:
        job_id = batches.retry_all(
            channel=channel,
            written=_written(asked),
            of_tenant_id=of_tenant_id,
            of_all_tenants=is_platform(caller) and of_tenant_id is None,
            session=session,
            **fits,
        )
    except ValueError as exc:
        return done(request, url(request, f"/{channel}"), f"Nothing was begun: {exc}.", is_refusal=True)
    return done(request, url(request, f"{_PATH}/{job_id}"), "It is begun. This page tells how it goes on.")


def _refusal(asked: Asked) -> str:
    if asked.errors:
        return "The filter cannot be read."
    status = asked.get("status")
    if status is not None and status not in _RETRIED:
        return f"None of them can be tried again: they are {status.lower()}."
    text = asked.get("q")
    if text is not None and "@" not in text and not text.startswith("+"):
        return "A search by a key finds one record: retry that one."
    return ""


def _how_many(session: Session, channel: Channel, asked: Asked) -> str:
    fits = narrowed(asked)
    if asked.get("q"):
        fits["recipient"] = asked.get("q")
    try:
        tallies = stories.count_records(channel=channel, session=session, **fits)
    except ValueError:
        return "No record"  # it is no address and no number
    status = asked.get("status")
    counted = [tallies.by_status[one] for one in ((status,) if status else _RETRIED)]
    count = sum(one.count for one in counted)
    if any(one.is_at_least for one in counted):
        return f"More than {min(count, MAX_COUNTED):,} records"
    return f"{count:,} record{'' if count == 1 else 's'}"


def _written(asked: Asked) -> dict[str, str]:
    return dict(parse_qsl(asked.query().removeprefix("?")))
