"""Drains a POP3 mailbox: what is stored is deleted from the server, and nothing else is (`receive.md` 5).

A message is marked for deletion once its row is committed, and deleted at QUIT. A crash before that leaves everything
on the server; the next run finds it stored and deletes it.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from sqlalchemy import Engine

from messaging.errors import ReceiveError
from messaging.receive.arrival import Incoming, Origin
from messaging.receive.headers import parse_headers
from messaging.receive.hold import Hold
from messaging.receive.identity import body_of
from messaging.receive.mailbox_checks import INBOX
from messaging.receive.message_ids import spelled
from messaging.receive.pop3 import MAX_HEADER_BYTES, CommandRefused, Entry, MaildropBusy, Pop3Session, TooLong
from messaging.receive.run import Run
from messaging.receive.stored_uids import StoredUid, find_stored
from messaging.receive.vocabulary import TruncationReason

logger = logging.getLogger(__name__)

#: Sessions of one run: one more after each message that has no end.
MAX_SESSIONS = 5
#: Messages of one run that the server refuses to give out.
MAX_REFUSED = 1000
#: Ids that are looked up at once.
LOOK_UP_UIDS = 1000

#: Fields that some servers write into a message once it was read.
_STATUS = re.compile(rb"^(?:X-)?Status:[^\n]*\n", re.IGNORECASE | re.MULTILINE)


def drain(open_session: Callable[[], Pop3Session], engine: Engine, run: Run) -> None:
    """Store what is in the maildrop, a batch at most, and delete it there; `run` counts it.

    A mailbox that another worker holds is left.

    Raises:
        MaildropBusy: Another session has the maildrop.
        ReceiveError: The server failed. What was stored stays, and the lease is free.
        SQLAlchemyError: The database did, likewise. What was stored before is deleted from the server.
    """
    hold = Hold.take(run, INBOX)
    if hold is not None:
        with hold:
            _Drain(open_session, engine, run, hold).drain()


class _Drain:
    def __init__(self, open_session: Callable[[], Pop3Session], engine: Engine, run: Run, hold: Hold) -> None:
        self._open_session = open_session
        self._engine = engine
        self._run = run
        self._hold = hold
        self._origin = Origin(run.mailbox.config_id, run.mailbox.tenant_id, INBOX)
        #: Messages that were read in this run; those that are kept on the server cost no place.
        self._taken = 0
        self._refused = 0
        #: Number and id of what is stored and still to be deleted, as its session was broken off.
        self._left_over: set[tuple[int, str | None]] = set()
        #: Likewise of messages at which a session broke.
        self._stuck: set[tuple[int, str | None]] = set()
        #: Numbers of messages whose header has no end.
        self._endless_headers: set[int] = set()

    def drain(self) -> None:
        failure: ReceiveError | None = None
        for _ in range(MAX_SESSIONS):
            try:
                session = self._open_session()
            except MaildropBusy:
                # Some servers take a while to see that the session before is gone.
                if failure is not None:
                    break
                raise
            stuck_before = len(self._stuck)
            try:
                self._go_through(session)
            except TooLong:
                # The rest of an answer is still to come, and there is no way to call it off.
                session.close()
            except ReceiveError as exc:
                session.close()
                failure = exc
                if len(self._stuck) == stuck_before:
                    raise
                # At one message: the others are no worse, and must not wait for it for ever.
            except BaseException:
                # Nothing is wrong with the session: what was stored before is deleted.
                with suppress(ReceiveError):
                    session.quit()
                raise
            else:
                self._quit(session)
                break
        if failure is not None:
            raise failure

    def _quit(self, session: Pop3Session) -> None:
        try:
            session.quit()
        except CommandRefused as exc:
            logger.warning("not everything was deleted: %s", exc, extra={"config_id": self._origin.config_id})

    def _go_through(self, session: Pop3Session) -> None:
        """Raises: TooLong, where the session is over and another one may go on."""
        for entry, uid, stored in self._identified(session, session.entries()):
            if self._run.is_over or self._taken >= self._run.settings.batch_limit or self._refused >= MAX_REFUSED:
                return
            if (entry.number, uid) in self._stuck or (stored is not None and stored.is_unparsed):
                continue
            try:
                self._take(session, entry, uid, stored)
            except CommandRefused as exc:
                # Of this message: another session deleted it, or the server cannot read it. It costs no place, as it
                # will be refused again; so many do, as each costs a round trip.
                self._refused += 1
                logger.warning("a message is left: %s", exc, extra={"config_id": self._origin.config_id})
            except TooLong:
                raise
            except ReceiveError:
                self._stuck.add((entry.number, uid))
                raise

    def _identified(
        self, session: Pop3Session, entries: Sequence[Entry]
    ) -> Iterator[tuple[Entry, str | None, StoredUid | None]]:
        """Each message with the id it is known by, and what is stored under that."""
        rest = iter(entries)
        while some := list(islice(rest, LOOK_UP_UIDS)):
            stored = find_stored(self._engine, self._origin.config_id, [entry.uid for entry in some if entry.uid])
            for entry in some:
                if entry.uid is not None:
                    yield entry, entry.uid, stored.get(entry.uid)
                    continue
                uid = self._uid_of_header(session, entry)
                yield entry, uid, None if uid is None else self._find(uid)

    def _uid_of_header(self, session: Pop3Session, entry: Entry) -> str | None:
        """In place of the id that a server without UIDL does not give; None where there is no header to make it of."""
        if entry.number in self._endless_headers:
            return None
        try:
            header = session.header(entry.number)
        except CommandRefused:
            return None
        except TooLong:
            self._endless_headers.add(entry.number)
            raise
        return f"top:{_digest(_STATUS.sub(b'', header))}"

    def _find(self, uid: str) -> StoredUid | None:
        return find_stored(self._engine, self._origin.config_id, [uid]).get(uid)

    def _take(self, session: Pop3Session, entry: Entry, uid: str | None, stored: StoredUid | None) -> None:
        if (entry.number, uid) in self._left_over:
            session.delete(entry.number)
            return
        try:
            if stored is not None and _is_same(session, entry, stored):
                session.delete(entry.number)
                return
            incoming = self._retrieved(session, entry, uid)
        except TooLong as exc:
            self._keep(Incoming(uid or _uid_of(exc.begin), entry.size, _header_of(exc.begin), is_whole=False))
            self._left_over.add((entry.number, uid))
            raise
        if uid is None:
            stored = self._find(incoming.server_uid)
            if stored is not None and stored.is_unparsed:
                return
        if self._keep(incoming):
            session.delete(entry.number)

    def _retrieved(self, session: Pop3Session, entry: Entry, uid: str | None) -> Incoming:
        max_bytes = self._run.settings.max_message_bytes
        if entry.size is not None and entry.size > max_bytes:
            try:
                header = session.header(entry.number)
                return Incoming(uid or _uid_of(header), entry.size, header, is_whole=False)
            except CommandRefused:
                # Without TOP the header is the beginning of the message, after which the session is over.
                max_bytes = min(max_bytes, MAX_HEADER_BYTES)
        octets = session.retrieve(entry.number, max_bytes)
        return Incoming(uid or _uid_of(octets), entry.size, octets)

    def _keep(self, incoming: Incoming) -> bool:
        """Store it; answers whether the server's copy may go. Raises: what the driver raises; Superseded."""
        [kept] = self._run.keep([self._run.reader.read(self._origin, incoming)])
        self._taken += 1
        self._hold.stored()
        self._hold.keep_alive()
        # What nobody could parse has its text in no column: without its source as a file the only copy is the server's.
        return kept.arrival.truncation_reason is not TruncationReason.PARSE_FAILED or kept.is_archived


def _is_same(session: Pop3Session, entry: Entry, stored: StoredUid) -> bool:
    """Whether a message is surely the stored one with its id: servers have given an id to another message later on.

    Where that is not sure it is read again, and then its content tells.
    """
    try:
        key = spelled(parse_headers(session.header(entry.number)).first("Message-ID"))
    except CommandRefused:
        return False
    return key is not None and stored.has_key(key)


def _uid_of(octets: bytes) -> str:
    return f"retr:{_digest(octets)}"


def _digest(octets: bytes) -> str:
    return hashlib.sha256(octets).hexdigest()[:40]


def _header_of(octets: bytes) -> bytes:
    """The header block with the blank line after it, of the beginning of a message."""
    return octets[: len(octets) - len(body_of(octets))][:MAX_HEADER_BYTES]
