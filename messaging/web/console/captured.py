"""What sandbox mode kept instead of sending it, read like mail: a list, and beside it the one that is looked at."""

import email
import email.policy
from email.message import EmailMessage
from typing import Any

from fastapi import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from messaging import api
from messaging.access.roles import Permission
from messaging.web.api.resource import Caller, DbSession, ProcessSettings, needs
from messaging.web.api.shapes import Id
from messaging.web.console import asking
from messaging.web.console.asked_first import ask_first
from messaging.web.console.audience import is_platform, seen_by
from messaging.web.console.content import FRAMED, INERT, as_file
from messaging.web.console.pages import Pages, done, page, url
from messaging.web.console.tables import Action, Cell, Column, Filter, Listing

routes = Pages()

_PATH = "/captured"
_READ, _KEEP = [needs(Permission.READ)], [needs(Permission.ADMINISTER)]

_READERS: dict[str, asking.Reader] = {
    "to": asking.words,
    "channel": asking.words,
    "record": asking.row_id,
    "before": asking.row_id,
}


@routes.get(_PATH, dependencies=_READ)
def list_captured(request: Request, caller: Caller, session: DbSession, settings: ProcessSettings) -> Response:
    """The list."""
    tenant: dict[str, asking.Reader] = {"tenant": asking.tenant_id} if is_platform(caller) else {}
    asked = asking.read(request.url.query, _READERS | tenant)
    found: list[Any] = []
    if not asked.errors:
        try:
            with seen_by(caller, asked.get("tenant")):
                found = api.list_captured(
                    channel=asked.get("channel"),
                    record_id=asked.get("record"),
                    recipient=asked.get("to"),
                    limit=asking.SIZE + 1,
                    before=asked.get("before"),
                    session=session,
                )
        except ValueError as exc:
            asked.errors["channel"] = str(exc)  # type: ignore[index]
    shown = found[: asking.SIZE]
    mode = settings.sandbox.mode
    actions = []
    if caller.may(Permission.ADMINISTER) and shown and not is_platform(caller):
        actions.append(Action("Delete all…", f"{_PATH}/clear", asks=True))
    listing = Listing(
        "Captured",
        _PATH,
        "captured message",
        (
            Column("Id", lambda line: Cell(str(line.id), path=f"{_PATH}/{line.id}"), "c-id", is_number=True),
            Column("Channel", lambda line: line.channel, "c-short"),
            Column("To", lambda line: ", ".join(line.recipients), "c-to"),
            Column("Subject", lambda line: line.subject, "c-what"),
            Column("Record", lambda line: Cell(str(line.record_id), path=_record(line)), "c-id", is_number=True),
            Column("Captured (UTC)", lambda line: line.captured_at, "c-when"),
        ),
        asked,
        shown,
        newer=asked.query() if asked.get("before") else None,
        older=asked.query(before=str(shown[-1].id)) if len(found) > asking.SIZE else None,
        filters=(
            Filter("to", "To", "a whole address or number", kind="search"),
            Filter("channel", "Channel", options=(("mail", "Mail"), ("sms", "Text messages"), ("webhook", "Webhooks"))),
            Filter("record", "Record id"),
            *([Filter("tenant", "Tenant")] if is_platform(caller) else []),
        ),
        actions=actions,
        note=f"Sandbox mode is {mode}: "
        + ("everything is sent." if mode == "off" else "what is shown here was not sent to whom it was for."),
    )
    return page(request, "list.html", list=listing)


def _record(line: Any) -> str:
    return f"/webhooks/{line.record_id}" if line.channel == "webhook" else f"/{line.channel}/{line.record_id}"


@routes.get(f"{_PATH}/clear", dependencies=_KEEP)
def ask_clear(request: Request) -> Response:
    """Whether all of it is to go."""
    return ask_first(
        request,
        "Delete all captured messages?",
        "All that sandbox mode kept for this tenant goes. The records stay.",
        verb="Delete all",
        action=f"{_PATH}/clear",
        leave=_PATH,
        is_dangerous=True,
    )


@routes.post(f"{_PATH}/clear", dependencies=_KEEP)
def clear(request: Request, session: DbSession) -> Response:
    """Delete them."""
    count = api.clear_captured(session=session)
    return done(request, url(request, _PATH), f"{count:,} captured message{'' if count == 1 else 's'} deleted.")


@routes.get(f"{_PATH}/{{captured_id}}", dependencies=_READ)
def show_captured(request: Request, caller: Caller, session: DbSession, captured_id: Id) -> Response:
    """One of them."""
    with seen_by(caller):
        one = api.get_captured(captured_id, session=session)
        beside = api.list_captured(limit=30, before=captured_id + 15, session=session)
    mail = _parsed(one)
    return page(
        request,
        "captured.html",
        one=one,
        beside=beside,
        record_path=_record(one),
        headers=[(name, str(value)) for name, value in mail.items()] if mail is not None else [],
        text=_part(mail, "plain"),
        has_html=bool(_part(mail, "html")),
        files=[part.get_filename() or part.get_content_type() for part in mail.iter_attachments()] if mail else [],
    )


@routes.get(f"{_PATH}/{{captured_id}}/html", dependencies=_READ)
def show_captured_html(request: Request, caller: Caller, session: DbSession, captured_id: Id) -> Response:
    """Its HTML, for the frame on its page."""
    if request.headers.get("sec-fetch-dest", "iframe") != "iframe":
        return RedirectResponse(url(request, f"{_PATH}/{captured_id}"), 303)
    with seen_by(caller):
        html = _part(_parsed(api.get_captured(captured_id, session=session)), "html")
    return HTMLResponse(html, headers={"content-security-policy": FRAMED, "x-frame-options": "SAMEORIGIN"})


@routes.get(f"{_PATH}/{{captured_id}}/source", dependencies=_READ)
def show_captured_source(caller: Caller, session: DbSession, captured_id: Id) -> Response:
    """A mail as it would have gone over the wire, as a file."""
    with seen_by(caller):
        one = api.get_captured(captured_id, session=session)
    if one.raw is None:
        headers = {"content-security-policy": INERT}
        return Response(one.content or "", headers=headers, media_type="text/plain; charset=utf-8")
    headers = as_file(f"captured-{captured_id}.eml")
    return Response(one.raw, headers=headers, media_type="application/octet-stream")


def _parsed(one: Any) -> EmailMessage | None:
    """A mail, which we wrote ourselves."""
    return None if one.raw is None else email.message_from_bytes(one.raw, policy=email.policy.default)


def _part(mail: EmailMessage | None, kind: str) -> str:
    found = None if mail is None else mail.get_body((kind,))
    return "" if found is None else str(found.get_content())
