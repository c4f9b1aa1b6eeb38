"""The suppression list: who gets nothing and why; added, lifted with a reason, read from a file and written to one."""

import io
from typing import Annotated, Any

from fastapi import Form, Request
from starlette.datastructures import UploadFile
from starlette.responses import Response

from messaging import api
from messaging.access.roles import Permission
from messaging.errors import EntryRejected, FileRejected
from messaging.requests import SuppressionReason
from messaging.web.api.resource import Caller, DbSession, needs
from messaging.web.api.shapes import Id
from messaging.web.api.suppressions import SuppressionGiven
from messaging.web.console import asking, forms
from messaging.web.console.asked_first import ask_first
from messaging.web.console.forms import Posted
from messaging.web.console.pages import Pages, done, page, url
from messaging.web.console.tables import Action, Cell, Column, Filter, Listing, Tab

routes = Pages()

_PATH = "/suppressions"
_READ, _OPERATE, _KEEP = ([needs(one)] for one in (Permission.READ, Permission.OPERATE, Permission.ADMINISTER))

#: Octets of a file that is read here; more is for the command line.
MAX_FILE_OCTETS = 5_000_000

_REASONS = [(one.value, one.value.replace("_", " ").capitalize()) for one in SuppressionReason]
_READERS: dict[str, asking.Reader] = {
    "q": asking.words,
    "channel": asking.words,
    "reason": asking.one_of(SuppressionReason),
    "lifted": asking.words,
    "before": asking.row_id,
}


def _state(line: Any) -> Cell:
    if line.lifted_at is not None:
        return Cell("Lifted", status="discarded", title=line.lifted_note or "")
    return Cell(str(line.reason).replace("_", " ").capitalize(), status="suppressed", title=line.note or "")


def _columns(may_lift: bool) -> list[Column]:
    columns = [
        Column("State", _state, "c-status"),
        Column("Address", lambda line: line.address, "c-what"),
        Column("Channel", lambda line: line.channel, "c-short"),
        Column("Of", lambda line: line.sender or line.list or "all", "c-with"),
        Column(
            "Record",
            lambda line: Cell(str(line.record_id), path=f"/{line.channel}/{line.record_id}") if line.record_id else "",
            "c-id",
            is_number=True,
        ),
        Column("Note", lambda line: line.lifted_note or line.note, "c-wide"),
        Column("By", lambda line: line.updated_by or line.created_by, "c-with"),
        Column("Since (UTC)", lambda line: line.created_at, "c-when"),
    ]
    if may_lift:
        columns.append(
            Column(
                "",
                lambda line: (
                    ""
                    if line.lifted_at
                    else Cell("Lift…", path=f"{_PATH}/{line.id}/lift", title=line.address, asks=True)
                ),
                "c-act",
            )
        )
    return columns


@routes.get(_PATH, dependencies=_READ)
def list_entries(request: Request, caller: Caller, session: DbSession) -> Response:
    """The list."""
    asked = asking.read(request.url.query, _READERS)
    found: Any = []
    if not asked.errors:
        try:
            found = api.list_suppressions(
                channel=asked.get("channel"),
                search=asked.get("q"),
                reason=asked.get("reason"),
                with_lifted=asked.get("lifted") is not None,
                limit=asking.SIZE,
                before=asked.get("before"),
                session=session,
            )
        except ValueError as exc:
            asked.errors["channel"] = str(exc)  # type: ignore[index]
    following = getattr(found, "next_before", None)
    actions = [Action("CSV", f"{_PATH}.csv")]
    if caller.may(Permission.ADMINISTER):
        actions += [Action("Import…", f"{_PATH}/import"), Action("Add…", f"{_PATH}/new", is_main=True)]
    listing = Listing(
        "Suppression list",
        _PATH,
        "entry",
        _columns(caller.may(Permission.OPERATE)),
        asked,
        found,
        newer=asked.query() if asked.get("before") else None,
        older=None if following is None else asked.query(before=str(following)),
        filters=(
            Filter("q", "Search", "a part of an address or number", kind="search"),
            Filter("channel", "Channel", options=(("mail", "Mail"), ("sms", "Text messages"))),
            Filter("reason", "Reason", options=_REASONS),
        ),
        tabs=(Tab("lifted", None, "In force"), Tab("lifted", "yes", "Lifted ones too")),
        actions=actions,
    )
    return page(request, "list.html", list=listing)


@routes.get(f"{_PATH}.csv", dependencies=_READ)
def export_entries(session: DbSession) -> Response:
    """All entries as a file that the import reads."""
    written = io.StringIO(newline="")
    api.export_suppressions(written, with_lifted=True, session=session)
    headers = {"content-disposition": 'attachment; filename="suppressions.csv"'}
    return Response(written.getvalue(), headers=headers, media_type="text/csv; charset=utf-8")


def _fields() -> list[forms.Field]:
    return forms.fields_of(
        SuppressionGiven,
        labels={"address": "Address or number", "sender": "Of this sender only", "list": "Of this list only"},
        hints={"address": "A mail address, or with the channel sms a number such as +14155550100."},
        options={"channel": (("mail", "Mail"), ("sms", "Text messages")), "reason": _REASONS},
    )


def _form(request: Request, form: forms.Form, status: int = 200) -> Response:
    return page(
        request,
        "form.html",
        status=status,
        title="Add to the suppression list",
        leave=_PATH,
        leave_text="Suppression list",
        action=f"{_PATH}/new",
        actions=[],
        facts=[],
        form=form,
        verb="Add",
        may_save=True,
    )


@routes.get(f"{_PATH}/new", dependencies=_KEEP)
def ask_new(request: Request) -> Response:
    """The form of an entry."""
    return _form(request, forms.blank(_fields(), channel="mail", reason="MANUAL"))


@routes.post(f"{_PATH}/new", dependencies=_KEEP)
def add_entry(request: Request, session: DbSession, posted: Posted) -> Response:
    """Add one."""
    read = forms.read(_fields(), posted, SuppressionGiven)
    if isinstance(read, forms.Form):
        return _form(request, read, 422)
    given = read.sent()
    given["list_name"] = given.pop("list", None)
    try:
        entry = api.add_suppression(
            session=session, **{name: value for name, value in given.items() if value is not None}
        )
    except EntryRejected as exc:
        form = forms.typed(_fields(), posted)
        form.refuse("list" if exc.field == "list_name" else exc.field, exc.reason)
        return _form(request, form, 422)
    return done(request, url(request, _PATH), f"Entry {entry} is on the list.")


def _lift(request: Request, entry_id: int, remark: str, error: str = "") -> Response:
    return ask_first(
        request,
        f"Lift entry {entry_id}?",
        "Messages go there again. Say why: it stays in the list and in the audit log.",
        verb="Lift",
        action=f"{_PATH}/{entry_id}/lift",
        leave=_PATH,
        remark=remark,
        error=error,
    )


@routes.get(f"{_PATH}/{{entry_id}}/lift", dependencies=_OPERATE)
def ask_lift(request: Request, entry_id: Id) -> Response:
    """Whether and why."""
    return _lift(request, entry_id, "")


@routes.post(f"{_PATH}/{{entry_id}}/lift", dependencies=_OPERATE)
def lift_entry(request: Request, session: DbSession, entry_id: Id, remark: Annotated[str, Form()] = "") -> Response:
    """Lift it."""
    try:
        is_lifted = api.lift_suppression(entry_id, note=remark, session=session)
    except EntryRejected as exc:
        return _lift(request, entry_id, remark, exc.reason)
    text = f"Entry {entry_id} is lifted." if is_lifted else f"Nothing was changed: entry {entry_id} was lifted before."
    return done(request, url(request, _PATH), text, is_refusal=not is_lifted)


@routes.get(f"{_PATH}/import", dependencies=_KEEP)
def ask_import(request: Request) -> Response:
    """Which file."""
    return page(request, "import.html", told=None, text="", error="", chosen={})


@routes.post(f"{_PATH}/import", dependencies=_KEEP)
async def read_file(request: Request, posted: Posted) -> Response:
    """Take the file in, and let the thread that follows judge it."""
    from starlette.concurrency import run_in_threadpool

    given = posted.get("file")
    if isinstance(given, UploadFile):
        octets = await given.read(MAX_FILE_OCTETS + 1)
        text = octets.decode("utf-8-sig", errors="replace")
        is_too_large = len(octets) > MAX_FILE_OCTETS
    else:
        text, is_too_large = str(posted.get("text") or ""), False
    chosen = {name: str(posted.get(name) or "") for name in ("channel", "reason", "sure")}
    return await run_in_threadpool(_import, request, text, chosen, is_too_large=is_too_large)


def _import(request: Request, text: str, chosen: dict[str, str], *, is_too_large: bool) -> Response:
    is_trial = chosen["sure"] != "yes"
    error, told = "", None
    if is_too_large:
        error = f"The file has more than {MAX_FILE_OCTETS:,} octets: use messaging suppress import."
    elif "\x00" in text or "\ufffd" in text:
        error = "The file is no text in UTF-8."
    else:
        try:
            told = api.import_suppressions(
                io.StringIO(text),
                name="the file",
                channel=chosen["channel"] or "mail",
                reason=chosen["reason"] or SuppressionReason.MANUAL,
                dry_run=is_trial,
            )
        except (FileRejected, EntryRejected, ValueError) as exc:
            error = str(exc)
    if error or is_trial:
        return page(
            request,
            "import.html",
            status=422 if error else 200,
            told=told,
            text="" if error else text,
            error=error,
            chosen=chosen,
        )
    assert told is not None
    return done(request, url(request, _PATH), f"{told.added} added, {told.known} were there, {told.lifted} lifted.")
