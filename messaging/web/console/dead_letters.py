"""Dead letters: sends that used up their attempts, messages that no worker could process; for the platform only."""

from functools import partial
from typing import Annotated, Any

from fastapi import Form, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from messaging import api
from messaging.access.roles import Permission
from messaging.delivery.dead_letter_kinds import DeadLetterSource, DeadLetterStatus
from messaging.delivery.triage import MAX_REMARK_CHARS
from messaging.errors import EntryRejected, StateError
from messaging.web.api.resource import DbSession, needs
from messaging.web.api.shapes import Id
from messaging.web.console import asking
from messaging.web.console.asking import Asked
from messaging.web.console.keyset import IdPage, id_page
from messaging.web.console.pages import Pages, done, page, url
from messaging.web.console.records import Channel

routes = Pages()

_PLATFORM = [needs(Permission.PLATFORM)]
_PATH = "/dead-letters"

_READERS: dict[str, asking.Reader] = {
    "status": asking.one_of(DeadLetterStatus),
    "source": asking.one_of(DeadLetterSource),
    "channel": asking.words,
    "event": asking.words,
    "record": asking.row_id,
    "tenant": asking.tenant_id,
    "before": asking.row_id,
    "after": asking.row_id,
}

#: The verbs, and what each comes to.
_SETTLING = {
    "resolve": (api.resolve_dead_letter, "It was seen to, for good. Its record stays as it is.", "resolved"),
    "discard": (api.discard_dead_letter, "Nothing is to come of it, for good. Its record stays as it is.", "discarded"),
}


@routes.get(_PATH, dependencies=_PLATFORM)
def list_dead_letters(request: Request, session: DbSession) -> Response:
    """The list."""
    asked = asking.read(request.url.query, _READERS)
    found: IdPage[Any] = IdPage([]) if asked.errors else id_page(asked, partial(_read, session, asked))
    return page(
        request,
        "dead_letters.html",
        asked=asked,
        found=found,
        statuses=list(DeadLetterStatus),
        sources=list(DeadLetterSource),
        linked=_linked,
    )


def _read(session: Session, asked: Asked, **part: Any) -> Any:
    return api.list_dead_letters(
        status=asked.get("status"),
        source=asked.get("source"),
        channel=asked.get("channel"),
        event_type=asked.get("event"),
        record_id=asked.get("record"),
        source_tenant_id=asked.get("tenant"),
        session=session,
        **part,
    )


@routes.get(f"{_PATH}/{{letter_id}}", dependencies=_PLATFORM)
def show_dead_letter(request: Request, session: DbSession, letter_id: Id) -> Response:
    """One of them, with what it holds."""
    letter = api.get_dead_letter(letter_id, session=session)
    return page(request, "dead_letter.html", letter=letter, linked=_linked)


@routes.get(f"{_PATH}/{{letter_id}}/resolve", dependencies=_PLATFORM)
def ask_resolve(request: Request, session: DbSession, letter_id: Id) -> Response:
    """Whether it is seen to."""
    return _confirm(request, session, letter_id, "resolve")


@routes.get(f"{_PATH}/{{letter_id}}/discard", dependencies=_PLATFORM)
def ask_discard(request: Request, session: DbSession, letter_id: Id) -> Response:
    """Whether nothing is to come of it."""
    return _confirm(request, session, letter_id, "discard")


@routes.post(f"{_PATH}/{{letter_id}}/resolve", dependencies=_PLATFORM)
def resolve(request: Request, session: DbSession, letter_id: Id, remark: Annotated[str, Form()] = "") -> Response:
    """Say that it was seen to."""
    return _settle(request, session, letter_id, "resolve", remark)


@routes.post(f"{_PATH}/{{letter_id}}/discard", dependencies=_PLATFORM)
def discard(request: Request, session: DbSession, letter_id: Id, remark: Annotated[str, Form()] = "") -> Response:
    """Say that nothing is to come of it."""
    return _settle(request, session, letter_id, "discard", remark)


def _confirm(
    request: Request, session: Session, letter_id: int, verb: str, *, remark: str = "", error: str = ""
) -> Response:
    letter = api.get_dead_letter(letter_id, session=session)
    is_pending = letter.status is DeadLetterStatus.PENDING
    return page(
        request,
        "confirm.html",
        status=422 if error else 200 if is_pending else 409,
        title=f"{verb.capitalize()} dead letter {letter_id}?",
        text=_SETTLING[verb][1],
        refusal="" if is_pending else f"It is {letter.status.lower()} already.",
        verb=verb.capitalize(),
        is_dangerous=verb == "discard",
        what={"Error": letter.last_error_msg} if letter.last_error_msg else {},
        action=url(request, f"{_PATH}/{letter_id}/{verb}"),
        fields={},
        remark=True,
        remark_text=remark,
        max_remark=MAX_REMARK_CHARS,
        error=error,
        leave=url(request, f"{_PATH}/{letter_id}"),
    )


def _settle(request: Request, session: Session, letter_id: int, verb: str, remark: str) -> Response:
    settle, _, done_word = _SETTLING[verb]
    target = url(request, f"{_PATH}/{letter_id}")
    try:
        settle(letter_id, remark=remark.strip() or None, session=session)
    except EntryRejected as exc:
        return _confirm(request, session, letter_id, verb, remark=remark, error=exc.reason)
    except StateError as exc:
        return done(request, target, f"Nothing was changed: {exc}.", is_refusal=True)
    return done(request, target, f"Dead letter {letter_id} is {done_word}.")


def _linked(letter: Any) -> str | None:
    """The path of its record's page; None where there is none."""
    has_page = letter.event_id is not None and letter.channel in set(Channel)
    return f"/{letter.channel}/{letter.event_id}" if has_page else None
