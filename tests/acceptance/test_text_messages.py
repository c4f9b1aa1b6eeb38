"""A text message through what a mail goes through: beat, ticks and workers as processes, one of them killed."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import insert, select

from messaging.api import send_sms
from messaging.sms.models import SMS_PROVIDER_CONFIG, SMS_SEND_RECORD
from tests.acceptance.conftest import Start
from tests.acceptance.records import attempts
from tests.acceptance.system import STALE_SECONDS, MessagingSetup
from tests.far_end.provider_server import Fault, ProviderServer, Request, serving
from tests.integration.sms.providers.subjects import NUMBER, TWILIO
from tests.polling import eventually, stays


@pytest.fixture
def provider() -> Iterator[ProviderServer]:
    with serving(TWILIO.api()) as server:
        yield server


def add_provider(setup: MessagingSetup, server: ProviderServer) -> None:
    values = {
        "tenant_id": 0,
        "name": "far end",
        "provider_type": TWILIO.type,
        "api_endpoint": server.url + TWILIO.path,
        "is_default": True,
        "receipt_token": "a-token-of-the-tests",
        **TWILIO.config,
    }
    with setup.engine.begin() as connection:
        connection.execute(insert(SMS_PROVIDER_CONFIG).values(values))


def row(setup: MessagingSetup, record_id: int) -> Any:
    with setup.engine.connect() as connection:
        return connection.execute(select(SMS_SEND_RECORD).where(SMS_SEND_RECORD.c.id == record_id)).one()


def test_a_worker_killed_after_the_provider_took_a_text_message_does_not_have_it_sent_again(
    start: Start, provider: ProviderServer
) -> None:
    setup = start(mail_workers=0)
    worker = setup.add_worker("sms0", "sms_send")
    setup.wait_ready()
    add_provider(setup, provider)
    take = provider.api.answer

    def take_and_say_nothing(request: Request) -> Any:
        provider.api.answer = take  # type: ignore[method-assign]
        take(request)
        return Fault.NO_REPLY

    provider.api.answer = take_and_say_nothing  # type: ignore[assignment,method-assign]
    record_id = send_sms(phone_number=NUMBER, content="Your parcel is here.")
    eventually(lambda: len(provider.api.taken) == 1, 30, "the provider has the message")
    claimed = row(setup, record_id)
    worker.kill()
    worker.restart()
    # The broker repeats what it handed out, old and new versions alike.
    for version in (0, 1, claimed.version, claimed.version + 1):
        setup.app.send_task("messaging.deliver_sms", args=([[record_id, version]],), queue="sms_send")
    eventually(lambda: row(setup, record_id).status == "SENT", 60, "the record is sent")
    swept, sent = attempts(setup, record_id)
    assert (swept.outcome, swept.provider, sent.outcome, sent.provider) == ("SWEPT", "twilio", "SENT", "twilio")
    assert (swept.ended_at - claimed.claimed_at).total_seconds() >= STALE_SECONDS
    found = row(setup, record_id)
    assert (found.uncertain, found.retry_count, found.provider_message_id) == (True, 1, provider.api.taken[0].id)
    setup.app.send_task("messaging.deliver_sms", args=([[record_id, found.version]],), queue="sms_send")
    stays(lambda: row(setup, record_id) == found, 0.4, "a sent record is not sent again")
    assert [request.method for request in provider.requests] == ["POST", "GET"]
    assert setup.redis.hget("msg:dispatch:sms", "begun") is not None
    assert time.time() - float(setup.redis.hget("msg:dispatch:sms", "begun") or 0) < 30
