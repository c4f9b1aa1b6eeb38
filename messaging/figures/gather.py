"""The tick that counts attempts as they end: each once, in order of their ids, up to where no smaller one can come.

Ids become visible out of order, as transactions end. So a tick first marks the largest id it sees and the number of the
next transaction, and counts up to a mark whose transactions have all ended: at once on a quiet system, else at the next
tick. One that stays open holds this up for `MAX_OPEN_SECONDS`, then what it still writes below the mark is not counted.
An attempt counts as it was logged when the tick came by: an outcome that comes after a sweep does not change it.

Nothing is written where records are delivered, and no index is needed but the key of the log.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, text

from messaging.clock import Ticker
from messaging.delivery.record import AttemptOutcome
from messaging.figures.models import KEPT_HOURS, Step

#: Ids of one transaction: some 300 ms of work.
STEP_IDS = 50_000
#: Seconds of one tick; after a long pause the next ones go on.
TICK_SECONDS = 8.0
#: Seconds for which a transaction that stays open is waited for.
MAX_OPEN_SECONDS = 60
#: Rows that are removed in one transaction, as they are too old.
REMOVED_ROWS = 5_000

#: Whose template is looked up.
FAILED_OUTCOMES = (
    AttemptOutcome.RETRY,
    AttemptOutcome.FAILED,
    AttemptOutcome.DEAD_LETTER,
    AttemptOutcome.SWEPT,
)

_TAKE_TURN = text("SELECT pg_try_advisory_xact_lock(hashtextextended('messaging.figures', 0))")

_MARK = text("""
    INSERT INTO outcome_mark (at, last_attempt_id, next_transaction)
    SELECT now(), coalesce((SELECT max(id) FROM send_attempt), 0), pg_snapshot_xmax(pg_current_snapshot())::text::bigint
    ON CONFLICT (at) DO NOTHING
""")

#: How far it is counted, and the newest mark up to which it may be.
_REACH = text("""
    WITH first AS (SELECT at, last_attempt_id FROM outcome_mark ORDER BY at LIMIT 1)
    SELECT first.at, first.last_attempt_id AS above, reach.at AS reach_at, reach.last_attempt_id AS reach
    FROM first CROSS JOIN LATERAL (
        SELECT at, last_attempt_id FROM outcome_mark m
        WHERE m.at > first.at AND (m.next_transaction <= pg_snapshot_xmin(pg_current_snapshot())::text::bigint
            OR m.at < now() - :open * interval '1 second')
        ORDER BY at DESC LIMIT 1) reach
""")

_FAILED = ", ".join(f"'{outcome}'" for outcome in FAILED_OUTCOMES)
_STEPS = ", ".join(f"({step:d}, {hours})" for step, hours in KEPT_HOURS.items())
_KEY = "tenant_id, step_seconds, begins_at, channel, outcome, category, config_id, template"

_COUNT = text(f"""
    WITH ended AS MATERIALIZED (
        SELECT a.tenant_id, a.channel, a.outcome, a.category, a.config_id, date_trunc('minute', a.ended_at) AS minute,
            coalesce(m.template_code, 'id ' || m.template_id, s.template_code) AS template,
            count(*) AS count, sum(extract(epoch FROM a.ended_at - a.started_at)) AS seconds
        FROM send_attempt a
        LEFT JOIN mail_send_record m ON a.channel = 'mail' AND a.outcome IN ({_FAILED}) AND m.id = a.record_id
        LEFT JOIN sms_send_record s ON a.channel = 'sms' AND a.outcome IN ({_FAILED}) AND s.id = a.record_id
        WHERE a.id > :above AND a.id <= :upto AND a.outcome IS NOT NULL AND a.ended_at IS NOT NULL
        GROUP BY 1, 2, 3, 4, 5, 6, 7)
    INSERT INTO outcome_count ({_KEY}, count, seconds)
    SELECT tenant_id, step, date_bin(step * interval '1 second', minute, 'epoch'), channel, outcome, category,
        config_id, template, sum(count), sum(seconds)
    FROM ended CROSS JOIN (VALUES {_STEPS}) steps (step, hours)
    WHERE minute > now() - hours * interval '1 hour'
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
    ON CONFLICT ({_KEY}) DO UPDATE SET count = outcome_count.count + excluded.count,
        seconds = outcome_count.seconds + excluded.seconds
""")  # noqa: S608 - constants of the code

_MOVE = text("UPDATE outcome_mark SET last_attempt_id = :upto WHERE at = :at")
_FORGET = text("DELETE FROM outcome_mark WHERE at < :at")
_REMOVE = text("""
    DELETE FROM outcome_count WHERE id IN (
        SELECT id FROM outcome_count
        WHERE step_seconds = :step AND begins_at < now() - :hours * interval '1 hour' LIMIT :rows)
""")


@dataclass(frozen=True, slots=True)
class Gathered:
    """What one tick did."""

    #: Ids it went through.
    attempts: int = 0
    #: Counts that it removed.
    removed: int = 0
    #: Whether another tick was at it.
    is_busy: bool = False


def gather(
    engine: Engine,
    *,
    ticker: Ticker,
    is_stopping: Callable[[], bool] = lambda: False,
    tick_seconds: float = TICK_SECONDS,
    step_ids: int = STEP_IDS,
    removed_rows: int = REMOVED_ROWS,
) -> Gathered:
    """Count what has ended since the tick before, and remove what is too old; commits transactions of its own.

    The first one ever only marks where it begins. One that ends in the middle has counted whole steps, and the next one
    goes on there; of two at once one does the work.
    """
    end = ticker() + tick_seconds
    with engine.begin() as connection:
        if not connection.scalar(_TAKE_TURN):
            return Gathered(is_busy=True)
        connection.execute(_MARK)
    attempts = removed = 0
    while not is_stopping() and ticker() < end:
        with engine.begin() as connection:
            if not connection.scalar(_TAKE_TURN):
                return Gathered(attempts, removed, is_busy=True)
            stepped = _step(connection, step_ids)
        if stepped is None:
            break
        attempts += stepped
    for step, hours in KEPT_HOURS.items():
        removed += _remove(engine, step, hours, removed_rows)
    return Gathered(attempts, removed)


def _step(connection: Connection, step_ids: int) -> int | None:
    """Count the next ids; None where there is nothing to reach."""
    reach = connection.execute(_REACH, {"open": MAX_OPEN_SECONDS}).one_or_none()
    if reach is None:
        return None
    upto: int = min(reach.reach, reach.above + step_ids)
    if upto > reach.above:
        connection.execute(_COUNT, {"above": reach.above, "upto": upto})
    if upto < reach.reach:
        connection.execute(_MOVE, {"at": reach.at, "upto": upto})
    else:
        connection.execute(_FORGET, {"at": reach.reach_at})
    return max(0, upto - int(reach.above))


def _remove(engine: Engine, step: Step, hours: int, rows: int) -> int:
    """Some of those that are too old: less comes in between two ticks."""
    with engine.begin() as connection:
        return connection.execute(_REMOVE, {"step": int(step), "hours": hours, "rows": rows}).rowcount
