"""The stuck-send sweep: claims of workers that vanished are taken back, counted, and retried after a cool-down.

Never right after a step of a clock (C17): the growth of the database's time and of Redis' since the last run must
agree, or everything in flight would be taken back at once.
"""

import json
import logging
import math
from typing import Any

import redis
from sqlalchemy import Engine, Table, text

from messaging import metrics
from messaging.delivery import statements
from messaging.delivery.announcing import NOBODY, Announcer
from messaging.settings import Settings

logger = logging.getLogger(__name__)

#: Where the two clocks of the last run are kept; a hint.
CLOCK_KEY = "msg:sweep:clock"

#: Seconds by which the two clocks may drift apart between runs.
MAX_STEP_SECONDS = 5.0


def sweep(
    engine: Engine,
    table: Table,
    client: redis.Redis,
    settings: Settings,
    *,
    channel: str,
    provider: str,
    queue: str,
    announcer: Announcer = NOBODY,
) -> dict[str, int]:
    """Take back what is stuck, batch by batch until one is not full; answers retry, dead_letter and sent counts.

    `engine` autocommits. Several at once share the work.
    """
    counts = {"retry": 0, "dead_letter": 0, "sent": 0}
    if not settings.sweeper.enabled or not _clocks_agree(engine, client, settings):
        return counts
    parameters = {
        "stale": settings.sweeper.stale_seconds,
        "limit": settings.sweeper.batch_limit,
        "max_retries": settings.retry.max_retries,
        "cooldown": settings.sweeper.cooldown_seconds,
        "max_cooldown": max(settings.retry.max_seconds, settings.sweeper.cooldown_seconds),
        "channel": channel,
        "provider": provider,
        "queue": queue,
    }
    while True:
        with engine.connect() as connection:
            statement = statements.sweep(table, announcer.find(connection, channel))
            rows = connection.execute(statement, parameters).fetchall()
        for row in rows:
            result = row.status.lower()
            counts[result] += 1
            metrics.swept(channel, result)
            logger.warning("swept", extra={"record_id": row.id, "tenant_id": row.tenant_id, "status": row.status})
        if len(rows) < settings.sweeper.batch_limit:
            break
    if any(counts.values()):
        logger.info("sweep", extra={"channel": channel, **counts})
    return counts


def _clocks_agree(engine: Engine, client: redis.Redis, settings: Settings) -> bool:
    with engine.connect() as connection:
        database = float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())::float8")).scalar_one())
    seconds, micros = client.time()
    other = seconds + micros / 1e6
    last = _last_run(client)
    # No pause is longer: one that is was set by a clock that has been set back since.
    paused_until = min(last["paused_until"], other + settings.sweeper.stale_seconds) if last else 0.0
    now = {"database": database, "redis": other, "paused_until": paused_until}
    if last is not None:
        step = (database - last["database"]) - (other - last["redis"])
        if abs(step) > MAX_STEP_SECONDS:
            now["paused_until"] = other + settings.sweeper.stale_seconds
            logger.warning(
                "a clock stepped, no sweep for SWEEPER__STALE_SECONDS", extra={"step_seconds": round(step, 1)}
            )
    client.set(CLOCK_KEY, json.dumps(now))
    return other >= now["paused_until"]


def _last_run(client: redis.Redis) -> dict[str, float] | None:
    """Both clocks at the last run, and until when it paused; None where that is lost or cannot be read."""
    try:
        stored: Any = client.get(CLOCK_KEY)
    except redis.ResponseError as exc:
        if not str(exc).startswith("WRONGTYPE"):
            raise
        return None
    try:
        parsed = json.loads(stored) if stored else {}
        last = {name: float(parsed[name]) for name in ("database", "redis", "paused_until")}
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return last if all(math.isfinite(value) for value in last.values()) else None
