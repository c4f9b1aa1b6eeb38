"""The system under test: pytest-celery's setup whose nodes are the product's own processes, and a mail server.

Workers, beats, Flower and the broker are real processes, PostgreSQL is the embedded one; each setup has a broker and a
database of its own, and times so short that a test can wait for them, yet in the relation that the product demands.
"""

import os
import runpy
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import redis
from celery import Celery
from pytest_celery import CeleryBrokerCluster, CeleryTestSetup, CeleryWorkerCluster, RedisTestBroker
from sqlalchemy import Engine, make_url, text

from messaging import tenancy
from messaging.api import configure
from messaging.db.engine import create_engine
from messaging.delivery.hints import BACKLOG_KEY_SUFFIX
from messaging.embedded import Valkey
from messaging.settings import Settings, load_settings
from tests.acceptance.local_nodes import (
    ROOT,
    BrokerProcess,
    LocalBeatContainer,
    LocalBrokerContainer,
    LocalFlowerContainer,
    LocalNode,
    LocalProcess,
    LocalWorker,
    LocalWorkerContainer,
)
from tests.far_end.smtp_server import ScriptedSmtpServer

#: Short times in which I1 to I10 hold; the shortest lease that is allowed is 30 s.
TIMES = {
    "DISPATCH__INTERVAL_SECONDS": "0.25",
    "DISPATCH__TICK_EXPIRES_SECONDS": "10",
    "DISPATCH__LEASE_SECONDS": "30",
    "SWEEPER__STALE_SECONDS": "10",
    "SWEEPER__INTERVAL_SECONDS": "1",
    "SWEEPER__COOLDOWN_SECONDS": "3.5",
    "RETRY__BASE_SECONDS": "1",
    "RETRY__MAX_SECONDS": "2",
    "MAIL__TRANSPORT__CONNECTION_TIMEOUT_SECONDS": "1",
    "MAIL__TRANSPORT__READ_TIMEOUT_SECONDS": "3",
    "SMS__TRANSPORT__CONNECTION_TIMEOUT_SECONDS": "1",
    "SMS__TRANSPORT__READ_TIMEOUT_SECONDS": "3",
    "WEBHOOKS__TRANSPORT__CONNECTION_TIMEOUT_SECONDS": "1",
    "WEBHOOKS__TRANSPORT__READ_TIMEOUT_SECONDS": "3",
    "DELIVERY__SEND_BUDGET_SECONDS": "9",
    "DELIVERY__SEND_MAX_SECONDS": "7",
    "DELIVERY__REPLY_WAIT_SECONDS": "3",
    "DELIVERY__PREPARE_MAX_SECONDS": "0.9",
    "DELIVERY__CHUNK_HOLD_SECONDS": "1.1",
    "DELIVERY__COMMIT_TIMEOUT_SECONDS": "0.5",
    "DELIVERY__CLOCK_MARGIN_SECONDS": "0.25",
    "DELIVERY__STOP_GRACE_SECONDS": "10",
    "DATABASE__CONNECT_TIMEOUT_SECONDS": "1",
    "DATABASE__LOCK_TIMEOUT_SECONDS": "0.5",
    "DATABASE__STATEMENT_TIMEOUT_SECONDS": "1",
    "MAIL__EHLO_NAME": "sender.example.com",
}

#: After so long a claim without an outcome is taken back.
STALE_SECONDS = float(TIMES["SWEEPER__STALE_SECONDS"])

#: Records whose message was lost come back when their lease is over.
LEASE_SECONDS = float(TIMES["DISPATCH__LEASE_SECONDS"])

#: Marks every process of a setup in its environment, so that one left behind is found whoever its parent is.
MARK = "SYSTEM_UNDER_TEST"

#: Setups that stand now; their logs are shown when a test fails.
STANDING: list["MessagingSetup"] = []

#: Of each log, when a test fails.
SHOWN_LOG_CHARS = 6000


class MessagingSetup(CeleryTestSetup):
    """One system; made by `assemble`, ended by `teardown`."""

    def __init__(self, broker: RedisTestBroker, app: Celery, engine: Engine, settings: Settings, folder: Path) -> None:
        super().__init__(worker_cluster=None, broker_cluster=CeleryBrokerCluster(broker), backend_cluster=None, app=app)
        self.engine = engine
        self.settings = settings
        self.folder = folder
        self.smtp = ScriptedSmtpServer(keeps_data=False)
        #: Beats and Flower, which pytest-celery has no cluster for.
        self.others: list[LocalNode] = []
        self._env: dict[str, str] = {}
        self._mark = folder.name

    @classmethod
    def assemble(
        cls, database_url: str, server: Valkey, secrets_key: str, folder: Path, given: Mapping[str, str]
    ) -> Self:
        """Everything but workers and beats."""
        container = LocalBrokerContainer(BrokerProcess(server))
        broker = RedisTestBroker(container)
        assert broker.ready()
        variables = {
            "DATABASE_URL": database_url,
            "REDIS_URL": server.url,
            "SECRETS_KEYS": secrets_key,
            "METRICS__DIRECTORY": str(folder / "metrics"),
            **TIMES,
            **given,
        }
        env = {f"MESSAGING_{name}": value for name, value in variables.items()}
        with environment(env):
            settings = load_settings()
            config = {"broker_url": server.url, **runpy.run_path(str(ROOT / "celeryconfig.py"))}
        app = cls.create_setup_app(_client_config(config), "messaging-client")
        setup = cls(broker, app, create_engine(settings, pool_size=5), settings, folder)
        setup._env = env
        setup._set_app_for_all_nodes()
        setup.use()
        setup.smtp.start()
        STANDING.append(setup)
        return setup

    def use(self) -> None:
        """Calls of `messaging.api` in this process are about this system; without the nudge, which beat replaces."""
        configure(self.settings.model_copy(update={"dispatch": _without_nudge(self.settings)}), engine=self.engine)

    # Processes

    @property
    def environment(self) -> dict[str, str]:
        """Of every process of the system."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MESSAGING_")}
        return {**kept, **self._env, MARK: self._mark, "PYTHONUNBUFFERED": "1"}

    @property
    def workers(self) -> list[LocalWorker]:
        return list(self.worker_cluster or ())

    @property
    def nodes(self) -> list[LocalNode]:
        return [*self.workers, *self.others]

    def process(self, name: str, argv: Sequence[str], **variables: str) -> LocalProcess:
        """A process with the system's environment and `variables` over it (without `MESSAGING_`)."""
        env = self.environment | {f"MESSAGING_{key}": value for key, value in variables.items()}
        return LocalProcess(name, argv, env, self.folder)

    def add_worker(self, name: str, *queues: str, threads: int = 4) -> LocalWorker:
        """Begin to start a worker; `wait_ready` waits for it."""
        argv = LocalWorkerContainer.command(name, ",".join(queues), str(threads))
        worker = LocalWorker(LocalWorkerContainer(self.process(name, argv)), self.app, name=name, queues=queues)
        self._worker_cluster = CeleryWorkerCluster(*self.workers, worker)
        return worker

    def add_beat(self, name: str = "beat") -> LocalNode:
        """Begin to start a beat."""
        process = self.process(name, LocalBeatContainer.command())
        return self._add_other(LocalNode(LocalBeatContainer(process), self.app))

    def add_flower(self, port: int, user_and_password: str) -> LocalNode:
        """Begin to start Flower."""
        env = self.environment | {"FLOWER_BASIC_AUTH": user_and_password}
        process = LocalProcess("flower", LocalFlowerContainer.command(str(port)), env, self.folder)
        return self._add_other(LocalNode(LocalFlowerContainer(process), self.app))

    def _add_other(self, node: LocalNode) -> LocalNode:
        self.others.append(node)
        return node

    def wait_ready(self) -> Self:
        """Every node that was started says so."""
        assert self.ready(ping=False, control=False, docker=True)
        for node in self.others:
            assert node.ready()
        return self

    @property
    def server(self) -> Valkey:
        """The broker's server."""
        server: Valkey = self.broker.container.server
        return server

    # Messages

    @property
    def redis(self) -> "redis.Redis":
        client: redis.Redis = self.broker.container.client
        return client

    def queue_length(self, queue: str) -> int:
        """Messages that no worker has taken."""
        with self.redis as client:
            return int(client.llen(f"msg:{queue}")) + int(client.llen(f"msg:{queue}{BACKLOG_KEY_SUFFIX}"))

    def publish(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Hand a chunk to the mail workers, as a tick does."""
        self.app.send_task("messaging.deliver_mail", args=([list(pair) for pair in pairs],), queue="mail_send")

    def publish_accepted(self, ids: Sequence[int]) -> None:
        """The same for records as they were accepted."""
        self.publish([(record_id, 0) for record_id in ids])

    # Mail server

    def add_server(self, *, tenant_id: int = tenancy.SINGLE_TENANT_ID, port: int | None = None) -> None:
        """A tenant's default mail server, by default the scripted one."""
        with self.engine.begin() as connection:
            connection.execute(
                text(
                    "INSERT INTO mail_send_server_config (tenant_id, name, host, port, from_address, is_default)"
                    " VALUES (:tenant_id, 'far end', '127.0.0.1', :port, 'shop@example.com', true)"
                ),
                {"tenant_id": tenant_id, "port": port or self.smtp.port},
            )

    # End

    def logs(self) -> dict[str, str]:
        """Of every process, all of its lives."""
        return {node.process.name: node.process.history() for node in self.nodes}

    def teardown_processes(self) -> None:
        """End workers, beats and Flower. Raises: AssertionError when one does not end well."""
        running = [node for node in self.nodes if node.is_running() and node.container.ready_prompt in node.logs()]
        for node in self.nodes:
            node.process.ask_to_end()
        killed = [node.process.name for node in self.nodes if not node.process.stop()]
        assert not killed, f"not ended by SIGTERM: {killed}"
        unclean = {node.process.name: node.wait_exit(0) for node in running if node.wait_exit(0) != 0}
        last_words = "\n".join(f"{name}: {self.logs()[name][-3000:]}" for name in unclean)
        assert not unclean, f"ended by SIGTERM, but not with exit code 0: {unclean}\n{last_words}"

    def teardown(self) -> None:
        """End everything. Raises: AssertionError when a process is left behind."""
        STANDING.remove(self)
        self.smtp.release()
        try:
            self.teardown_processes()
        finally:
            self.app.close()
            self.smtp.stop()
            self.engine.dispose()
            self.server.stop()
            tenancy.use_multi_tenancy(False)
            left = self.left_behind()
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        assert not left, f"processes left behind: {left}"

    def left_behind(self) -> list[int]:
        """Processes of this system that still run, whoever their parent is now."""
        marked = f"{MARK}={self._mark}".encode()
        found = [node.pid for node in self.nodes if not node.process.is_group_gone()]
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if marked in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    @property
    def secrets(self) -> list[str]:
        """What no log, task or page may show."""
        database = make_url(self.settings.database_url).password
        return [str(database), self.server.password, *self.settings.secrets_keys]


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """With these environment variables in this process."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _client_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The product's Celery settings, less what only a worker uses and needs the tasks for."""
    left_out = ("imports", "worker_consumer", "beat_schedule")
    return {name: value for name, value in config.items() if not name.startswith("_") and name not in left_out}


def _without_nudge(settings: Settings) -> Any:
    return settings.dispatch.model_copy(update={"nudge": ""})
