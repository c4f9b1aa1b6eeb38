"""Received mails in the database, each once (`receive.md` 6): which are known, and keeping those that are not.

Each mail, or a small group of them, is a short transaction of its own: files, row and what the linker has to do. What a
store behind a URL gets is written before it begins, so no transaction waits for a network. Not here: reading a mail
(`arrival`).
"""

import contextlib
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, Connection, Engine, String, any_, bindparam, exists, select, text
from sqlalchemy.exc import DBAPIError

from messaging import metrics
from messaging.clock import Clock, utc_now
from messaging.db.engine import autocommitting
from messaging.db.trouble import is_away, sqlstate
from messaging.errors import PreparationError, ReceiveError
from messaging.files import FileStore, LaidFile
from messaging.receive.archive import EML_TYPE, eml_name, is_archived
from messaging.receive.arrival import Arrival, Origin
from messaging.receive.charsets import storable
from messaging.receive.models import MAIL_RECEIVE_RECORD
from messaging.receive.record import insertion, row_of

logger = logging.getLogger(__name__)

#: Times that a group begins anew because somebody else stored one of its mails meanwhile.
MAX_RACES = 5
#: SQLSTATE classes that speak of the values: data exception, integrity, a limit of PostgreSQL's such as a JSON's depth.
_ABOUT_THE_VALUES = frozenset({"22", "23", "54"})
#: Characters of rows as JSON that are sent at once. PostgreSQL breaks the connection at 1 GiB, which looks as if it
#: were away; a text of nothing but control characters is six times as long there.
MAX_ROWS_CHARS = 256 * 1_048_576
#: Of a body that is one control character after the other, in html and in the text derived from it.
MAX_CHARS_OF_OCTET = 12
#: What JSON spells with six characters.
_CONTROLS = [chr(code) for code in range(0x20) if chr(code) not in "\b\f\n\r\t"]
#: Octets of mails from which on a statement gets more time than others, and how much: a mail that takes longer than
#: `DATABASE__STATEMENT_TIMEOUT_SECONDS` whenever it is tried would stand in the way of all behind it.
QUICK_OCTETS, MILLISECONDS_PER_MIB = 4 * 1_048_576, 1_000

#: For the rest of the transaction; what gives more time, or endless time ('0'), stays. Parameter `milliseconds`.
_GIVE_TIME = text("""
    SELECT set_config('statement_timeout', CAST(CAST(:milliseconds AS bigint) AS text), true)
    WHERE current_setting('statement_timeout') <> '0'
        AND CAST(current_setting('statement_timeout') AS interval) < :milliseconds * interval '1 millisecond'
""")

_t = MAIL_RECEIVE_RECORD.c
_STORED = select(
    _t.id,
    _t.message_id,
    _t.folder_name,
    _t.server_uid,
    _t.uid_validity,
    _t.size,
    _t.content_sha256,
    _t.from_address,
    _t.subject,
    _t.date_header,
    _t.received_at,
).where(_t.server_config_id == bindparam("config_id"), _t.message_id == any_(bindparam("keys", type_=ARRAY(String))))

_IS_ANY_STORED = select(exists().where(_t.server_config_id == bindparam("config_id")))
_IS_UID_STORED = select(
    exists().where(
        _t.server_config_id == bindparam("config_id"),
        _t.server_uid == bindparam("uid"),
        _t.folder_name == bindparam("folder_name"),
        _t.uid_validity == bindparam("uid_validity"),
    )
)


@dataclass(frozen=True, slots=True)
class Stored:
    """What is asked of a stored mail to tell whether another one is the same."""

    record_id: int
    message_id: str
    folder_name: str
    server_uid: str | None
    uid_validity: int | None
    size: int | None
    #: None where its body was never transferred.
    content_sha256: str | None
    from_address: str | None
    subject: str | None
    date_header: str | None
    received_at: datetime

    def is_same(self, arrival: Arrival) -> bool:
        """Whether it is the same mail, given that it has the same key."""
        if self.content_sha256 is not None and arrival.content_sha256 is not None:
            return self.content_sha256 == arrival.content_sha256
        return self.size is None or arrival.incoming.size is None or self.size == arrival.incoming.size


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of an arrival; it is committed."""

    arrival: Arrival
    #: Of its row, or of the row that the same mail had before.
    record_id: int
    #: False for a mail that was stored before: it is not counted, and not linked again.
    is_new: bool
    #: Whether its raw source is a stored file now.
    is_archived: bool = False


@dataclass(slots=True)
class _Plan:
    """What to write for one arrival."""

    arrival: Arrival
    key: str
    duplicate_of: int | None
    #: Content at its place, name, type and Content-ID of each attachment.
    files: list[tuple[LaidFile, str, str | None, str | None]] = field(default_factory=list)
    eml: LaidFile | None = None

    def laid(self) -> Iterator[LaidFile]:
        yield from (file for file, *_ in self.files)
        if self.eml is not None:
            yield self.eml


class _Overtaken(Exception):
    """Somebody else has just stored one of these mails."""


class _TooMuch(Exception):
    """The database cannot be sent these mails at once."""


class Store:
    """Where received mails are kept; one per process, any thread."""

    def __init__(
        self, engine: Engine, files: FileStore | None, *, archive_eml: bool = False, clock: Clock = utc_now
    ) -> None:
        """`files` None: neither attachments nor raw sources are kept."""
        self._engine = engine
        self._reading = autocommitting(engine)
        self._files = files if files is not None and files.is_on else None
        self._archive_eml = archive_eml
        self._clock = clock

    def known(self, config_id: int, keys: Iterable[str]) -> dict[str, Stored]:
        """The mails of a mailbox that are stored under these keys, by key; one query, none without keys."""
        wanted = list(dict.fromkeys(keys))
        if not wanted:
            return {}
        with self._reading.connect() as connection:
            rows = connection.execute(_STORED, {"config_id": config_id, "keys": wanted})
            return {row.message_id: Stored(*row) for row in rows}

    def may_know(self, origin: Origin, uid: int, *, is_known_numbering: bool) -> bool:
        """Whether mails of a folder from this UID on may be stored, other than as copies of mails in other folders.

        Of a numbering that was read before those are left of a worker that died; of a new one, whatever is stored.
        """
        statement = _IS_UID_STORED if is_known_numbering else _IS_ANY_STORED
        given = {
            "config_id": origin.config_id,
            "uid": str(uid),
            "folder_name": origin.folder_name,
            "uid_validity": origin.uid_validity,
        }
        with self._reading.connect() as connection:
            return bool(connection.execute(statement, given).scalar_one())

    def keep(self, arrivals: Iterable[Arrival]) -> Iterator[Kept]:
        """Store each that is not stored yet, in order; what is yielded is committed.

        Neighbours share a transaction: hand in few. A mail that the database refuses is stored with its envelope alone.

        Raises: what the driver raises, at the mail that it raises for: all before it are yielded.
        """
        for group in _with_distinct_keys(arrivals):
            try:
                kept = self._keep(group)
            except (DBAPIError, UnicodeError, _TooMuch) as exc:
                if isinstance(exc, DBAPIError) and is_away(exc):
                    raise
                kept = None
            if kept is not None:
                yield from kept
            else:
                # One of them is to blame, and the others are not.
                yield from map(self._keep_alone, group)

    def _keep_alone(self, arrival: Arrival) -> Kept:
        try:
            return self._keep([arrival])[0]
        except (DBAPIError, UnicodeError, _TooMuch) as exc:
            if isinstance(exc, DBAPIError) and (sqlstate(exc) or "")[:2] not in _ABOUT_THE_VALUES:
                raise
            logger.exception("the database refuses a mail", extra={"server_uid": arrival.incoming.server_uid})
        return self._keep([arrival.without_content()])[0]

    def _keep(self, group: Sequence[Arrival]) -> list[Kept]:
        # Hardly ever is one of them stored: the insert itself tells. Files are not written only to be taken back.
        with contextlib.suppress(_Overtaken):
            if not any(self._has_files(arrival) for arrival in group):
                return self._try_to_keep(group, {})
        for _ in range(MAX_RACES):
            keys = (key for arrival in group for key in arrival.keys)
            with contextlib.suppress(_Overtaken):
                return self._try_to_keep(group, self.known(group[0].origin.config_id, keys))
        raise ReceiveError(f"a mail of mailbox {group[0].origin.config_id} is stored and deleted again and again")

    def _has_files(self, arrival: Arrival) -> bool:
        return self._files is not None and (
            bool(arrival.mail.attachments) or is_archived(arrival, archive_eml=self._archive_eml)
        )

    def _try_to_keep(self, group: Sequence[Arrival], taken: dict[str, Stored]) -> list[Kept]:
        verdicts = [_verdict(arrival, taken) for arrival in group]
        plans = [verdict for verdict in verdicts if isinstance(verdict, _Plan)]
        ids = self._write(plans) if plans else {}
        for mail_type, count in Counter(plan.arrival.classification.type for plan in plans).items():
            metrics.received(mail_type, count)
        return [
            Kept(one.arrival, ids[one.key], True, one.eml is not None) if isinstance(one, _Plan) else one
            for one in verdicts
        ]

    def _lay_down(self, plan: _Plan) -> None:
        """Files first, with no connection in hand; one that cannot be stored is left out."""
        if self._files is None:
            return
        arrival, tenant_id = plan.arrival, plan.arrival.origin.tenant_id
        for file in arrival.mail.attachments:
            laid = self._laid(file.content, tenant_id)
            if laid is not None:
                plan.files.append((laid, file.file_name, file.content_type, file.content_id))
        if is_archived(arrival, archive_eml=self._archive_eml):
            plan.eml = self._laid(arrival.incoming.octets, tenant_id)

    def _laid(self, content: bytes, tenant_id: int) -> LaidFile | None:
        assert self._files is not None
        try:
            return self._files.lay_down(content, tenant_id=tenant_id)
        except PreparationError as exc:
            logger.warning("a file of a received mail is left out: %s", exc)
            return None

    def _take_back(self, plans: Iterable[_Plan]) -> None:
        if self._files is not None:
            for plan in plans:
                for laid in plan.laid():
                    self._files.take_back(laid)

    def _write(self, plans: Sequence[_Plan]) -> dict[str, int]:
        """Ids by key. Raises: _Overtaken, _TooMuch, with nothing written; what the driver raises."""
        if _is_too_much(plans):
            raise _TooMuch
        is_committing = False
        try:
            for plan in plans:
                self._lay_down(plan)
            with self._engine.begin() as connection:
                _give_time(connection, sum(len(plan.arrival.incoming.octets) for plan in plans))
                statement, rows = insertion([self._row(connection, plan) for plan in plans])
                ids = {key: record_id for record_id, key in connection.execute(statement, {"rows": rows})}
                if len(ids) < len(plans):
                    raise _Overtaken
                is_committing = True
        except BaseException:
            # A commit that nobody answered may have happened: its rows name these files.
            if not is_committing:
                self._take_back(plans)
            raise
        return ids

    def _row(self, connection: Connection, plan: _Plan) -> dict[str, Any]:
        row = row_of(plan.arrival, plan.key)
        row["duplicate_of"] = plan.duplicate_of
        row["attachments"] = [self._entered(connection, *file) for file in plan.files] or None
        row["eml_file_id"] = None
        if self._files is not None and plan.eml is not None:
            name = eml_name(plan.arrival, self._clock)
            row["eml_file_id"] = self._files.enter(connection, plan.eml, file_name=name, content_type=EML_TYPE)
        return row

    def _entered(
        self, connection: Connection, laid: LaidFile, name: str, content_type: str | None, content_id: str | None
    ) -> dict[str, Any]:
        assert self._files is not None
        return {
            "file_id": self._files.enter(connection, laid, file_name=name, content_type=content_type),
            "file_name": storable(name),
            "content_type": content_type and storable(content_type),
            "content_id": content_id and storable(content_id),
            "size": laid.size,
        }


def _is_too_much(plans: Sequence[_Plan]) -> bool:
    """Told before the rows are made, as they alone would take gigabytes."""
    mails = [plan.arrival.mail for plan in plans]
    if sum(len(plan.arrival.incoming.octets) for plan in plans) * MAX_CHARS_OF_OCTET <= MAX_ROWS_CHARS:
        return False
    bodies = [body for mail in mails for body in (mail.body_text, mail.body_html) if body]
    return sum(len(body) + 5 * sum(map(body.count, _CONTROLS)) for body in bodies) > MAX_ROWS_CHARS


def _give_time(connection: Connection, octets: int) -> None:
    if octets > QUICK_OCTETS:
        connection.execute(_GIVE_TIME, {"milliseconds": octets * MILLISECONDS_PER_MIB // 1_048_576})


def _verdict(arrival: Arrival, taken: dict[str, Stored]) -> _Plan | Kept:
    """Under which key to store it; or what it was stored as before."""
    if arrival.key not in taken:
        return _Plan(arrival, arrival.key, None)
    keys = arrival.keys
    first = taken.get(keys[0])
    for key in keys:
        stored = taken.get(key)
        if stored is None:
            return _Plan(arrival, key, None if key == keys[0] or first is None else first.record_id)
        # The last key holds the whole hash: what is there is the same.
        if stored.is_same(arrival) or key == keys[-1]:
            return Kept(arrival, stored.record_id, False)
    raise AssertionError("unreachable: the last key always decides")


def _with_distinct_keys(arrivals: Iterable[Arrival]) -> Iterator[list[Arrival]]:
    """Runs of neighbours of which no two have the same key: whether those are the same mail, the stored one tells."""
    group: list[Arrival] = []
    seen: set[str] = set()
    for arrival in arrivals:
        if arrival.key in seen:
            yield group
            group, seen = [], set()
        group.append(arrival)
        seen.add(arrival.key)
    if group:
        yield group
