"""Whoever changes a record from outside a delivery tells of it too: fetched reports, and calls of the public face."""

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from messaging import api
from messaging.clock import boot_seconds
from messaging.receive.link import Linker
from messaging.settings import Settings
from messaging.webhooks.announcing import EndpointWatch
from tests.integration.receive.books import MAILBOX, Books
from tests.integration.webhooks.desk import WebhookDesk


@pytest.fixture
def books(desk: WebhookDesk, engine: Engine, settings: Settings, unconfigured: None) -> Books:
    """Sent mails, and an endpoint that hears of them."""
    api.configure(settings, engine=engine)
    desk.add()
    return Books(engine, settings)


def told(engine: Engine) -> list[tuple[str, int]]:
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT event_type, about_record_id FROM webhook_send_record ORDER BY id"))
        return [tuple(row) for row in rows]


def test_a_bounce_that_is_fetched_is_told(books: Books, settings: Settings) -> None:
    record_id = books.sent()
    books.bounce(record_id)
    watch = EndpointWatch(ttl_seconds=1, ticker=boot_seconds)
    linker = Linker(books.engine, settings, watch)
    for _ in range(2):
        linker.link_pending(MAILBOX, owner_tenant_id=0, limit=10)
    assert told(books.engine) == [("message.bounced", record_id)]


def test_what_an_application_passes_on_is_told_with_its_transaction(books: Books) -> None:
    record_id = books.sent()
    with Session(books.engine) as session:
        assert api.mark_read_receipt(record_id=record_id, at=None, session=session)
        session.rollback()
    assert told(books.engine) == []
    assert api.mark_read_receipt(record_id=record_id, at=None)
    assert api.mark_bounced(record_id=record_id, permanent=True)
    assert told(books.engine) == [("message.read", record_id), ("message.bounced", record_id)]


def test_a_cancelled_message_is_told(books: Books) -> None:
    record_id = api.send_mail(to=["ada@example.org"], subject="Order", text_body="Thank you.")
    api.cancel(record_id)
    api.cancel(record_id)  # it was called off before
    assert told(books.engine) == [("message.cancelled", record_id)]
