"""What Redis and the broker tell: beat, workers, what waits in the queues."""

import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from messaging.channels import CHANNELS, ChannelFacts
from messaging.delivery.hints import BACKLOG_KEY_SUFFIX, BEAT_ALIVE_KEY, live_workers
from messaging.doctor.findings import ANSWER_SECONDS, Finding, Findings, Level
from messaging.mail import channel as mail
from messaging.mail.mail_request import MAIL_REQUEST
from messaging.receive.polling import MAIL_FETCH
from messaging.retention.kinds import PruneKind
from messaging.retention.models import MAINTENANCE
from messaging.settings import Settings

#: The broker's keys begin with this (`celeryconfig.py`).
BROKER_KEY_PREFIX = "msg:"
#: Seconds for which a tick that began says that a worker on the control queue is there, and beat or nudges.
TICK_FRESH_SECONDS = 15.0

#: Mail requests that may wait while a worker takes them: each is a transaction of milliseconds.
MAX_WAITING_REQUESTS = 100

#: Ticks of the nightly run that may wait while it goes on, for an hour by default.
MAX_WAITING_RUNS = 20

#: Fetches that may wait: of a mailbox with nothing new one takes a fraction of a second.
MAX_WAITING_FETCHES = 200


def _client(url: str) -> redis.Redis:
    if url.startswith("redis+socket://"):  # kombu's way to name a socket; redis-py has its own
        path, _, query = url.removeprefix("redis+socket://").partition("?")
        url = f"unix://{path}?{query.replace('virtual_host=', 'db=')}"
    return redis.Redis.from_url(
        url, socket_connect_timeout=ANSWER_SECONDS, socket_timeout=ANSWER_SECONDS, retry=Retry(NoBackoff(), 0)
    )


def look_at_redis(settings: Settings) -> Findings:
    """Beat and the workers of the channels."""
    try:
        with _client(settings.redis_url) as client:
            client.ping()
            yield Finding("redis", Level.OK, "answers")
            begun = client.hget(f"msg:dispatch:{mail.NAME}", "begun")
            alive = client.get(BEAT_ALIVE_KEY)
            yield _beat(settings, alive, begun)
            for channel in CHANNELS.values():
                yield _workers(settings, channel, live_workers(client, channel.name))
    except (redis.RedisError, ValueError) as exc:
        yield Finding("redis", Level.FAIL, str(exc), "start Redis or Valkey, or correct MESSAGING_REDIS_URL")


def _beat(settings: Settings, alive: bytes | str | None, begun: bytes | str | None) -> Finding:
    """Heartbeats and ticks reach a worker of the control queue, so they tell of beat and of that worker."""
    if alive is not None:
        return Finding("beat", Level.OK, f"the last heartbeat is {max(0, time.time() - float(alive)):.0f} s old")
    control = settings.queues.control
    if begun is not None and time.time() - float(begun) < TICK_FRESH_SECONDS:
        return Finding(
            "beat",
            Level.WARN,
            "no heartbeat so far, yet ticks run",
            "only nudges come: start: messaging beat",
        )
    return Finding(
        "beat",
        Level.FAIL,
        "no heartbeat within two minutes",
        f"start: messaging beat, and: messaging worker --queues {control}",
    )


def _workers(settings: Settings, channel: ChannelFacts, live: dict[str, int]) -> Finding:
    queue, check = channel.queue(settings), f"{channel.name}: workers"
    if live:
        return Finding(check, Level.OK, f"{queue}: {len(live)} with {sum(live.values())} threads")
    # A system without text messages, or without webhooks, needs no worker for them.
    level = Level.FAIL if channel.name == mail.NAME else Level.WARN
    return Finding(check, level, f"no worker takes {queue}", f"start: messaging worker --queues {queue}")


def look_at_broker(settings: Settings) -> Findings:
    """The queues, and who takes what no row stands behind."""
    url = settings.resolved_broker_url
    advice = "start it, or correct " + ("MESSAGING_BROKER_URL" if settings.broker_url else "MESSAGING_REDIS_URL")
    try:
        with _client(url) as client:
            depth = {
                queue: int(client.llen(BROKER_KEY_PREFIX + queue))
                + int(client.llen(BROKER_KEY_PREFIX + queue + BACKLOG_KEY_SUFFIX))
                for queue in settings.queues.model_dump().values()
            }
    except (redis.RedisError, ValueError) as exc:
        yield Finding("broker", Level.FAIL, str(exc), advice)
        return
    yield Finding("broker", Level.OK, "answers")
    yield from _depths(settings, depth)
    requests, fetches = settings.queues.mail_request, settings.queues.mail_fetch
    yield _takers(settings, "mail requests", requests, MAIL_REQUEST, depth[requests])
    yield _takers(settings, "fetches", fetches, MAIL_FETCH, depth[fetches])
    if any(kind.days(settings.retention) is not None for kind in PruneKind):
        queue = settings.queues.maintenance
        yield _takers(settings, "pruning", queue, MAINTENANCE, depth[queue])


def _takers(settings: Settings, check: str, queue: str, name: str, waiting: int) -> Finding:
    """Of a queue that no line of records stands behind: nobody else would tell of messages that no worker takes."""
    try:
        with _client(settings.redis_url) as client:
            live = live_workers(client, name)
    except (redis.RedisError, ValueError) as exc:
        return Finding(check, Level.WARN, f"who takes {queue} is not known: {exc}", "see Redis above")
    if live:
        return Finding(check, Level.OK, f"{queue}: {len(live)} with {sum(live.values())} threads")
    if waiting:
        detail = f"no worker takes {queue}, and {waiting} wait there"
        return Finding(check, Level.FAIL, detail, f"start: messaging worker --queues {queue}")
    return Finding(check, Level.OK, f"no worker takes {queue}, and nothing waits there")


def _depths(settings: Settings, depth: dict[str, int]) -> Findings:
    dispatch, queues = settings.dispatch, settings.queues
    limits = {
        # Ticks that nobody takes: what beat asks for until the first ones expire.
        queues.control: max(10, round(dispatch.tick_expires_seconds / dispatch.interval_seconds / 2)),
        **{channel.queue(settings): dispatch.queue_target for channel in CHANNELS.values()},
        queues.mail_request: MAX_WAITING_REQUESTS,
        queues.mail_fetch: MAX_WAITING_FETCHES,
        # One asked for every five minutes, each for as long.
        queues.maintenance: MAX_WAITING_RUNS,
    }
    for queue, limit in limits.items():
        length = depth[queue]
        detail = f"{length} messages wait"
        if length > limit:
            advice = f"start or add: messaging worker --queues {queue}"
            yield Finding(f"queue {queue}", Level.WARN, detail, advice)
        else:
            yield Finding(f"queue {queue}", Level.OK, detail)
