"""Acceptance of text messages: the points R1 to R4 and R23 of sms.md, and what they share with mails."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

import messaging
from messaging import tenancy
from messaging.errors import MessageRejected, RecordNotFound, StateError
from messaging.requests import MessageScope, Priority, SendSms
from messaging.settings import Settings
from messaging.sms.acceptance import accept_sms
from messaging.sms.models import SMS_SEND_RECORD

#: Later than any clock that runs these tests.
NOW = datetime(2126, 3, 1, 12, tzinfo=UTC)
NUMBER = "+4915112345678"


@pytest.fixture(autouse=True)
def _single_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenancy, "_multi_tenancy", False)


def sms(**fields: Any) -> SendSms:
    return SendSms(**{"phone_number": NUMBER, "content": "Your parcel is here.", **fields})


def accept(session: Session, settings: Settings, *requests: Any, single: bool = False) -> list[int]:
    return accept_sms(session, list(requests), settings=settings, now=NOW, single=single)


def row(session: Session, record_id: int) -> Any:
    return session.execute(select(SMS_SEND_RECORD).where(SMS_SEND_RECORD.c.id == record_id)).one()


def count(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(SMS_SEND_RECORD)).scalar_one())


REFUSED = [
    ({"phone_number": " "}, "phone_number"),  # R1
    ({"phone_number": "+111"}, "phone_number"),  # R1
    ({"phone_number": "13800138000"}, "phone_number"),  # R1
    ({"phone_number": "not-a-phone"}, "phone_number"),  # R1
    ({"phone_number": None}, "phone_number"),
    ({"phone_number": 4915112345678}, "phone_number"),
    ({"phone_number": "+49 151 12345678"}, "phone_number"),
    ({"phone_number": "+49\ud80015112345678"}, "phone_number"),
    ({"content": None}, "content"),  # R2
    ({"content": " \n", "template_code": "  "}, "content"),  # R2
    ({"content": "x" * 2001}, "content"),
    ({"content": "a\x00b"}, "content"),
    ({"content": "\udc00"}, "content"),
    ({"content": b"bytes"}, "content"),
    ({"template_code": "x" * 101}, "template_code"),
    ({"template_variables": {"at": NOW}}, "template_variables"),
    ({"template_variables": [1]}, "template_variables"),
    ({"provider_config_id": 0}, "provider_config_id"),
    ({"sign_name": "x" * 51}, "sign_name"),
    ({"sign_name": "a\nb"}, "sign_name"),
    ({"external_template_id": "x" * 101}, "external_template_id"),
    ({"scope": None}, "scope"),
    ({"priority": "URGENT"}, "priority"),
    ({"idempotency_key": " "}, "idempotency_key"),
    ({"send_at": datetime(2026, 3, 1)}, "send_at"),  # noqa: DTZ001 - that is the point
    ({"expires_at": NOW}, "expires_at"),
]


@pytest.mark.parametrize(("fields", "field"), REFUSED)
def test_a_field_that_cannot_be_is_named_and_nothing_is_written(
    engine: Engine, settings: Settings, fields: dict[str, Any], field: str
) -> None:
    with Session(engine) as session, session.begin():
        with pytest.raises(MessageRejected) as refused:
            accept(session, settings, sms(), sms(**fields))
        assert (refused.value.channel, refused.value.field, refused.value.index) == ("sms", field, 1)
        assert "xxxx" not in str(refused.value) or field != "content"  # a text may be logged nowhere
        [kept] = accept(session, settings, sms())  # the caller's transaction is still usable
    assert count(engine) == 1
    assert kept


@pytest.mark.parametrize(
    ("requests", "field"),
    [
        ([sms(), sms(phone_number="+111")], "phone_number"),
        ([sms()] * 501, "requests"),
        ([sms(), None], "request"),
        ([], "requests"),
        (None, "requests"),
        ("text", "requests"),
        ([sms(), {"phone_number": NUMBER}], "request"),
    ],
)  # R3
def test_a_batch_is_written_whole_or_not_at_all(engine: Engine, settings: Settings, requests: Any, field: str) -> None:
    with Session(engine) as session, session.begin():
        with pytest.raises(MessageRejected) as refused:
            accept_sms(session, requests, settings=settings, now=NOW, single=False)
        assert refused.value.field == field
    assert count(engine) == 0


def test_a_batch_that_is_rolled_back_leaves_nothing(engine: Engine, settings: Settings) -> None:  # R4
    with Session(engine) as session:
        session.begin()
        first, second = accept(session, settings, sms(), sms(phone_number="+14155550100"))
        assert first < second
        assert row(session, second).phone_number == "+14155550100"
        session.rollback()
    assert count(engine) == 0


def test_what_was_asked_stands_on_the_record(engine: Engine, settings: Settings) -> None:
    asked = sms(
        phone_number=f" {NUMBER} ",
        content="  as it is ",
        template_code="otp",
        template_variables={"time": "10", "code": 1, "a": {"z": 1, "b": 2}},
        provider_config_id=5,
        sign_name=" Shop ",
        external_template_id="SMS_1",
        priority=Priority.HIGH,
        send_at=NOW + timedelta(hours=1),
        expires_at=NOW + timedelta(hours=2),
    )
    with Session(engine) as session, session.begin():
        [record_id] = accept(session, settings, asked)
        found = row(session, record_id)
    assert (found.phone_number, found.content, found.template_code) == (NUMBER, "  as it is ", "otp")
    assert list(found.template_variables) == ["time", "code", "a"]
    assert list(found.template_variables["a"]) == ["z", "b"]
    assert (found.provider_config_id, found.sign_name, found.external_template_id) == (5, "Shop", "SMS_1")
    assert (found.priority, found.lane, found.status, found.delivery_status) == ("HIGH", 1, "PENDING", "UNKNOWN")
    assert (found.send_at, found.next_attempt_at) == (asked.send_at, asked.send_at)
    assert (found.prepared_at, found.provider_message_id, found.version) == (None, None, 0)


def test_a_key_answers_the_first_record_and_another_content_is_refused(engine: Engine, settings: Settings) -> None:
    with Session(engine) as session, session.begin():
        first = accept(session, settings, sms(idempotency_key="k", template_variables={"a": 1}))
        again = accept(session, settings, sms(idempotency_key="k", template_variables={"a": 1}), sms())
        assert again[0] == first[0] != again[1]
        with pytest.raises(MessageRejected) as refused:
            accept(session, settings, sms(idempotency_key="k"), single=True)
        assert (refused.value.field, refused.value.index) == ("idempotency_key", None)
    assert count(engine) == 2


def test_the_platform_owns_what_is_sent_with_no_tenant(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:  # R23
    monkeypatch.setattr(tenancy, "_multi_tenancy", True)
    tenants = settings.model_copy(update={"multi_tenancy": True})
    with Session(engine) as session, session.begin(), tenancy.all_tenants():
        [record_id] = accept(session, tenants, sms(scope=MessageScope.PLATFORM))
        assert row(session, record_id).tenant_id == -1
        with pytest.raises(MessageRejected):
            accept(session, tenants, sms())
        with tenancy.tenant(7):
            [own] = accept(session, tenants, sms(scope=MessageScope.PLATFORM))
        assert row(session, own).tenant_id == 7


# The public functions


@pytest.fixture
def api(engine: Engine, settings: Settings) -> None:
    messaging.configure(settings, engine=engine)


@pytest.mark.usefixtures("api")
def test_one_id_names_a_record_of_either_channel(engine: Engine) -> None:
    mail = messaging.send_mail(to=["ada@example.com"], text_body="hello")
    text = messaging.send_sms(phone_number=NUMBER, content="hello")
    assert text > mail
    found = messaging.status(text)
    assert isinstance(found, messaging.SmsStatus)
    assert (found.phone_number, found.status, found.delivery_status) == (NUMBER, "PENDING", "UNKNOWN")
    assert isinstance(messaging.status(mail), messaging.MailStatus)
    messaging.retry(text)
    assert messaging.retry_batch([mail, text, text + 1]) == 2
    assert messaging.cancel(text).answer == "cancelled"
    with pytest.raises(StateError):
        messaging.retry(text)
    for call in (messaging.status, messaging.retry, messaging.cancel):
        with pytest.raises(RecordNotFound):
            call(text + 1)


@pytest.mark.usefixtures("api")
def test_send_sms_takes_a_request_or_its_fields(engine: Engine) -> None:
    assert messaging.send_sms(sms()) < messaging.send_sms(phone_number=NUMBER, content="hello")
    assert len(messaging.send_sms_batch([sms(), sms()])) == 2
    with pytest.raises(TypeError, match="has no field 'text'"):
        messaging.send_sms(phone_number=NUMBER, text="hello")
    with pytest.raises(TypeError, match="not both"):
        messaging.send_sms(sms(), content="hello")  # type: ignore[call-overload]
    with pytest.raises(MessageRejected, match="phone_number is required"):
        messaging.send_sms(content="hello")
    assert count(engine) == 4


def test_a_session_that_is_awaited_is_refused_with_what_to_write(settings: Settings, engine: Engine) -> None:
    messaging.configure(settings, engine=engine)
    session: Any = AsyncSession()
    with pytest.raises(TypeError, match=r"AsyncSession, whose calls are awaited; write `await session.run_sync\("):
        messaging.send_sms(phone_number="+14155550199", content="Hi", session=session)
