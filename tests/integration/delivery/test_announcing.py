"""Events of records: told by whoever won the change, in its own statement or transaction, each once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Engine, event, insert, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from messaging.delivery.cancel import cancel
from messaging.delivery.requeue import retry
from messaging.mail.receipts import mark_bounced
from messaging.mail.reported_recipients import ReportedRecipient
from messaging.sms.models import DeliveryStatus
from messaging.sms.receipts import record_delivery_status
from messaging.webhooks.announcing import AT_HAND, EndpointWatch
from messaging.webhooks.models import WEBHOOK_ENDPOINT
from tests.integration.delivery.records import (
    ACCEPTED,
    BAD_LOGIN,
    BUSY,
    DEFERRED,
    MAX_RETRIES,
    NO_REPLY,
    REFUSED,
    A,
    B,
    Records,
)

SECRET = "whsec_" + "A" * 43 + "="


@dataclass
class Listening:
    """Records of which an endpoint hears."""

    records: Records
    engine: Engine

    def add(self, *, event_types: list[str] | None = None, tenant_id: int = 0, active: bool = True) -> int:
        values = {
            "tenant_id": tenant_id,
            "name": "shop",
            "url": "https://shop.example.org/hook",
            "secret": SECRET,
            "event_types": event_types,
            "active": active,
        }
        with self.engine.begin() as connection:
            statement = insert(WEBHOOK_ENDPOINT).values(values).returning(WEBHOOK_ENDPOINT.c.id)
            return int(connection.execute(statement).scalar_one())

    def told(self) -> list[SimpleNamespace]:
        rows = self.records.run(text("SELECT * FROM webhook_send_record ORDER BY id"))
        return [SimpleNamespace(**row._mapping) for row in rows]

    def types(self) -> list[str]:
        return [one.event_type for one in self.told()]


def _make(records: Records, engine: Engine) -> Listening:
    records.announcer = AT_HAND
    return Listening(records, engine)


@pytest.fixture(params=["mail", "sms"])
def listening(request: pytest.FixtureRequest, records: Records, sms_records: Records, engine: Engine) -> Listening:
    return _make(records if request.param == "mail" else sms_records, engine)


@pytest.fixture
def mails(records: Records, engine: Engine) -> Listening:
    return _make(records, engine)


@pytest.fixture
def texts(sms_records: Records, engine: Engine) -> Listening:
    return _make(sms_records, engine)


def to(listening: Listening) -> str:
    return A if listening.records.kind.name == "mail" else listening.records.kind.accepted((A,))["phone_number"]


# What is told -------------------------------------------------------------------------------------------------------


def test_a_sent_message_is_told_with_what_leads_back_to_it(listening: Listening) -> None:
    endpoint_id = listening.add()
    columns = {"idempotency_key": "order-17", "trace_id": "a" * 32, "request_id": "req-1", "span_id": "b" * 16}
    record_id = listening.records.one(**columns)
    listening.records.deliver(record_id, {to(listening): ACCEPTED})
    [told] = listening.told()
    assert (told.endpoint_id, told.event_type, told.tenant_id) == (endpoint_id, "message.sent", 0)
    assert (told.about_channel, told.about_record_id) == (listening.records.kind.name, record_id)
    assert (told.trace_id, told.span_id, told.request_id) == ("a" * 32, "b" * 16, "req-1")
    assert (told.status, told.version, told.ready, told.retry_count) == ("PENDING", 0, True, 0)
    assert told.prepared_at is not None
    data = told.payload
    assert (data["id"], data["channel"], data["status"]) == (str(record_id), listening.records.kind.name, "SENT")
    assert (data["idempotency_key"], data["retry_count"]) == ("order-17", 0)
    assert data["sent_at"].endswith("Z")
    assert "error_code" not in data  # what is not known is left out


@pytest.mark.parametrize(
    ("learnt", "retry_count", "events"),
    [
        (REFUSED, 0, ["message.failed"]),
        (BUSY, 0, []),
        (DEFERRED, 0, []),
        (BUSY, MAX_RETRIES, ["message.dead_letter"]),
        (BAD_LOGIN, 0, ["message.failed"]),
    ],
    ids=["refused", "retried", "deferred", "used up", "login"],
)
def test_an_end_is_told_and_a_retry_is_not(
    listening: Listening, learnt: Any, retry_count: int, events: list[str]
) -> None:
    listening.add()
    record_id = listening.records.one(retry_count=retry_count)
    listening.records.deliver(record_id, {to(listening): learnt} if learnt in (REFUSED, DEFERRED) else learnt)
    assert listening.types() == events
    for told in listening.told():
        assert told.payload["error_code"] == listening.records.row(record_id).error_code


def test_a_group_tells_each_of_its_records_once(listening: Listening) -> None:
    listening.add()
    records = listening.records
    claims = records.claim_now(*records.accept(count=3))
    records.prepare(claims)
    outcomes = [records.judge(c, {to(listening): ACCEPTED}) for c in claims]
    records.write(*outcomes)
    records.write(*outcomes, is_repeat=True)  # the reply to the commit was lost
    assert [t.about_record_id for t in listening.told()] == [c.record_id for c in claims]


def test_what_expires_at_its_claim_is_told(listening: Listening) -> None:
    listening.add()
    record_id = listening.records.one(expires_at=text("now() - interval '1 second'"))
    other = listening.records.one()
    assert [c.record_id for c in listening.records.claim_now(record_id, other)] == [other]
    [told] = listening.told()
    assert (told.event_type, told.payload["error_code"]) == ("message.failed", "EXPIRED")


def test_the_sweep_tells_of_the_dead_alone(listening: Listening) -> None:
    listening.add()
    records = listening.records
    last, first = records.one(retry_count=MAX_RETRIES), records.one()
    records.prepare(records.claim_now(last, first))
    records.shift(1000)
    assert records.sweep() == {last: "DEAD_LETTER", first: "RETRY"}
    [told] = listening.told()
    assert (told.about_record_id, told.event_type) == (last, "message.dead_letter")


def test_a_late_outcome_is_told_when_it_ends_the_record(mails: Listening) -> None:
    mails.add()
    records = mails.records
    [claimed] = records.claim_now(records.one(to=(A, B)))
    records.prepare([claimed])
    assert records.swept(claimed.record_id) == "RETRY"
    assert records.end(claimed, {A: ACCEPTED, B: REFUSED}) == "retry"  # B is not closed by a late outcome
    assert mails.types() == []
    [claimed] = records.claim_now(records.one())
    records.prepare([claimed])
    assert records.swept(claimed.record_id) == "RETRY"
    assert records.end(claimed, {A: ACCEPTED}) == "sent"
    assert mails.types() == ["message.sent"]


def test_a_lost_outcome_tells_nothing(listening: Listening) -> None:
    listening.add()
    records = listening.records
    [old] = records.claim_now(records.one())
    records.prepare([old])
    assert records.swept(old.record_id) == "RETRY"
    [new] = records.claim_now(old.record_id)
    assert records.end(old, NO_REPLY) is None
    assert records.end(old, {to(listening): ACCEPTED}) is None
    assert listening.types() == []
    assert records.end(new, {to(listening): ACCEPTED}) == "sent"
    assert listening.types() == ["message.sent"]


def test_a_cancel_is_told_if_its_transaction_commits(listening: Listening) -> None:
    listening.add()
    records, kind = listening.records, listening.records.kind
    record_id = records.one()
    for commits in (False, True, True):
        with listening.engine.connect() as connection:
            cancel(connection, kind.table, record_id, channel=kind.name, announcer=AT_HAND)
            assert len(connection.execute(text("SELECT id FROM webhook_send_record")).all()) == 1
            if commits:
                connection.commit()
    [told] = listening.told()
    assert (told.event_type, told.payload["error_code"]) == ("message.cancelled", "CANCELLED")


def test_a_manual_retry_is_not_told_and_its_end_is(listening: Listening) -> None:
    listening.add()
    records, kind = listening.records, listening.records.kind
    record_id = records.one()
    records.deliver(record_id, BAD_LOGIN)
    with listening.engine.begin() as connection:
        retry(connection, kind.table, kind.recipients, record_id, channel=kind.name)
    assert listening.types() == ["message.failed"]
    records.deliver(record_id, {to(listening): ACCEPTED})
    assert listening.types() == ["message.failed", "message.sent"]


def test_bounces_and_read_mails_are_told_once_each(mails: Listening) -> None:
    mails.add(event_types=["message.bounced", "message.read"])
    records = mails.records
    record_id = records.one(to=(A, B))
    records.deliver(record_id, {A: ACCEPTED, B: ACCEPTED})
    for _ in range(2):
        records.read_by_someone(record_id)
        records.bounce(record_id, A)
    records.bounce(record_id, B)
    read, first, second = mails.told()
    assert (read.event_type, read.payload["status"]) == ("message.read", "SENT")
    assert read.payload["read_receipt_received_at"].endswith("Z")
    assert first.event_type == second.event_type == "message.bounced"
    assert (first.payload["status"], first.payload["bounce_code"]) == ("FAILED", "550 5.1.1")


def test_a_bounce_that_is_rolled_back_is_not_told(mails: Listening) -> None:
    mails.add()
    record_id = mails.records.one()
    mails.records.deliver(record_id, {A: ACCEPTED})
    with Session(mails.engine) as session:
        reported = [ReportedRecipient((A,), "550 5.1.1")]
        mark_bounced(session, record_id, reported, origin="a test", suppresses=False, announcer=AT_HAND)
        session.rollback()
    assert mails.types() == ["message.sent"]


def test_receipts_are_told_when_they_change_what_is_known(texts: Listening) -> None:
    texts.add(event_types=["message.delivered", "message.undelivered"])
    record_id = texts.records.one()
    texts.records.deliver(record_id, {to(texts): ACCEPTED})
    for status in (DeliveryStatus.DELIVERED, DeliveryStatus.DELIVERED, DeliveryStatus.FAILED):
        assert record_delivery_status(1, "SM1", status, engine=texts.engine, announcer=AT_HAND)
    assert texts.types() == ["message.delivered", "message.undelivered"]
    assert [t.payload["delivery_status"] for t in texts.told()] == ["DELIVERED", "FAILED"]
    assert texts.told()[0].payload["provider_message_id"] == "SM1"


# To whom ------------------------------------------------------------------------------------------------------------


def test_each_endpoint_hears_what_it_asks_for_and_a_disabled_one_nothing(listening: Listening) -> None:
    every, sent = listening.add(), listening.add(event_types=["message.sent"])
    listening.add(event_types=["message.failed"])
    listening.add(active=False)
    listening.records.deliver(listening.records.one(), {to(listening): ACCEPTED})
    assert [t.endpoint_id for t in listening.told()] == [every, sent]


def test_a_tenant_hears_of_its_own_messages_alone(listening: Listening) -> None:
    mine = listening.add(tenant_id=7)
    listening.add(tenant_id=8)
    listening.add(tenant_id=-1)
    records = listening.records
    for tenant_id in (7, 0):
        record_id = records.one(tenant_id=tenant_id)
        records.deliver(record_id, {to(listening): ACCEPTED})
    [told] = listening.told()
    assert (told.endpoint_id, told.tenant_id) == (mine, 7)


# What it costs ------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watched(listening: Listening) -> Iterator[tuple[Listening, Clock, Callable[[], list[str]]]]:
    """With the watch of a worker; answers the statements since it was last asked."""
    clock = Clock()
    listening.records.announcer = EndpointWatch(ttl_seconds=1, ticker=clock)
    seen: list[str] = []

    def note(*given: Any) -> None:
        seen.append(given[2])

    event.listen(listening.engine, "before_cursor_execute", note)

    def taken() -> list[str]:
        found = seen[:]
        seen.clear()
        return found

    yield listening, clock, taken
    event.remove(listening.engine, "before_cursor_execute", note)


def test_where_nobody_listens_statements_are_as_ever(
    watched: tuple[Listening, Clock, Callable[[], list[str]]],
) -> None:
    listening, clock, taken = watched
    records = listening.records
    for round_ in range(2):
        clock.now += 10
        record_id = records.one()
        records.deliver(record_id, {to(listening): ACCEPTED})
        about = [s for s in taken() if "webhook" in s]
        assert len(about) == 1, round_  # one look, for claim and outcome together
    listening.add(tenant_id=9)  # somebody else's
    clock.now += 10
    [claimed] = records.claim_now(records.one())
    records.prepare([claimed])
    taken()
    records.end(claimed, {to(listening): ACCEPTED})
    assert not [s for s in taken() if "webhook" in s]


def test_an_endpoint_hears_a_second_after_it_was_added(
    watched: tuple[Listening, Clock, Callable[[], list[str]]],
) -> None:
    listening, clock, _ = watched
    records = listening.records
    records.deliver(records.one(), {to(listening): ACCEPTED})
    listening.add()
    records.deliver(records.one(), {to(listening): ACCEPTED})
    assert listening.types() == []
    clock.now += 1
    records.deliver(records.one(), {to(listening): ACCEPTED})
    assert listening.types() == ["message.sent"]


def test_no_webhook_is_about_a_webhook(listening: Listening, engine: Engine) -> None:
    with engine.connect() as connection:
        assert AT_HAND.find(connection, "webhook") is None
        assert EndpointWatch(ttl_seconds=1, ticker=Clock()).find(connection, "webhook") is None
    columns = "scope, endpoint_id, event_type, about_channel, about_record_id, payload"
    values = "'TENANT', 1, 'message.sent', 'webhook', 1, '{}'"
    with pytest.raises(DBAPIError, match="about_channel"):
        listening.records.run(text(f"INSERT INTO webhook_send_record ({columns}) VALUES ({values})"))
