"""Mailboxes that mail is fetched from: kept by operators, tried, fetched."""

from typing import Unpack

from sqlalchemy.orm import Session

from messaging.api.calls import in_session, note_trial
from messaging.api.process import environment
from messaging.config_lists import Lines, ListFields
from messaging.errors import ReceiveError
from messaging.receive import mailbox_admin
from messaging.receive.connectivity import MailboxConnectivity, probe_mailbox
from messaging.receive.fetch import Receiver
from messaging.receive.mailbox import resolve_mailbox
from messaging.receive.mailbox_admin import MailboxLine, WatermarkLine
from messaging.receive.mailbox_checks import MailboxFields
from messaging.receive.models import MAIL_RECEIVE_SERVER_CONFIG
from messaging.webhooks.announcing import AT_HAND


def add_mailbox(*, session: Session | None = None, **fields: Unpack[MailboxFields]) -> int:
    """Add a mailbox of this tenant; answers its id. Beat's next tick fetches it. With POP3 fetching drains it.

    Raises:
        ConfigRejected: A field cannot be saved; names field and value. Nothing was written.
    """
    environment()
    with in_session(session) as s:
        return mailbox_admin.add_mailbox(s, **fields)


def change_mailbox(config_id: int, *, session: Session | None = None, **fields: Unpack[MailboxFields]) -> None:
    """Change fields of a mailbox; the next fetch goes by them.

    Raises:
        ConfigRejected: A field cannot be saved; nothing was changed.
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        mailbox_admin.change_mailbox(s, config_id, **fields)


def copy_mailbox(config_id: int, *, session: Session | None = None, **fields: Unpack[MailboxFields]) -> int:
    """Add a mailbox like another one of this tenant, but for the fields given; answers its id.

    The password is not copied; unless it is said otherwise the copy is disabled and no default.

    Raises:
        ConfigRejected: A field cannot be saved, or a password is needed. Nothing was written.
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        return mailbox_admin.copy_mailbox(s, config_id, **fields)


def delete_mailbox(config_id: int, *, session: Session | None = None) -> None:
    """Delete a mailbox; the mails that came from it stay. See `messaging.receive.mailbox_admin.delete_mailbox`.

    Raises:
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        mailbox_admin.delete_mailbox(s, config_id)


def list_mailboxes(*, session: Session | None = None, **asked: Unpack[ListFields]) -> Lines[MailboxLine]:
    """This tenant's mailboxes in the order in which they are polled, without secrets.

    Raises: ValueError, TypeError, naming what was asked and what is allowed.
    """
    environment()
    with in_session(session) as s:
        return mailbox_admin.list_mailboxes(s, **asked)


def get_mailbox(config_id: int, *, session: Session | None = None) -> MailboxLine:
    """One mailbox of this tenant, disabled or not, without secrets. Raises: RecordNotFound."""
    environment()
    with in_session(session) as s:
        return mailbox_admin.get_mailbox(s, config_id)


def set_mailbox_active(config_id: int, is_active: bool, *, session: Session | None = None) -> None:
    """Disable a mailbox, which ends its polling, or enable it again; what was fetched stays.

    Raises:
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        mailbox_admin.set_mailbox_active(s, config_id, is_active)


def set_default_mailbox(config_id: int, *, session: Session | None = None) -> None:
    """Make a mailbox the one that `fetch_new_mails` takes when none is named, in the place of any other.

    Raises:
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
        StateError: It is disabled.
    """
    environment()
    with in_session(session) as s:
        mailbox_admin.set_default_mailbox(s, config_id)


def list_watermarks(config_id: int | None = None, *, session: Session | None = None) -> list[WatermarkLine]:
    """How far each folder of a mailbox of this tenant was read, and who reads it now; None is all mailboxes.

    Raises:
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        return mailbox_admin.list_watermarks(s, config_id)


def fetch_new_mails(config_id: int | None = None) -> int:
    """Fetch a mailbox of this tenant now, disabled or not, and answer how many mails are new; takes its time.

    None is this tenant's default mailbox, else the platform's: then the mails are the platform's, and the tenant gets
    their count alone. At most a batch of each folder; what another worker is fetching is left to it.

    Raises:
        ReceiveError: No mailbox is a default; or it cannot be reached, or read.
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    here = environment()
    chosen = resolve_mailbox(here.engine, config_id)
    receiver = Receiver(here.engine, here.settings, here.files, announcer=AT_HAND)
    try:
        new = receiver.fetch_mailbox(chosen)
    except ReceiveError as exc:
        note_trial(MAIL_RECEIVE_SERVER_CONFIG, chosen, success=False, error=str(exc), action="fetch")
        raise
    note_trial(MAIL_RECEIVE_SERVER_CONFIG, chosen, success=True, error=None, action="fetch", new=new)
    return new


def test_mailbox(config_id: int) -> MailboxConnectivity:
    """Try a mailbox of this tenant, disabled or not: connect, TLS, login, its folders. Fetches nothing; takes seconds.

    Raises:
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    here = environment()
    found = probe_mailbox(here.engine, here.settings.mail.transport, config_id)
    note_trial(MAIL_RECEIVE_SERVER_CONFIG, config_id, success=found.success, error=found.error_message)
    return found


#: A name that pytest would take for a test of whoever imports it.
test_mailbox.__test__ = False  # type: ignore[attr-defined]
