"""A delivery worker with the webhook channel, endpoints, and an application at the far end that answers as told."""

from types import SimpleNamespace
from typing import Any

from sqlalchemy import Engine, insert, select, text, update

from messaging.clock import utc_now
from messaging.db.engine import autocommitting
from messaging.delivery.worker import DeliveryWorker
from messaging.http.client import HttpClient, HttpLimits
from messaging.settings import Settings
from messaging.tcp import any_address
from messaging.webhooks.addresses import check_public
from messaging.webhooks.channel import MAX_REPLY_BYTES, WebhookChannel
from messaging.webhooks.models import WEBHOOK_ENDPOINT, WEBHOOK_SEND_RECORD
from messaging.webhooks.signing import new_secret
from tests.far_end.provider_server import ProviderServer
from tests.far_end.webhook_api import WebhookApi
from tests.integration.delivery.desk import Extreme, Warp

R, E = WEBHOOK_SEND_RECORD, WEBHOOK_ENDPOINT


class WebhookDesk:
    """One worker process's parts; `deliver` is what a task does."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = autocommitting(engine)
        self.secret = new_secret()
        self.api = WebhookApi(self.secret)
        self.server = ProviderServer(self.api)
        self.client = HttpClient(
            HttpLimits.of_webhooks(settings),
            max_reply_bytes=MAX_REPLY_BYTES,
            check_address=any_address if settings.webhooks.transport.allow_private else check_public,
        )
        ticker = Warp()
        self.channel = WebhookChannel(self.engine, settings, self.client, clock=utc_now, ticker=ticker)
        self.worker = DeliveryWorker(
            engine, self.channel, settings, worker_name="worker-1", clock=utc_now, ticker=ticker, rng=Extreme()
        )

    @property
    def url(self) -> str:
        return f"{self.server.url}/hook"

    def add(self, **columns: Any) -> int:
        """An endpoint at the far end."""
        values = {"tenant_id": 0, "name": "shop", "url": self.url, "secret": self.secret, **columns}
        with self.engine.connect() as connection:
            return int(connection.execute(insert(E).values(values).returning(E.c.id)).scalar_one())

    def change(self, endpoint_id: int, **columns: Any) -> None:
        with self.engine.connect() as connection:
            connection.execute(update(E).where(E.c.id == endpoint_id).values(columns))

    def endpoint(self, endpoint_id: int) -> SimpleNamespace:
        with self.engine.connect() as connection:
            return SimpleNamespace(**connection.execute(select(E).where(E.c.id == endpoint_id)).one()._mapping)

    def event(self, endpoint_id: int, **columns: Any) -> int:
        """An event as a change of a record writes it."""
        values = {
            "scope": "TENANT",
            "endpoint_id": endpoint_id,
            "event_type": "message.sent",
            "about_channel": "mail",
            "about_record_id": 17,
            "payload": {"id": "17", "channel": "mail", "status": "SENT", "subject": "Grüße"},
            **columns,
        }
        with self.engine.connect() as connection:
            return int(connection.execute(insert(R).values(values).returning(R.c.id)).scalar_one())

    def row(self, record_id: int) -> SimpleNamespace:
        with self.engine.connect() as connection:
            return SimpleNamespace(**connection.execute(select(R).where(R.c.id == record_id)).one()._mapping)

    def attempts(self, record_id: int) -> list[SimpleNamespace]:
        statement = text("SELECT * FROM send_attempt WHERE record_id = :id ORDER BY attempt_no")
        with self.engine.connect() as connection:
            return [SimpleNamespace(**row._mapping) for row in connection.execute(statement, {"id": record_id})]

    def deliver(self, *record_ids: int) -> dict[str, int]:
        """One task with these records, at the versions they have."""
        return self.worker.deliver([[one, self.row(one).version] for one in record_ids])

    def close(self) -> None:
        self.server.stop()
        self.worker.close(5)
        self.client.close()
