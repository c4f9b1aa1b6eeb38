"""Records as lines of a list, whatever their channel: newest first, narrowed by filters, a page at a time.

An index answers the owner, the time, and one of: a status other than SENT, an error code, a number. Other filters are
asked of each row of a bounded stretch (`messaging.db.newest`). What is told of one record: `delivery.stories`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, String, Table, false, literal, select
from sqlalchemy.orm import Session

from messaging.db import newest
from messaging.db.newest import Condition, Newest
from messaging.db.own_rows import MAX_ID
from messaging.delivery.status import OPEN_STATUSES, SendStatus
from messaging.requests import MessageScope


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """What narrows a list of records; None asks nothing."""

    status: SendStatus | None = None
    #: As `LineSource.recipient` spells it: an envelope recipient's address, or a number.
    recipient: str | None = None
    template_code: str | None = None
    #: Mails that ask for a template by its id.
    template_id: int | None = None
    #: The server or provider it was prepared for or is pinned to.
    config_id: int | None = None
    error_code: str | None = None
    scope: MessageScope | None = None
    #: Accepted at this time or later; timezone-aware.
    created_after: datetime | None = None
    #: Accepted earlier than this; timezone-aware.
    created_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One record in a list."""

    id: int
    channel: str
    tenant_id: int
    created_at: datetime
    status: SendStatus
    scope: MessageScope
    retry_count: int
    error_code: str | None
    #: None where the template's is not rendered yet, and of a text message.
    subject: str | None
    #: The template it asks for: a code, or `id 5`.
    template: str | None
    to: list[str]
    #: The server or provider; None before one was chosen.
    config_id: int | None
    #: None once the record is final.
    next_attempt_at: datetime | None
    sent_at: datetime | None
    #: What only this channel's records have, by name.
    also: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the order of lists: that of a record, there or gone."""

    created_at: datetime
    id: int


@dataclass(frozen=True, slots=True)
class RecordPage:
    """A page. It may be short, even empty, where few records fit the filter, and still not be the last."""

    lines: list[Line]
    #: What the next page begins below; None at the end.
    next: Position | None
    #: What the page of newer ones lies above; None where the top is known to be reached.
    newer: Position | None = None


_ID_DIGITS = len(str(MAX_ID))

#: Columns that a line shows of every record.
_LINE_COLUMNS = (
    "id",
    "tenant_id",
    "created_at",
    "status",
    "scope",
    "retry_count",
    "error_code",
    "next_attempt_at",
    "sent_at",
)
#: States by which an index holds an owner's records in order.
_BY_STATUS = (SendStatus.PENDING, SendStatus.RETRY, SendStatus.FAILED, SendStatus.DEAD_LETTER)


@dataclass(frozen=True, slots=True)
class LineSource:
    """How a channel's records become lines."""

    channel: str
    table: Table
    #: Further columns that `told` looks at.
    columns: tuple[str, ...]
    #: Subject, template and recipients of a row.
    told: Callable[[Row[Any]], tuple[str | None, str | None, list[str]]]
    #: The column that names the server or provider.
    config_column: str
    #: Columns that say who it is to, and what is asked of them.
    recipient_columns: tuple[str, ...]
    recipient: Callable[[str], Condition]
    #: Conditions that find what a text names by its key, each answered by an index; `owner` as for `page`.
    keys: Callable[[str, int | None], list[ColumnElement[bool]]]
    #: What else of a row a list shows; of `columns`.
    also: Callable[[Row[Any]], Mapping[str, Any]] = lambda _row: {}
    #: Whether an index answers `recipient`.
    is_by_recipient: bool = False

    def position(self, session: Session, record_id: int, *, owner: int | None) -> Position | None:
        """Where a record stands; None when this owner (None: all of them) has none of this id in this channel."""
        c = self.table.c
        statement = select(c.created_at).where(c.id == record_id, *self._of(owner))
        created_at = session.connection(bind_arguments={"clause": self.table}).execute(statement).scalar_one_or_none()
        return None if created_at is None else Position(created_at, record_id)

    def page(
        self,
        session: Session,
        asked: RecordFilter,
        *,
        owner: int | None,
        limit: int,
        before: Position | None,
        after: Position | None = None,
        scan_rows: int = newest.SCAN_ROWS,
    ) -> RecordPage:
        """Records of one owner, newest first; across owners (None) by id, the one order an index gives there.

        `after` instead of `before`: those next above a place.
        """
        question = self.question(asked, owner=owner)

        def place(at: Position | None) -> tuple[Any, ...] | None:
            return None if at is None else tuple(getattr(at, name) for name in question.order)

        found = newest.read(
            session, question, size=limit, before=place(before), after=place(after), scan_rows=scan_rows
        )
        end = None if found.end is None else Position(found.end.created_at, found.end.id)
        lines = [self._line(row) for row in found.rows]
        if after is not None:
            below = Position(lines[-1].created_at, lines[-1].id) if lines else Position(after.created_at, after.id + 1)
            return RecordPage(lines, below, end)
        above = before and Position(before.created_at, before.id - 1)
        if before is not None and lines:
            above = Position(lines[0].created_at, lines[0].id)
        return RecordPage(lines, end, above)

    def find(self, session: Session, text: str, asked: RecordFilter, *, owner: int | None, limit: int) -> list[Line]:
        """Records whose id or another key a text is, and which fit a filter; newest first."""
        c = self.table.c
        conditions = [*self.keys(text, owner)]
        if text.isascii() and text.isdecimal() and len(text) <= _ID_DIGITS and int(text) <= MAX_ID:
            conditions.append(c.id == int(text))
        if owner is not None:
            # Across owners no index answers it.
            conditions.append(c.idempotency_key == text)
        looks = [select(c.id).where(condition, *self._of(owner)).limit(limit) for condition in conditions]
        connection = session.connection(bind_arguments={"clause": self.table})
        ids = {row_id for look in looks for row_id in connection.execute(look).scalars()}
        question = self.question(asked, owner=owner)
        statement = select(*(c[name] for name in question.columns)).where(
            c.id.in_(ids), *question.within, *(condition(c) for condition in question.conditions)
        )
        rows = connection.execute(statement.order_by(c.id.desc()).limit(limit)) if ids else ()
        return [self._line(row) for row in rows]

    def question(self, asked: RecordFilter, *, owner: int | None) -> Newest:
        """What a filter asks of the list."""
        conditions = self._conditions(asked)
        is_gathered = asked.status is SendStatus.SENDING
        by_index = ["status"] if is_gathered else [] if owner is None else self._by_index(asked)
        within = [conditions.pop(name)(self.table.c) for name in by_index]
        columns = (
            *_LINE_COLUMNS,
            *self.columns,
            self.config_column,
            *(self.recipient_columns if asked.recipient else ()),
        )
        return Newest(
            table=self.table,
            columns=tuple(dict.fromkeys(columns)),
            order=("id",) if owner is None else ("created_at", "id"),
            within=(*self._of(owner), *within),
            conditions=tuple(conditions.values()),
            is_gathered=is_gathered,
        )

    def _by_index(self, asked: RecordFilter) -> list[str]:
        """What one index answers of a filter: a value, the one that fewest records have, and a range of time."""
        times = [name for name in ("created_after", "created_before") if getattr(asked, name) is not None]
        if asked.recipient is not None and self.is_by_recipient:
            return ["recipient", *times]
        if asked.error_code is not None:
            return ["error_code", *times]
        return ["status", *times] if asked.status in _BY_STATUS else times

    def _conditions(self, asked: RecordFilter) -> dict[str, Condition]:
        """What a filter asks, by its fields."""
        config_column, has_template_id = self.config_column, "template_id" in self.table.c
        known: dict[str, Condition] = {
            # As a literal: a plan for any value cannot use an index of some.
            "status": lambda c: c.status == literal(asked.status, String(), literal_execute=True),
            "recipient": self.recipient(asked.recipient or ""),
            "template_code": lambda c: c.template_code == asked.template_code,
            "template_id": lambda c: c.template_id == asked.template_id if has_template_id else false(),
            "config_id": lambda c: c[config_column] == asked.config_id,
            "error_code": lambda c: c.error_code == asked.error_code,
            "scope": lambda c: c.scope == asked.scope,
            "created_after": lambda c: c.created_at >= asked.created_after,
            "created_before": lambda c: c.created_at < asked.created_before,
        }
        return {name: condition for name, condition in known.items() if getattr(asked, name) is not None}

    def _of(self, owner: int | None) -> list[ColumnElement[bool]]:
        return [] if owner is None else [self.table.c.tenant_id == owner]

    def _line(self, row: Row[Any]) -> Line:
        subject, template, to = self.told(row)
        return Line(
            id=row.id,
            channel=self.channel,
            tenant_id=row.tenant_id,
            created_at=row.created_at,
            status=SendStatus(row.status),
            scope=MessageScope(row.scope),
            retry_count=row.retry_count,
            error_code=row.error_code,
            subject=subject,
            template=template,
            to=to,
            config_id=row._mapping[self.config_column],
            next_attempt_at=row.next_attempt_at if row.status in OPEN_STATUSES else None,
            sent_at=row.sent_at,
            also=self.also(row),
        )
