"""The first page: whether all is well, and if not what to look at first. Every figure leads to its records."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from messaging import api
from messaging.access.roles import Permission
from messaging.api import figures
from messaging.api.figures import Processes
from messaging.delivery.dead_letter_kinds import DeadLetterStatus
from messaging.figures.outcomes import Bar, Failing, Outcomes, Window
from messaging.figures.standing import Standing
from messaging.records import config_names
from messaging.web.api.resource import Caller, DbSession, needs
from messaging.web.auth import Identity
from messaging.web.console import asking
from messaging.web.console.audience import is_platform, seen_by, sees_platform
from messaging.web.console.pages import Pages, page

routes = Pages()

#: What pages call a channel, and its records' list.
CHANNELS = {"mail": "Mail", "sms": "Text messages", "webhook": "Webhooks"}
LISTS = {"mail": "/mail", "sms": "/sms", "webhook": "/webhooks"}

#: Seconds for which a record may be due before that is told.
_LATE_SECONDS = 60.0
#: Seconds after which counts that have not moved are told to be out of date.
_UNCOUNTED_SECONDS = 120.0
#: Attempts from which a server's failures are told, and the part of them that has failed.
_MANY, _BAD_PART = 5, 0.5
#: Used up in part, from which on a quota is told.
_NEARLY = 0.9

#: Height of a chart in its own units.
CHART_HEIGHT = 48


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something to look at."""

    text: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One bar of a chart, its parts from below."""

    x: int
    title: str
    #: Class, top and height of each part that there is.
    parts: list[tuple[str, float, float]]


def _window(text: str) -> Window:
    try:
        return Window(text)
    except ValueError:
        raise ValueError(f"is none of {', '.join(one.value for one in Window)}") from None


@routes.get("/", dependencies=[needs(Permission.READ)])
def show_dashboard(request: Request, caller: Caller, session: DbSession) -> Response:
    """The page; its figures are asked for again every few seconds."""
    readers: dict[str, asking.Reader] = {"window": _window}
    if is_platform(caller):
        readers["tenant"] = asking.tenant_id
    asked = asking.read(request.url.query, readers)
    window: Window = asked.get("window") or Window.HOUR
    with seen_by(caller, asked.get("tenant")):
        outcomes = figures.outcome_figures(window, session=session)
        lines = figures.line_figures(session=session)
        names = _names(session, outcomes)
    processes = figures.live_processes()
    usage = (
        None
        if is_platform(caller) and asked.get("tenant") is None
        else api.quota_usage(asked.get("tenant"), session=session)
    )
    letters = _pending_letters(session) if sees_platform(caller) else None
    return page(
        request,
        "dashboard.html",
        asked=asked,
        window=window,
        windows=list(Window),
        outcomes=outcomes,
        lines=lines,
        processes=processes,
        usage=usage,
        letters=letters,
        names=names,
        channels=CHANNELS,
        lists=LISTS,
        charts={name: list(draw(of.bars, window)) for name, of in outcomes.channels.items()},
        chart_height=CHART_HEIGHT,
        troubles=list(troubles(caller, outcomes, lines, processes, usage, letters, names)),
        since=f"{outcomes.since:%Y-%m-%d %H:%M}",
        linked=linked,
    )


def draw(bars: list[Bar] | Any, window: Window) -> Iterator[Drawn]:
    """The bars of a chart, the highest of which fills it."""
    highest = max((bar.attempts for bar in bars), default=0)
    form = "%Y-%m-%d %H:%M" if window is not Window.HOUR else "%H:%M"
    for number, bar in enumerate(bars):
        top = float(CHART_HEIGHT)
        parts = []
        for kind, count in (("sent", bar.sent), ("retry", bar.retried), ("failed", bar.failed)):
            if count:
                height = max(1.0, CHART_HEIGHT * count / highest)
                top = max(0.0, top - height)
                parts.append((kind, round(top, 1), round(height, 1)))
        title = f"{bar.begins_at:{form}}: {bar.sent} sent, {bar.retried} to be tried again, {bar.failed} failed"
        yield Drawn(number * 10, title, parts)


def linked(failing: Failing, since: str) -> str:
    """The list of what failed by a server or a template."""
    name = "server" if isinstance(failing.of, int) else "template"
    return f"{LISTS[failing.channel]}?{urlencode({name: failing.of, 'since': since})}"


def troubles(
    caller: Identity,
    outcomes: Outcomes,
    lines: Mapping[str, Standing],
    processes: Processes | None,
    usage: Any,
    letters: int | None,
    names: Mapping[tuple[str, int | str], str],
) -> Iterator[Trouble]:
    """What is not well, what is worst first."""
    if processes is None:
        yield Trouble("Redis does not answer: nothing is handed to workers, and who is alive is not known.")
    elif not processes.is_beat_alive:
        yield Trouble("Beat is not heard of: nothing is handed to workers on time.")
    counted = outcomes.counted_until
    if counted is None or outcomes.now - counted > timedelta(seconds=_UNCOUNTED_SECONDS):
        since = "yet" if counted is None else f"since {counted:%H:%M:%S} UTC"
        yield Trouble(f"Attempts are not counted {since}: the figures below are as old.")
    for name, line in lines.items():
        words = CHANNELS[name]
        if processes is not None and line.due and not processes.workers[name]:
            yield Trouble(f"{words}: {line.due:,} due, and no worker is heard of.", f"{LISTS[name]}?status=PENDING")
        elif line.oldest_due_seconds > _LATE_SECONDS:
            yield Trouble(
                f"{words}: the first in line has been due for {line.oldest_due_seconds:,.0f} s.",
                f"{LISTS[name]}?status=PENDING",
            )
        if line.stuck:
            yield Trouble(
                f"{words}: {line.stuck:,} in the hands of workers for too long.", f"{LISTS[name]}?status=SENDING"
            )
    for one in outcomes.servers:
        if one.attempts and one.attempts >= _MANY and one.failed / one.attempts >= _BAD_PART:
            name = names.get((one.channel, one.of), str(one.of))
            text = f"{name}: {one.failed:,} of {one.attempts:,} attempts failed."
            yield Trouble(text, linked(one, f"{outcomes.since:%Y-%m-%d %H:%M}"))
    if letters and caller.may(Permission.PLATFORM):
        yield Trouble(f"Dead letters that wait for somebody: {letters:,}.", "/dead-letters?status=PENDING")
    if usage is not None:
        for word, used, limit in (
            ("mails", usage.mail_used, usage.mail_limit),
            ("text messages", usage.sms_used, usage.sms_limit),
        ):
            if limit is not None and used >= limit * _NEARLY:
                yield Trouble(f"{used:,} of {limit:,} {word} of this month are used.", "/quotas")


def _names(session: Session, outcomes: Outcomes) -> dict[tuple[str, int | str], str]:
    names: dict[tuple[str, int | str], str] = {}
    for channel in ("mail", "sms"):
        ids = {one.of for one in outcomes.servers if one.channel == channel and isinstance(one.of, int)}
        names |= {(channel, of): name for of, name in config_names(session, channel, ids).items()}
    return names


def _pending_letters(session: Session) -> int:
    """How many wait, up to what one look shows."""
    return len(api.list_dead_letters(status=DeadLetterStatus.PENDING, limit=100, session=session))
