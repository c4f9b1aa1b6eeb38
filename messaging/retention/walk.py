"""One pass at work: a batch is looked at, locked, taken away and noted in one short transaction, which a stop undoes.

Rows that somebody holds are left for later, so nothing here waits for the claim, and the claim hardly ever for this.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, Engine, Row, TextClause, text
from sqlalchemy.exc import SQLAlchemyError

from messaging.db.trouble import is_canceled
from messaging.files import FileStore
from messaging.retention.passes import CUTOFF, IS_NAMED, Pass

#: The commit is not waited for: with a batch its place in the walk is lost as well, and it is done once more.
_QUICKLY = text("SET LOCAL synchronous_commit TO off")

_BEGIN = text("""
    INSERT INTO prune_progress AS p (kind, started_at) VALUES (:name, now())
    ON CONFLICT (kind) DO UPDATE SET
        last_id = CASE WHEN p.finished_at IS NOT NULL AND :starts_over THEN 0 ELSE p.last_id END,
        pruned = CASE WHEN p.finished_at IS NOT NULL THEN 0 ELSE p.pruned END,
        started_at = CASE WHEN p.finished_at IS NOT NULL THEN now() ELSE p.started_at END,
        finished_at = NULL
    RETURNING last_id
""")
_NOTE = text("""
    UPDATE prune_progress SET last_id = :last_id, pruned = pruned + :pruned,
        finished_at = CASE WHEN :is_done THEN now() END
    WHERE kind = :name
""")
_WHERE_IT_IS = text("""
    SELECT CASE WHEN finished_at IS NOT NULL AND :starts_over THEN 0 ELSE last_id END
    FROM prune_progress WHERE kind = :name
""")
_LEAVE = text("""
    INSERT INTO prune_leftover (kind, row_id) SELECT :name, unnest(CAST(:ids AS bigint[])) ON CONFLICT DO NOTHING
""")
_SETTLE = text("DELETE FROM prune_leftover WHERE kind = :name AND row_id = ANY (CAST(:ids AS bigint[]))")
_UNNAMED = text(f"""
    SELECT r.id FROM stored_file r WHERE r.id = ANY (CAST(:ids AS bigint[])) AND NOT ({IS_NAMED})
    ORDER BY r.id FOR UPDATE SKIP LOCKED
""")  # noqa: S608 - constants of the code


@dataclass(frozen=True, slots=True)
class Statements:
    """What a pass asks."""

    look: TextClause
    look_at_leftovers: TextClause
    lock: TextClause

    @classmethod
    def of(cls, one: Pass) -> "Statements":
        judged = f"({one.is_later}) AS is_later, ({one.is_due}) AS is_due"
        table = one.table.name
        look = f"""
            SELECT r.id, {one.born} >= {CUTOFF} AS is_young, {judged} FROM {table} r
            WHERE r.id > :after ORDER BY r.id LIMIT :rows"""  # noqa: S608 - names and constants of the code
        leftovers = f"""
            SELECT l.row_id AS id, false AS is_young, coalesce(({one.is_later}), false) AS is_later,
                r.id IS NOT NULL AND ({one.is_due}) AS is_due
            FROM prune_leftover l LEFT JOIN {table} r ON r.id = l.row_id
            WHERE l.kind = :name AND l.row_id > :after ORDER BY l.row_id LIMIT :rows"""  # noqa: S608
        lock = f"""
            SELECT r.id FROM {table} r
            WHERE r.id = ANY (CAST(:ids AS bigint[])) AND NOT ({one.is_later}) AND ({one.is_due})
            ORDER BY r.id FOR UPDATE SKIP LOCKED"""  # noqa: S608
        return cls(text(look), text(leftovers), text(lock))


class Walk:
    """One pass of one run, a batch at a time: rows whose time had not come before, then those from where it stood."""

    def __init__(self, engine: Engine, files: FileStore, one: Pass, *, days: float, rows: int) -> None:
        self.kind = one.kind
        self.name = one.name
        #: Rows taken away or emptied by this walk.
        self.pruned = 0
        self._engine = engine
        self._files = files
        self._pass = one
        self._days = days
        #: Rows of a batch.
        self._rows = rows
        self._is_over_leftovers = one.starts_over
        self._leftover_after = 0

    @cached_property
    def _statements(self) -> Statements:
        return Statements.of(self._pass)

    @property
    def _given(self) -> dict[str, Any]:
        return {"days": self._days, "rows": self._rows, "name": self.name}

    def step(self) -> bool:
        """One batch, in a transaction of its own; answers whether there may be more.

        One that a statement has no time for, as its rows are large, is undone, and those that follow are half as many.
        Raises: what the driver raises.
        """
        stood = self._is_over_leftovers, self._leftover_after
        try:
            return self._step()
        except SQLAlchemyError as exc:
            if not is_canceled(exc) or self._rows == 1:
                raise
            self._is_over_leftovers, self._leftover_after = stood
            self._rows //= 2
            return True

    def _step(self) -> bool:
        with self._engine.begin() as connection:
            connection.execute(_QUICKLY)
            named = {"name": self.name, "starts_over": self._pass.starts_over}
            last_id: int = connection.execute(_BEGIN, named).scalar_one()
            leftovers = [] if self._is_over_leftovers else self._settle_leftovers(connection)
            if leftovers:
                pruned, places = self._take(connection, leftovers)
                is_done = False
            else:
                old = _up_to_the_first_young(self._look(connection, last_id))
                pruned, places = self._take(connection, old)
                last_id = old[-1].id if old else last_id
                is_done = len(old) < self._rows
            noted = {"name": self.name, "last_id": last_id, "pruned": pruned, "is_done": is_done}
            connection.execute(_NOTE, noted)
        self.pruned += pruned
        # After the commit: no transaction waits for a network.
        self._files.clear(places)
        return not is_done

    def count(self) -> int:
        """How many rows a run would take; looks at a batch after the other and changes nothing."""
        total, after = 0, 0
        if not self._pass.starts_over:
            for batch in self._batches(self._statements.look_at_leftovers, 0):
                total += len(_takeable(batch))
        with self._engine.connect() as connection:
            named = {"name": self.name, "starts_over": self._pass.starts_over}
            after = connection.execute(_WHERE_IT_IS, named).scalar_one_or_none() or 0
        for batch in self._batches(self._statements.look, after):
            total += len(_takeable(batch))
        return total

    def _batches(self, statement: TextClause, after: int) -> Iterable[list[Row[Any]]]:
        while True:
            with self._engine.connect() as connection:
                found = list(connection.execute(statement, {**self._given, "after": after}))
            old = _up_to_the_first_young(found)
            yield old
            if len(old) < self._rows:
                return
            after = old[-1].id

    def _look(self, connection: Connection, after: int) -> list[Row[Any]]:
        return list(connection.execute(self._statements.look, {**self._given, "after": after}))

    def _settle_leftovers(self, connection: Connection) -> list[Row[Any]]:
        """A batch of the rows that earlier walks went by; those that go on waiting are entered again."""
        given = {**self._given, "after": self._leftover_after}
        found = list(connection.execute(self._statements.look_at_leftovers, given))
        self._is_over_leftovers = len(found) < self._rows
        if found:
            self._leftover_after = found[-1].id
            connection.execute(_SETTLE, {"name": self.name, "ids": [row.id for row in found]})
        return found

    def _take(self, connection: Connection, looked_at: Sequence[Row[Any]]) -> tuple[int, list[str]]:
        """Take what may go; answers how many went, and places in the file store to clear after the commit."""
        wanted = _takeable(looked_at)
        given = {**self._given, "ids": wanted}
        held = list(connection.execute(self._statements.lock, given).scalars()) if wanted else []
        places = self._remove(connection, held) if held else []
        if not self._pass.starts_over:
            later = {row.id for row in looked_at if row.is_later} | (set(wanted) - set(held))
            if later:
                connection.execute(_LEAVE, {"name": self.name, "ids": sorted(later)})
        return len(held), places

    def _remove(self, connection: Connection, held: Sequence[int]) -> list[str]:
        if self._pass.statement is None:
            return self._files.delete(connection, held)
        gone = connection.execute(self._pass.statement, {"ids": list(held)})
        if "file_ids" not in gone.keys():  # noqa: SIM118 - a result has keys and is no mapping
            return []
        file_ids = [file_id for row in gone for file_id in row.file_ids]
        unnamed = list(connection.execute(_UNNAMED, {"ids": file_ids}).scalars()) if file_ids else []
        return self._files.delete(connection, unnamed) if unnamed else []


def _takeable(rows: Iterable[Row[Any]]) -> list[int]:
    return [row.id for row in rows if row.is_due and not row.is_later]


def _up_to_the_first_young(rows: Sequence[Row[Any]]) -> list[Row[Any]]:
    """A row that is too young ends the walk, since ids and times grow together: the next run begins at it."""
    young = next((n for n, row in enumerate(rows) if row.is_young), len(rows))
    return list(rows[:young])
