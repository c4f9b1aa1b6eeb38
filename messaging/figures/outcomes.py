"""How attempts ended in the last hour, day or week: bars for a chart, failures by category, what fails most.

Reads counts (`messaging.figures.models`), so that it costs the same however many attempts there were.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum

from sqlalchemy import Connection, and_, func, select, text, tuple_

from messaging.delivery.record import AttemptOutcome
from messaging.figures.gather import FAILED_OUTCOMES
from messaging.figures.models import OUTCOME_COUNT, OUTCOME_MARK, Step

#: What fails most: that many.
MAX_TOP = 5


class Window(Enum):
    """How far a chart goes back; its name in addresses."""

    HOUR = "1h"
    DAY = "24h"
    WEEK = "7d"

    @property
    def step(self) -> Step:
        """The stretch of one bar."""
        return {Window.HOUR: Step.MINUTE, Window.DAY: Step.QUARTER, Window.WEEK: Step.TWO_HOURS}[self]

    @property
    def bars(self) -> int:
        """How many there are."""
        return {Window.HOUR: 60, Window.DAY: 96, Window.WEEK: 84}[self]


@dataclass(frozen=True, slots=True)
class Bar:
    """The attempts that ended in one stretch of time."""

    begins_at: datetime
    sent: int
    #: Ended in another attempt to come, also where the worker vanished.
    retried: int
    #: Ended for good without being sent.
    failed: int

    @property
    def attempts(self) -> int:
        """All of them."""
        return self.sent + self.retried + self.failed


@dataclass(frozen=True, slots=True)
class Failing:
    """A server or a template whose attempts fail."""

    channel: str
    #: The server's, provider's or endpoint's id; of a template the code, or `id 5`.
    of: int | str
    failed: int
    #: With the sent ones; None where they are not counted.
    attempts: int | None


@dataclass(frozen=True, slots=True)
class Category:
    """The failed attempts of one category, by what they came to."""

    channel: str
    category: str
    by_outcome: Mapping[str, int]

    @property
    def attempts(self) -> int:
        """All of them."""
        return sum(self.by_outcome.values())


@dataclass(frozen=True, slots=True)
class ChannelOutcomes:
    """One channel's attempts."""

    #: The oldest first, without gaps; the last one goes on.
    bars: Sequence[Bar]
    by_outcome: Mapping[str, int] = field(default_factory=dict)
    #: What one took, on average; None without any.
    average_seconds: float | None = None

    @property
    def sent(self) -> int:
        """How many went out."""
        return sum(self.by_outcome.get(outcome, 0) for outcome in _SENT)

    @property
    def attempts(self) -> int:
        """All of them."""
        return sum(self.by_outcome.values())


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What the counts tell."""

    #: The database's time.
    now: datetime
    #: Attempts that ended until then are counted; None: the first tick has not come.
    counted_until: datetime | None
    #: The first moment of the first bar.
    since: datetime
    step: timedelta
    channels: Mapping[str, ChannelOutcomes]
    categories: Sequence[Category]
    servers: Sequence[Failing]
    templates: Sequence[Failing]


_SENT = (AttemptOutcome.SENT, AttemptOutcome.PARTIAL)
_RETRIED = (AttemptOutcome.RETRY, AttemptOutcome.SWEPT)


def read(connection: Connection, window: Window, channels: Sequence[str], *, owner: int | None) -> Outcomes:
    """The attempts of one owner's records, or (None) of all."""
    step = timedelta(seconds=window.step)
    seconds = text(f"interval '{window.step:d} seconds'")
    newest_bar = func.date_bin(seconds, func.now(), text("timestamptz 'epoch'"))
    counted = select(func.min(OUTCOME_MARK.c.at)).scalar_subquery()
    now, newest, counted_until = connection.execute(select(func.now(), newest_bar, counted)).one()
    since = newest - (window.bars - 1) * step
    c = OUTCOME_COUNT.c
    groups = {
        "bars": (c.channel, c.begins_at, c.outcome),
        "categories": (c.channel, c.category, c.outcome),
        "servers": (c.channel, c.config_id, c.outcome),
        "templates": (c.channel, c.template),
    }
    columns = (c.channel, c.begins_at, c.outcome, c.category, c.config_id, c.template)
    whose = [] if owner is None else [c.tenant_id == owner]
    # All in one walk over the rows.
    statement = (
        select(
            func.grouping(c.begins_at, c.category, c.config_id, c.template).label("left_out"),
            *columns,
            func.sum(c.count).label("attempts"),
            func.sum(c.seconds).label("seconds"),
        )
        .where(*whose, c.step_seconds == int(window.step), c.begins_at >= since)
        .group_by(func.grouping_sets(*(tuple_(*group) for group in groups.values())))
        .having(
            and_(
                # Of categories and templates only failures have one.
                (func.grouping(c.category) == 1) | c.category.is_not(None),
                (func.grouping(c.template) == 1) | c.template.is_not(None),
                (func.grouping(c.config_id) == 1) | c.config_id.is_not(None),
            )
        )
    )
    found: dict[str, list[tuple[str, object, str, int, float]]] = {name: [] for name in groups}
    # One bit a column, set where a group leaves it out.
    names = {0b0111: "bars", 0b1011: "categories", 0b1101: "servers", 0b1110: "templates"}
    for row in connection.execute(statement):
        name = names[row.left_out]
        of = {"bars": row.begins_at, "categories": row.category, "servers": row.config_id, "templates": row.template}
        found[name].append((row.channel, of[name], row.outcome, int(row.attempts), float(row.seconds)))
    moments = [since + number * step for number in range(window.bars)]
    return Outcomes(
        now=now,
        counted_until=counted_until,
        since=since,
        step=step,
        channels={one: _channel(moments, [row[1:] for row in found["bars"] if row[0] == one]) for one in channels},
        categories=_categories(found["categories"]),
        servers=_servers(found["servers"]),
        templates=_top(
            Failing(channel, str(template), attempts, None) for channel, template, _, attempts, _ in found["templates"]
        ),
    )


def _channel(moments: Sequence[datetime], found: Sequence[tuple[object, str, int, float]]) -> ChannelOutcomes:
    sent: Counter[object] = Counter()
    retried: Counter[object] = Counter()
    failed: Counter[object] = Counter()
    by_outcome: Counter[str] = Counter()
    took = 0.0
    for begins_at, outcome, attempts, seconds in found:
        kind = sent if outcome in _SENT else retried if outcome in _RETRIED else failed
        kind[begins_at] += attempts
        by_outcome[outcome] += attempts
        took += seconds
    bars = [Bar(at, sent[at], retried[at], failed[at]) for at in moments]
    return ChannelOutcomes(bars, by_outcome, took / by_outcome.total() if by_outcome else None)


def _categories(found: Sequence[tuple[str, object, str, int, float]]) -> list[Category]:
    by_outcome: dict[tuple[str, str], Counter[str]] = {}
    for channel, category, outcome, attempts, _ in found:
        by_outcome.setdefault((channel, str(category)), Counter())[outcome] += attempts
    made = [Category(channel, category, counts) for (channel, category), counts in by_outcome.items()]
    return sorted(made, key=lambda one: (-one.attempts, one.channel, one.category))


def _servers(found: Sequence[tuple[str, object, str, int, float]]) -> list[Failing]:
    failed: Counter[tuple[str, int]] = Counter()
    attempts: Counter[tuple[str, int]] = Counter()
    for channel, config_id, outcome, count, _ in found:
        key = (channel, int(str(config_id)))
        attempts[key] += count
        failed[key] += count if outcome in FAILED_OUTCOMES else 0
    return _top(Failing(channel, of, failed[channel, of], attempts[channel, of]) for channel, of in attempts)


def _top(failing: Iterable[Failing]) -> list[Failing]:
    """Those that fail most; a template's attempts are told by outcome, and are added up."""
    added: dict[tuple[str, int | str], Failing] = {}
    for one in failing:
        known = added.get((one.channel, one.of))
        added[one.channel, one.of] = one if known is None else replace(known, failed=known.failed + one.failed)
    worst = sorted(added.values(), key=lambda one: (-one.failed, one.channel, str(one.of)))
    return [one for one in worst if one.failed][:MAX_TOP]
