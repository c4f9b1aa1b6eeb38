"""Write accepted mails: one INSERT for any number of them, and each idempotency key once. Checks nothing.

Many rows travel as one array a column, so that the statement is compiled once and planned once whatever their number.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Boolean,
    Connection,
    DateTime,
    Interval,
    Select,
    SmallInteger,
    Text,
    bindparam,
    cast,
    column,
    func,
    literal,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB, Insert, insert
from sqlalchemy.exc import DBAPIError

from messaging.errors import IdempotencyKeyBusy
from messaging.mail.attachments import GivenFile, Store, stored_references
from messaging.mail.models import MAIL_SEND_RECORD

#: Characters of bodies and variables in one statement: PostgreSQL takes at most 1 GB for a parameter, held in memory at
#: both ends.
MAX_STATEMENT_CHARS = 16_000_000

#: SQLSTATEs that say another transaction has the key: lock time-out, deadlock, and (REPEATABLE READ and above) a row
#: that was committed after the caller's snapshot.
_BUSY_STATES = frozenset({"55P03", "40P01", "40001"})


class AcceptedMail(NamedTuple):
    """One row to write; what is the same for all rows of a call is in `Origin`. Texts are exact `str`."""

    scope: str
    server_config_id: int | None
    #: JSON texts.
    to_addresses: str
    cc_addresses: str
    bcc_addresses: str
    subject: str | None
    #: None: the template's, settled at preparation.
    body_mode: str | None
    body_html: str | None
    body_text: str | None
    reply_to: str | None
    priority: str | None
    lane: int
    read_receipt_requested: bool | None
    auto_submitted: bool
    #: JSON text, or None without further headers.
    headers: str | None
    idempotency_key: str | None
    request_hash: str | None
    send_at: datetime | None
    expires_at: datetime | None
    # Left out of the statement when no mail of a call uses one of them: most do not, and each costs a parameter.
    template_id: int | None = None
    template_code: str | None = None
    #: JSON text.
    template_variables: str | None = None
    #: JSON text, written once `files` are stored.
    attachments: str | None = None
    unsubscribe_list: str | None = None
    #: No column.
    files: Sequence[GivenFile] = ()


#: The columns of every mail, and with those that few use.
_FULL = AcceptedMail._fields[:-1]
_PLAIN = _FULL[: _FULL.index("template_id")]
_UNUSED = (None,) * (len(_FULL) - len(_PLAIN))


class Origin(NamedTuple):
    """Who asked; the same for all rows of a call."""

    tenant_id: int
    trace_id: str | None
    user_id: int | None
    user_name: str | None


class KeyConflict(Exception):
    """An idempotency key is stored with another content; nothing was written."""

    def __init__(self, position: int) -> None:
        #: Which of the mails that were to be written.
        self.position = position
        super().__init__(position)


class Written(NamedTuple):
    """What a call left behind."""

    #: One for each mail, in order; of a key that was there before, that record's.
    ids: list[int]
    #: How many rows were inserted.
    inserted: int


_T = MAIL_SEND_RECORD
_Timestamp = DateTime(timezone=True)

#: Type of each column's array, and what its elements are cast to.
_TYPES: dict[str, tuple[Any, Any]] = {
    **{name: (Text(), None) for name in _FULL},
    "server_config_id": (BigInteger(), None),
    "to_addresses": (Text(), JSONB()),
    "cc_addresses": (Text(), JSONB()),
    "bcc_addresses": (Text(), JSONB()),
    "headers": (Text(), JSON()),
    "lane": (SmallInteger(), None),
    "read_receipt_requested": (Boolean(), None),
    "auto_submitted": (Boolean(), None),
    "send_at": (_Timestamp, None),
    "expires_at": (_Timestamp, None),
    "template_id": (BigInteger(), None),
    "template_variables": (Text(), JSON()),
    "attachments": (Text(), JSONB()),
}


def _told(name: str, type_: Any) -> Any:
    """A parameter whose type PostgreSQL is told, as nothing around it says so."""
    return cast(bindparam(name, type_=type_), type_)


def _chosen(names: Sequence[str], given: Any) -> tuple[list[str], Select[Any]]:
    """Columns to fill and what with."""
    values: dict[str, Any] = {}
    for name in names:
        to = _TYPES[name][1]
        values[name] = given[name] if to is None else cast(given[name], to)
    values |= {
        "tenant_id": _told("tenant_id", BigInteger()),
        "trace_id": _told("trace_id", Text()),
        "created_by_id": _told("user_id", BigInteger()),
        "created_by": _told("user_name", Text()),
        # Both are the transaction's start: a mail that may go at once is in line.
        "next_attempt_at": func.greatest(func.now(), given["send_at"]),
    }
    return list(values), select(*values.values())


def _insert_one(names: Sequence[str]) -> Insert:
    """The row's values as parameters: half the time of arrays with one element each."""
    columns, values = _chosen(names, {name: _told(name, _TYPES[name][0]) for name in names})
    return insert(_T).from_select(columns, values, include_defaults=False)


def _insert_many(names: Sequence[str]) -> Insert:
    """Ids come from the sequence after the sort, so in input order."""
    arrays = [bindparam(name, type_=ARRAY(_TYPES[name][0])) for name in names]
    rows = (
        func.unnest(*arrays)
        .table_valued(*(column(name, _TYPES[name][0]) for name in names), with_ordinality="position")
        .render_derived(name="given")
    )
    columns, values = _chosen(names, rows.c)
    return insert(_T).from_select(columns, values.order_by(rows.c.position), include_defaults=False)


def _unless_key_is_there(statement: Insert) -> Any:
    return statement.on_conflict_do_nothing(
        index_elements=[_T.c.tenant_id, _T.c.idempotency_key], index_where=_T.c.idempotency_key.is_not(None)
    ).returning(_T.c.id, _T.c.idempotency_key)


class _Inserts(NamedTuple):
    """The statements of one set of columns: for one row or any number, each with or without keys."""

    names: Sequence[str]
    one: Any
    many: Any
    one_unless_key_is_there: Any
    many_unless_key_is_there: Any

    @classmethod
    def of(cls, names: Sequence[str]) -> "_Inserts":
        one, many = _insert_one(names), _insert_many(names)
        plainly = (one.returning(_T.c.id), many.returning(_T.c.id))
        return cls(names, *plainly, _unless_key_is_there(one), _unless_key_is_there(many))


_INSERTS_PLAIN, _INSERTS_FULL = _Inserts.of(_PLAIN), _Inserts.of(_FULL)

#: Always at least one row, for the lock time-out of the session's connection.
_LOCK_TIMEOUT = select(
    func.current_setting("lock_timeout").label("text"),
    func.extract("epoch", cast(func.current_setting("lock_timeout"), Interval())).label("seconds"),
).subquery("lock_timeout")
_FIND_KEYS = select(
    _LOCK_TIMEOUT.c.text, _LOCK_TIMEOUT.c.seconds, _T.c.idempotency_key, _T.c.id, _T.c.request_hash
).select_from(
    _LOCK_TIMEOUT.outerjoin(
        _T,
        (_T.c.tenant_id == bindparam("tenant_id", type_=BigInteger()))
        & (_T.c.idempotency_key == func.any(bindparam("keys", type_=ARRAY(Text())))),
    )
)
_SET_LOCK_TIMEOUT = select(func.set_config("lock_timeout", bindparam("value", type_=Text()), literal(True)))


def write(
    connection: Connection, mails: Sequence[AcceptedMail], origin: Origin, *, store: Store, lock_timeout_seconds: float
) -> Written:
    """Insert the mails in the connection's transaction; files that were given go first, equal ones once.

    A key that another open transaction is writing is waited for, at most `lock_timeout_seconds`; its record then counts
    like one stored before.

    Raises: KeyConflict; IdempotencyKeyBusy; what `store` raises. Either of the first two leaves nothing written and the
    transaction usable.
    """
    if any(mail.idempotency_key is not None for mail in mails):
        return _write_keyed(connection, mails, origin, store, lock_timeout_seconds)
    ids = [row.id for row in _insert(connection, _with_files(connection, mails, store), origin, is_keyed=False)]
    return Written(sorted(ids), len(ids))


def _with_files(connection: Connection, mails: Sequence[AcceptedMail], store: Store) -> Sequence[AcceptedMail]:
    """The mails with what they attach stored: all of it, or nothing where one is not taken."""
    if not any(mail.files for mail in mails):
        return mails
    stored: dict[str, int] = {}
    with connection.begin_nested():
        return [
            mail._replace(attachments=json.dumps(stored_references(mail.files, store, stored))) if mail.files else mail
            for mail in mails
        ]


def _write_keyed(
    connection: Connection,
    mails: Sequence[AcceptedMail],
    origin: Origin,
    store: Store,
    lock_timeout_seconds: float,
) -> Written:
    keys = sorted({mail.idempotency_key for mail in mails if mail.idempotency_key is not None})
    first: dict[str, int] = {}
    for position, mail in enumerate(mails):
        key = mail.idempotency_key
        if key is not None and mails[first.setdefault(key, position)].request_hash != mail.request_hash:
            raise KeyConflict(position)
    stored, timeout_text, timeout_seconds = _find(connection, keys, origin)
    _compare(mails, stored)
    new = [
        mail
        for position, mail in enumerate(mails)
        if mail.idempotency_key is None
        or (mail.idempotency_key not in stored and first[mail.idempotency_key] == position)
    ]
    unkeyed: Iterator[int] = iter(())
    inserted = 0
    if new:
        must_limit = not 0 < timeout_seconds <= lock_timeout_seconds
        try:
            with connection.begin_nested():
                if must_limit:
                    connection.execute(_SET_LOCK_TIMEOUT, {"value": f"{max(1, round(lock_timeout_seconds * 1000))}ms"})
                rows = _insert(connection, _with_files(connection, new, store), origin, is_keyed=True)
                if must_limit:
                    connection.execute(_SET_LOCK_TIMEOUT, {"value": timeout_text})
                inserted = len(rows)
                unkeyed = iter(sorted(row.id for row in rows if row.idempotency_key is None))
                stored |= {row.idempotency_key: (row.id, None) for row in rows if row.idempotency_key is not None}
                missing = [key for key in keys if key not in stored]
                if missing:
                    # Another transaction was just writing them, and has committed.
                    found, _, _ = _find(connection, missing, origin)
                    _compare(mails, found)
                    stored |= found
                    if not all(key in stored for key in missing):
                        raise IdempotencyKeyBusy
                    if any(mail.files for mail in new if mail.idempotency_key in found):
                        raise _StoredInVain
        except _StoredInVain:
            # The files of records that another transaction has written meanwhile went with the savepoint.
            return _write_keyed(connection, mails, origin, store, lock_timeout_seconds)
        except DBAPIError as exc:
            if _sqlstate(exc) in _BUSY_STATES:
                raise IdempotencyKeyBusy from exc
            raise
    ids = [next(unkeyed) if mail.idempotency_key is None else stored[mail.idempotency_key][0] for mail in mails]
    return Written(ids, inserted)


class _StoredInVain(Exception):
    """Files were stored for a record that turned out to be there."""


#: Idempotency key -> record id and request hash; without a hash, written by this very call.
_Stored = dict[str, tuple[int, str | None]]


def _find(connection: Connection, keys: Sequence[str], origin: Origin) -> tuple[_Stored, str, float]:
    """What is stored under the keys, and the connection's lock time-out as text and in seconds (0: none)."""
    rows = connection.execute(_FIND_KEYS, {"tenant_id": origin.tenant_id, "keys": list(keys)}).all()
    stored = {row.idempotency_key: (row.id, row.request_hash) for row in rows if row.id is not None}
    return stored, rows[0].text, float(rows[0].seconds)


def _compare(mails: Sequence[AcceptedMail], stored: _Stored) -> None:
    for position, mail in enumerate(mails):
        if mail.idempotency_key in stored and stored[mail.idempotency_key][1] != mail.request_hash:
            raise KeyConflict(position)


def _insert(connection: Connection, mails: Sequence[AcceptedMail], origin: Origin, *, is_keyed: bool) -> list[Any]:
    inserts = _INSERTS_PLAIN
    if any(mail[len(_PLAIN) : len(_FULL)] != _UNUSED for mail in mails):
        inserts = _INSERTS_FULL
    parameters: dict[str, Any] = origin._asdict()
    rows: list[Any] = []
    for part in _parts(mails):
        if len(part) == 1:
            # The mail may have more values than the statement has names.
            parameters |= zip(inserts.names, part[0], strict=False)
            statement = inserts.one_unless_key_is_there if is_keyed else inserts.one
        else:
            parameters |= zip(inserts.names, map(list, zip(*part, strict=True)), strict=False)
            statement = inserts.many_unless_key_is_there if is_keyed else inserts.many
        rows += connection.execute(statement, parameters).all()
    return rows


def _parts(mails: Sequence[AcceptedMail]) -> Iterable[Sequence[AcceptedMail]]:
    """The mails in as few parts as `MAX_STATEMENT_CHARS` allows: nearly always one."""
    start, chars = 0, 0
    for position, mail in enumerate(mails):
        size = len(mail.body_html or "") + len(mail.body_text or "") + len(mail.template_variables or "")
        chars += size
        if chars > MAX_STATEMENT_CHARS and position > start:
            yield mails[start:position]
            start, chars = position, size
    yield mails[start:]


def _sqlstate(exc: DBAPIError) -> str | None:
    return getattr(exc.orig, "sqlstate", None) or getattr(exc.orig, "pgcode", None)
