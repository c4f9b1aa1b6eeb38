"""One IMAP folder, one batch: lease, search, look, the bodies of what is not known, store, advance (`receive.md` 4).

A body is asked for once it is known that its mail is not stored: the header tells. Where the UIDs cannot be known, as
in every fetch of a folder after its first, a small mail comes with the look itself, which costs no more than its header
and saves a round trip; a folder read for the first time or numbered anew has every header looked at first, unless
nothing of the mailbox is stored.

The watermark only ever names a UID up to which everything is stored, known, or gone from the server.
"""

import logging
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from messaging.errors import ReceiveError
from messaging.receive.arrival import Arrival, Incoming, Origin
from messaging.receive.headers import parse_headers
from messaging.receive.hold import Hold, Superseded
from messaging.receive.imap import MAX_HEADER_BYTES, Head, ImapSession
from messaging.receive.message_ids import spelled
from messaging.receive.record import cut
from messaging.receive.run import Run
from messaging.receive.store import Stored
from messaging.receive.storing import Storing, store

logger = logging.getLogger(__name__)

#: Mails that are asked for in one command and stored in one transaction, and their octets together as reported.
GROUP_MAILS, GROUP_BYTES = 50, 1_048_576
#: Octets of one mail that come with a group, whatever size its server reported: what is longer is asked for alone.
GROUP_MAIL_BYTES = 1_048_576
#: Octets up to which a mail comes whole with the first look at it: of a longer one these are its header, or more.
LOOK_BYTES = 8_192
#: Mails that are looked at in one command, and stored in one transaction where all of them are small.
LOOK_MAILS = 250


@dataclass(slots=True)
class _Step:
    """Some neighbours of a batch, in the order of their UIDs."""

    #: Those whose bodies are wanted.
    heads: list[Head] = field(default_factory=list)
    #: Done with this step, those that are known or gone among them.
    last_uid: int = 0
    octets: int = 0


def fetch_folder(session: ImapSession, run: Run, folder_name: str, *, group_mails: int = GROUP_MAILS) -> None:
    """Store what is new in a folder, a batch at most; `run` counts it. A folder that another worker holds is left.

    `group_mails`: how many mails may be asked for at once.

    Raises:
        ReceiveError: The server failed. What was stored stays, and the lease is free.
        SQLAlchemyError: The database did, likewise; the lease is free unless it could not be written either.
    """
    hold = Hold.take(run, folder_name)
    if hold is not None:
        with hold:
            _Batch(session, run, hold, group_mails).fetch()


class _Batch:
    def __init__(self, session: ImapSession, run: Run, hold: Hold, group_mails: int) -> None:
        self._session = session
        self._run = run
        self._hold = hold
        self._folder_name = hold.folder_name
        self._lease = hold.lease
        self._group_mails = group_mails

    def fetch(self) -> None:
        config_id, tenant_id = self._run.mailbox.config_id, self._run.mailbox.tenant_id
        folder = self._session.examine(self._folder_name)
        if folder is None:
            logger.warning("a folder is not there", extra={"config_id": config_id, "folder": self._folder_name})
            return
        if folder.uid_validity is None:
            where = self._run.mailbox.login.where
            raise ReceiveError(f"{where}: folder {self._folder_name!r} has no UIDVALIDITY")
        is_known_numbering = self._lease.uid_validity == folder.uid_validity
        self._check_validity(folder.uid_validity)
        uids = self._session.uids_after(self._lease.last_seen_uid)[: self._run.settings.batch_limit]
        if not uids:
            return
        origin = Origin(config_id, tenant_id, self._folder_name, folder.uid_validity)
        if self._group_mails == 1 or self._run.store.may_know(origin, uids[0], is_known_numbering=is_known_numbering):
            self._take_all(origin, uids, self._unknown(origin, self._heads(uids)))
        else:
            self._look_at_all(origin, uids)

    def _check_validity(self, uid_validity: int) -> None:
        known = self._lease.uid_validity
        if known is None:
            is_mine = self._lease.adopt(uid_validity)
        elif known != uid_validity:
            extra = {"config_id": self._run.mailbox.config_id, "folder": self._folder_name}
            logger.warning("a folder's UIDVALIDITY changed from %d to %d", known, uid_validity, extra=extra)
            is_mine = self._lease.reset(uid_validity)
        else:
            return
        if not is_mine:
            raise Superseded

    def _look_at_all(self, origin: Origin, uids: Sequence[int]) -> None:
        """Group by group: small mails are there with the look at them, of the others their headers come first."""
        limit = min(self._run.settings.max_message_bytes, LOOK_BYTES)
        groups = [uids[start : start + LOOK_MAILS] for start in range(0, len(uids), LOOK_MAILS)]
        with Storing(self._run, self._hold) as storing:
            for group, heads in self._session.look_at(groups, limit):
                small = {head.uid: head for head in heads if _is_small(head, limit)}
                if len(small) == len(group):
                    storing.begin()
                    storing.add(list(self._arrivals(origin, heads, self._bodies(heads))), group[-1])
                else:
                    storing.finish()
                    others = self._heads([uid for uid in group if uid not in small], heads)
                    self._take_all(origin, group, small | self._unknown(origin, others))
                if self._run.is_over:
                    break

    def _heads(self, uids: Sequence[int], looked_at: Sequence[Head] = ()) -> dict[int, Head]:
        """All of these, with what is known of them."""
        found = {head.uid: replace(head, octets=None) for head in looked_at if head.header}
        # A message without a header in the answer is gone, or the server's answer is odd: its body tells.
        missing = [uid for uid in uids if uid not in found]
        found |= {uid: Head(uid, None, None, b"") for uid in missing} | self._session.heads(missing)
        return {uid: found[uid] for uid in uids}

    def _unknown(self, origin: Origin, heads: Mapping[int, Head]) -> dict[int, Head]:
        """Those whose bodies are needed: to store them, or to tell whether they are what is stored."""
        keys = {uid: spelled(parse_headers(head.header).first("Message-ID")) for uid, head in heads.items()}
        known = self._run.store.known(origin.config_id, (key for key in keys.values() if key))
        return {
            uid: head
            for uid, head in heads.items()
            if (stored := known.get(keys[uid] or "")) is None or not self._is_stored(origin, head, stored)
        }

    def _is_stored(self, origin: Origin, head: Head, stored: Stored) -> bool:
        """Whether a message is surely the stored one with its Message-ID, as far as that can be told by its header."""
        if (stored.folder_name, stored.uid_validity) == (origin.folder_name, origin.uid_validity):
            # Of two messages in one folder each has its own body, which may differ.
            return stored.server_uid == str(head.uid)
        mail = self._run.reader.envelope(head.header)
        return (
            mail is not None
            and (stored.size is None or stored.size == head.size)
            and stored.from_address == cut(mail.from_address, 255)
            and stored.subject == cut(mail.subject, 500)
            and stored.date_header == cut(mail.date_header, 255)
            # Copies and moves keep it (RFC 3501, 6.4.7), as does a folder that is numbered anew.
            and (head.internal_date is None or stored.received_at == head.internal_date)
        )

    def _take_all(self, origin: Origin, uids: Sequence[int], wanted: Mapping[int, Head]) -> None:
        """Store those that are wanted of these."""
        for step in _steps(uids, wanted, self._group_mails):
            if self._run.is_over:
                break
            self._take(origin, step)

    def _take(self, origin: Origin, step: _Step) -> None:
        self._hold.keep_alive()
        bodies = self._bodies(step.heads)
        for heads in _runs(step.heads, bodies):
            if self._run.is_over and heads[0].uid not in bodies:
                return
            store(self._run, self._hold, list(self._arrivals(origin, heads, bodies)))
        self._hold.done_uid = step.last_uid
        self._hold.keep_alive()

    def _bodies(self, heads: Sequence[Head]) -> dict[int, bytes]:
        """Those of several mails that come together; not those that are longer than their server said."""
        max_bytes = self._run.settings.max_message_bytes
        limit = min(max_bytes, GROUP_MAIL_BYTES)
        bodies = {head.uid: head.octets for head in heads if head.octets is not None}
        uids = [head.uid for head in heads if (head.size or 0) <= max_bytes and head.uid not in bodies]
        if len(uids) >= 2:
            found = self._session.bodies(uids, limit)
            bodies |= {uid: octets for uid, octets in found.items() if len(octets) <= limit or limit == max_bytes}
        return bodies

    def _arrivals(self, origin: Origin, heads: Sequence[Head], bodies: dict[int, bytes]) -> Iterator[Arrival]:
        """What is still there of these, read; what has not come yet is asked for alone."""
        max_bytes = self._run.settings.max_message_bytes
        for head in heads:
            octets, is_whole = head.header, False
            if (head.size or 0) <= max_bytes:
                body = bodies.pop(head.uid, None)
                if body is None:
                    body = self._session.bodies([head.uid], max_bytes).get(head.uid, b"")
                if not body and head.size != 0:
                    continue  # expunged since the search
                if len(body) <= max_bytes:
                    octets, is_whole = body, True
                elif not octets:
                    octets = body[:MAX_HEADER_BYTES]
            incoming = Incoming(str(head.uid), head.size, octets, is_whole, head.internal_date)
            yield self._run.reader.read(origin, incoming)


def _is_small(head: Head, limit: int) -> bool:
    """Whether a message that was looked at came whole: then it is not longer than was asked for, whatever is said."""
    return head.octets is not None and 0 < len(head.octets) <= limit and (head.size or 0) <= limit


def _runs(heads: Sequence[Head], together: Container[int]) -> Iterator[list[Head]]:
    """Neighbours that came together, and each other one alone: a server that lies about sizes fills no memory."""
    run: list[Head] = []
    for head in heads:
        if head.uid in together:
            run.append(head)
            continue
        if run:
            yield run
        yield [head]
        run = []
    if run:
        yield run


def _steps(uids: Sequence[int], wanted: Mapping[int, Head], group_mails: int) -> Iterator[_Step]:
    step = _Step()
    for uid in uids:
        head = wanted.get(uid)
        if head is not None:
            octets = head.size or GROUP_BYTES
            if step.heads and (len(step.heads) == group_mails or step.octets + octets > GROUP_BYTES):
                yield step
                step = _Step()
            step.heads.append(head)
            step.octets += octets
        step.last_uid = uid
    yield step
