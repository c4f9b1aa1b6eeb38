"""`/mail/receive-servers`: the mailboxes that mail is fetched from. Their secrets go in and never come out."""

from typing import Annotated, Literal

from pydantic import Field

from messaging import api
from messaging.receive.mailbox_checks import MAX_INTERVAL_SECONDS, MIN_INTERVAL_SECONDS
from messaging.receive.vocabulary import MailboxAuth, Protocol
from messaging.web.api.config_routes import ConfigRoutes
from messaging.web.api.configurations import (
    ADMINISTER,
    READ,
    ConfigQuery,
    Description,
    Items,
    Line255,
    Name,
    Port,
    Rank,
    Secret,
    Switch,
    left_out,
)
from messaging.web.api.resource import DbSession, Resource
from messaging.web.api.shapes import Given, Id, Shown, Time
from messaging.web.api.talking import talks

routes = Resource("mailboxes")

#: Seconds between two fetches.
_Interval = Annotated[int, Field(strict=True, ge=MIN_INTERVAL_SECONDS, le=MAX_INTERVAL_SECONDS)]


class MailboxShown(Shown):
    """A mailbox without its secrets."""

    id: Id
    name: str
    description: str | None
    protocol: Protocol
    host: str
    port: int
    #: TLS from the first byte; for IMAPS and POP3S that is so anyway.
    ssl_enabled: bool
    username: str | None
    has_password: bool
    auth: MailboxAuth
    #: A comma list; null: INBOX.
    fetch_folders: str | None
    #: Null: as the settings say.
    fetch_interval_seconds: int | None
    #: When the next fetch is due; null: at the next tick.
    next_fetch_at: Time | None
    is_default: bool
    active: bool
    #: The lowest is fetched first.
    sequence: int
    created_at: Time
    updated_at: Time
    updated_by: str | None


class MailboxChanged(Given):
    """What changes; what is left out stays, null takes a value away."""

    name: Name = left_out()
    description: Description | None = left_out()
    #: POP3 deletes what it fetches.
    protocol: Protocol = left_out()
    host: Line255 = left_out()
    port: Port = left_out()
    ssl_enabled: Switch = left_out()
    username: Line255 = left_out()
    password: Secret | None = left_out()
    auth: MailboxAuth = left_out()
    fetch_folders: Line255 | None = left_out()
    fetch_interval_seconds: _Interval | None = left_out()
    is_default: Switch = left_out()
    active: Switch = left_out()
    sequence: Rank = left_out()


class MailboxGiven(MailboxChanged):
    """A mailbox to add."""

    name: Name
    host: Line255
    port: Port
    username: Line255


class MailboxQuery(ConfigQuery):
    """Which mailboxes."""

    sort: Literal[
        "sequence",
        "-sequence",
        "name",
        "-name",
        "host",
        "-host",
        "updated_at",
        "-updated_at",
        "id",
        "-id",
    ] = "sequence"


class MailboxTestShown(Shown):
    """What came of a test."""

    #: Whether a fetch would find the mailbox and all its folders.
    success: bool
    latency_ms: int
    #: The server's first line; null: there was none.
    server_greeting: str | None
    #: Null on success.
    error_message: str | None
    missing_folders: list[str]


class WatermarkShown(Shown):
    """How far a folder was read."""

    folder_name: str
    #: Null before the first fetch, and for POP3.
    uid_validity: int | None
    last_seen_uid: int
    #: When a fetch last read it to its end.
    last_fetched_at: Time | None
    #: Since when somebody reads it, or their last sign of life; null: nobody does.
    in_progress_since: Time | None


mailboxes = ConfigRoutes(routes, "/mail/receive-servers", "mailbox_id", read=api.get_mailbox, shown=MailboxShown)
mailboxes.get_page(api.list_mailboxes, MailboxQuery, "The tenant's mailboxes.")
mailboxes.get("One mailbox, disabled or not.")
mailboxes.post(
    api.add_mailbox,
    MailboxGiven,
    "Add a mailbox, which the next tick fetches; with POP3 fetching drains it.",
)
mailboxes.patch(api.change_mailbox, MailboxChanged, "Change a mailbox; the next fetch goes by it.")
mailboxes.delete(
    api.delete_mailbox,
    "Delete a mailbox and how far it was read; the mails that came from it stay.",
)
mailboxes.post_copy(
    api.copy_mailbox,
    MailboxChanged,
    "Add a mailbox like this one but for what is given; without its password, disabled and no default unless given.",
)
mailboxes.post_default(
    api.set_default_mailbox,
    "Make a mailbox the one that is fetched when none is named; 409 while it is disabled.",
    name="choose_default_mailbox",
)


@routes.post("/mail/receive-servers/{mailbox_id}/test", dependencies=[*ADMINISTER, talks()])
def test_mailbox(mailbox_id: Id) -> MailboxTestShown:
    """Connect, log in and look for the folders, with a disabled one too; fetches nothing and takes seconds."""
    return MailboxTestShown.model_validate(api.test_mailbox(mailbox_id))


@routes.get("/mail/receive-servers/{mailbox_id}/watermarks", dependencies=READ)
def list_watermarks(session: DbSession, mailbox_id: Id) -> Items[WatermarkShown]:
    """How far each folder of a mailbox was read, and since when somebody reads it."""
    api.get_mailbox(mailbox_id, session=session)
    found = api.list_watermarks(mailbox_id, session=session)
    return Items(items=[WatermarkShown.model_validate(line) for line in found])
