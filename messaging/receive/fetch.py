"""Fetches mailboxes: one configuration, all its folders, in the tenant that owns it (`receive.md` 2).

Not here: one folder (`imap_folder`), the draining of a POP3 mailbox (`drain`), when a mailbox is fetched (`polling`).
"""

import logging
import ssl
import time
from collections.abc import Callable

from sqlalchemy import Engine

from messaging import metrics, tenancy
from messaging.clock import Clock, Ticker, utc_now
from messaging.delivery.announcing import NOBODY, Announcer
from messaging.errors import ReceiveError
from messaging.files import FileStore
from messaging.receive.arrival import Reader
from messaging.receive.classify.chain import classify
from messaging.receive.connecting import MailboxConnector
from messaging.receive.drain import drain
from messaging.receive.imap import ImapConnector, ImapSession
from messaging.receive.imap_folder import fetch_folder
from messaging.receive.link import Linker
from messaging.receive.login import Login
from messaging.receive.mailbox import find_mailbox
from messaging.receive.oauth import Tokens
from messaging.receive.parse import ParseLimits, parse, parse_envelope
from messaging.receive.pop3 import MaildropBusy, Pop3Session
from messaging.receive.run import Run
from messaging.receive.store import Store
from messaging.receive.watermark import Watermarks
from messaging.settings import Settings

logger = logging.getLogger(__name__)


class Receiver:
    """Fetches the mailboxes of a process; any thread, several mailboxes at once."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        files: FileStore | None,
        *,
        clock: Clock = utc_now,
        ticker: Ticker = time.monotonic,
        ssl_context_factory: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        is_stopping: Callable[[], bool] = lambda: False,
        announcer: Announcer = NOBODY,
    ) -> None:
        """Connects to nothing. `files` None: neither attachments nor raw sources are kept.

        `is_stopping` is asked between messages: a fetch then ends as when its time is over, what it stored stays.
        """
        self._engine = engine
        self._settings = fetch = settings.mail.fetch
        self._ticker = ticker
        self._is_stopping = is_stopping
        limits = ParseLimits(
            max_message_bytes=fetch.max_message_bytes,
            max_attachment_bytes=fetch.max_attachment_bytes,
            max_mime_depth=fetch.max_mime_depth,
            max_mime_parts=fetch.max_mime_parts,
        )
        self._reader = Reader(limits, parse=parse, parse_envelope=parse_envelope, classify=classify, clock=clock)
        self._store = Store(engine, files, archive_eml=fetch.archive_eml, clock=clock)
        self._watermarks = Watermarks(engine, lease_timeout_seconds=fetch.lease_timeout_seconds)
        self._linker = Linker(engine, settings, announcer)
        self._tokens = Tokens(engine)
        self._connector = MailboxConnector(
            settings.mail.transport, ticker=ticker, ssl_context_factory=ssl_context_factory
        )
        self._imap = ImapConnector(self._connector)

    def fetch_mailbox(self, config_id: int) -> int:
        """Store what is new in a mailbox, disabled or not, a batch of each folder; answers how many mails that is.

        A folder that fails does not stop the others. Two workers at one mailbox at once do each other no harm.

        Raises:
            ReceiveError: There is no such mailbox; it cannot be reached; or no folder of it could be read.
            SQLAlchemyError: What the driver raises. Whatever is raised, what was stored stays.
        """
        mailbox = find_mailbox(self._engine, config_id)
        if mailbox is None:
            raise ReceiveError(f"there is no mailbox {config_id}")
        run = Run(
            mailbox=mailbox,
            settings=self._settings,
            reader=self._reader,
            store=self._store,
            watermarks=self._watermarks,
            ticker=self._ticker,
            until=self._ticker() + self._settings.time_budget_seconds,
            is_stopping=self._is_stopping,
        )
        with tenancy.tenant(mailbox.tenant_id):
            self._link(run)
            try:
                if mailbox.is_drained:
                    self._drain(run)
                else:
                    self._fetch_folders(run)
            except ReceiveError:
                metrics.fetch_failures(mailbox.login.protocol)
                raise
        return run.new_count

    def let_go(self) -> int:
        """Free the folders that are being fetched, as the process ends without waiting; answers how many those were."""
        return self._watermarks.release_all()

    def open_imap(self, login: Login) -> ImapSession:
        """A session that is logged in; the caller closes it. Raises: ReceiveError."""
        return self._tokens.log_in(login, lambda credential: self._imap.open(login, credential))

    def open_pop3(self, login: Login, *, deadline: float = float("inf")) -> Pop3Session:
        """A session that is logged in and locks the maildrop; the caller ends it.

        `deadline`: the ticker's seconds at which it breaks off.

        Raises: ReceiveError, of which MaildropBusy is one.
        """
        return self._tokens.log_in(
            login, lambda credential: Pop3Session.open(login, credential, self._connector, deadline=deadline)
        )

    def _drain(self, run: Run) -> None:
        # A message that is being read when the time is over is read to its end, yet not until others take the lease.
        spare_seconds = (self._settings.lease_timeout_seconds - self._settings.time_budget_seconds) / 2
        login, deadline = run.mailbox.login, run.until + spare_seconds
        try:
            drain(lambda: self.open_pop3(login, deadline=deadline), self._engine, run)
        except MaildropBusy as exc:
            logger.info("a mailbox is left for now: %s", exc, extra={"config_id": run.mailbox.config_id})
        if run.new_count:
            self._link(run)

    def _fetch_folders(self, run: Run) -> None:
        failures: list[ReceiveError] = []
        connection = _Connection(lambda: self.open_imap(run.mailbox.login))
        try:
            for name in run.mailbox.folders:
                if run.is_over:
                    break
                session, stored_before = connection.session(), run.new_count
                try:
                    self._fetch_folder(connection, session, run, name)
                except ReceiveError as exc:
                    logger.warning("a folder could not be fetched: %s", exc, extra={"config_id": run.mailbox.config_id})
                    failures.append(exc)
                if run.new_count > stored_before:
                    self._link(run)
        finally:
            connection.close()
        if failures and len(failures) == len(run.mailbox.folders):
            raise failures[0]
        if failures:
            metrics.fetch_failures(run.mailbox.login.protocol)

    def _fetch_folder(self, connection: "_Connection", session: ImapSession, run: Run, name: str) -> None:
        try:
            fetch_folder(session, run, name)
        except ReceiveError:
            if session.is_usable or run.is_over:
                raise
            # It broke: once more, mail by mail, so that those before the one at which the server breaks get in.
            fetch_folder(connection.session(), run, name, group_mails=1)

    def _link(self, run: Run) -> None:
        """Tie what waits in this mailbox to the records it is about."""
        mailbox = run.mailbox
        self._linker.link_pending(
            mailbox.config_id, owner_tenant_id=mailbox.tenant_id, limit=self._settings.batch_limit
        )


class _Connection:
    """A session that is opened again where it broke. `open_` raises ReceiveError."""

    def __init__(self, open_: Callable[[], ImapSession]) -> None:
        self._open = open_
        self._session = open_()

    def session(self) -> ImapSession:
        if not self._session.is_usable:
            self._session.close()
            self._session = self._open()
        return self._session

    def close(self) -> None:
        self._session.close()
