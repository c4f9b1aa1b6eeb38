"""Mail that was fetched: what it is, what it is about, what it says; and how far each folder is read."""

from typing import Any

from fastapi import Request
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, RedirectResponse, Response

from messaging import api
from messaging.access.roles import Permission
from messaging.receive.vocabulary import LinkStatus, MailType, ReceivedFlag, ReceivedStatus, TruncationReason
from messaging.web.api.resource import Caller, DbSession, needs
from messaging.web.api.shapes import Id
from messaging.web.console import asking
from messaging.web.console.asking import Asked
from messaging.web.console.audience import is_platform, seen_by
from messaging.web.console.content import FRAMED
from messaging.web.console.pages import Pages, done, page, url
from messaging.web.console.tables import Cell, Column, Filter, Listing, Tab

routes = Pages()

_PATH = "/received"
_READ, _OPERATE = [needs(Permission.READ)], [needs(Permission.OPERATE)]


def _choices(kind: Any) -> list[tuple[str, str]]:
    return [(one.value, one.value.replace("_", " ").capitalize()) for one in kind]


def _about(line: Any) -> Cell:
    if line.linked_send_record_id is not None:
        return Cell(f"mail {line.linked_send_record_id}", path=f"/mail/{line.linked_send_record_id}")
    return Cell("" if line.link_status is LinkStatus.NONE else str(line.link_status).lower())


_COLUMNS = (
    Column("Type", lambda line: Cell(_type(line), status=_sign(line)), "c-status"),
    Column("Id", lambda line: Cell(str(line.id), path=f"{_PATH}/{line.id}"), "c-id", is_number=True),
    Column("From", lambda line: Cell(line.from_name or line.from_address or "", title=line.from_address or ""), "c-to"),
    Column("Subject", lambda line: line.subject or "(none)", "c-what"),
    Column("Flags", lambda line: ", ".join(flag.lower().replace("_", " ") for flag in line.flags or ()), "c-with"),
    Column("About", _about, "c-error"),
    Column("State", lambda line: str(line.status).capitalize(), "c-short"),
    Column("Received (UTC)", lambda line: line.received_at, "c-when"),
)

_READERS: dict[str, asking.Reader] = {
    "type": asking.one_of(MailType),
    "flag": asking.one_of(ReceivedFlag),
    "status": asking.one_of(ReceivedStatus),
    "link": asking.one_of(LinkStatus),
    "truncation": asking.one_of(TruncationReason),
    "mailbox": asking.row_id,
    "record": asking.row_id,
    "before": asking.row_id,
}


@routes.get(_PATH, dependencies=_READ)
def list_received_mails(request: Request, caller: Caller, session: DbSession) -> Response:
    """The list."""
    tenant: dict[str, asking.Reader] = {"tenant": asking.tenant_id} if is_platform(caller) else {}
    asked = asking.read(request.url.query, _READERS | tenant)
    with seen_by(caller, asked.get("tenant")):
        found: Any = [] if asked.errors else _read(session, asked)
        mailboxes = [(str(one.id), one.name) for one in api.list_mailboxes(session=session, active="all")]
    following = getattr(found, "next_before", None)
    columns = list(_COLUMNS)
    if is_platform(caller):
        columns.insert(2, Column("Tenant", lambda line: line.tenant_id, "c-tenant", is_number=True))
    listing = Listing(
        "Received mail",
        _PATH,
        "mail",
        columns,
        asked,
        found,
        newer=asked.query() if asked.get("before") else None,
        older=None if following is None else asked.query(before=str(following)),
        filters=(
            Filter("type", "Type", options=_choices(MailType)),
            Filter("flag", "Flag", options=_choices(ReceivedFlag)),
            Filter("mailbox", "Mailbox", options=mailboxes),
            Filter("link", "Linked", options=_choices(LinkStatus)),
            Filter("truncation", "Cut off", options=_choices(TruncationReason)),
            Filter("record", "About mail", "id"),
            *([Filter("tenant", "Tenant")] if is_platform(caller) else []),
        ),
        tabs=(Tab("status", None, "All"), *(Tab("status", one.value, one.capitalize()) for one in ReceivedStatus)),
    )
    return page(request, "list.html", list=listing)


def _read(session: Session, asked: Asked) -> Any:
    flag = asked.get("flag")
    return api.list_received(
        mail_type=asked.get("type"),
        status=asked.get("status"),
        link_status=asked.get("link"),
        flags=() if flag is None else (flag,),
        truncation=asked.get("truncation"),
        mailbox_id=asked.get("mailbox"),
        record_id=asked.get("record"),
        limit=asking.SIZE,
        before=asked.get("before"),
        session=session,
    )


@routes.get(f"{_PATH}/{{received_id}}", dependencies=_READ)
def show_received(request: Request, caller: Caller, session: DbSession, received_id: Id) -> Response:
    """One mail."""
    with seen_by(caller):
        mail = api.get_received(received_id, session=session)
    return page(request, "received.html", mail=mail, type_words=_type(mail), sign=_sign(mail))


@routes.get(f"{_PATH}/{{received_id}}/html", dependencies=_READ)
def show_received_html(request: Request, caller: Caller, session: DbSession, received_id: Id) -> Response:
    """Its HTML, for the frame on its page."""
    if request.headers.get("sec-fetch-dest", "iframe") != "iframe":
        return RedirectResponse(url(request, f"{_PATH}/{received_id}"), 303)
    with seen_by(caller):
        html = api.get_received(received_id, session=session).body_html or ""
    return HTMLResponse(html, headers={"content-security-policy": FRAMED, "x-frame-options": "SAMEORIGIN"})


@routes.post(f"{_PATH}/{{received_id}}/read", dependencies=_OPERATE)
def mark_read(request: Request, session: DbSession, received_id: Id) -> Response:
    """Mark it read."""
    is_changed = api.mark_received_read(received_id, session=session)
    return _marked(request, received_id, "is marked read", is_changed)


@routes.post(f"{_PATH}/{{received_id}}/archive", dependencies=_OPERATE)
def archive(request: Request, session: DbSession, received_id: Id) -> Response:
    """Archive it."""
    is_changed = api.archive_received(received_id, session=session)
    return _marked(request, received_id, "is archived", is_changed)


def _marked(request: Request, received_id: int, words: str, is_changed: bool) -> Response:
    text = f"Mail {received_id} {words}." if is_changed else "Nothing was changed: somebody was there before."
    return done(request, url(request, f"{_PATH}/{received_id}"), text, is_refusal=not is_changed)


@routes.get("/watermarks", dependencies=_READ)
def list_watermarks(request: Request, session: DbSession) -> Response:
    """How far each folder is read."""
    names = {one.id: one for one in api.list_mailboxes(session=session, active="all")}
    rows = api.list_watermarks(session=session)

    def mailbox(mark: Any) -> Cell:
        found = names.get(mark.server_config_id)
        name = found.name if found else f"mailbox {mark.server_config_id}"
        return Cell(name, path=f"/receive-servers/{mark.server_config_id}" if found else "")

    listing = Listing(
        "Watermarks",
        "/watermarks",
        "folder",
        (
            Column("Mailbox", mailbox, "c-to"),
            Column("Folder", lambda mark: mark.folder_name, "c-what"),
            Column("Read up to", lambda mark: mark.last_seen_uid, "c-error", is_number=True),
            Column("UID validity", lambda mark: mark.uid_validity, "c-error", is_number=True),
            Column("Read to its end (UTC)", lambda mark: mark.last_fetched_at or "never", "c-when"),
            Column("Being read since (UTC)", lambda mark: mark.in_progress_since or "", "c-when"),
        ),
        asking.read("", {}),
        rows,
        order="by mailbox and folder",
        note="How far each folder was read. A mailbox that is active and was not read for long is worth a test.",
    )
    return page(request, "list.html", list=listing)


def _type(mail: Any) -> str:
    kind = f"{mail.bounce_kind} bounce" if mail.bounce_kind else str(mail.mail_type).replace("_", " ")
    return kind.capitalize()


def _sign(mail: Any) -> str:
    if mail.mail_type is MailType.BOUNCE:
        return "bounced" if mail.bounce_kind == "HARD" else "deferred"
    return "accepted" if mail.mail_type is MailType.READ_RECEIPT else "pending"
