"""What one worker process holds from start to end: checks at the start, the parts its tasks use, its threads, its stop.

Nothing is built at import. A process that cannot work refuses to start with one line that says what to do.
"""

import logging
import os
import queue
import random
import signal
import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NoReturn

import redis
from kombu import Connection as BrokerConnection
from kombu.exceptions import OperationalError as BrokerError
from redis.backoff import NoBackoff
from redis.retry import Retry
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from messaging import metrics, tenancy
from messaging.channels import CHANNELS
from messaging.clock import boot_seconds, utc_now
from messaging.db import schema
from messaging.db.encryption import use_keys
from messaging.db.engine import autocommitting, check_server, create_engine
from messaging.delivery.hints import BEAT_ALIVE_KEY, WorkerHints, live_workers
from messaging.delivery.worker import DeliveryWorker
from messaging.errors import ConfigurationError
from messaging.mail.alerts import Alerting
from messaging.mail.mail_request import MAIL_REQUEST, MailRequests
from messaging.receive.polling import MAIL_FETCH
from messaging.retention.models import MAINTENANCE
from messaging.settings import Settings, load_settings
from messaging.webhooks.announcing import EndpointWatch
from tasks.channels import BUILDERS, BuiltChannel
from tasks.exposition import serve
from tasks.stranded import StrandedWatch

if TYPE_CHECKING:
    from tasks.fetching import Fetching

logger = logging.getLogger(__name__)

#: Seconds between two signs of life, which dispatch counts threads by.
ALIVE_INTERVAL_SECONDS = 30.0

#: Seconds between two looks for a send that hangs.
WATCHDOG_INTERVAL_SECONDS = 5.0

#: Seconds for one command to Redis: what hangs on it only gives hints.
REDIS_TIMEOUT_SECONDS = 5


class WorkerProcess:
    """The engine, the clients and the deliveries of this process."""

    def __init__(self, settings: Settings, *, hostname: str, threads: int, queues: Collection[str]) -> None:
        self.settings = settings
        self.hostname = hostname
        self.engine = create_engine(settings, pool_size=threads + 3, application_name=f"messaging {hostname}"[:63])
        #: Each statement its own transaction.
        self.autocommit: Engine = autocommitting(self.engine)
        #: Poison is archived over a connection of its own, whatever state the others are in.
        self.archive_engine = create_engine(settings, pool_size=1, application_name="messaging poison")
        self.redis = redis.Redis.from_url(
            settings.redis_url,
            socket_timeout=REDIS_TIMEOUT_SECONDS,
            socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
            # Once more, as a connection may have outlived the server; not three times with waits between.
            retry=Retry(NoBackoff(), 1),
        )
        #: Which tenants are told what becomes of their messages.
        self.endpoints = EndpointWatch(ttl_seconds=settings.config_cache_ttl_seconds, ticker=boot_seconds)
        #: Over the same connection.
        self.alerting = Alerting(self.archive_engine, self.redis, settings, utc_now)
        self.stopping = threading.Event()
        self._has_ended = threading.Event()
        self._threads = threads
        self._queues = queues
        self._deliveries: dict[str, DeliveryWorker] = {}
        self._hints: dict[str, WorkerHints] = {}
        self._channels: list[BuiltChannel] = []
        self._mail_requests: MailRequests | None = None
        self._fetching: Fetching | None = None
        #: Something to get once a stop was asked for. Not an Event: a second signal that interrupts `set` would wait
        #: for ever for the lock that the first one holds; this queue's `put` may be interrupted by itself.
        self._stop_asked: queue.SimpleQueue[None] = queue.SimpleQueue()
        #: Monotonic seconds at which the process must have ended; set by a stop.
        self._end_by: float | None = None

    def build_deliveries(self) -> None:
        """What delivers the channels whose queues this process consumes."""
        for name, parts in CHANNELS.items():
            if parts.queue(self.settings) not in self._queues:
                continue
            built = BUILDERS[name](self.autocommit, self.settings)
            self._channels.append(built)
            self._deliveries[name] = DeliveryWorker(
                self.engine,
                built.channel,
                self.settings,
                worker_name=self.hostname,
                clock=utc_now,
                ticker=boot_seconds,
                rng=random.Random(),
                announcer=self.endpoints,
            )
            self._hints[name] = self._make_hints(name)

    def _make_hints(self, name: str) -> WorkerHints:
        return WorkerHints(self.redis, name, worker_name=f"{self.hostname}/{os.getpid()}", threads=self._threads)

    def build_mail_requests(self) -> None:
        """What accepts mail requests, where this process consumes their queue."""
        if self.settings.queues.mail_request not in self._queues:
            return
        self._mail_requests = MailRequests(
            self.engine, self.redis, self.settings, clock=utc_now, ticker=boot_seconds, stopping=self.stopping
        )
        self._hints[MAIL_REQUEST] = self._make_hints(MAIL_REQUEST)

    def build_fetching(self) -> None:
        """What fetches mailboxes, where this process consumes their queue."""
        if self.settings.queues.mail_fetch not in self._queues:
            return
        # Loaded here: parsers and clients are of no use in other workers.
        from tasks.fetching import Fetching, slots_for

        slots = slots_for(self._threads, is_alone=len(self._queues) == 1)
        self._fetching = Fetching(
            self.engine,
            self.settings,
            slots=slots,
            is_stopping=self.stopping.is_set,
            announcer=self.endpoints,
        )
        self._hints[MAIL_FETCH] = self._make_hints(MAIL_FETCH)

    def build_maintenance(self) -> None:
        """That this process takes the nightly run, so that the doctor knows of it."""
        if self.settings.queues.maintenance in self._queues:
            self._hints[MAINTENANCE] = self._make_hints(MAINTENANCE)

    @property
    def fetching(self) -> "Fetching":
        """What fetches mailboxes. Raises: ConfigurationError, where their queue is not consumed."""
        if self._fetching is None:
            raise ConfigurationError("this worker does not consume the queue of fetches, yet got one")
        return self._fetching

    @property
    def mail_requests(self) -> MailRequests:
        """What accepts mail requests. Raises: ConfigurationError, where their queue is not consumed."""
        if self._mail_requests is None:
            raise ConfigurationError("this worker does not consume the queue of mail requests, yet got one")
        return self._mail_requests

    def deliver(self, channel: str, pairs: list[list[int]]) -> dict[str, int]:
        """Deliver a chunk; see `DeliveryWorker.deliver`."""
        delivery = self.find_delivery(channel)
        if delivery is None:
            raise ConfigurationError(f"this worker does not consume the queue of {channel}, yet got its task")
        self._hints[channel].taken(len(pairs))
        return delivery.deliver(pairs)

    def find_delivery(self, channel: str) -> DeliveryWorker | None:
        """What delivers a channel here; None where its queue is not consumed."""
        return self._deliveries.get(channel)

    def start_threads(self) -> None:
        """Everything that runs beside the tasks; daemons, as the process may have to end in the middle."""
        settings = self.settings
        watch = StrandedWatch(
            self.engine,
            {name: parts.table for name, parts in CHANNELS.items()},
            warn_seconds=settings.dispatch.stranded_warn_seconds,
            lease_seconds=settings.dispatch.lease_seconds,
            find_absent=self.find_absent,
        )
        self._start("stop", self._stop_in_time)
        self._start("stranded", lambda: watch.run(self.stopping))
        if self._hints:
            self._start("registration", self._register)
        if self._deliveries:
            self._start("watchdog", self._watch_sends)
        port = settings.metrics.port
        if port is not None:
            self._start("metrics", lambda: serve(port, self.stopping))

    def find_absent(self, channel: str) -> str | None:
        """What a channel's records may wait for: `broker`, `redis`, `workers` or `beat`; None when all are there."""
        if not is_broker_there(self.settings.resolved_broker_url):
            return "broker"
        try:
            if not live_workers(self.redis, channel):
                return "workers"
            return None if self.redis.exists(BEAT_ALIVE_KEY) else "beat"
        except redis.RedisError:
            return "redis"

    def begin_stop(self) -> None:
        """SIGTERM came: give back what is not begun, let sends and the mails that are being fetched end, then end too.

        Called in a signal handler, which may have interrupted anything: a thread that waits for it does the work.
        """
        self._stop_asked.put(None)

    def close(self) -> None:
        """All tasks have ended: write the last outcomes, leave nothing open."""
        self.stopping.set()
        flush_seconds = self.settings.delivery.commit_timeout_seconds + 1
        if self._end_by is not None:
            flush_seconds = max(flush_seconds, self._end_by - time.monotonic())
        self._close_deliveries(flush_seconds)
        for hints in self._hints.values():
            hints.gone()
        for built in self._channels:
            built.close_all()
        self.engine.dispose()
        self.archive_engine.dispose()
        self.redis.close()
        self._has_ended.set()
        self._stop_asked.put(None)

    def _start(self, name: str, body: Callable[[], None]) -> None:
        threading.Thread(target=body, name=f"messaging-{name}", daemon=True).start()

    def _register(self) -> None:
        while True:
            for hints in self._hints.values():
                hints.alive()
            if self.stopping.wait(ALIVE_INTERVAL_SECONDS):
                return

    def _watch_sends(self) -> None:
        """C16: threads have no time limit, so a call without a time-out would keep one for good."""
        while not self.stopping.wait(WATCHDOG_INTERVAL_SECONDS):
            for built in self._channels:
                built.close_idle()
            hung = [name for name, delivery in self._deliveries.items() if delivery.is_hung()]
            if hung:
                logger.critical("a send hangs; the worker ends, to be started anew", extra={"channels": hung})
                os.kill(os.getpid(), signal.SIGTERM)
                return

    def _stop_in_time(self) -> None:
        """The process ends within the grace; what hangs until then is left to the sweep."""
        self._stop_asked.get()
        if self._has_ended.is_set():
            return
        grace_seconds = self.settings.delivery.stop_grace_seconds
        self._end_by = time.monotonic() + grace_seconds
        self.stopping.set()
        for delivery in self._deliveries.values():
            delivery.stop()
        for hints in self._hints.values():
            hints.gone()
        flush_seconds = self.settings.delivery.commit_timeout_seconds + 1
        if self._has_ended.wait(grace_seconds - flush_seconds):
            return
        logger.error("sends or fetches did not end within DELIVERY__STOP_GRACE_SECONDS, the worker ends without them")
        if self._fetching is not None:
            self._fetching.let_go()
        self._close_deliveries(flush_seconds)
        os._exit(1)

    def _close_deliveries(self, grace_seconds: float) -> None:
        until = time.monotonic() + grace_seconds
        for name, delivery in self._deliveries.items():
            if not delivery.close(max(0.0, until - time.monotonic())):
                logger.error("outcomes were not written at the end; the sweep repeats them", extra={"channel": name})


_process: WorkerProcess | None = None


def process() -> WorkerProcess:
    """This process' parts. Raises: RuntimeError outside a started worker."""
    if _process is None:
        raise RuntimeError("no worker has been started in this process")
    return _process


def find_process() -> WorkerProcess | None:
    """This process' parts; None outside a started worker."""
    return _process


def end() -> None:
    """All tasks of this process have ended; see `WorkerProcess.close`."""
    global _process
    ended, _process = _process, None
    if ended is not None:
        ended.close()


def start(*, hostname: str, threads: int, queues: Collection[str]) -> WorkerProcess:
    """Check what a worker needs, build its parts and start its threads.

    Raises: SystemExit, with one line, when the database, Redis, the schema or a setting is not as needed.
    """
    global _process
    try:
        settings = load_settings()
        metrics.use_directory(settings.metrics.directory, database_url=settings.database_url, owns_process=True)
    except ConfigurationError as exc:
        refuse(str(exc))
    use_keys(settings.secrets_keys)
    tenancy.use_multi_tenancy(settings.multi_tenancy)
    try:
        made = WorkerProcess(settings, hostname=hostname, threads=threads, queues=queues)
    except ValueError as exc:
        refuse(f"MESSAGING_REDIS_URL cannot be read ({exc}); it looks like redis://host:6379/0")
    require_dependencies(made)
    made.build_deliveries()
    made.build_mail_requests()
    made.build_fetching()
    made.build_maintenance()
    made.start_threads()
    _process = made
    return made


def require_dependencies(made: WorkerProcess) -> None:
    """Refuse to start without the database, its schema, Redis or the broker."""
    settings = made.settings
    try:
        check_server(made.engine, settings)
        schema.require_head(made.engine)
    except ConfigurationError as exc:
        refuse(str(exc))
    except SQLAlchemyError as exc:
        url = settings.shown_database_url
        reason = str(getattr(exc, "orig", None) or exc).strip().splitlines()[0]
        refuse(f"the database does not answer ({reason}); start PostgreSQL or correct MESSAGING_DATABASE_URL, {url}")
    try:
        made.redis.ping()
    except redis.RedisError as exc:
        refuse(f"Redis does not answer ({exc}); start it or correct MESSAGING_REDIS_URL")
    if not is_broker_there(settings.resolved_broker_url):
        refuse("the broker does not answer; start it or correct MESSAGING_BROKER_URL")


def is_broker_there(url: str) -> bool:
    """Whether a connection to the broker can be made now."""
    connection = BrokerConnection(
        url,
        transport_options={"socket_connect_timeout": REDIS_TIMEOUT_SECONDS, "socket_timeout": REDIS_TIMEOUT_SECONDS},
    )
    try:
        connection.ensure_connection(max_retries=1, timeout=REDIS_TIMEOUT_SECONDS)
    except (BrokerError, OSError):
        return False
    finally:
        connection.release()
    return True


def refuse(reason: str) -> NoReturn:
    """End the start with one line."""
    raise SystemExit("messaging: " + "; ".join(reason.splitlines()))
