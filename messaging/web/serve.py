"""The application in a process of its own, behind uvicorn: bounds of connections, time-outs, logs, the stop."""

import asyncio
import resource
import signal
from collections.abc import Sequence
from typing import Any

import uvicorn
from sqlalchemy import Engine
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from messaging import api, logs, metrics
from messaging.db.engine import create_engine
from messaging.settings import Settings, load_settings
from messaging.web.app import create_app
from messaging.web.limits import Limits

#: Seconds for the head of a request to come in whole.
HEAD_SECONDS = 10.0
#: Seconds a connection is kept between two requests.
IDLE_SECONDS = 5
#: Connections at once; one more is answered 503. Most may be streams, which wait and cost little (`live.hub`); handlers
#: are bounded by their threads.
MAX_CONNECTIONS = 2_000
#: Files that the connections, the database's among them, are at most; a shell's usual 1,024 are too few.
MAX_FILES = 4_096
#: Seconds for which an idle connection to the database is taken to live: under load none idles longer, and none is
#: asked, which is a fifth of a short transaction. One that dies within them fails a request, as one in use does.
ASKED_AFTER_IDLE_SECONDS = 0.1
#: Seconds from SIGTERM for what is in flight.
STOP_SECONDS = 10


class TimedProtocol(H11Protocol):
    """HTTP/1.1 with a time-out for the head of a request; uvicorn itself waits for one for ever."""

    head_seconds = HEAD_SECONDS
    _head_timer: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # Whoever listens to that logger: its line holds the path, and with it the token.
        self.access_log = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # uvicorn declares it as if there were always one.
        if self.cycle is not None and not self.cycle.response_complete:  # type: ignore[redundant-expr]
            self._cancel()
        elif self._head_timer is None:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _cancel(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def server(
    app: ASGIApp, *, host: str, port: int, trusted_proxies: Sequence[str] = (), **options: Any
) -> uvicorn.Server:
    """What serves the application over HTTP, not started.

    `trusted_proxies`: addresses whose `X-Forwarded-For` says who calls; for all others the connection does.
    """
    config = uvicorn.Config(
        app,
        **{
            "host": host,
            "port": port,
            "http": TimedProtocol,
            "ws": "none",
            "loop": "asyncio",
            "lifespan": "on",
            "log_config": None,
            "access_log": False,
            "server_header": False,
            "proxy_headers": bool(trusted_proxies),
            "forwarded_allow_ips": list(trusted_proxies),
            "limit_concurrency": MAX_CONNECTIONS,
            "timeout_keep_alive": IDLE_SECONDS,
            "timeout_graceful_shutdown": STOP_SECONDS,
            **options,
        },
    )
    return uvicorn.Server(config)


def make_engine(settings: Settings, limits: Limits) -> Engine:
    """A connection for each thread, and none that died unnoticed: not every provider repeats after a 503."""
    return create_engine(
        settings,
        pool_size=limits.threads,
        application_name="messaging web",
        ask_after_idle_seconds=ASKED_AFTER_IDLE_SECONDS,
    )


def allow_files(count: int = MAX_FILES) -> None:
    """Let this process have so many files open, or as many as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def serve(*, host: str, port: int, trusted_proxies: Sequence[str] = (), log_level: str = "INFO") -> bool:
    """Run the application until a signal; answers whether it came up.

    It comes up without database and Redis, which `/readyz` then tells.

    Raises: ConfigurationError.
    """
    settings = load_settings()
    logs.configure(log_level)
    allow_files()
    metrics.use_directory(settings.metrics.directory, database_url=settings.database_url, owns_process=True)
    limits = Limits()
    engine = make_engine(settings, limits)
    api.configure(settings, engine=engine)
    running = server(create_app(settings, engine, limits=limits), host=host, port=port, trusted_proxies=trusted_proxies)
    # uvicorn repeats the signal that stopped it, once all has ended well.
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        running.run()
    finally:
        engine.dispose()
    return running.started
