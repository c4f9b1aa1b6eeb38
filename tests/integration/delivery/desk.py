"""A delivery worker with the mail channel, records, and a far end that answers as told."""

import random
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from prometheus_client import REGISTRY
from sqlalchemy import Engine, create_engine, insert, text

from messaging.clock import boot_seconds, utc_now
from messaging.delivery.worker import DeliveryWorker
from messaging.mail.channel import MailChannel
from messaging.mail.models import MAIL_SEND_SERVER_CONFIG
from messaging.settings import Settings
from tests.far_end.smtp_server import ScriptedSmtpServer
from tests.integration.delivery.records import Records


class Warp:
    """Boot seconds that a test can put ahead."""

    def __init__(self) -> None:
        self.ahead = 0.0
        #: Seconds that pass at each look.
        self.at_each_look = 0.0

    def __call__(self) -> float:
        self.ahead += self.at_each_look
        return boot_seconds() + self.ahead


class Extreme(random.Random):
    """Chance that always falls in the middle: jitter is none."""

    def random(self) -> float:
        return 0.5


class Desk:
    """One worker process's parts; `deliver` is what a task does."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        make_channel: Callable[..., MailChannel],
        server: ScriptedSmtpServer,
    ) -> None:
        self.engine, self.settings, self.server = engine, settings, server
        self.ticker = Warp()
        self.channel = make_channel(engine, settings, self.ticker)
        #: The test's own connections: they survive a restart of the server.
        self.own = create_engine(settings.database_url, pool_pre_ping=True)
        self.records = Records(self.own, self.channel)
        self.workers: list[DeliveryWorker] = []
        self.worker = self.new_worker("worker-1")
        self._pool = ThreadPoolExecutor(8)

    def new_worker(self, name: str) -> DeliveryWorker:
        """Another worker process on the same database."""
        self.workers.append(
            DeliveryWorker(
                self.engine,
                self.channel,
                self.settings,
                worker_name=name,
                clock=utc_now,
                ticker=self.ticker,
                rng=Extreme(),
            )
        )
        return self.workers[-1]

    def add_server(self, server: ScriptedSmtpServer | None = None, **columns: Any) -> int:
        """A mail server's configuration; the tenant's default unless told otherwise."""
        values = {
            "name": "test",
            "host": "127.0.0.1",
            "port": (server or self.server).port,
            "from_address": "shop@example.org",
            "is_default": True,
            **columns,
        }
        with self.own.begin() as connection:
            added: int = connection.execute(
                insert(MAIL_SEND_SERVER_CONFIG).values(values).returning(MAIL_SEND_SERVER_CONFIG.c.id)
            ).scalar_one()
        return added

    def deliver(self, *record_ids: int, worker: DeliveryWorker | None = None) -> dict[str, int]:
        """One task with these records, at the versions they have."""
        rows = self.records.rows()
        return (worker or self.worker).deliver([[i, rows[i].version if i in rows else 0] for i in record_ids])

    def begin(self, *record_ids: int, worker: DeliveryWorker | None = None) -> "Future[dict[str, int]]":
        """The same in a thread."""
        return self._pool.submit(self.deliver, *record_ids, worker=worker)

    def run(self, statement: str) -> None:
        with self.own.begin() as connection:
            connection.exec_driver_sql(statement)

    def close(self) -> None:
        self.server.stop()
        for worker in self.workers:
            worker.close(5)
        self._pool.shutdown()
        self.own.dispose()


def counted(name: str, **labels: str) -> float:
    """A counter of this process."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


def sessions(engine: Engine, applications: str = "messaging%") -> list[tuple[int, str, str]]:
    """Server processes of the product in this database: pid, state, application."""
    with engine.connect() as connection:
        found = connection.execute(
            text(
                "SELECT pid, state, application_name FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name LIKE :a AND pid <> pg_backend_pid()"
            ),
            {"a": applications},
        ).fetchall()
    return [tuple(row) for row in found]
