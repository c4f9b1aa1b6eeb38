"""A send whose reply was lost is looked up before it is repeated: sms.md section 6.2, P37."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Engine, func, insert, select, text, update

from messaging import tenancy
from messaging.clock import boot_seconds, utc_now
from messaging.delivery.channel import Claim
from messaging.delivery.gate import ClaimTooOld, SendDeferred, SendGate, SendLimits
from messaging.errors import DeliveryError
from messaging.http.client import HttpClient, HttpLimits
from messaging.settings import Settings
from messaging.sms import look_up
from messaging.sms.channel import SmsChannel
from messaging.sms.look_up import take_found
from messaging.sms.models import SMS_PROVIDER_CONFIG, SMS_SEND_RECORD
from messaging.sms.providers.base import Accepted
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

    def record(self, **columns: Any) -> int:
        values = {
            "tenant_id": 0,
            "scope": "TENANT",
            "phone_number": NUMBER,
            "content": TEXT,
            "provider_config_id": self.config_id,
            "provider_type": "TWILIO",
            "prepared_at": datetime.now(UTC),
            "status": "RETRY",
            "claim_token": 1,
        }
        return self._insert(SMS_SEND_RECORD, **values | columns)

    def claim(self, record_id: int) -> Claim:
        """A worker has it."""
        self.change(record_id, status="SENDING", claimed_at=func.clock_timestamp())
        row = dict(vars(self.row(record_id)))
        claim = Claim(record_id, row["version"], row["claim_token"], row["tenant_id"], 0, row, boot_seconds())
        self.channel.load([claim])
        return claim

    def send(self, claim: Claim) -> str | None:
        """What the channel does with a claim, and what the outcome would write; answers the provider's id.

        Raises: SendDeferred, after the claim was given back.
        """
        gate = SendGate(claim.claimed_at, SendLimits(240, 120, 60), boot_seconds)
        try:
            results = self.channel.send(claim, [NUMBER], gate)
        except DeliveryError as exc:
            self.change(claim.record_id, status="RETRY", uncertain=claim.content["uncertain"] or exc.is_uncertain)
            raise
        except SendDeferred:
            self.change(claim.record_id, status="RETRY", error_code="CLAIM_RELEASED")
            raise
        message_id = results[NUMBER].message_id
        self.change(claim.record_id, status="SENT", provider_message_id=message_id)
        return message_id

    def attempt(self, record_id: int) -> str | None:
        return self.send(self.claim(record_id))

    def lose_reply(self, record_id: int, *, is_taken: bool) -> None:
        """An attempt whose reply is lost, whether or not the provider took the message."""
        if is_taken:
            # The real one takes it and answers into a connection that is gone.
            self.take()
        self.server.next.append(Fault.RESET_AFTER)
        with pytest.raises(DeliveryError, match="HTTP_NO_REPLY"):
            self.attempt(record_id)

    def take(self) -> str:
        """The provider takes a message with our number and text; answers its id."""
        form = {"To": NUMBER, "From": twilio_api.OWN_NUMBERS[0], "Body": TEXT}
        created: dict[str, str] = self.server.api.create(form).said  # type: ignore[attr-defined]
        return created["sid"]

    @property
    def posts(self) -> int:
        return sum(request.method == "POST" for request in self.server.requests)

    def _insert(self, table: Any, **values: Any) -> int:
        with self.engine.begin() as connection:
            row_id: int = connection.execute(insert(table).values(values).returning(table.c.id)).scalar_one()
        return row_id

    def row(self, record_id: int) -> SimpleNamespace:
        t = SMS_SEND_RECORD
        with self.engine.connect() as connection:
            return SimpleNamespace(**connection.execute(select(t).where(t.c.id == record_id)).mappings().one())

    def change(self, record_id: int, **values: Any) -> None:
        if values.get("status", "SENDING") != "SENDING":
            values["claimed_at"] = None
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


# -- several records that say the same ---------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", [1, 3, 6])
def test_a_message_at_the_provider_is_taken_by_one_of_those_that_look_for_it_at_once(desk: Desk, taken: int) -> None:
    """Six lost replies, of which the provider took some messages: at the end it has six, each of one record."""
    records = [desk.record(uncertain=True) for _ in range(6)]
    for _ in range(taken):
        desk.take()
    claims = [desk.claim(record) for record in records]

    def deliver(claim: Claim) -> str | None:
        deadline = time.monotonic() + 60
        while True:
            try:
                return desk.send(claim)
            except SendDeferred:
                assert time.monotonic() < deadline
                time.sleep(0.01)
                claim = desk.claim(claim.record_id)

    with ThreadPoolExecutor(len(claims)) as pool:
        named = list(pool.map(deliver, claims))

    assert sorted(filter(None, named)) == sorted(message.id for message in desk.server.api.taken if message.id)
    assert len(set(named)) == len(records) == len(desk.server.api.taken)
    assert desk.posts == len(records) - taken


def test_nothing_is_taken_while_a_record_that_may_name_it_is_being_sent(desk: Desk) -> None:
    """A fresh record's message is at the provider and not recorded yet, when one of a lost reply looks for its own."""
    lost, fresh = desk.record(uncertain=True), desk.record()
    sending = desk.claim(fresh)
    desk.take()

    with pytest.raises(SendDeferred):
        desk.attempt(lost)

    assert desk.row(lost).provider_message_id is None
    desk.change(sending.record_id, status="SENT", provider_message_id=desk.server.api.taken[0].id)
    assert desk.attempt(lost) == desk.server.api.taken[1].id


def test_what_is_sent_again_after_a_look_up_is_waited_for_like_what_is_new(desk: Desk) -> None:
    first, second = desk.record(uncertain=True), desk.record(uncertain=True)
    asked = desk.claim(first)
    assert take_found(desk.engine, asked, desk.config_id, []) is None  # and now its message is written
    message = Accepted(desk.take())

    with pytest.raises(SendDeferred):
        take_found(desk.engine, desk.claim(second), desk.config_id, [message])

    desk.change(first, status="SENT", provider_message_id=message.provider_message_id)
    assert take_found(desk.engine, desk.claim(second), desk.config_id, [message]) is None


def test_what_a_vanished_worker_may_still_record_is_not_taken(desk: Desk) -> None:
    swept = desk.record(uncertain=True, swept_at=datetime.now(UTC), error_code="ZOMBIE_RECOVERED")
    lost = desk.record(uncertain=True)
    message = desk.take()

    with pytest.raises(SendDeferred):
        desk.attempt(lost)

    # Its next claim ends what the old one could record.
    assert desk.attempt(swept) == message
    assert desk.attempt(lost) != message


def test_what_was_taken_before_a_worker_vanished_is_found_again(desk: Desk) -> None:
    record, other = desk.record(uncertain=True), desk.record()
    messages = [Accepted(desk.take()), Accepted(desk.take())]
    assert take_found(desk.engine, desk.claim(record), desk.config_id, messages[1:]) == messages[1]
    desk.claim(other)

    assert take_found(desk.engine, desk.claim(record), desk.config_id, messages) == messages[1]


def test_other_texts_and_numbers_are_not_waited_for(desk: Desk) -> None:
    lost = desk.record(uncertain=True)
    desk.claim(desk.record(content="Something else"))
    desk.claim(desk.record(phone_number="+14155550188"))
    message = desk.take()

    assert desk.attempt(lost) == message


def test_a_claim_that_is_lost_takes_nothing(desk: Desk) -> None:
    record = desk.record(uncertain=True)
    claim = desk.claim(record)
    desk.change(record, claim_token=2)

    with pytest.raises(ClaimTooOld):
        take_found(desk.engine, claim, desk.config_id, [Accepted(desk.take())])

    assert desk.row(record).provider_message_id is None


def test_a_look_up_reads_by_index(desk: Desk) -> None:
    settle = look_up._SETTLE
    values = {"id": 1, "version": 1, "token": 1, "config_id": 1, "number": NUMBER, "content": TEXT, "found": ["SM1"]}
    with desk.engine.begin() as connection:
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        plan = "\n".join(connection.execute(text(f"EXPLAIN {settle.text}"), values).scalars())
    assert "Seq Scan" not in plan
    assert {"ix_sms_send_swept", "ix_sms_send_provider_message", "ix_sms_send_sending"} <= set(plan.split())
