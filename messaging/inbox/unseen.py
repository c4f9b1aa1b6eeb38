"""What has become visible in inboxes since somebody looked: each notification once, in whatever order they committed.

An id is taken, and a time stamped, before the commit that makes a row visible, so "newer than the last one" would miss
what commits late. A look therefore remembers PostgreSQL's snapshot, which says of every transaction whether its rows
were visible then, and rows say which transaction wrote them. Source: PostgreSQL's manual, "Transaction ID and Snapshot
Information Functions".
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Self

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Connection,
    DateTime,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    column,
    func,
    or_,
    select,
    true,
)
from sqlalchemy.types import UserDefinedType

from messaging.inbox.changed import Inbox
from messaging.inbox.models import INBOX_NOTIFICATION

#: Notifications that one look tells; who has missed more loads the list instead, which shows no more either.
MAX_TOLD = 50

#: Characters of a content that are told; the list has it whole.
MAX_CONTENT_CHARS = 2_000

#: How long the transaction that wrote a notification may have been open for it still to be told. Transactions of
#: another server, whose dump this database was restored from, count from elsewhere: their rows are told at most once
#: more, and after this long not at all.
MAX_OPEN = timedelta(days=1)

#: Largest transaction id that we take; `xid8` has one bit more.
_MAX_XID = 2**63 - 1
#: Open transactions that a mark may name: more than a server has connections.
_MAX_OPEN_XIDS = 10_000

_MARK = re.compile(r"(\d{1,12})-(\d{1,19})-(\d{1,19})((?:-\d{1,19})*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Mark:
    """How far somebody has seen: a snapshot, and when it was taken. Written as text, the `id` of an event."""

    #: Seconds since 1970, by the database's clock.
    seconds: int
    #: All transactions below it had ended.
    xmin: int
    #: No transaction from it on had ended.
    xmax: int
    #: Those between that had not ended.
    open_xids: tuple[int, ...]

    @classmethod
    def of_snapshot(cls, snapshot: str, at: datetime) -> Self:
        """Of a `pg_snapshot`: `xmin:xmax:xid,xid`."""
        xmin, xmax, open_xids = snapshot.split(":")
        return cls(int(at.timestamp()), int(xmin), int(xmax), tuple(int(xid) for xid in open_xids.split(",") if xid))

    @classmethod
    def parse(cls, written: str) -> Self | None:
        """The mark that `str` wrote; None for what it cannot have written."""
        found = _MARK.fullmatch(written)
        if found is None:
            return None
        seconds, xmin, width = (int(found[n]) for n in (1, 2, 3))
        steps = [int(step) for step in found[4].split("-")[1:]]
        if len(steps) > _MAX_OPEN_XIDS:
            return None
        open_xids = []
        xid = xmin
        for position, step in enumerate(steps):
            if position and not step:
                return None
            xid += step
            open_xids.append(xid)
        # With nothing open both ends are the same; else the first open one is the lower end.
        if not 1 <= xmin <= xmin + width <= _MAX_XID or (open_xids and open_xids[-1] >= xmin + width):
            return None
        return cls(seconds, xmin, xmin + width, tuple(open_xids))

    def __str__(self) -> str:
        """Each number as its distance from the one before, since a proxy takes a header of some thousand characters."""
        below = (self.xmin, *self.open_xids)
        steps = [xid - before for before, xid in zip(below, self.open_xids, strict=False)]
        return "-".join(map(str, (self.seconds, self.xmin, self.xmax - self.xmin, *steps)))

    @property
    def snapshot(self) -> str:
        """As a `pg_snapshot`."""
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.open_xids))}"


class Asked(NamedTuple):
    """One look."""

    inbox: Inbox
    #: None: nothing has been seen, and nothing is told but the count.
    since: Mark | None


@dataclass(frozen=True, slots=True)
class Told:
    """What a look found."""

    #: How far the answer reaches.
    mark: Mark
    #: Whether more, or other, has changed than is told: the list is to be loaded anew.
    must_reload: bool
    #: In the order of their ids; the fields of `NOTIFICATION_FIELDS`.
    notifications: tuple[dict[str, Any], ...]
    #: Falls by itself too, as notifications expire.
    unread_count: int


#: What is told of a notification.
NOTIFICATION_FIELDS = (
    "id",
    "title",
    "content",
    "notification_type",
    "source_model",
    "source_id",
    "is_read",
    "expires_at",
    "created_at",
)


def look(connection: Connection, asked: Sequence[Asked]) -> list[Told]:
    """What each of these inboxes has that was not seen, by one statement and so one snapshot; answers in their order.

    No tenant is asked of the context: whoever asks says whose inbox, and must know that it is theirs. Costs what it
    tells and what is unread, whatever came before.
    """
    answers: list[Told] = []
    if not asked:
        return answers
    rows = connection.execute(
        _LOOK,
        {
            "tenant_id": [one.inbox.tenant_id for one in asked],
            "recipient_id": [one.inbox.recipient_id for one in asked],
            "snapshot": [None if one.since is None else one.since.snapshot for one in asked],
            "xmin": [None if one.since is None else one.since.xmin for one in asked],
            "seen_at": [None if one.since is None else _time(one.since.seconds) for one in asked],
        },
    )
    for position, group in _grouped(rows.all()):
        since = asked[position].since
        first = group[0]
        mark = Mark.of_snapshot(first.now_snapshot, first.now_at)
        found = [row for row in group if row.id is not None]
        # A server whose transactions count from lower down is not the one that gave out the mark.
        must_reload = since is None or mark.xmin < since.xmin or len(found) > MAX_TOLD
        told = () if must_reload else tuple({name: getattr(row, name) for name in NOTIFICATION_FIELDS} for row in found)
        answers.append(Told(mark, must_reload, told, first.unread))
    return answers


def _time(seconds: int) -> datetime:
    """A time that PostgreSQL and Python both have, whatever a caller's mark says."""
    return datetime.fromtimestamp(min(seconds, _LATEST_SECONDS), UTC)


_LATEST_SECONDS = int(datetime(2500, 1, 1, tzinfo=UTC).timestamp())


def _grouped(rows: Sequence[Any]) -> Iterator[tuple[int, list[Any]]]:
    """The rows of each position from 0 on; every position has at least one."""
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or rows[end].position != rows[start].position:
            yield rows[start].position - 1, list(rows[start:end])
            start = end


class _Xid8(UserDefinedType[str]):
    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "xid8"


class _Snapshot(UserDefinedType[str]):
    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "pg_snapshot"


def _look() -> Select[Any]:
    t = INBOX_NOTIFICATION.c
    now = func.now()
    snapshot = func.pg_current_snapshot()
    types: dict[str, Any] = {
        "tenant_id": BigInteger(),
        "recipient_id": BigInteger(),
        "snapshot": Text(),
        "xmin": BigInteger(),
        "seen_at": DateTime(timezone=True),
    }
    asked = (
        func.unnest(*(bindparam(name, type_=ARRAY(type_)) for name, type_ in types.items()))
        .table_valued(*(column(name, type_) for name, type_ in types.items()), with_ordinality="position")
        .render_derived(name="asked")
    )
    theirs = and_(t.tenant_id == asked.c.tenant_id, t.recipient_id == asked.c.recipient_id)
    is_current = or_(t.expires_at.is_(None), t.expires_at > now)
    unread = select(func.count().label("unread")).where(theirs, ~t.is_read, is_current).lateral("unread")
    was_visible = func.pg_visible_in_snapshot(
        cast(cast(t.written_in, Text()), _Xid8()), cast(asked.c.snapshot, _Snapshot())
    )
    told = [
        func.left(t.content, MAX_CONTENT_CHARS).label("content") if n == "content" else t[n]
        for n in NOTIFICATION_FIELDS
    ]
    unseen = (
        select(*told)
        .where(
            theirs,
            # By the index; the rest is asked of the few that it answers.
            t.written_in >= asked.c.xmin,
            t.written_in < cast(cast(func.pg_snapshot_xmax(snapshot), Text()), BigInteger()),
            ~was_visible,
            t.created_at > asked.c.seen_at - MAX_OPEN,
            is_current,
        )
        .order_by(t.written_in.desc())
        .limit(MAX_TOLD + 1)
        .lateral("unseen")
    )
    return (
        select(
            asked.c.position,
            cast(snapshot, Text()).label("now_snapshot"),
            func.clock_timestamp().label("now_at"),
            unread.c.unread,
            *unseen.c,
        )
        .select_from(asked.join(unread, true()).outerjoin(unseen, true()))
        .order_by(asked.c.position, unseen.c.id)
    )


_LOOK = _look()
