"""The `receipts` tick in a real worker: what came too early is applied once its record knows its message id."""

from sqlalchemy import Engine, update

from messaging.sms.models import SMS_SEND_RECORD
from tests.integration.sms.receipt_records import DELIVERED, Records, told
from tests.integration.tasks.conftest import Broker, Worker
from tests.polling import eventually


def test_the_tick_applies_a_receipt_that_came_before_its_record_knew_its_id(
    engine: Engine, broker: Broker, worker: Worker
) -> None:
    # sms.md D7
    records = Records(engine)
    record_id = records.sent(None)
    records.take(told("m-1", DELIVERED))
    with engine.begin() as connection:
        connection.execute(
            update(SMS_SEND_RECORD).where(SMS_SEND_RECORD.c.id == record_id).values(provider_message_id="m-1")
        )
    assert records.told_of(record_id)[0] == "UNKNOWN"
    worker.start()
    broker.task("messaging.receipts", [[], {}, {}], queue="control")
    eventually(lambda: records.told_of(record_id)[0] == "DELIVERED")
    [receipt] = records.receipts()
    assert receipt.applied_at is not None
