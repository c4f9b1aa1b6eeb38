"""Deliveries as records: retried and called off like all, and no message whose status somebody asks for."""

import pytest
from sqlalchemy import Engine, text

from messaging import api
from messaging.delivery.cancel import CancelAnswer
from messaging.delivery.status import SendStatus
from messaging.errors import RecordNotFound, StateError
from tests.conftest import MakeSettings
from tests.integration.webhooks.desk import WebhookDesk


@pytest.fixture
def delivery(desk: WebhookDesk, make_settings: MakeSettings, engine: Engine, unconfigured: None) -> int:
    api.configure(make_settings(), engine=engine)
    return desk.event(desk.add())


def test_a_delivery_is_called_off_and_not_told_of(desk: WebhookDesk, delivery: int) -> None:
    assert api.cancel(delivery).answer is CancelAnswer.CANCELLED
    assert desk.deliver(delivery) == {"not_mine": 1}
    with desk.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM webhook_send_record")).scalar_one() == 1
    with pytest.raises(StateError):
        api.retry(delivery)


def test_a_delivery_that_failed_is_retried_with_others(desk: WebhookDesk, delivery: int) -> None:
    with desk.engine.connect() as connection:
        connection.execute(text("UPDATE webhook_send_record SET status = 'DEAD_LETTER', retry_count = 5"))
    assert api.retry_batch([delivery, delivery + 10**6]) == 1
    found = api.get_webhook_delivery(delivery)
    assert (found.status, found.retry_count) == (SendStatus.RETRY, 6)
    assert desk.deliver(delivery) == {"sent": 1}
    with pytest.raises(StateError):
        api.retry(delivery, channel="webhook")


def test_a_delivery_is_no_message(delivery: int) -> None:
    with pytest.raises(RecordNotFound, match="get_webhook_delivery"):
        api.status(delivery)
    with pytest.raises(RecordNotFound):
        api.retry(delivery, channel="mail")
