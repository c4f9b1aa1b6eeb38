"""A delivery worker with the channel of text messages, its records, and providers that answer as told."""

from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Engine, insert, update

from messaging.clock import utc_now
from messaging.delivery.worker import DeliveryWorker
from messaging.http.client import HttpClient, HttpLimits
from messaging.settings import Settings
from messaging.sms.channel import SmsChannel
from messaging.sms.models import SMS_PROVIDER_CONFIG, SMS_SEND_RECORD
from messaging.sms.providers.registry import Registry
from tests.far_end.provider_server import ProviderServer
from tests.integration.delivery.desk import Extreme, Warp
from tests.integration.delivery.records import Records
from tests.integration.sms.accounts import Accounts
from tests.integration.sms.providers.subjects import NUMBER, TWILIO, Subject

TENANT = 0
#: An address where nobody listens.
NOWHERE = "http://127.0.0.1:9"


class SmsDesk:
    """One worker process's parts; `deliver` is what a task does."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        #: The adapters of this process.
        self.registry = Registry()
        self.engine, self.settings = engine, settings
        self.ticker = Warp()
        self.client = HttpClient(HttpLimits.of(settings))
        self.channel = SmsChannel(
            engine, settings, self.client, clock=utc_now, ticker=self.ticker, find_provider=self.registry.provider
        )
        self.records = Records(engine, self.channel)
        self.accounts = Accounts(engine)
        self.workers: list[DeliveryWorker] = []
        self.worker = self.new_worker("worker-1")
        self._servers: list[ProviderServer] = []
        self._pool = ThreadPoolExecutor(4)

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

    def serve(self, subject: Subject = TWILIO) -> ProviderServer:
        """A provider's far end."""
        self._servers.append(ProviderServer(subject.api()))
        return self._servers[-1]

    def add_provider(self, server: ProviderServer | None, subject: Subject = TWILIO, **columns: Any) -> int:
        """An account at a far end; a default of the one tenant unless told otherwise. None: nobody listens there."""
        values = {
            "tenant_id": TENANT,
            "api_endpoint": (NOWHERE if server is None else server.url) + subject.path,
            "is_default": True,
            **subject.config,
        }
        return self.accounts.provider(subject.type, **values | columns)

    def change_provider(self, config_id: int, **columns: Any) -> None:
        t = SMS_PROVIDER_CONFIG
        with self.engine.begin() as connection:
            connection.execute(update(t).where(t.c.id == config_id).values(columns))

    def drop_provider(self, config_id: int) -> None:
        t = SMS_PROVIDER_CONFIG
        with self.engine.begin() as connection:
            connection.execute(t.delete().where(t.c.id == config_id))

    def one(self, number: str = NUMBER, **columns: Any) -> int:
        """A record as acceptance leaves it."""
        values = {"phone_number": number, "content": "Your parcel is here.", "scope": "TENANT", **columns}
        t = SMS_SEND_RECORD
        with self.engine.begin() as connection:
            record_id: int = connection.execute(insert(t).values(values).returning(t.c.id)).scalar_one()
        return record_id

    def row(self, record_id: int) -> SimpleNamespace:
        return self.records.row(record_id)

    def deliver(self, *record_ids: int, worker: DeliveryWorker | None = None) -> dict[str, int]:
        """One task with these records, at the versions they have."""
        rows = self.records.rows()
        return (worker or self.worker).deliver([[i, rows[i].version if i in rows else 0] for i in record_ids])

    def begin(self, *record_ids: int, worker: DeliveryWorker | None = None) -> "Future[dict[str, int]]":
        """The same in a thread."""
        return self._pool.submit(self.deliver, *record_ids, worker=worker)

    def close(self) -> None:
        for server in self._servers:
            server.stop()
        for worker in self.workers:
            worker.close(5)
        self._pool.shutdown()
        self.client.close()
