"""Records by the public calls: pages of a list, one with its story, its attempts; what cannot be asked is named."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

import messaging
from messaging import RecordNotFound, tenancy
from messaging.settings import Settings


@pytest.fixture(autouse=True)
def _configured(settings: Settings, engine: Engine) -> None:
    messaging.configure(settings, engine=engine)
    tenancy.use_multi_tenancy(False)


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with Session(engine) as opened:
        yield opened


def test_pages_of_both_channels_go_from_the_newest_on(session: Session) -> None:
    ids = []
    for number in range(3):
        ids.append(messaging.send_mail(to=[f"r{number}@example.org"], text_body="x"))
        ids.append(messaging.send_sms(phone_number=f"+491511234567{number}", content="x"))
    first = messaging.list_records(limit=4, session=session)
    second = messaging.list_records(limit=4, before=first.next, session=session)
    assert [line.id for line in (*first.lines, *second.lines)] == ids[::-1]
    assert second.next is None


@pytest.mark.parametrize(
    ("recipient", "found"),
    [("Ann <ANN@example.org>", "mail"), ("+4915112345678", "sms"), ("ben@example.org", None)],
)
def test_a_recipient_names_its_channel(recipient: str, found: str | None) -> None:
    messaging.send_mail(to=["ann@example.org"], text_body="x")
    messaging.send_sms(phone_number="+4915112345678", content="x")
    lines = messaging.list_records(recipient=recipient).lines
    assert [line.channel for line in lines] == ([found] if found else [])


def test_a_list_is_narrowed_by_words_too() -> None:
    record_id = messaging.send_mail(to=["ann@example.org"], text_body="x")
    words: dict[str, Any] = {"channel": "mail", "status": "PENDING", "scope": "TENANT"}
    assert [line.id for line in messaging.list_records(**words).lines] == [record_id]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"channel": "fax"}, "channel is 'fax'; allowed: mail, sms"),
        ({"status": "SENDED"}, "status is 'SENDED'; allowed: PENDING"),
        ({"scope": 5}, "scope is 5; it is of type MessageScope"),
        ({"recipient": "nobody"}, "recipient is 'nobody'; it is not a number"),
        ({"recipient": "a@b@c"}, "recipient is 'a@b@c'; it "),
        ({"recipient": "ann@example.org", "channel": "sms"}, "recipient is 'ann@example.org'; it is not a number"),
        ({"template_code": 5}, "template_code is 5; it is of type str"),
        ({"error_code": "a\x00"}, "error_code is .*; it has a character that no record can have"),
        ({"template_id": True}, "template_id is True; it is of type int"),
        ({"config_id": 2**63}, "config_id is 9223372036854775808; allowed: 1 to"),
        ({"created_after": "2030-01-01"}, "created_after is '2030-01-01'; it is of type datetime"),
        ({"created_before": datetime(2030, 1, 1)}, "created_before is .*; it needs a time zone"),  # noqa: DTZ001
        ({"limit": 0}, "limit is 0; allowed: 1 to"),
        ({"before": 5}, "before is 5; it is of type Position"),
    ],
)
def test_what_cannot_narrow_a_list_is_named_before_the_database_sees_it(
    session: Session, given: dict[str, Any], told: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        messaging.list_records(**given, session=session)
    assert session.scalar(text("SELECT 1")) == 1


def test_a_story_and_its_attempts_are_of_one_channel_where_one_is_named(session: Session) -> None:
    mail_id = messaging.send_mail(to=["ann@example.org"], text_body="Hi")
    sms_id = messaging.send_sms(phone_number="+4915112345678", content="Hi")
    assert messaging.get_record(mail_id, session=session).channel == "mail"
    assert messaging.get_record(sms_id, channel="sms", session=session).channel == "sms"
    assert messaging.list_attempts(sms_id, channel="sms", session=session) == []
    for call in (messaging.get_record, messaging.list_attempts, messaging.status, messaging.retry, messaging.cancel):
        with pytest.raises(RecordNotFound, match=f"no sms record {mail_id}"):
            call(mail_id, channel="sms", session=session)
        with pytest.raises(RecordNotFound, match="404"):
            call(404, session=session)
    assert messaging.retry_batch([mail_id, sms_id], channel="sms", session=session) == 1
    assert messaging.list_records(created_before=datetime(2020, 1, 1, tzinfo=UTC), session=session).lines == []
