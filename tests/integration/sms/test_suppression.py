"""Text messages and the suppression list: nothing is sent to who answered STOP, nor to whom the provider says so."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from messaging import suppression, tenancy
from messaging.delivery import requeue
from messaging.delivery.status import SendStatus
from messaging.errors import EntryRejected
from messaging.sms.channel import recipients
from messaging.sms.models import SMS_PROVIDER_CONFIG, SMS_SEND_RECORD
from messaging.sms.opt_outs import OptOut, opt_out
from messaging.sms.providers.base import ProviderConfig
from tests.far_end.provider_server import Reply
from tests.far_end.twilio_api import OWN_NUMBERS
from tests.integration.sms.desk import SmsDesk
from tests.integration.sms.providers.subjects import NUMBER

FAILED = SendStatus.FAILED
OURS, OTHER = OWN_NUMBERS[0], "Shop"
OPTED_OUT = Reply(400, {"code": 21610, "message": "Attempt to send to unsubscribed recipient", "status": 400})


@contextmanager
def acting(desk: SmsDesk, tenant_id: int = 0) -> Iterator[Session]:
    with tenancy.tenant(tenant_id), Session(desk.engine) as session, session.begin():
        yield session


def put_on(desk: SmsDesk, tenant_id: int = 0, **fields: Any) -> int:
    with acting(desk, tenant_id) as session:
        return suppression.add(session, channel="sms", address=NUMBER, **{"reason": "MANUAL", **fields})


def entries(desk: SmsDesk) -> list[tuple[Any, ...]]:
    with desk.engine.connect() as connection:
        columns = "tenant_id, address, sender, reason, record_id, lifted_at IS NOT NULL"
        return [tuple(row) for row in connection.execute(text(f"SELECT {columns} FROM suppression ORDER BY id"))]


def answer(desk: SmsDesk, config_id: int, word: str) -> OptOut | None:
    """An inbound message to an account's sender."""
    t = SMS_PROVIDER_CONFIG
    with desk.engine.connect() as connection:
        row = connection.execute(t.select().where(t.c.id == config_id)).one()
    config = ProviderConfig(row.id, row.tenant_id, row.provider_type, sender_number=row.sender_number)
    with Session(desk.engine) as session, session.begin():
        return opt_out(session, config, NUMBER, word)


def used(desk: SmsDesk) -> int | None:
    with desk.engine.connect() as connection:
        found: int | None = connection.execute(text("SELECT sum(sms_used) FROM tenant_message_usage")).scalar_one()
    return found


def retry(desk: SmsDesk, record_id: int) -> None:
    with desk.engine.begin() as connection:
        requeue.retry(connection, SMS_SEND_RECORD, recipients, record_id, channel="sms")


def test_a_suppressed_number_gets_nothing_at_no_quota_and_no_contact(desk: SmsDesk) -> None:  # operate.md O64
    server = desk.serve()
    desk.add_provider(server)
    entry = put_on(desk)
    record_id = desk.one()
    assert desk.deliver(record_id) == {"failed": 1}
    row = desk.row(record_id)
    assert (row.status, row.error_code, row.prepared_at) == (FAILED, "SUPPRESSED", None)
    assert (server.requests, used(desk)) == ([], None)
    with acting(desk) as session:
        assert suppression.lift(session, entry, note="asked for it")
    retry(desk, record_id)
    assert desk.deliver(record_id) == {"sent": 1}


def test_stop_is_for_its_sender_and_start_lifts_it(desk: SmsDesk) -> None:
    server = desk.serve()
    asked = desk.add_provider(server, sender_number=OURS, is_default=False)
    other = desk.add_provider(server, sender_number=OTHER, is_default=False)
    for _ in range(2):  # the same again changes nothing
        assert answer(desk, asked, " stop\n") is OptOut.STOP
    assert entries(desk) == [(0, NUMBER, OURS, "OPT_OUT", None, False)]
    assert desk.deliver(desk.one(provider_config_id=other)) == {"sent": 1}
    stopped = desk.one(provider_config_id=asked)
    assert desk.deliver(stopped) == {"failed": 1}
    assert desk.row(stopped).error_code == "SUPPRESSED"
    assert "OPT_OUT, this sender" in desk.row(stopped).error_message

    assert answer(desk, asked, "thanks") is None
    assert desk.deliver(desk.one(provider_config_id=asked)) == {"failed": 1}
    assert answer(desk, asked, "Start") is OptOut.START
    assert entries(desk) == [(0, NUMBER, OURS, "OPT_OUT", None, True)]
    assert desk.deliver(desk.one(provider_config_id=asked)) == {"sent": 1}


def test_start_lifts_nothing_that_an_operator_put_there(desk: SmsDesk) -> None:
    asked = desk.add_provider(desk.serve(), sender_number=OURS)
    put_on(desk, sender=f"{OURS[:2]} {OURS[2:]}")
    put_on(desk)
    answer(desk, asked, "START")
    assert [lifted for *_, lifted in entries(desk)] == [False, False]


def test_a_stop_of_what_is_no_number_is_refused(desk: SmsDesk) -> None:
    with acting(desk) as session, pytest.raises(EntryRejected, match=r"address is '72345'"):
        opt_out(session, ProviderConfig(1, 0, "TWILIO", sender_number=OURS), "72345", "STOP")


def test_who_it_is_from_is_looked_at_once_the_route_is_known_and_before_the_quota(desk: SmsDesk) -> None:
    server = desk.serve()
    desk.add_provider(server, sender_number=OURS)
    put_on(desk, sender=OURS, reason="OPT_OUT")
    record_id = desk.one()  # its provider is open until it is prepared
    assert desk.deliver(record_id) == {"failed": 1}
    row = desk.row(record_id)
    assert (row.error_code, row.prepared_at, row.retry_count) == ("SUPPRESSED", None, 0)
    assert (server.requests, used(desk)) == ([], None)


def test_what_is_prepared_is_looked_at_again_at_a_retry(desk: SmsDesk) -> None:
    server = desk.serve()
    desk.add_provider(server, sender_number=OURS)
    server.next.append(Reply(503, {"code": 20503, "message": "Service unavailable", "status": 503}))
    record_id = desk.one()
    assert desk.deliver(record_id) == {"retry": 1}
    put_on(desk, sender=OURS, reason="OPT_OUT")
    assert desk.deliver(record_id) == {"failed": 1}
    assert len(server.requests) == 1


def test_a_provider_that_says_opted_out_is_asked_once(desk: SmsDesk) -> None:
    server = desk.serve()
    desk.add_provider(server, sender_number=OURS)
    server.next.append(OPTED_OUT)
    record_id = desk.one()
    assert desk.deliver(record_id) == {"failed": 1}
    assert desk.row(record_id).error_code == "21610"
    assert entries(desk) == [(0, NUMBER, OURS, "OPT_OUT", record_id, False)]
    asked = len(server.requests)
    again = desk.one()
    assert desk.deliver(again) == {"failed": 1}
    assert desk.row(again).error_code == "SUPPRESSED"
    assert len(server.requests) == asked


def test_a_stop_to_the_platforms_sender_holds_for_all_who_send_by_it(
    make_desk: Callable[..., SmsDesk], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make_desk(multi_tenancy=True)
    monkeypatch.setattr(tenancy, "_multi_tenancy", True)
    server = desk.serve()
    shared = desk.add_provider(server, tenant_id=-1, sender_number=OURS)
    desk.add_provider(server, tenant_id=8, sender_number=OTHER)
    put_on(desk, tenant_id=-1)  # the platform's own, of any sender: no matter of the tenants
    assert desk.deliver(desk.one(tenant_id=7)) == {"sent": 1}
    answer(desk, shared, "STOP")
    stopped, own = desk.one(tenant_id=7), desk.one(tenant_id=8)
    assert desk.deliver(stopped, own) == {"failed": 1, "sent": 1}
    assert desk.row(stopped).error_code == "SUPPRESSED"


def test_start_lifts_what_the_provider_said_of_the_platforms_sender(
    make_desk: Callable[..., SmsDesk], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make_desk(multi_tenancy=True)
    monkeypatch.setattr(tenancy, "_multi_tenancy", True)
    server = desk.serve()
    shared = desk.add_provider(server, tenant_id=-1, sender_number=OURS)
    server.next.append(OPTED_OUT)
    assert desk.deliver(desk.one(tenant_id=7)) == {"failed": 1}
    assert desk.deliver(desk.one(tenant_id=8)) == {"failed": 1}
    assert len(server.requests) == 1
    answer(desk, shared, "UNSTOP")
    assert desk.deliver(desk.one(tenant_id=7), desk.one(tenant_id=8)) == {"sent": 2}
