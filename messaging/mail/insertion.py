"""Write accepted mails: one INSERT for any number of them, and each idempotency key once. Checks nothing.

Many rows travel as one array a column, so that the statement is compiled once and planned once whatever their number.
"""

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
from messaging.mail.models import MAIL_SEND_RECORD

#: Characters of bodies in one statement: PostgreSQL takes at most 1 GB for a parameter, held in memory at both ends.
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
    body_mode: str
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
    **{name: (Text(), None) for name in AcceptedMail._fields},
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
}


def _told(name: str, type_: Any) -> Any:
    """A parameter whose type PostgreSQL is told, as nothing around it says so."""
    return cast(bindparam(name, type_=type_), type_)


def _chosen(given: Any) -> tuple[list[str], Select[Any]]:
    """Columns to fill and what with."""
    values: dict[str, Any] = {
        name: given[name] if to is None else cast(given[name], to) for name, (_, to) in _TYPES.items()
    }
    values |= {
        "tenant_id": _told("tenant_id", BigInteger()),
        "trace_id": _told("trace_id", Text()),
        "created_by_id": _told("user_id", BigInteger()),
        "created_by": _told("user_name", Text()),
        # Both are the transaction's start: a mail that may go at once is in line.
        "next_attempt_at": func.greatest(func.now(), given["send_at"]),
    }
    return list(values), select(*values.values())


def _insert_one() -> Insert:
    """The row's values as parameters: half the time of arrays with one element each."""
    columns, values = _chosen({name: _told(name, given) for name, (given, _) in _TYPES.items()})
    return insert(_T).from_select(columns, values, include_defaults=False)


def _insert_many() -> Insert:
    """Ids come from the sequence after the sort, so in input order."""
    arrays = [bindparam(name, type_=ARRAY(given)) for name, (given, _) in _TYPES.items()]
    rows = (
        func.unnest(*arrays)
        .table_valued(*(column(name, given) for name, (given, _) in _TYPES.items()), with_ordinality="position")
        .render_derived(name="given")
    )
    columns, values = _chosen(rows.c)
    return insert(_T).from_select(columns, values.order_by(rows.c.position), include_defaults=False)


def _unless_key_is_there(statement: Insert) -> Any:
    return statement.on_conflict_do_nothing(
        index_elements=[_T.c.tenant_id, _T.c.idempotency_key], index_where=_T.c.idempotency_key.is_not(None)
    ).returning(_T.c.id, _T.c.idempotency_key)


class _Inserts(NamedTuple):
    """One statement for one row, one for any number."""

    one: Any
    many: Any


_INSERT = _Inserts(_insert_one().returning(_T.c.id), _insert_many().returning(_T.c.id))
_INSERT_UNLESS_KEY_IS_THERE = _Inserts(_unless_key_is_there(_insert_one()), _unless_key_is_there(_insert_many()))

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
    connection: Connection, mails: Sequence[AcceptedMail], origin: Origin, *, lock_timeout_seconds: float
) -> Written:
    """Insert the mails in the connection's transaction.

    A key that another open transaction is writing is waited for, at most `lock_timeout_seconds`; its record then counts
    like one stored before.

    Raises: KeyConflict; IdempotencyKeyBusy. Either leaves nothing written and the transaction usable.
    """
    if any(mail.idempotency_key is not None for mail in mails):
        return _write_keyed(connection, mails, origin, lock_timeout_seconds)
    ids = [row.id for row in _insert(connection, _INSERT, mails, origin)]
    return Written(sorted(ids), len(ids))


def _write_keyed(
    connection: Connection, mails: Sequence[AcceptedMail], origin: Origin, lock_timeout_seconds: float
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
                rows = _insert(connection, _INSERT_UNLESS_KEY_IS_THERE, new, origin)
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
        except DBAPIError as exc:
            if _sqlstate(exc) in _BUSY_STATES:
                raise IdempotencyKeyBusy from exc
            raise
    ids = [next(unkeyed) if mail.idempotency_key is None else stored[mail.idempotency_key][0] for mail in mails]
    return Written(ids, inserted)


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


def _insert(connection: Connection, inserts: _Inserts, mails: Sequence[AcceptedMail], origin: Origin) -> list[Any]:
    parameters: dict[str, Any] = origin._asdict()
    rows: list[Any] = []
    for part in _parts(mails):
        if len(part) == 1:
            rows += connection.execute(inserts.one, parameters | part[0]._asdict()).all()
            continue
        parameters |= zip(AcceptedMail._fields, map(list, zip(*part, strict=True)), strict=True)
        rows += connection.execute(inserts.many, parameters).all()
    return rows


def _parts(mails: Sequence[AcceptedMail]) -> Iterable[Sequence[AcceptedMail]]:
    """The mails in as few parts as `MAX_STATEMENT_CHARS` allows: nearly always one."""
    start, chars = 0, 0
    for position, mail in enumerate(mails):
        chars += len(mail.body_html or "") + len(mail.body_text or "")
        if chars > MAX_STATEMENT_CHARS and position > start:
            yield mails[start:position]
            start, chars = position, len(mail.body_html or "") + len(mail.body_text or "")
    yield mails[start:]


def _sqlstate(exc: DBAPIError) -> str | None:
    return getattr(exc.orig, "sqlstate", None) or getattr(exc.orig, "pgcode", None)
