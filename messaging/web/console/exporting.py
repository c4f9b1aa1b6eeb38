"""Records as CSV for a spreadsheet: what the list's filter fits, newest first, read a page at a time."""

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from messaging import api, audit, tenancy
from messaging.access.roles import Permission
from messaging.api import stories
from messaging.channels import CHANNELS
from messaging.csv_cells import guarded
from messaging.tenancy import Context
from messaging.web.api.resource import Caller, DbSession, needs
from messaging.web.console.audience import seen_by
from messaging.web.console.pages import Pages, done, url
from messaging.web.console.records import Channel, asked_of, narrowed

routes = Pages()

#: Rows of a file; who wants more narrows the filter by time.
MAX_ROWS = 100_000
_PAGE_ROWS = 200

_COLUMNS = ("id", "tenant_id", "status", "to", "subject", "template", "config_id", "error_code", "retry_count")
_TIMES = ("created_at", "next_attempt_at", "sent_at")
_AUDIT_COLUMNS = ("id", "at", "tenant_id", "actor", "actor_name", "action", "target_type", "target_id", "note")


@routes.get("/audit.csv", dependencies=[needs(Permission.READ)])
def export_audit_log(caller: Caller, session: DbSession) -> Response:
    """The audit log."""
    audit.note(session, "export", audit.AUDIT_LOG, None)
    with seen_by(caller):
        context = tenancy.current()
    return _as_file("audit.csv", _audit_entries(context))


@routes.get("/{channel}.csv", dependencies=[needs(Permission.READ)])
def export_records(request: Request, caller: Caller, session: DbSession, channel: Channel) -> Response:
    """The file; that it was asked for is in the audit log."""
    asked = asked_of(request, caller)
    if asked.errors:
        return done(
            request, url(request, f"/{channel}") + f"?{asked.here}", "The filter cannot be read.", is_refusal=True
        )
    fits = narrowed(asked)
    if asked.get("q"):
        fits["recipient"] = asked.get("q")
    try:
        stories.list_records(channel=channel, limit=1, session=session, **fits)
    except ValueError as exc:
        return done(request, url(request, f"/{channel}"), f"There is no such file: {exc}.", is_refusal=True)
    audit.note(session, "export", CHANNELS[channel].table, None, after={"filter": dict(asked.written)})
    with seen_by(caller, asked.get("tenant")):
        context = tenancy.current()
    return _as_file(f"{channel}.csv", _records(context, channel, fits))


def _as_file(name: str, lines: Iterator[str]) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(lines, headers=headers, media_type="text/csv; charset=utf-8")


def _records(context: Context, channel: Channel, fits: stories.Narrowed) -> Iterator[str]:
    yield _line([*_COLUMNS, *_TIMES])
    place = None
    written = 0
    while written < MAX_ROWS:
        with tenancy.acting_as(context):
            found = stories.list_records(channel=channel, limit=_PAGE_ROWS, before=place, **fits)
        rows = found.lines[: MAX_ROWS - written]
        written += len(rows)
        yield "".join(_line([_cell(getattr(row, name)) for name in (*_COLUMNS, *_TIMES)]) for row in rows)
        place = found.next
        if place is None:
            return
    yield _line([f"Cut off after {MAX_ROWS} rows: narrow the filter by time."])


def _audit_entries(context: Context) -> Iterator[str]:
    yield _line([*_AUDIT_COLUMNS, "before", "after"])
    before = None
    written = 0
    while written < MAX_ROWS:
        with tenancy.acting_as(context):
            rows = api.list_audit_entries(limit=_PAGE_ROWS, before=before)
        written += len(rows)
        yield "".join(
            _line([_cell(getattr(row, name)) for name in (*_AUDIT_COLUMNS, "before", "after")]) for row in rows
        )
        if len(rows) < _PAGE_ROWS:
            return
        before = rows[-1].id
    yield _line([f"Cut off after {MAX_ROWS} rows."])


def _line(cells: list[str]) -> str:
    written = io.StringIO(newline="")
    csv.writer(written).writerow(cells)
    return written.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):
        return guarded("; ".join(map(str, value)))
    return guarded(str(value))
