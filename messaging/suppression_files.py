"""The suppression list as a CSV file (RFC 4180, UTF-8): taken over from another system, or kept for one.

The first line names the columns; a cell that a spreadsheet would run has an apostrophe in front
(`messaging.csv_cells`). An import is all or nothing: a file with a bad line writes none of the others. Both
directions go line by line, so that a file may be longer than memory.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TextIO

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from messaging import audit
from messaging.csv_cells import guarded, unguarded
from messaging.delivery.request_fields import MAX_ID
from messaging.errors import EntryRejected, FileRejected
from messaging.requests import SuppressionReason
from messaging.suppression import MAIL, SUPPRESSION, Suppression, new_row, one_tenant
from messaging.suppression_admin import spelled

#: An export's columns; an import needs `address` alone, leaves out what was lifted and dates entries anew.
COLUMNS = ("channel", "address", "reason", "sender", "list", "record_id", "note", "created_at", "lifted_at")

#: Entries that one statement of an import writes, or one read of an export holds.
BATCH_ROWS = 1000

#: Bad lines that a refusal names.
MAX_BAD_LINES = 20

#: Characters of a line; no entry has as many.
MAX_LINE_CHARS = 16 * 1024

#: As `suppression.add`, for many at once: in one order, as two that add the same in different orders wait for each
#: other.
_INSERT = text("""
    INSERT INTO suppression
        (tenant_id, channel, address, sender, list, reason, record_id, note, created_by_id, created_by)
    SELECT :tenant_id, u.*, :created_by_id, :created_by
    FROM unnest(CAST(:channel AS text[]), CAST(:address AS text[]), CAST(:sender AS text[]), CAST(:list AS text[]),
        CAST(:reason AS text[]), CAST(:record_id AS bigint[]), CAST(:note AS text[])) AS u (c, a, s, l, r, i, n)
    ORDER BY c, a, s, l
    ON CONFLICT (tenant_id, channel, address, sender, list) WHERE lifted_at IS NULL DO NOTHING
""")
_OF_ALL = ("tenant_id", "created_by_id", "created_by")


@dataclass(frozen=True, slots=True)
class SuppressionsImported:
    """What an import did, or would have done."""

    #: Entries that are new.
    added: int
    #: Lines of what is on the list already, by the list or by an earlier line.
    known: int
    #: Lines of what was lifted where the file comes from.
    lifted: int


def import_entries(
    session: Session,
    source: TextIO,
    *,
    name: str = "-",
    channel: str = MAIL,
    reason: SuppressionReason | str = SuppressionReason.MANUAL,
    dry_run: bool = False,
) -> SuppressionsImported:
    """Put the entries of a CSV file on the current tenant's list, in the caller's transaction.

    `channel` and `reason` are for lines that do not say theirs, `name` names the file in what is refused. With
    `dry_run` everything is looked at and nothing stays. Imports of one tenant wait for each other.

    Raises:
        FileRejected: Names the first bad lines by number, with what is wrong; nothing was written.
        TenantContextMissing: No one tenant is set.
    """
    lock = func.pg_advisory_xact_lock(func.hashtextextended(f"messaging.import_suppressions {one_tenant()}", 0))
    work = _Import(session, {"channel": channel, "reason": str(reason)})
    with session.begin_nested() as savepoint:
        session.execute(select(lock))
        for number, cells in _rows(source, work.bad):
            work.take(number, cells)
        work.write()
        if work.bad:
            shown = "; ".join(work.bad[:MAX_BAD_LINES])
            more = len(work.bad) - MAX_BAD_LINES
            raise FileRejected(name, shown + (f"; and {more} more bad lines" if more > 0 else ""))
        if work.added:
            audit.note(session, "import", SUPPRESSION, None, after={"file": name, "added": work.added})
        if dry_run:
            savepoint.rollback()
    return SuppressionsImported(work.added, work.taken - work.added, work.lifted)


class _Import:
    """An import, as far as it got. Once a line was bad the others are only looked at."""

    def __init__(self, session: Session, defaults: Mapping[str, str]) -> None:
        self.bad: list[str] = []
        self.added = self.taken = self.lifted = 0
        self._connection = session.connection(bind_arguments={"mapper": Suppression})
        self._defaults = defaults
        self._batch: list[dict[str, Any]] = []

    def take(self, number: int, cells: Mapping[str, str]) -> None:
        """One line of the file."""
        if cells.get("lifted_at"):
            self.lifted += 1
            return
        try:
            self._batch.append(_entry({**self._defaults, **{k: v for k, v in cells.items() if v}}))
        except EntryRejected as exc:
            self.bad.append(f"line {number}: {exc}")
        if len(self._batch) >= BATCH_ROWS:
            self.write()

    def write(self) -> None:
        """Write what was gathered."""
        batch, self._batch = self._batch, []
        if self.bad or not batch:
            return
        columns: dict[str, Any] = {name: [row[name] for row in batch] for name in batch[0]}
        written = self._connection.execute(_INSERT, columns | {name: columns[name][0] for name in _OF_ALL})
        self.taken += len(batch)
        self.added += written.rowcount


def _entry(cells: Mapping[str, str]) -> dict[str, Any]:
    """Raises: EntryRejected."""
    record_id = cells.get("record_id")
    if record_id and not (record_id.isascii() and record_id.isdigit() and 1 <= int(record_id) <= MAX_ID):
        raise EntryRejected("record_id", record_id, "is not a record's id")
    channel = cells["channel"].lower()
    return new_row(
        channel=channel,
        address=spelled(channel, cells.get("address", "")),
        reason=cells["reason"].upper(),
        sender=cells.get("sender", ""),
        list_name=cells.get("list", ""),
        record_id=int(record_id) if record_id else None,
        note=cells.get("note"),
    )


def _rows(source: TextIO, bad: list[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The lines after the first with their numbers, as column -> cell; notes what is no line of the file in `bad`."""
    reader = csv.reader(_lines(source), strict=True)
    header: list[str] | None = None
    try:
        for row in reader:
            cells = [unguarded(cell.strip()) for cell in row]
            if not any(cells):
                continue
            if header is None:
                header = [cell.lower() for cell in cells]
                problem = _header_problem(header)
                if problem:
                    bad.append(f"line {reader.line_num}: {problem}")
                    return
            elif len(cells) != len(header):
                bad.append(f"line {reader.line_num}: has {len(cells)} cells, and the first line {len(header)}")
            else:
                yield reader.line_num, dict(zip(header, cells, strict=True))
    except (csv.Error, UnicodeDecodeError) as exc:
        # What follows cannot be told apart any more.
        bad.append(f"line {reader.line_num}: {exc}")
        return
    if header is None:
        bad.append(f"line 1: names no columns; `address` is needed, and there may be {', '.join(COLUMNS)}")


def _header_problem(header: list[str]) -> str | None:
    unknown = [cell for cell in header if cell not in COLUMNS]
    if "address" not in header or unknown:
        what = f"names {unknown[0]!r}, which is no column" if unknown else "does not name the column `address`"
        return f"{what}; there may be {', '.join(COLUMNS)}"
    if len(set(header)) < len(header):
        return "names a column twice"
    return None


def _lines(source: TextIO) -> Iterator[str]:
    is_first = True
    while line := source.readline(MAX_LINE_CHARS + 1):
        if len(line) > MAX_LINE_CHARS:
            raise csv.Error(f"is longer than {MAX_LINE_CHARS} characters")
        yield line.removeprefix("\ufeff") if is_first else line
        is_first = False


def export_entries(session: Session, target: TextIO, *, include_lifted: bool = False) -> int:
    """Write the current tenant's entries as a CSV file that `import_entries` reads, oldest first; answers how many.

    Raises: TenantContextMissing, where no one tenant is set.
    """
    one_tenant()
    s = Suppression
    statement = select(*(getattr(s, name) for name in COLUMNS)).order_by(s.id)
    if not include_lifted:
        statement = statement.where(s.lifted_at.is_(None))
    writer = csv.writer(target)
    writer.writerow(COLUMNS)
    count = 0
    for row in session.execute(statement.execution_options(yield_per=BATCH_ROWS)):
        writer.writerow([guarded(cell) if isinstance(cell, str) else _plain(cell) for cell in row])
        count += 1
    return count


def _plain(cell: Any) -> Any:
    """A number, a time, or nothing."""
    return "" if cell is None else cell.isoformat() if isinstance(cell, datetime) else cell
