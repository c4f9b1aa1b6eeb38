"""The one connection of this process that listens to the database (`LISTEN` in PostgreSQL's manual).

A notification is a hint: what nobody heard, because the connection was away, is found by looking again.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from messaging.inbox import changed
from messaging.inbox.changed import Inbox
from messaging.settings import Settings

logger = logging.getLogger(__name__)

#: Seconds without a notification after which the connection is asked whether it still lives.
IDLE_SECONDS = 15.0
#: Seconds for that answer.
ANSWER_SECONDS = 5.0
#: Seconds before the first attempt to connect again, doubling up to the second.
FIRST_WAIT_SECONDS, LAST_WAIT_SECONDS = 0.1, 5.0

APPLICATION_NAME = "messaging live"


async def hear(
    settings: Settings, on_change: Callable[[Sequence[Inbox]], None], on_listening: Callable[[], None]
) -> None:
    """Tell of changed inboxes until cancelled, over as many connections as it takes.

    `on_listening` is called whenever a connection has begun to listen: what changed before was not heard.
    """
    wait = FIRST_WAIT_SECONDS
    while True:
        try:
            async with await _connect(settings) as connection:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(changed.CHANNEL)))
                wait = FIRST_WAIT_SECONDS
                on_listening()
                await _hear(connection, on_change)
        except (psycopg.Error, OSError, TimeoutError) as exc:
            logger.warning("nobody listens to the database", extra={"error": type(exc).__name__, "again_in": wait})
        await asyncio.sleep(wait * random.uniform(0.5, 1.0))
        wait = min(wait * 2, LAST_WAIT_SECONDS)


async def _hear(connection: psycopg.AsyncConnection[Any], on_change: Callable[[Sequence[Inbox]], None]) -> None:
    """Until the connection is lost, which is raised."""
    while True:
        async for notification in connection.notifies(timeout=IDLE_SECONDS):
            try:
                inboxes = changed.heard(notification.payload)
            except ValueError:
                logger.warning("a notification of the inbox is not ours", extra={"pid": notification.pid})
                continue
            on_change(inboxes)
        async with asyncio.timeout(ANSWER_SECONDS):
            await connection.execute("SELECT 1")


async def _connect(settings: Settings) -> psycopg.AsyncConnection[Any]:
    """A connection of its own; a peer that is gone is noticed within half a minute, as by the engine's."""
    address = make_url(settings.database_url).set(drivername="postgresql")
    return await psycopg.AsyncConnection.connect(
        address.render_as_string(hide_password=False),
        autocommit=True,
        application_name=APPLICATION_NAME,
        connect_timeout=max(1, round(settings.database.connect_timeout_seconds)),
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
    )
