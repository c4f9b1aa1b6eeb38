"""Beat's tick: due ids -> the channel's queue, published after the commit; and the nudge, which asks for one now."""

import logging
import os
import time
from datetime import datetime
from typing import Any

from kombu import Connection as BrokerConnection

from messaging.channels import CHANNELS
from messaging.clock import boot_seconds
from messaging.delivery.dispatch import Tick
from messaging.delivery.hints import BACKLOG_PRIORITY, DispatchHints
from messaging.errors import ConfigurationError
from messaging.settings import CLOCK_SKEW_SECONDS
from tasks import worker
from tasks.app import app
from tasks.poison import WrongArguments

logger = logging.getLogger(__name__)


@app.task(name="messaging.dispatch", bind=True, send_events=False)
def dispatch(self: Any, channel: str) -> dict[str, int]:
    """One tick; answers how many records it promoted, leased and published."""
    parts = CHANNELS.get(channel)
    if parts is None:
        raise WrongArguments(f"no channel {channel!r}; there are: {', '.join(CHANNELS)}")
    process = worker.process()
    settings = process.settings
    queue = parts.queue(settings)
    hints = DispatchHints(
        process.redis,
        channel,
        chunk_max=settings.dispatch.chunk_max,
        queue_length=lambda: queue_length(queue),
    )
    tick = Tick(
        engine=process.autocommit,
        table=parts.table,
        channel=channel,
        hints=hints,
        publish=lambda pairs: publish(channel, pairs, queue, priority=BACKLOG_PRIORITY),
        publish_ahead=lambda pairs: publish(channel, pairs, queue, priority=0),
        settings=settings.dispatch,
        ticker=boot_seconds,
    )
    return tick.run(created_at(self.request.expires, settings.dispatch.tick_expires_seconds)).as_dict()


def publish(channel: str, pairs: list[list[int]], queue: str, *, priority: int) -> None:
    """Hand a chunk to the channel's workers."""
    app.send_task(f"messaging.deliver_{channel}", args=(pairs,), queue=queue, priority=priority)


def queue_length(queue: str) -> int:
    """Messages in a worker queue that no worker has taken."""
    with app.connection_or_acquire() as connection:
        return int(connection.default_channel.queue_declare(queue=queue).message_count)


def created_at(expires: str | datetime | None, expires_seconds: float) -> float:
    """When a tick was asked for, in wall seconds: every tick expires a fixed time after that. Without it: now."""
    if expires is None:
        return time.time()
    at = datetime.fromisoformat(expires) if isinstance(expires, str) else expires
    created = at.timestamp() - expires_seconds
    ahead = created - time.time()
    if ahead > CLOCK_SKEW_SECONDS:
        logger.warning("the clock of the host that asked for a tick is ahead", extra={"seconds": round(ahead, 1)})
    return created


class _NudgeConnection:
    """The broker connection that nudges of this process use; a forked child makes its own."""

    def __init__(self) -> None:
        self._pid = 0
        self._connection: BrokerConnection | None = None

    def get(self) -> BrokerConnection:
        """Connected. Raises: what the broker's client raises, soon."""
        if self._connection is None or self._pid != os.getpid():
            connection = app.connection_for_write()
            # Tries once; the connection's lazy form would try for ever.
            connection.connect()
            self._connection, self._pid = connection, os.getpid()
        return self._connection

    def drop(self) -> None:
        """What went wrong may have left it in the middle of a command."""
        connection, self._connection = self._connection, None
        if connection is not None and self._pid == os.getpid():
            connection.release()


_nudge_connection = _NudgeConnection()


def nudge(channel: str) -> None:
    """Ask for a tick of a channel now; called after accepting commits, by one thread (`messaging.nudge`).

    Raises: what the broker's client raises; ConfigurationError where Celery's settings cannot be read.
    """
    try:
        tick = app.conf.beat_schedule[f"dispatch-{channel}"]
    except SystemExit as exc:
        raise ConfigurationError(str(exc)) from exc
    try:
        app.send_task(
            tick["task"],
            args=tick["args"],
            expires=tick["options"]["expires"],
            retry=False,
            connection=_nudge_connection.get(),
        )
    except BaseException:
        _nudge_connection.drop()
        raise
