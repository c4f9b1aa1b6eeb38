"""The public calls in sessions of any kind, and with ids that are none: the caller's transaction stays usable."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session

import messaging
from messaging import tenancy
from messaging.delivery.cancel import CancelAnswer
from messaging.delivery.status import SendStatus
from messaging.embedded import Postgres
from messaging.errors import RecordNotFound
from messaging.mail.models import MailSendRecord
from messaging.settings import Settings


@pytest.fixture(autouse=True)
def _configured(settings: Settings, engine: Engine) -> None:
    messaging.configure(settings, engine=engine)
    tenancy.use_multi_tenancy(False)


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with Session(engine) as opened:
        yield opened


def test_a_session_of_several_databases_is_asked_for_ours(engine: Engine, postgres: Postgres) -> None:
    other = create_engine(postgres.url("postgres"))
    with Session(other, binds={MailSendRecord: engine}) as session:
        record_id = messaging.send_mail(to=["a@example.com"], text_body="x", session=session)
        messaging.retry(record_id, session=session)
        assert messaging.retry_batch([record_id], session=session) == 1
        assert messaging.status(record_id, session=session).status is SendStatus.RETRY
        assert not messaging.mark_bounced(record_id=record_id, permanent=True, session=session)
        assert not messaging.mark_read_receipt(record_id=record_id, at=None, session=session)
        assert messaging.cancel(record_id, session=session).answer is CancelAnswer.CANCELLED
        session.commit()
    other.dispose()


@pytest.mark.parametrize("record_id", [0, -5, 2**63, 2**70])
def test_a_number_that_is_no_id_is_not_found(session: Session, record_id: int) -> None:
    for call in (messaging.status, messaging.retry, messaging.cancel):
        with pytest.raises(RecordNotFound, match=str(record_id)):
            call(record_id, session=session)
    assert messaging.retry_batch([record_id], session=session) == 0
    assert not messaging.mark_bounced(record_id=record_id, permanent=True, session=session)
    assert not messaging.mark_read_receipt(record_id=record_id, at=None, session=session)
    assert session.scalar(text("SELECT 1")) == 1


@pytest.mark.parametrize("record_id", ["1", "x", None, 1.5, True, [1]])
def test_what_is_no_number_is_refused_by_name_before_the_database_sees_it(session: Session, record_id: Any) -> None:
    for call in (messaging.status, messaging.retry, messaging.cancel):
        with pytest.raises(TypeError, match="a record id is an int"):
            call(record_id, session=session)
    with pytest.raises(TypeError, match="a record id is an int"):
        messaging.retry_batch([record_id], session=session)
    assert session.scalar(text("SELECT 1")) == 1


def test_a_batch_of_any_size_is_requeued(session: Session) -> None:
    record_id = messaging.send_mail(to=["a@example.com"], text_body="x", session=session)
    assert messaging.retry_batch(range(record_id, record_id + 70_000), session=session) == 1


def test_the_time_of_a_bounce_is_utc_whatever_the_session_shows(session: Session) -> None:
    record_id = messaging.send_mail(to=["a@example.com"], text_body="x", session=session)
    session.execute(text("UPDATE mail_send_record SET status = 'SENT'"))
    session.execute(text("SET LOCAL timezone = 'Asia/Tokyo'"))
    assert messaging.mark_bounced(record_id=record_id, permanent=True, session=session)
    at = messaging.status(record_id, session=session).recipient_results["a@example.com"]["at"]
    assert abs(session.scalar(text("SELECT extract(epoch FROM now() - CAST(:at AS timestamptz))"), {"at": at})) < 2
