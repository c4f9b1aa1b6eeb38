"""Sent records and receipts for the tests of receipts."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, func, insert, select, update

from messaging.sms.models import SMS_RECEIPT, SMS_SEND_RECORD, DeliveryStatus
from messaging.sms.providers.base import Receipt
from messaging.sms.receipts import (
    Applied,
    take_receipts,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

#: Two configurations of the same provider: one of tenant 7, one of tenant 8.
CONFIG_A, TENANT_A = 11, 7
CONFIG_B, TENANT_B = 12, 8

UNKNOWN, DELIVERED, UNDELIVERED, FAILED = DeliveryStatus


def minutes(count: float) -> datetime:
    return NOON + timedelta(minutes=count)


def told(message_id: str, status: DeliveryStatus, at: datetime | None = NOON) -> Receipt:
    return Receipt(provider_message_id=message_id, status=status, at=at, raw_status=status.lower())


class Records:
    """Sent records, and what became of them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def sent(self, message_id: str | None, *, config: int = CONFIG_A, tenant: int = TENANT_A, **columns: Any) -> int:
        values = {
            "tenant_id": tenant,
            "scope": "TENANT",
            "phone_number": "+4915112345678",
            "content": "Your code",
            "provider_config_id": config,
            "provider_message_id": message_id,
            "status": "SENT",
            "sent_at": func.now(),
            "version": 3,
            **columns,
        }
        with self.engine.begin() as connection:
            statement = insert(SMS_SEND_RECORD).values(**values).returning(SMS_SEND_RECORD.c.id)
            return int(connection.execute(statement).scalar_one())

    def row(self, record_id: int) -> Any:
        with self.engine.connect() as connection:
            return connection.execute(select(SMS_SEND_RECORD).where(SMS_SEND_RECORD.c.id == record_id)).one()

    def told_of(self, record_id: int) -> tuple[str, datetime | None]:
        row = self.row(record_id)
        return row.delivery_status, row.delivery_status_updated_at

    def receipts(self) -> Sequence[Any]:
        with self.engine.connect() as connection:
            return connection.execute(select(SMS_RECEIPT).order_by(SMS_RECEIPT.c.id)).all()

    def take(self, *receipts: Receipt, config: int = CONFIG_A, tenant: int = TENANT_A, raw: bytes = b"{}") -> Applied:
        return take_receipts(self.engine, provider_config_id=config, tenant_id=tenant, raw=raw, receipts=receipts)

    def age_receipts(self, hours: float) -> None:
        with self.engine.begin() as connection:
            older = SMS_RECEIPT.c.received_at - timedelta(hours=hours)
            connection.execute(update(SMS_RECEIPT).values(received_at=older))


def write_sent(connection: Connection, record_id: int, message_id: str) -> None:
    """As the outcome of an attempt leaves the record."""
    connection.execute(
        update(SMS_SEND_RECORD)
        .where(SMS_SEND_RECORD.c.id == record_id)
        .values(status="SENT", claimed_at=None, sent_at=func.now(), provider_message_id=message_id, version=4)
    )
