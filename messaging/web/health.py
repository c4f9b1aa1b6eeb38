"""`/healthz` and `/readyz` (`operate.md` section 11): whether the process lives, and whether it can do its work.

The first asks nobody. The second asks database and Redis side by side for at most two seconds, over connections of its
own, and names what fails; asked more often than once a second it answers what it found.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial

import anyio
import redis
from anyio import CapacityLimiter
from fastapi import APIRouter
from fastapi.responses import JSONResponse
from redis.backoff import NoBackoff
from redis.retry import Retry
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from messaging.clock import Ticker
from messaging.db import schema
from messaging.db.engine import create_engine
from messaging.errors import ConfigurationError
from messaging.settings import Settings

logger = logging.getLogger(__name__)

#: Paths that no rate holds back: whoever asks them restarts what does not answer.
PROBES = frozenset({"/healthz", "/readyz"})

#: Seconds for one part's answer.
ANSWER_SECONDS = 2.0
#: Seconds for which an answer is given again.
FRESH_SECONDS = 1.0

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
        on_close: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._looks = looks
        self._ticker = ticker
        self._seconds = seconds
        self._on_close = on_close
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(len(looks), thread_name_prefix="ready")
        self._running: dict[str, Future[str | None]] = {}
        self._found: dict[str, str] = {}
        self._found_at = float("-inf")

    def failing(self) -> dict[str, str]:
        """Each part that fails, and why; empty when all is well."""
        with self._lock:
            if self._ticker() - self._found_at >= FRESH_SECONDS:
                self._found = self._look()
                self._found_at = self._ticker()
            return self._found

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
        pool_size=1,
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
    return Readiness(looks, ticker, on_close=(engine.dispose, client.close))


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


def router(ready: Readiness) -> APIRouter:
    """The two probes."""
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
            return JSONResponse({"status": "ok"})
        logger.warning("not ready", extra={"failing": failing})
        # The reasons stand in the log: whoever may ask this is not known.
        return JSONResponse({"status": "not ready", "failing": sorted(failing)}, 503)

    return routes
