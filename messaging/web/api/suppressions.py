"""`/suppressions`: addresses and numbers that get nothing, seen, put on, lifted, moved as files."""

import io
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import Annotated, Any, BinaryIO, Literal, cast

from fastapi import Body, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from messaging import api
from messaging.access.roles import Permission
from messaging.requests import SuppressionReason
from messaging.suppression import MAIL, MAX_ADDRESS_CHARS, MAX_LIST_CHARS, MAX_NOTE_CHARS, MAX_SENDER_CHARS
from messaging.web.api.lists import Keyset, Part, part_of
from messaging.web.api.resource import DbSession, Resource, needs
from messaging.web.api.shapes import Given, Id, Shown, Text, Time

routes = Resource("suppressions")

Channel = Literal["mail", "sms"]

#: Octets of an export that are held in memory; a longer one lies in an unlinked temporary file.
_MAX_MEMORY_OCTETS = 1_048_576
_CHUNK_OCTETS = 65_536
_CSV: dict[int | str, dict[str, Any]] = {
    200: {"description": "The list", "content": {"text/csv": {"schema": {"type": "string"}}}}
}


class SuppressionShown(Shown):
    """One entry."""

    id: Id
    channel: Channel
    address: str
    reason: SuppressionReason
    #: Only text messages of this sender; empty: of any.
    sender: str
    #: Only mails of this mailing list; empty: all.
    list: str
    #: The message it came from.
    record_id: Id | None
    note: str | None
    created_at: Time
    created_by: str | None
    #: Null: it is in force.
    lifted_at: Time | None
    lifted_note: str | None
    updated_by: str | None


class SuppressionGiven(Given):
    """An address or number that shall get nothing."""

    address: Annotated[Text, Field(min_length=1, max_length=998)]
    channel: Channel = MAIL  # type: ignore[assignment]
    reason: SuppressionReason = SuppressionReason.MANUAL
    #: Only text messages of this number or name.
    sender: Annotated[Text, Field(max_length=MAX_SENDER_CHARS)] = ""
    #: Only mails of this mailing list.
    list: Annotated[Text, Field(max_length=MAX_LIST_CHARS)] = ""
    note: Annotated[Text, Field(max_length=MAX_NOTE_CHARS)] | None = None


class SuppressionAdded(Shown):
    """The entry: a new one, or the one that stood there."""

    id: Id


class LiftGiven(Given):
    """Why an entry is lifted."""

    reason: Annotated[Text, Field(min_length=1, max_length=MAX_NOTE_CHARS)]


class Lifted(Shown):
    """What a lift did."""

    #: False: it was lifted before.
    changed: bool


class ImportQuery(BaseModel):
    """How a file is read."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    #: Of lines that do not say theirs, as `reason`.
    channel: Channel = MAIL  # type: ignore[assignment]
    reason: SuppressionReason = SuppressionReason.MANUAL
    #: Look at everything, write nothing.
    dry_run: bool = False


class Imported(Shown):
    """What an import did, or would have done."""

    #: Entries that are new.
    added: int
    #: Lines of what is on the list already, by the list or by an earlier line.
    known: int
    #: Lines of what was lifted where the file comes from: left out.
    lifted: int


class SuppressionQuery(Keyset):
    """Which entries."""

    channel: Channel | None = None
    #: The whole address or number; of a number the plus may come as a blank.
    address: Annotated[Text, Field(min_length=1, max_length=998)] | None = None
    #: A part of it.
    search: Annotated[Text, Field(max_length=MAX_ADDRESS_CHARS)] | None = None
    reason: SuppressionReason | None = None
    #: Those that were lifted, too.
    lifted: bool = False


class ExportQuery(BaseModel):
    """What is exported."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    #: Those that were lifted, too.
    lifted: bool = False


@routes.get("/suppressions", dependencies=[needs(Permission.READ)])
def list_suppressions(session: DbSession, query: Annotated[SuppressionQuery, Query()]) -> Part[SuppressionShown]:
    """The tenant's entries, newest first, 10,000 looked at for a part: go on while there is a `next_cursor`."""
    address = query.address
    if address is not None and address.startswith(" ") and address.strip().isdecimal():
        address = "+" + address.strip()
    found = api.list_suppressions(
        channel=query.channel,
        address=address,
        search=query.search,
        reason=query.reason,
        with_lifted=query.lifted,
        limit=query.size,
        before=query.before,
        session=session,
    )
    return part_of(found, SuppressionShown.model_validate)


@routes.post("/suppressions", status_code=201, dependencies=[needs(Permission.ADMINISTER)])
def add_suppression(session: DbSession, given: SuppressionGiven) -> SuppressionAdded:
    """Put an address or number on the list, from the next attempt on; for what stands there nothing changes."""
    entry_id = api.add_suppression(
        given.address,
        channel=given.channel,
        reason=given.reason,
        sender=given.sender,
        list_name=given.list,
        note=given.note,
        session=session,
    )
    return SuppressionAdded(id=entry_id)


@routes.post("/suppressions/import", dependencies=[needs(Permission.ADMINISTER)])
def import_suppressions(
    session: DbSession,
    query: Annotated[ImportQuery, Query()],
    content: Annotated[
        bytes, Body(media_type="text/csv", description="CSV with a header line; `address` is needed, in UTF-8.")
    ],
) -> Imported:
    """Put the entries of a CSV file on the list, all or none; bad lines are named."""
    source = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="")
    done = api.import_suppressions(
        source, name="body", channel=query.channel, reason=query.reason, dry_run=query.dry_run, session=session
    )
    return Imported.model_validate(done)


@routes.get("/suppressions/export", dependencies=[needs(Permission.READ)], response_class=Response, responses=_CSV)
def export_suppressions(session: DbSession, query: Annotated[ExportQuery, Query()]) -> Response:
    """The whole list as a CSV file that an import reads; what a spreadsheet would run begins with an apostrophe."""
    file = cast("BinaryIO", SpooledTemporaryFile(_MAX_MEMORY_OCTETS))  # noqa: SIM115 - closed once it is sent
    try:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        api.export_suppressions(text, with_lifted=query.lifted, session=session)
        text.detach()
    except BaseException:
        file.close()
        raise
    file.seek(0)

    def chunks() -> Iterator[bytes]:
        with file:
            while chunk := file.read(_CHUNK_OCTETS):
                yield chunk

    headers = {"content-disposition": 'attachment; filename="suppressions.csv"'}
    return StreamingResponse(chunks(), 200, headers, "text/csv; charset=utf-8")


@routes.post("/suppressions/{entry_id}/lift", dependencies=[needs(Permission.OPERATE)])
def lift_suppression(session: DbSession, entry_id: Id, given: LiftGiven) -> Lifted:
    """Lift an entry, saying why; it stays as a row. Again, nothing changes."""
    return Lifted(changed=api.lift_suppression(entry_id, note=given.reason, session=session))
