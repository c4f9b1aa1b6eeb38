"""Lists of records: newest first, narrowed by what the address says; counts of each status; who may be tried again."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from fastapi import Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from messaging.access.roles import Permission
from messaging.api import stories
from messaging.category import MarkerCode
from messaging.delivery.lines import Line, RecordPage
from messaging.delivery.status import SendStatus
from messaging.delivery.tallies import Tallies
from messaging.records import config_names, configs_to_choose
from messaging.web.api.messages import cursor_of, position_of
from messaging.web.api.resource import Caller, DbSession, needs
from messaging.web.auth import Identity
from messaging.web.console import asking
from messaging.web.console.asking import Asked
from messaging.web.console.audience import is_platform, seen_by
from messaging.web.console.pages import Pages, page

routes = Pages()


class Channel(StrEnum):
    """A channel that has pages of records; as addresses call it."""

    MAIL = "mail"
    SMS = "sms"


#: What pages call a channel, one of its records, its server.
WORDS = {
    Channel.MAIL: {"all": "Mail", "one": "mail", "to": "To", "config": "Server"},
    Channel.SMS: {"all": "Text messages", "one": "text message", "to": "Number", "config": "Provider"},
}

#: Statuses with a Retry on the row. What is pending is on its way.
_RETRIED = (SendStatus.RETRY, SendStatus.FAILED, SendStatus.DEAD_LETTER)


@dataclass(frozen=True, slots=True)
class _Found:
    """What a list shows."""

    lines: list[Line]
    #: Addresses of the pages beside it; None where there is none.
    newer: str | None = None
    older: str | None = None
    #: What was looked for and found, or not, by key.
    is_by_key: bool = False
    #: Where a page that is not full stopped looking.
    searched_to: Any = None


def may_retry(status: SendStatus, error_code: str | None) -> bool:
    """Whether the state of a record allows another attempt; who asks for it may still be refused, with the reason."""
    is_cancelled = status is SendStatus.FAILED and error_code == MarkerCode.CANCELLED
    return status in _RETRIED and not is_cancelled


def asked_of(request: Request, caller: Identity, query: str | None = None) -> Asked:
    """The filters of a list's address."""
    readers: dict[str, asking.Reader] = {
        "status": asking.one_of(SendStatus),
        "q": asking.words,
        "template": asking.words,
        "server": asking.row_id,
        "error": asking.words,
        "since": asking.moment,
        "until": asking.moment,
        "before": position_of,
        "after": position_of,
    }
    if is_platform(caller):
        readers["tenant"] = asking.tenant_id
    return asking.read(request.url.query if query is None else query, readers)


@routes.get("/{channel}", dependencies=[needs(Permission.READ)])
def list_records(request: Request, caller: Caller, session: DbSession, channel: Channel) -> Response:
    """The list."""
    asked = asked_of(request, caller)
    with seen_by(caller, asked.get("tenant")):
        found = _Found([]) if asked.errors else _found(session, channel, asked)
        configs = configs_to_choose(session, channel)
        names = config_names(session, channel, {line.config_id for line in found.lines if line.config_id})
    return page(
        request,
        "records.html",
        channel=channel,
        words=WORDS[channel],
        asked=asked,
        found=found,
        statuses=list(SendStatus),
        tallies=None,
        configs=configs,
        names=names,
        may_retry=may_retry,
    )


@routes.get("/{channel}/counts", dependencies=[needs(Permission.READ)])
def count_records(request: Request, caller: Caller, session: DbSession, channel: Channel) -> Response:
    """How many there are of each status; asked for once the list is shown."""
    asked = asked_of(request, caller)
    tallies: Tallies | None = None
    with seen_by(caller, asked.get("tenant")):
        if not asked.errors and not asked.get("q"):
            tallies = stories.count_records(channel=channel, session=session, **narrowed(asked))
    return page(
        request,
        "counts.html",
        channel=channel,
        words=WORDS[channel],
        asked=asked,
        statuses=list(SendStatus),
        tallies=tallies,
    )


def narrowed(asked: Asked) -> stories.Narrowed:
    """What an address asks of a list, but for its search."""
    return {
        "status": asked.get("status"),
        "template_code": asked.get("template"),
        "config_id": asked.get("server"),
        "error_code": asked.get("error"),
        "created_after": asked.get("since"),
        "created_before": asked.get("until"),
    }


def _found(session: Session, channel: Channel, asked: Asked) -> _Found:
    fits = narrowed(asked)
    text = asked.get("q")
    if text is not None:
        lines = stories.find_records(text, channel=channel, limit=asking.SIZE, session=session, **fits)
        if lines:
            return _Found(lines, is_by_key=True)
        fits["recipient"] = text
    try:
        return _page(session, channel, asked, fits)
    except ValueError:
        if text is None:
            raise
        # It is no address and no number either: no record can have it.
        return _Found([], is_by_key=True)


def _page(session: Session, channel: Channel, asked: Asked, fits: stories.Narrowed) -> _Found:
    before, after = asked.get("before"), asked.get("after")
    found: RecordPage | None = None
    if after is not None:
        found = stories.list_records(channel=channel, limit=asking.SIZE, after=after, session=session, **fits)
        if found.newer is None:
            # The top is reached: show a whole first page.
            found = None
    if found is None:
        before = None if after is not None else before
        found = stories.list_records(channel=channel, limit=asking.SIZE, before=before, session=session, **fits)
    is_short = len(found.lines) < asking.SIZE
    return _Found(
        found.lines,
        newer=None if found.newer is None else asked.query(after=cursor_of(found.newer)),
        older=None if found.next is None else asked.query(before=cursor_of(found.next)),
        searched_to=found.next.created_at if found.next is not None and is_short else None,
    )


def taken(attempt: Any) -> timedelta | None:
    """How long an attempt took; None where it has not ended."""
    return None if attempt.ended_at is None else attempt.ended_at - attempt.started_at
