"""Whether a mailbox answers, takes the login and has the folders it is to be read from (`receive.md` 15).

The same code path as a fetch, which fetches nothing and takes no lease.
"""

import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from messaging.clock import Ticker
from messaging.config_cache import own_config
from messaging.errors import ReceiveError
from messaging.receive.connecting import MailboxConnector
from messaging.receive.imap import ImapConnector
from messaging.receive.login import Credential, Login, login_of
from messaging.receive.mailbox_admin import WHAT
from messaging.receive.mailbox_checks import drains, folders
from messaging.receive.models import MAIL_RECEIVE_SERVER_CONFIG
from messaging.receive.oauth import Tokens
from messaging.receive.pop3 import Pop3Session
from messaging.settings import MailTransportSettings

#: Seconds that one answer may take: somebody waits for the test.
MAX_ANSWER_SECONDS = 10.0
#: Longest greeting that is shown, in characters.
MAX_GREETING_CHARS = 500


@dataclass(frozen=True, slots=True)
class MailboxConnectivity:
    """What came of a test. Holds no secret."""

    #: Whether a fetch would find the mailbox and all its folders.
    success: bool
    #: Milliseconds until that was known.
    latency_ms: int
    #: The server's first line; None: there was none.
    server_greeting: str | None
    #: The server's words, or what the network says; None on success.
    error_message: str | None
    #: Folders that are to be read and are not there. POP3 has none but the INBOX.
    missing_folders: tuple[str, ...] = ()


def probe_mailbox(
    engine: Engine,
    limits: MailTransportSettings,
    config_id: int,
    *,
    ticker: Ticker = time.monotonic,
    ssl_context_factory: Callable[[], ssl.SSLContext] = ssl.create_default_context,
) -> MailboxConnectivity:
    """Connect, log in, look for the folders and log out, with a mailbox of the current tenant, disabled or not.

    Raises:
        RecordNotFound: No such mailbox in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config = own_config(engine, MAIL_RECEIVE_SERVER_CONFIG, config_id, what=WHAT)
    patience = min(limits.read_timeout_seconds, MAX_ANSWER_SECONDS)
    connector = MailboxConnector(
        limits.model_copy(update={"read_timeout_seconds": patience}),
        ticker=ticker,
        ssl_context_factory=ssl_context_factory,
    )
    probe = _Probe(connector)
    began = ticker()
    error: str | None = None
    missing: tuple[str, ...] = ()
    try:
        login = login_of(config)
        wanted = [] if drains(login.protocol) else folders(config["fetch_folders"])
        missing = Tokens(engine).log_in(login, lambda credential: probe.look(login, credential, wanted))
    except ReceiveError as exc:
        error = str(exc)
    if missing:
        error = f"the login is taken, and there is no folder {', '.join(missing)}"
    return MailboxConnectivity(
        success=error is None,
        latency_ms=round((ticker() - began) * 1000),
        server_greeting=None if probe.greeting is None else probe.greeting[:MAX_GREETING_CHARS],
        error_message=error,
        missing_folders=missing,
    )


class _Probe:
    def __init__(self, connector: MailboxConnector) -> None:
        self._connector = connector
        #: Also of a server that takes no login.
        self.greeting: str | None = None

    def look(self, login: Login, credential: Credential, wanted: Sequence[str]) -> tuple[str, ...]:
        """Those of the wanted folders that are not there. Raises: ReceiveError."""
        if drains(login.protocol):
            maildrop = Pop3Session(login, self._connector)
            try:
                self.greeting = maildrop.greeting
                maildrop.log_in(credential)
                maildrop.quit()
            finally:
                maildrop.close()
            return ()
        session = ImapConnector(self._connector).connect(login)
        try:
            self.greeting = session.greeting
            session.log_in(credential)
            return tuple(name for name in wanted if session.examine(name) is None)
        finally:
            session.close()
