"""One record: what happened and why, as a timeline; its recipients and content; another attempt, or calling it off."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import Form, Query, Request
from starlette.responses import Response

from messaging import api
from messaging.access.roles import Permission
from messaging.delivery.cancel import CancelAnswer
from messaging.delivery.status import OPEN_STATUSES, SendStatus
from messaging.errors import StateError
from messaging.mail.records import Story
from messaging.sms.models import DeliveryStatus
from messaging.sms.records import SmsStory
from messaging.web.api.resource import Caller, DbSession, needs
from messaging.web.api.shapes import Id
from messaging.web.auth import Identity
from messaging.web.console.audience import seen_by
from messaging.web.console.pages import Pages, done, page, url
from messaging.web.console.records import WORDS, Channel, asked_of, may_retry, taken

routes = Pages()

#: Webhook deliveries that a record's page shows.
_MAX_TOLD = 50

#: What a cancel came to.
_CANCELLED = {
    CancelAnswer.CANCELLED: "It is cancelled. It was not sent and never will be.",
    CancelAnswer.STOPPED: "It is stopped: there will be no further attempt, but an earlier one did or may have reached somebody.",  # noqa: E501
    CancelAnswer.IN_PROGRESS: "Nothing was changed: a worker is sending it at this moment. Ask again.",
    CancelAnswer.ALREADY_FINAL: "Nothing was changed: it had ended before.",
    CancelAnswer.TOO_LATE: "Nothing was changed: it is sent.",
}

_Back = Annotated[str, Query(max_length=8000)]
_SentBack = Annotated[str, Form(max_length=8000)]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a record."""

    at: datetime
    title: str
    #: A status or outcome that colours it.
    kind: str = ""
    #: What the other side said, or what else is known.
    text: str | None = None
    #: Short facts, by name.
    facts: dict[str, Any] = field(default_factory=dict)
    took: timedelta | None = None


@routes.get("/{channel}/{record_id}", dependencies=[needs(Permission.READ)])
def show_record(
    request: Request, caller: Caller, session: DbSession, channel: Channel, record_id: Id, back: _Back = ""
) -> Response:
    """The page of one record."""
    with seen_by(caller):
        story = api.get_record(record_id, channel=channel, with_bodies=True, session=session)
        told = api.list_webhook_deliveries(about_record_id=record_id, limit=_MAX_TOLD, session=session)
        came_back = api.list_received(record_id=record_id, limit=_MAX_TOLD, session=session)
    return page(
        request,
        "record.html",
        channel=channel,
        words=WORDS[channel],
        story=story,
        events=sorted(_events(story), key=lambda event: event.at),
        told=told,
        came_back=came_back,
        back=_kept(request, caller, back),
        can_retry=may_retry(story.status, story.error_code) and story.redacted_at is None,
        can_cancel=story.status in OPEN_STATUSES,
        is_moving=story.status in (*OPEN_STATUSES, SendStatus.SENDING),
    )


@routes.get("/{channel}/{record_id}/retry", dependencies=[needs(Permission.OPERATE)])
def ask_retry(
    request: Request, caller: Caller, session: DbSession, channel: Channel, record_id: Id, back: _Back = ""
) -> Response:
    """Whether it is to be attempted again."""
    with seen_by(caller):
        story = api.get_record(record_id, channel=channel, session=session)
    gone = "" if not isinstance(story, Story) else " Recipients that have it do not get it again."
    return _confirm(
        request,
        title=f"Retry {WORDS[channel]['one']} {record_id}?",
        text=f"It will be attempted again at once, with the content it has.{gone}",
        refusal="" if may_retry(story.status, story.error_code) else f"It cannot be attempted again: {story.why}.",
        verb="Retry",
        story=story,
        back=_kept(request, caller, back),
    )


@routes.post("/{channel}/{record_id}/retry", dependencies=[needs(Permission.OPERATE)])
def retry_record(
    request: Request, caller: Caller, session: DbSession, channel: Channel, record_id: Id, back: _SentBack = ""
) -> Response:
    """Attempt it again."""
    target = _target(request, caller, channel, record_id, back)
    name = f"{WORDS[channel]['one'].capitalize()} {record_id}"
    with seen_by(caller):
        try:
            api.retry(record_id, channel=channel, session=session)
        except StateError as exc:
            return done(
                request, target, f"{name} was not requeued: {_reason(exc, channel, record_id)}.", is_refusal=True
            )
    return done(request, target, f"{name} is requeued and due now.")


@routes.get("/{channel}/{record_id}/cancel", dependencies=[needs(Permission.OPERATE)])
def ask_cancel(
    request: Request, caller: Caller, session: DbSession, channel: Channel, record_id: Id, back: _Back = ""
) -> Response:
    """Whether it is to be called off."""
    with seen_by(caller):
        story = api.get_record(record_id, channel=channel, session=session)
    return _confirm(
        request,
        title=f"Cancel {WORDS[channel]['one']} {record_id}?",
        text="It will not be sent any more, and cannot be retried afterwards.",
        refusal="" if story.status in OPEN_STATUSES else f"It cannot be cancelled: {story.why}.",
        verb="Cancel it",
        is_dangerous=True,
        story=story,
        back=_kept(request, caller, back),
    )


@routes.post("/{channel}/{record_id}/cancel", dependencies=[needs(Permission.OPERATE)])
def cancel_record(
    request: Request, caller: Caller, session: DbSession, channel: Channel, record_id: Id, back: _SentBack = ""
) -> Response:
    """Call it off."""
    with seen_by(caller):
        answer = api.cancel(record_id, channel=channel, session=session).answer
    is_refusal = answer not in (CancelAnswer.CANCELLED, CancelAnswer.STOPPED)
    name = f"{WORDS[channel]['one'].capitalize()} {record_id}"
    target = _target(request, caller, channel, record_id, back)
    return done(request, target, f"{name}: {_CANCELLED[answer]}", is_refusal=is_refusal)


def _confirm(
    request: Request,
    *,
    title: str,
    text: str,
    refusal: str,
    verb: str,
    story: Any,
    back: str,
    is_dangerous: bool = False,
) -> Response:
    action = "cancel" if is_dangerous else "retry"
    what = {
        "To": ", ".join(story.to[:3]) if isinstance(story, Story) else story.phone_number,
        "Subject": story.subject if isinstance(story, Story) else None,
        "Status": story.why,
    }
    return page(
        request,
        "confirm.html",
        status=409 if refusal else 200,
        title=title,
        text=text,
        refusal=refusal,
        verb=verb,
        is_dangerous=is_dangerous,
        what={name: value for name, value in what.items() if value},
        action=url(request, f"/{story.channel}/{story.id}/{action}"),
        fields={"back": back},
        remark=False,
        leave=_leading(request, story.channel, story.id, back),
    )


#: Comes back to a list without filters.
_WHOLE_LIST = "-"


def _kept(request: Request, caller: Identity, back: str) -> str:
    """The list's filters that one came from, read and written anew; empty: one came from the record's own page."""
    return asked_of(request, caller, back).here or (_WHOLE_LIST if back else "")


def _target(request: Request, caller: Identity, channel: Channel, record_id: int, back: str) -> str:
    return _leading(request, channel, record_id, _kept(request, caller, back))


def _leading(request: Request, channel: str, record_id: int, kept: str) -> str:
    """Back to the list, if one came from there, else to the record."""
    if not kept:
        return url(request, f"/{channel}/{record_id}")
    return url(request, f"/{channel}") + ("" if kept == _WHOLE_LIST else f"?{kept}")


def _reason(exc: StateError, channel: str, record_id: int) -> str:
    return str(exc).removeprefix(f"{channel} record {record_id} ")


def _events(story: Story | SmsStory) -> Iterator[Event]:
    accepted = {"Request": story.request_id, "Trace": story.trace_id, "Idempotency key": story.idempotency_key}
    yield Event(story.created_at, "Accepted", facts={name: value for name, value in accepted.items() if value})
    if story.prepared_at is not None:
        via = story.server if isinstance(story, Story) else story.provider
        yield Event(story.prepared_at, "Prepared", facts={"For": via} if via else {})
    for attempt in story.attempts:
        facts = {"Code": attempt.error_code, "Category": attempt.category, "Worker": attempt.worker_name}
        yield Event(
            attempt.started_at,
            f"Attempt {attempt.attempt_no}",
            kind=attempt.outcome or SendStatus.SENDING,
            text=attempt.error_message,
            facts={name: value for name, value in facts.items() if value},
            took=taken(attempt),
        )
    if isinstance(story, Story):
        yield from _mail_events(story)
    elif story.delivery_status != DeliveryStatus.UNKNOWN and story.delivery_status_updated_at is not None:
        yield Event(
            story.delivery_status_updated_at,
            "Receipt of the provider",
            kind=story.delivery_status,
            facts={"Provider's id": story.provider_message_id} if story.provider_message_id else {},
        )
    if story.redacted_at is not None:
        facts = {"SHA-256": story.content_sha256} if story.content_sha256 else {}
        yield Event(story.redacted_at, "Content taken off", facts=facts)


def _mail_events(story: Story) -> Iterator[Event]:
    for recipient in story.recipients:
        if recipient.result == "bounced" and recipient.at is not None:
            yield Event(
                datetime.fromisoformat(recipient.at),
                f"Bounced: {recipient.address}",
                kind="FAILED",
                text=recipient.text,
                facts={"Code": recipient.code} if recipient.code else {},
            )
    if story.read_receipt_received_at is not None:
        yield Event(story.read_receipt_received_at, "Read", kind="SENT")
