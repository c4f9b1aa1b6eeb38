"""`/healthz` and `/readyz` (`operate.md` section 11): whether the process lives, and whether it can do its work.

The first asks nobody. The second asks database and Redis side by side for at most two seconds, over connections of its
own, and names what fails; asked more often than once a second it answers what it found. Beside that it tells how the
lines stand (`Details`), which fails nothing. `/metrics` shows what all processes of this host have counted.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import anyio
import redis
from anyio import CapacityLimiter
from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from redis.backoff import NoBackoff
from redis.retry import Retry
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from messaging import metrics
from messaging.channels import CHANNELS
from messaging.clock import Ticker
from messaging.db import schema
from messaging.db.engine import create_engine
from messaging.delivery.gauges import measure_line, oldest_due_seconds, stuck_count
from messaging.delivery.hints import BEAT_ALIVE_KEY
from messaging.errors import ConfigurationError
from messaging.settings import Settings

logger = logging.getLogger(__name__)

#: Paths that no rate holds back: whoever asks them restarts what does not answer.
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})

#: Seconds for one part's answer.
ANSWER_SECONDS = 2.0
#: Seconds for which an answer is given again.
FRESH_SECONDS = 1.0
#: Seconds for which details are told again: some cost more the more tenants wait.
DETAILS_SECONDS = 15.0
#: Seconds for which a probe waits for them; what comes later is told to the next.
DETAILS_WAIT_SECONDS = 0.5

#: What a look found: None, or why the part fails.
Look = Callable[[], str | None]


class Readiness:
    """Looks at the parts that the application needs. Any thread may ask."""

    def __init__(
        self,
        looks: Mapping[str, Look],
        ticker: Ticker,
        *,
        seconds: float = ANSWER_SECONDS,
        details: Callable[[], Mapping[str, Any]] = dict,
        on_close: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._looks = looks
        self._tell = details
        self._ticker = ticker
        self._seconds = seconds
        self._on_close = on_close
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(len(looks) + 1, thread_name_prefix="ready")
        self._running: dict[str, Future[str | None]] = {}
        self._found: dict[str, str] = {}
        self._found_at = float("-inf")
        self._details_lock = threading.Lock()
        self._telling: Future[Mapping[str, Any]] | None = None
        self._told: Mapping[str, Any] = {}
        self._told_at = float("-inf")

    def failing(self) -> dict[str, str]:
        """Each part that fails, and why; empty when all is well."""
        with self._lock:
            if self._ticker() - self._found_at >= FRESH_SECONDS:
                self._found = self._look()
                self._found_at = self._ticker()
            return self._found

    def details(self) -> Mapping[str, Any]:
        """How the lines stand, with `age_seconds`, how long ago that was; empty while it is not known."""
        with self._details_lock:
            now = self._ticker()
            if self._telling is None and now - self._told_at >= DETAILS_SECONDS:
                self._telling = self._pool.submit(self._tell)
            if self._telling is not None:
                wait([self._telling], timeout=min(self._seconds, DETAILS_WAIT_SECONDS))
                if self._telling.done():
                    self._told, self._told_at, self._telling = self._telling.result(), self._ticker(), None
            if not self._told:
                return {}
            return {**self._told, "age_seconds": round(self._ticker() - self._told_at, 1)}

    def close(self) -> None:
        """Close what the looks use; waits for none that hangs."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for close in self._on_close:
            close()

    def _look(self) -> dict[str, str]:
        for name, look in self._looks.items():
            # One that still hangs is not asked again: that would only hang beside it.
            if name not in self._running:
                self._running[name] = self._pool.submit(look)
        wait(self._running.values(), timeout=self._seconds)
        failing = {}
        for name, future in list(self._running.items()):
            if not future.done():
                failing[name] = f"no answer within {self._seconds:g} s"
                continue
            del self._running[name]
            reason = future.result()
            if reason is not None:
                failing[name] = reason
        return failing


def readiness(settings: Settings, ticker: Ticker) -> Readiness:
    """Of the database, its schema and Redis; connects to nothing until it is asked."""
    quick = settings.database.model_copy(update={"connect_timeout_seconds": ANSWER_SECONDS})
    engine = create_engine(
        settings.model_copy(update={"database": quick}),
        pool_size=2,
        application_name="messaging readiness",
        statement_timeout_seconds=ANSWER_SECONDS,
    )
    client = redis.Redis.from_url(
        settings.redis_url,
        socket_connect_timeout=ANSWER_SECONDS,
        socket_timeout=ANSWER_SECONDS,
        # Once more, as a connection may have outlived the server.
        retry=Retry(NoBackoff(), 1),
    )
    looks = {"database": partial(_database, engine), "redis": partial(_redis, client)}
    tell = partial(_details, engine, client, settings.sweeper.stale_seconds)
    return Readiness(looks, ticker, details=tell, on_close=(engine.dispose, client.close))


def _database(engine: Engine) -> str | None:
    try:
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
        schema.require_head(engine)
    except ConfigurationError as exc:
        return str(exc)
    except SQLAlchemyError as exc:
        # Else a restarted server would be met over a dead connection again.
        engine.dispose()
        return type(exc).__name__
    return None


def _redis(client: redis.Redis) -> str | None:
    try:
        client.ping()
    except redis.RedisError as exc:
        return type(exc).__name__
    return None


def _details(engine: Engine, client: redis.Redis, stale_seconds: float) -> Mapping[str, Any]:
    """Whether beat is heard of, and each channel's line; empty when database or Redis is away."""
    try:
        told: dict[str, Any] = {"beat": "alive" if client.exists(BEAT_ALIVE_KEY) else "not heard of"}
        with engine.connect() as connection:
            for channel, facts in CHANNELS.items():
                line = measure_line(connection, facts.table)
                told[channel] = {
                    "due": line.due_count,
                    "oldest_due_seconds": round(oldest_due_seconds(connection, facts.table), 1),
                    "overdue": line.overdue_count,
                    "oldest_overdue_seconds": round(line.oldest_overdue_seconds, 1),
                    "stuck_sending": stuck_count(connection, facts.table, stale_seconds),
                }
    except (SQLAlchemyError, redis.RedisError) as exc:
        logger.info("details of readiness are not known", extra={"error": type(exc).__name__})
        return {}
    return told


def router(ready: Readiness) -> APIRouter:
    """The two probes, and the metrics. None asks who calls: they are for the network of the operators' machines."""
    routes = APIRouter()
    # Threads of their own: those of the handlers may all wait for the database.
    limiter = CapacityLimiter(2)

    @routes.get("/healthz")
    async def healthz() -> JSONResponse:
        return JSONResponse({"status": "ok"})

    @routes.get("/readyz")
    async def readyz() -> JSONResponse:
        failing = await anyio.to_thread.run_sync(ready.failing, limiter=limiter)
        if not failing:
            details = await anyio.to_thread.run_sync(ready.details, limiter=limiter)
            return JSONResponse({"status": "ok", "details": details})
        logger.warning("not ready", extra={"failing": failing})
        # The reasons stand in the log: whoever may ask this is not known.
        return JSONResponse({"status": "not ready", "failing": sorted(failing)}, 503)

    @routes.get("/metrics")
    async def show_metrics() -> Response:
        shown = await anyio.to_thread.run_sync(metrics.exposition, limiter=limiter)
        return Response(shown, media_type=metrics.CONTENT_TYPE)

    return routes
