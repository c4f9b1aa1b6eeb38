"""Whether retention runs: when the last night's run began, and what it did not come to."""

from sqlalchemy import Connection, func, select

from messaging.doctor.findings import Finding, Findings, Level
from messaging.retention.kinds import PruneKind
from messaging.retention.models import PRUNE_PROGRESS
from messaging.retention.passes import PASSES
from messaging.retention.prune import NIGHTLY
from messaging.settings import Settings

#: Hours after which a night was left out.
LATE_HOURS = 36


def look_at_pruning(settings: Settings, connection: Connection) -> Findings:
    """Nothing where no kind of rows has an age."""
    retention = settings.retention
    if all(kind.days(retention) is None for kind in PruneKind):
        return
    c = PRUNE_PROGRESS.c
    age = func.extract("epoch", func.now() - c.started_at) / 3600
    hours = connection.execute(select(age).where(c.kind == NIGHTLY)).scalar_one_or_none()
    if hours is None:
        detail = f"no night's run so far; the first begins at {retention.hour:02}:00 UTC"
        yield Finding("pruning runs", Level.OK, detail)
        return
    names = [one.name for one in PASSES if one.kind.days(retention) is not None]
    unfinished = list(connection.execute(select(c.kind).where(c.kind.in_(names), c.finished_at.is_(None))).scalars())
    detail = f"the last night's run began {float(hours):.0f} h ago"
    if unfinished:
        detail += f"; the next goes on with {', '.join(sorted(unfinished))}"
    if hours > LATE_HOURS:
        queue = settings.queues.maintenance
        advice = f"see that beat runs, and: messaging worker --queues {queue}"
        yield Finding("pruning runs", Level.WARN, detail, advice)
    else:
        yield Finding("pruning runs", Level.OK, detail)
