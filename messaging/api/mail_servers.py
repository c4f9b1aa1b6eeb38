"""Servers that mail goes out by: kept by operators, tried."""

from typing import Unpack

from sqlalchemy.orm import Session

from messaging.api.calls import in_session, note_trial
from messaging.api.process import environment
from messaging.config_lists import Lines, ListFields
from messaging.mail import connectivity, server_admin
from messaging.mail.connectivity import Connectivity
from messaging.mail.models import MAIL_SEND_SERVER_CONFIG
from messaging.mail.server_admin import Sender, ServerLine
from messaging.mail.server_checks import ServerFields


def add_mail_server(*, session: Session | None = None, **fields: Unpack[ServerFields]) -> int:
    """Add a mail server of this tenant; answers its id. See `messaging.mail.server_admin` for what follows.

    Raises:
        ConfigRejected: A field cannot be saved; names field and value. Nothing was written.
    """
    environment()
    with in_session(session) as s:
        return server_admin.add_server(s, **fields)


def change_mail_server(config_id: int, *, session: Session | None = None, **fields: Unpack[ServerFields]) -> None:
    """Change fields of a mail server; the next attempt of each record that uses it goes by them within a second.

    Raises:
        ConfigRejected: A field cannot be saved; nothing was changed.
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        server_admin.change_server(s, config_id, **fields)


def list_mail_servers(*, session: Session | None = None, **asked: Unpack[ListFields]) -> Lines[ServerLine]:
    """This tenant's mail servers in the order in which they are chosen, without secrets.

    Raises: ValueError, TypeError, naming what was asked and what is allowed.
    """
    environment()
    with in_session(session) as s:
        return server_admin.list_servers(s, **asked)


def get_mail_server(config_id: int, *, session: Session | None = None) -> ServerLine:
    """One mail server of this tenant, disabled or not, without secrets. Raises: RecordNotFound."""
    environment()
    with in_session(session) as s:
        return server_admin.get_server(s, config_id)


def list_senders(*, session: Session | None = None) -> list[Sender]:
    """Who mail of this tenant may be from: its enabled servers in the order in which they are chosen."""
    environment()
    with in_session(session) as s:
        return server_admin.list_senders(s)


def copy_mail_server(config_id: int, *, session: Session | None = None, **fields: Unpack[ServerFields]) -> int:
    """Add a mail server like another one of this tenant, but for the fields given; answers its id.

    Password and DKIM are not copied; unless it is said otherwise the copy is disabled and no default.

    Raises:
        ConfigRejected: A field cannot be saved. Nothing was written.
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        return server_admin.copy_server(s, config_id, **fields)


def delete_mail_server(config_id: int, *, session: Session | None = None) -> None:
    """Delete a mail server; what still has to go out by it fails. See `messaging.mail.server_admin.delete_server`.

    Raises:
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        server_admin.delete_server(s, config_id)


def set_mail_server_active(config_id: int, is_active: bool, *, session: Session | None = None) -> None:
    """Disable a mail server or enable it again; what was prepared with it goes out in any case.

    Raises:
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        server_admin.set_server_active(s, config_id, is_active)


def set_default_mail_server(config_id: int, *, session: Session | None = None) -> None:
    """Make a mail server this tenant's default in the place of any other.

    Raises:
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
        StateError: It is disabled.
    """
    environment()
    with in_session(session) as s:
        server_admin.set_default_server(s, config_id)


def test_connectivity(config_id: int) -> Connectivity:
    """Try a mail server of this tenant, disabled or not: connect, EHLO, TLS, AUTH, QUIT. Sends nothing; takes seconds.

    Raises:
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    here = environment()
    found = connectivity.probe_server(here.engine, here.settings.mail, config_id)
    note_trial(MAIL_SEND_SERVER_CONFIG, config_id, success=found.success, error=found.error_message)
    return found


#: A name that pytest would take for a test of whoever imports it.
test_connectivity.__test__ = False  # type: ignore[attr-defined]
