"""Mailboxes whose mail is fetched: when each was fetched last, whether it answers, fetching at once."""

from typing import Any

from fastapi import Request
from starlette.responses import Response

from messaging import api
from messaging.access.roles import Permission
from messaging.errors import ReceiveError
from messaging.receive.mailbox_admin import MAILBOXES
from messaging.web.api.mailboxes import MailboxChanged, MailboxGiven
from messaging.web.api.resource import DbSession, needs
from messaging.web.api.shapes import Id
from messaging.web.api.talking import talks
from messaging.web.console.asked_first import ask_first
from messaging.web.console.config import ACTIVE, ConfigPages, default_mark, named
from messaging.web.console.connecting import Tested, add_test
from messaging.web.console.pages import Pages, done, url
from messaging.web.console.tables import Cell, Column

routes = Pages()

_PATH = "/receive-servers"

pages = ConfigPages(
    routes=routes,
    path=_PATH,
    title="Receive servers",
    one="mailbox",
    kind=MAILBOXES,
    given=MailboxGiven,
    changed=MailboxChanged,
    columns=(
        named(_PATH),
        Column("Host", lambda row: Cell(f"{row.host}:{row.port}", title=f"{row.host}:{row.port}"), "c-wide"),
        Column("Protocol", lambda row: f"{row.protocol}{', TLS' if row.ssl_enabled else ''}", "c-error"),
        Column("User", lambda row: row.username, "c-what"),
        Column("Folders", lambda row: row.fetch_folders or "INBOX", "c-with"),
        Column("Next fetch (UTC)", lambda row: row.next_fetch_at or "at once", "c-when"),
        default_mark(),
        ACTIVE,
    ),
    list_rows=api.list_mailboxes,
    get=api.get_mailbox,
    add=api.add_mailbox,
    change=api.change_mailbox,
    delete=api.delete_mailbox,
    copy=api.copy_mailbox,
    choose_default=api.set_default_mailbox,
    after_delete="Its mail is fetched no more; what was fetched stays.",
    labels={
        "ssl_enabled": "TLS from the first byte",
        "username": "User name",
        "auth": "Authentication",
        "fetch_folders": "Folders",
        "fetch_interval_seconds": "Seconds between two fetches",
        "is_default": "Default",
        "active": "Active",
    },
    hints={
        "fetch_folders": "IMAP only, by comma. Empty: INBOX.",
        "fetch_interval_seconds": "Empty: the setting MAIL__FETCH__INTERVAL_SECONDS.",
    },
    begins_with={"protocol": "IMAP", "port": "993", "ssl_enabled": "yes", "active": "yes", "sequence": "100"},
    further=(("Test connection…", "test", True), ("Fetch now…", "fetch", True)),
    facts=lambda request, session, row: [
        (f"Folder {mark.folder_name}", f"read up to {mark.last_seen_uid}, last at {_when(mark.last_fetched_at)}")
        for mark in api.list_watermarks(row.id, session=session)
    ],
)


def _when(at: Any) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else "no time yet"


def _test(config_id: int) -> Tested:
    found = api.test_mailbox(config_id)
    missing = f"Folders that are not there: {', '.join(found.missing_folders)}." if found.missing_folders else ""
    return Tested(found.success, found.latency_ms, found.server_greeting, found.error_message, missing)


add_test(pages, "Connects, signs in, looks for the folders and says goodbye; fetches nothing.", _test)
pages.register()


@routes.get(f"{_PATH}/{{row_id}}/fetch", dependencies=[needs(Permission.OPERATE)])
def ask_fetch(request: Request, session: DbSession, row_id: Id) -> Response:
    """Whether it is to be fetched at once."""
    return ask_first(
        request,
        f"Fetch mailbox {row_id} now?",
        "What is new there is fetched within this request; it takes seconds.",
        verb="Fetch",
        action=f"{_PATH}/{row_id}/fetch",
        leave=f"{_PATH}/{row_id}",
        what={"Name": api.get_mailbox(row_id, session=session).name},
    )


@routes.post(f"{_PATH}/{{row_id}}/fetch", dependencies=[needs(Permission.OPERATE), talks()])
def fetch_mailbox_now(request: Request, row_id: Id) -> Response:
    """Fetch a mailbox at once, within the request."""
    try:
        count = api.fetch_new_mails(row_id)
    except ReceiveError as exc:
        return done(request, url(request, f"{_PATH}/{row_id}"), f"Nothing was fetched: {exc}.", is_refusal=True)
    return done(request, url(request, "/received"), f"{count} new {'mail' if count == 1 else 'mails'} fetched.")
