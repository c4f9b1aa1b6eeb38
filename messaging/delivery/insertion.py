"""Write accepted requests: one INSERT for any number of them, and each idempotency key once. Checks nothing.

Many rows travel as one array a column, so that the statement is compiled once and planned once whatever their number.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Connection,
    DateTime,
    Interval,
    Select,
    SmallInteger,
    Table,
    Text,
    bindparam,
    cast,
    column,
    func,
    literal,
    select,
)
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.exc import DBAPIError

from messaging.errors import IdempotencyKeyBusy

#: Characters of long texts in one statement: PostgreSQL takes at most 1 GB for a parameter, held in memory at
#: both ends.
MAX_STATEMENT_CHARS = 16_000_000

#: SQLSTATEs that say another transaction has the key: lock time-out, deadlock, and (REPEATABLE READ and above) a row
#: that was committed after the caller's snapshot.
_BUSY_STATES = frozenset({"55P03", "40P01", "40001"})


class AcceptedRow(Protocol):
    """One row to write, a named tuple; what is the same for all rows of a call is in `Origin`.

    Its fields are the columns in the order of the insertion's, then what is no column. Texts are exact `str`.
    """

    @property
    def idempotency_key(self) -> str | None: ...

    @property
    def request_hash(self) -> str | None: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __getitem__(self, fields: slice, /) -> tuple[Any, ...]: ...


RowT = TypeVar("RowT", bound=AcceptedRow)


class Ahead(Protocol[RowT]):
    """What a row may need to have written before it, in the same transaction."""

    def is_needed(self, row: RowT) -> bool:
        """Whether there is something to write for this row."""

    def write(self, connection: Connection, rows: Sequence[RowT]) -> Sequence[RowT]:
        """Write it for all of these; answers the rows with what they now refer to."""


class Origin(NamedTuple):
    """Who asked; the same for all rows of a call."""

    tenant_id: int
    trace_id: str | None
    span_id: str | None
    request_id: str | None
    user_id: int | None
    user_name: str | None


class KeyConflict(Exception):
    """An idempotency key is stored with another content; nothing was written."""

    def __init__(self, position: int) -> None:
        #: Which of the rows that were to be written.
        self.position = position
        super().__init__(position)


class Written(NamedTuple):
    """What a call left behind."""

    #: One for each row, in order; of a key that was there before, that record's.
    ids: list[int]
    #: How many rows were inserted.
    inserted: int


#: A column's array, and what its elements are cast to; None: nothing.
ColumnType = tuple[Any, Any]

#: What most columns are.
TEXT: ColumnType = (Text(), None)

_Timestamp = DateTime(timezone=True)

#: What the same columns of every channel are that are not text.
_COMMON_TYPES: dict[str, ColumnType] = {
    "lane": (SmallInteger(), None),
    "send_at": (_Timestamp, None),
    "expires_at": (_Timestamp, None),
}


def _told(name: str, type_: Any) -> Any:
    """A parameter whose type PostgreSQL is told, as nothing around it says so."""
    return cast(bindparam(name, type_=type_), type_)


def _chosen(types: Mapping[str, ColumnType], given: Any) -> tuple[list[str], Select[Any]]:
    """Columns to fill and what with."""
    values: dict[str, Any] = {}
    for name, (_, to) in types.items():
        values[name] = given[name] if to is None else cast(given[name], to)
    values |= {
        "tenant_id": _told("tenant_id", BigInteger()),
        "trace_id": _told("trace_id", Text()),
        "span_id": _told("span_id", Text()),
        "request_id": _told("request_id", Text()),
        "created_by_id": _told("user_id", BigInteger()),
        "created_by": _told("user_name", Text()),
        # Both are the transaction's start: a record that may go at once is in line.
        "next_attempt_at": func.greatest(func.now(), given["send_at"]),
    }
    return list(values), select(*values.values())


def _insert_one(table: Table, types: Mapping[str, ColumnType]) -> Insert:
    """The row's values as parameters: half the time of arrays with one element each."""
    columns, values = _chosen(types, {name: _told(name, type_) for name, (type_, _) in types.items()})
    return insert(table).from_select(columns, values, include_defaults=False)


def _insert_many(table: Table, types: Mapping[str, ColumnType]) -> Insert:
    """Ids come from the sequence after the sort, so in input order."""
    arrays = [bindparam(name, type_=ARRAY(type_)) for name, (type_, _) in types.items()]
    rows = (
        func.unnest(*arrays)
        .table_valued(*(column(name, type_) for name, (type_, _) in types.items()), with_ordinality="position")
        .render_derived(name="given")
    )
    columns, values = _chosen(types, rows.c)
    return insert(table).from_select(columns, values.order_by(rows.c.position), include_defaults=False)


def _unless_key_is_there(table: Table, statement: Insert) -> Any:
    return statement.on_conflict_do_nothing(
        index_elements=[table.c.tenant_id, table.c.idempotency_key],
        index_where=table.c.idempotency_key.is_not(None),
    ).returning(table.c.id, table.c.idempotency_key)


class _Inserts(NamedTuple):
    """The statements of one set of columns: for one row or any number, each with or without keys."""

    names: Sequence[str]
    one: Any
    many: Any
    one_unless_key_is_there: Any
    many_unless_key_is_there: Any

    @classmethod
    def of(cls, table: Table, types: Mapping[str, ColumnType]) -> "_Inserts":
        one, many = _insert_one(table, types), _insert_many(table, types)
        plainly = (one.returning(table.c.id), many.returning(table.c.id))
        return cls(tuple(types), *plainly, _unless_key_is_there(table, one), _unless_key_is_there(table, many))


#: Always at least one row, for the lock time-out of the session's connection.
_LOCK_TIMEOUT = select(
    func.current_setting("lock_timeout").label("text"),
    func.extract("epoch", cast(func.current_setting("lock_timeout"), Interval())).label("seconds"),
).subquery("lock_timeout")
_SET_LOCK_TIMEOUT = select(func.set_config("lock_timeout", bindparam("value", type_=Text()), literal(True)))


def _find_keys(t: Table) -> Select[Any]:
    return select(
        _LOCK_TIMEOUT.c.text, _LOCK_TIMEOUT.c.seconds, t.c.idempotency_key, t.c.id, t.c.request_hash
    ).select_from(
        _LOCK_TIMEOUT.outerjoin(
            t,
            (t.c.tenant_id == bindparam("tenant_id", type_=BigInteger()))
            & (t.c.idempotency_key == func.any(bindparam("keys", type_=ARRAY(Text())))),
        )
    )


#: Idempotency key -> record id and request hash; without a hash, written by this very call.
_Stored = dict[str, tuple[int, str | None]]


class _StoredInVain(Exception):
    """Something was written ahead for a record that turned out to be there."""


class Insertion(Generic[RowT]):
    """How a channel's rows are inserted; one for the whole program.

    `types` are those of its `columns` that are not text; `columns` from `rare_from` on are left out of the statement
    while no row of a call uses one of them, as each costs a parameter; `chars` measures a row's long texts.
    """

    def __init__(
        self,
        table: Table,
        columns: Sequence[str],
        types: Mapping[str, ColumnType],
        *,
        rare_from: str,
        chars: Callable[[RowT], int],
    ) -> None:
        of_all = {name: types.get(name) or _COMMON_TYPES.get(name) or TEXT for name in columns}
        self._count = len(columns)
        self._plain_count = list(columns).index(rare_from)
        self._unused = (None,) * (self._count - self._plain_count)
        self._full = _Inserts.of(table, of_all)
        self._plain = _Inserts.of(table, {name: of_all[name] for name in columns[: self._plain_count]})
        self._find_keys = _find_keys(table)
        self._chars = chars

    def write(
        self,
        connection: Connection,
        rows: Sequence[RowT],
        origin: Origin,
        *,
        lock_timeout_seconds: float,
        ahead: Ahead[RowT] | None = None,
    ) -> Written:
        """Insert the rows in the connection's transaction; what is to be written ahead of them goes first.

        A key that another open transaction is writing is waited for, at most `lock_timeout_seconds`; its record then
        counts like one stored before.

        Raises: KeyConflict; IdempotencyKeyBusy; what `ahead` raises. Either of the first two leaves nothing written and
        the transaction usable.
        """
        if any(row.idempotency_key is not None for row in rows):
            return self._write_keyed(connection, rows, origin, ahead, lock_timeout_seconds)
        complete = _with_ahead(connection, rows, ahead)
        ids = [row.id for row in self._insert(connection, complete, origin, is_keyed=False)]
        return Written(sorted(ids), len(ids))

    def _write_keyed(
        self,
        connection: Connection,
        rows: Sequence[RowT],
        origin: Origin,
        ahead: Ahead[RowT] | None,
        lock_timeout_seconds: float,
    ) -> Written:
        keys = sorted({row.idempotency_key for row in rows if row.idempotency_key is not None})
        first: dict[str, int] = {}
        for position, row in enumerate(rows):
            key = row.idempotency_key
            if key is not None and rows[first.setdefault(key, position)].request_hash != row.request_hash:
                raise KeyConflict(position)
        stored, timeout_text, timeout_seconds = self._find(connection, keys, origin)
        _compare(rows, stored)
        new = [
            row
            for position, row in enumerate(rows)
            if row.idempotency_key is None
            or (row.idempotency_key not in stored and first[row.idempotency_key] == position)
        ]
        unkeyed: Iterator[int] = iter(())
        inserted = 0
        if new:
            must_limit = not 0 < timeout_seconds <= lock_timeout_seconds
            limit = f"{max(1, round(lock_timeout_seconds * 1000))}ms"
            try:
                with connection.begin_nested():
                    if must_limit:
                        connection.execute(_SET_LOCK_TIMEOUT, {"value": limit})
                    written = self._insert(connection, _with_ahead(connection, new, ahead), origin, is_keyed=True)
                    if must_limit:
                        connection.execute(_SET_LOCK_TIMEOUT, {"value": timeout_text})
                    inserted = len(written)
                    unkeyed = iter(sorted(row.id for row in written if row.idempotency_key is None))
                    stored |= {
                        row.idempotency_key: (row.id, None) for row in written if row.idempotency_key is not None
                    }
                    missing = [key for key in keys if key not in stored]
                    if missing:
                        # Another transaction was just writing them, and has committed.
                        found, _, _ = self._find(connection, missing, origin)
                        _compare(rows, found)
                        stored |= found
                        if not all(key in stored for key in missing):
                            raise IdempotencyKeyBusy
                        if ahead and any(ahead.is_needed(row) for row in new if row.idempotency_key in found):
                            raise _StoredInVain
            except _StoredInVain:
                # What went ahead of records that another transaction has written meanwhile went with the savepoint.
                return self._write_keyed(connection, rows, origin, ahead, lock_timeout_seconds)
            except DBAPIError as exc:
                if _sqlstate(exc) in _BUSY_STATES:
                    raise IdempotencyKeyBusy from exc
                raise
        ids = [next(unkeyed) if row.idempotency_key is None else stored[row.idempotency_key][0] for row in rows]
        return Written(ids, inserted)

    def _find(self, connection: Connection, keys: Sequence[str], origin: Origin) -> tuple[_Stored, str, float]:
        """What is stored under the keys, and the connection's lock time-out as text and in seconds (0: none)."""
        rows = connection.execute(self._find_keys, {"tenant_id": origin.tenant_id, "keys": list(keys)}).all()
        stored = {row.idempotency_key: (row.id, row.request_hash) for row in rows if row.id is not None}
        return stored, rows[0].text, float(rows[0].seconds)

    def _insert(self, connection: Connection, rows: Sequence[RowT], origin: Origin, *, is_keyed: bool) -> list[Any]:
        inserts = self._plain
        rare = slice(self._plain_count, self._count)
        if any(row[rare] != self._unused for row in rows):
            inserts = self._full
        parameters: dict[str, Any] = origin._asdict()
        written: list[Any] = []
        for part in self._parts(rows):
            # A row may have more values than the statement has names.
            if len(part) == 1:
                parameters |= zip(inserts.names, part[0], strict=False)
                statement = inserts.one_unless_key_is_there if is_keyed else inserts.one
            else:
                parameters |= zip(inserts.names, map(list, zip(*part, strict=True)), strict=False)
                statement = inserts.many_unless_key_is_there if is_keyed else inserts.many
            written += connection.execute(statement, parameters).all()
        return written

    def _parts(self, rows: Sequence[RowT]) -> Iterable[Sequence[RowT]]:
        """The rows in as few parts as `MAX_STATEMENT_CHARS` allows: nearly always one."""
        start, chars = 0, 0
        for position, row in enumerate(rows):
            size = self._chars(row)
            chars += size
            if chars > MAX_STATEMENT_CHARS and position > start:
                yield rows[start:position]
                start, chars = position, size
        yield rows[start:]


def _with_ahead(connection: Connection, rows: Sequence[RowT], ahead: Ahead[RowT] | None) -> Sequence[RowT]:
    """The rows with what goes ahead of them written: all of it, or nothing where one is not taken."""
    if ahead is None or not any(map(ahead.is_needed, rows)):
        return rows
    with connection.begin_nested():
        return ahead.write(connection, rows)


def _compare(rows: Sequence[AcceptedRow], stored: _Stored) -> None:
    for position, row in enumerate(rows):
        if row.idempotency_key in stored and stored[row.idempotency_key][1] != row.request_hash:
            raise KeyConflict(position)


def _sqlstate(exc: DBAPIError) -> str | None:
    return getattr(exc.orig, "sqlstate", None) or getattr(exc.orig, "pgcode", None)
