"""Beat's heartbeat: says that beat's ticks reach a worker, and measures the gauges."""

import logging
import time
from typing import Any

from celery import signals
from kombu.exceptions import OperationalError

from messaging import metrics
from messaging.channels import CHANNELS
from messaging.delivery.gauges import measure_line, oldest_due_seconds, oldest_transaction_seconds
from messaging.delivery.hints import BEAT_ALIVE_KEY
from tasks import worker
from tasks.app import app

logger = logging.getLogger(__name__)

#: Seconds after which a beat that was not heard of counts as away.
ALIVE_TTL_SECONDS = 120

#: Seconds between two measurements of the oldest record in line, which costs more the more tenants wait.
OLDEST_DUE_INTERVAL_SECONDS = 50.0

_measured_at: dict[str, float] = {}


@signals.beat_init.connect(weak=False)
def on_beat_init(**_: Any) -> None:
    """A beat that starts is heard of at once, not after its first interval."""
    try:
        heartbeat.apply_async(expires=ALIVE_TTL_SECONDS, retry=False)
    except OperationalError as exc:
        logger.warning("beat starts while the broker is away", extra={"error": str(exc)})


@app.task(name="messaging.heartbeat")
def heartbeat() -> dict[str, int]:
    """Write the sign of life and measure every channel's line; answers what is due and overdue over all channels."""
    process = worker.process()
    process.redis.set(BEAT_ALIVE_KEY, int(time.time()), ex=ALIVE_TTL_SECONDS)
    due = overdue = 0
    with process.autocommit.connect() as connection:
        metrics.oldest_transaction(oldest_transaction_seconds(connection))
        for channel, parts in CHANNELS.items():
            line = measure_line(connection, parts.table)
            metrics.due_records(channel, line.due_count)
            metrics.overdue_records(channel, line.overdue_count)
            metrics.oldest_overdue(channel, line.oldest_overdue_seconds)
            at = time.monotonic()
            if at - _measured_at.get(channel, float("-inf")) >= OLDEST_DUE_INTERVAL_SECONDS:
                _measured_at[channel] = at
                metrics.oldest_due(channel, oldest_due_seconds(connection, parts.table))
            due += line.due_count
            overdue += line.overdue_count
    return {"due": due, "overdue": overdue}
