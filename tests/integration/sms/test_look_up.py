"""A send whose reply was lost is looked up before it is repeated: sms.md section 6.2, P37."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select, update

from messaging import tenancy
from messaging.clock import boot_seconds, utc_now
from messaging.delivery.channel import Claim
from messaging.delivery.gate import SendGate, SendLimits
from messaging.errors import DeliveryError
from messaging.settings import Settings
from messaging.sms.channel import SmsChannel
from messaging.sms.models import SMS_PROVIDER_CONFIG, SMS_SEND_RECORD
from messaging.sms.providers.http import HttpClient, HttpLimits
from tests.far_end import twilio_api
from tests.far_end.provider_server import Fault, ProviderServer, Reply, serving
from tests.far_end.twilio_api import TwilioApi

NUMBER, TEXT = "+14155550199", "Your code is 123456"


class Desk:
    """Prepared records of one Twilio account, sent by the channel one attempt at a time."""

    def __init__(self, engine: Engine, settings: Settings, server: ProviderServer, client: HttpClient) -> None:
        self.engine = engine
        self.server = server
        self.channel = SmsChannel(engine, settings, client, clock=utc_now, ticker=boot_seconds)
        self.config_id = self._insert(
            SMS_PROVIDER_CONFIG,
            name="twilio",
            provider_type="TWILIO",
            tenant_id=0,
            api_key=twilio_api.ACCOUNT,
            api_secret=twilio_api.AUTH_TOKEN,
            api_endpoint=f"{server.url}/2010-04-01",
            sender_number=twilio_api.OWN_NUMBERS[0],
        )

    def record(self) -> int:
        return self._insert(
            SMS_SEND_RECORD,
            tenant_id=0,
            scope="TENANT",
            phone_number=NUMBER,
            content=TEXT,
            provider_config_id=self.config_id,
            provider_type="TWILIO",
            prepared_at=datetime.now(UTC),
            status="SENDING",
            claimed_at=datetime.now(UTC),
            claim_token=1,
        )

    def attempt(self, record_id: int) -> str | None:
        """The id the provider gave; what an outcome would write is written."""
        t = SMS_SEND_RECORD
        with self.engine.connect() as connection:
            row = dict(connection.execute(select(t).where(t.c.id == record_id)).mappings().one())
        claim = Claim(record_id, row["version"], 1, row["tenant_id"], 0, row, boot_seconds())
        self.channel.load([claim])
        gate = SendGate(claim.claimed_at, SendLimits(240, 120, 60), boot_seconds)
        try:
            results = self.channel.send(claim, [NUMBER], gate)
        except DeliveryError as exc:
            self._update(record_id, uncertain=exc.is_uncertain)
            raise
        self._update(record_id, provider_message_id=results[NUMBER].message_id)
        return results[NUMBER].message_id

    def lose_reply(self, record_id: int, *, is_taken: bool) -> None:
        """An attempt whose reply is lost, whether or not the provider took the message."""
        if is_taken:
            # The real one takes it and answers into a connection that is gone.
            form = {"To": NUMBER, "From": twilio_api.OWN_NUMBERS[0], "Body": TEXT}
            self.server.api.create(form)  # type: ignore[attr-defined]
        self.server.next.append(Fault.RESET_AFTER)
        with pytest.raises(DeliveryError, match="HTTP_NO_REPLY"):
            self.attempt(record_id)

    @property
    def posts(self) -> int:
        return sum(request.method == "POST" for request in self.server.requests)

    def _insert(self, table: Any, **values: Any) -> int:
        with self.engine.begin() as connection:
            row_id: int = connection.execute(insert(table).values(values).returning(table.c.id)).scalar_one()
        return row_id

    def _update(self, record_id: int, **values: Any) -> None:
        with self.engine.begin() as connection:
            connection.execute(update(SMS_SEND_RECORD).where(SMS_SEND_RECORD.c.id == record_id).values(values))


@pytest.fixture
def desk(engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(tenancy, "_multi_tenancy", False)
    client = HttpClient(HttpLimits.of(settings))
    with serving(TwilioApi()) as server:
        yield Desk(engine, settings, server, client)
    client.close()


def test_what_the_provider_took_is_not_sent_again(desk: Desk) -> None:
    record = desk.record()
    desk.lose_reply(record, is_taken=True)

    assert desk.attempt(record) == desk.server.api.taken[0].id
    assert (desk.posts, len(desk.server.api.taken)) == (1, 1)


def test_what_the_provider_did_not_take_is_sent(desk: Desk) -> None:
    record = desk.record()
    desk.lose_reply(record, is_taken=False)

    assert desk.attempt(record) == desk.server.api.taken[0].id
    assert desk.posts == 2


def test_nothing_is_looked_up_where_nothing_was_lost(desk: Desk) -> None:
    desk.attempt(desk.record())

    assert [request.method for request in desk.server.requests] == ["POST"]


def test_a_look_up_without_an_answer_sends_nothing(desk: Desk) -> None:
    record = desk.record()
    desk.lose_reply(record, is_taken=True)
    desk.server.next.append(Reply(503, {"code": 20503, "message": "Service unavailable"}))

    with pytest.raises(DeliveryError, match="20503"):
        desk.attempt(record)

    assert desk.posts == 1


def test_records_that_say_the_same_find_their_own(desk: Desk) -> None:
    """The first one's reply is lost, a second one is sent; the newest message is the second one's."""
    first, second = desk.record(), desk.record()
    desk.lose_reply(first, is_taken=True)
    other = desk.attempt(second)

    found = desk.attempt(first)

    assert found == desk.server.api.taken[0].id
    assert found != other
    assert len(desk.server.api.taken) == 2
