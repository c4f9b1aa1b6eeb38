"""What the dashboard shows: how attempts ended, how the lines stand, whether beat and workers are heard of."""

from collections.abc import Mapping
from dataclasses import dataclass

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from sqlalchemy.orm import Session

from messaging.api.calls import in_connection
from messaging.api.process import environment
from messaging.channels import CHANNELS
from messaging.db.filters import owning_tenant
from messaging.delivery.hints import BEAT_ALIVE_KEY, live_workers
from messaging.figures import outcomes
from messaging.figures.outcomes import Outcomes, Window
from messaging.figures.standing import Standing, standing

#: Seconds for Redis' answer.
_ANSWER_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Processes:
    """Who is heard of."""

    is_beat_alive: bool
    #: By channel: workers and their threads.
    workers: Mapping[str, Mapping[str, int]]


def outcome_figures(window: Window, *, session: Session | None = None) -> Outcomes:
    """How the current tenant's attempts ended, or those of all; as of the moment that they tell."""
    environment()
    with in_connection(session) as connection:
        return outcomes.read(connection, window, list(CHANNELS), owner=owning_tenant())


def line_figures(*, session: Session | None = None) -> dict[str, Standing]:
    """How the current tenant's records stand in line, or those of all, by channel; as of now."""
    stale_seconds = environment().settings.sweeper.stale_seconds
    with in_connection(session) as connection:
        return {
            name: standing(connection, channel.table, owner=owning_tenant(), stale_seconds=stale_seconds)
            for name, channel in CHANNELS.items()
        }


def live_processes() -> Processes | None:
    """Whether beat is heard of and which workers are; None while Redis does not answer."""
    client = redis.Redis.from_url(
        environment().settings.redis_url,
        socket_connect_timeout=_ANSWER_SECONDS,
        socket_timeout=_ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )
    try:
        workers = {name: live_workers(client, name) for name in CHANNELS}
        return Processes(bool(client.exists(BEAT_ALIVE_KEY)), workers)
    except redis.RedisError:
        return None
    finally:
        client.close()
