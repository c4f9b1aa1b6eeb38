"""From a mailbox of a real Dovecot to the record: what a fetch stores it also links, now or at the next one."""

import imaplib
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError

from messaging.files import FileStore
from messaging.receive.fetch import Receiver
from messaging.settings import Settings
from messaging.tenancy import use_multi_tenancy
from tests.conftest import MakeSettings
from tests.far_end.dovecot import PASSWORD, Dovecot
from tests.far_end.record_bounces import FOLDER
from tests.integration.receive.books import ACCEPTED, Books
from tests.integration.receive.fetching import LOCALHOST, add_mailbox

#: Of the report in `postfix-unknown-user.eml`.
ADDRESS, RECORD_ID = "unknown@exim.example", 1001
MESSAGE_ID = f"<{RECORD_ID}.0123456789abcdef01234567@shop.example>"


@pytest.fixture(scope="module")
def dovecot(servers_folder: Path) -> Iterator[Dovecot]:
    with Dovecot(servers_folder / f"dovecot-{secrets.token_hex(3)}").start() as server:
        yield server


@pytest.fixture
def settings(make_settings: MakeSettings) -> Iterator[Settings]:
    use_multi_tenancy(True)
    yield make_settings(multi_tenancy=True)
    use_multi_tenancy(False)


@pytest.fixture
def receiver(engine: Engine, settings: Settings) -> Receiver:
    return Receiver(engine, settings, FileStore(engine, settings))


def mailbox_with_a_bounce(dovecot: Dovecot, engine: Engine, tenant_id: int) -> int:
    """A new mailbox's id; the report lies in its inbox."""
    owner = f"u{secrets.token_hex(6)}"
    with imaplib.IMAP4(LOCALHOST, dovecot.port, timeout=20) as client:
        client.login(owner, PASSWORD)
        kind, answer = client.append("INBOX", "", "", (FOLDER / "postfix-unknown-user.eml").read_bytes())
        assert kind == "OK", answer
    return add_mailbox(engine, dovecot.port, username=owner, tenant_id=tenant_id)


def sent(books: Books, **columns: Any) -> int:
    return books.sent(ADDRESS, **{"id": RECORD_ID, "message_id": MESSAGE_ID, "tenant_id": 7, **columns})


def test_a_fetched_bounce_fails_its_record(books: Books, receiver: Receiver, dovecot: Dovecot) -> None:
    record_id = sent(books)
    config_id = mailbox_with_a_bounce(dovecot, books.engine, tenant_id=7)
    assert receiver.fetch_mailbox(config_id) == 1  # receive.md R2
    row = books.record(record_id)
    assert (row.status, row.bounced_recipients) == ("FAILED", [ADDRESS])
    assert books.suppressed() == [(7, ADDRESS, "HARD_BOUNCE", record_id)]
    assert receiver.fetch_mailbox(config_id) == 0
    assert books.record(record_id) == row


def test_a_tenants_bounce_in_the_platforms_mailbox_is_the_tenants(
    books: Books, receiver: Receiver, dovecot: Dovecot
) -> None:  # receive.md R61
    record_id = sent(books, server_config_id=books.server(-1))
    assert receiver.fetch_mailbox(mailbox_with_a_bounce(dovecot, books.engine, tenant_id=-1)) == 1
    assert books.record(record_id).status == "FAILED"
    assert books.suppressed() == [(7, ADDRESS, "HARD_BOUNCE", record_id)]


@pytest.mark.parametrize("owner", [8, -1])
def test_anothers_mailbox_does_not_speak_of_it(
    books: Books, receiver: Receiver, dovecot: Dovecot, owner: int
) -> None:  # receive.md R62
    record_id = sent(books, server_config_id=books.server(7))
    assert receiver.fetch_mailbox(mailbox_with_a_bounce(dovecot, books.engine, tenant_id=owner)) == 1
    assert (books.record(record_id).status, books.suppressed()) == ("SENT", [])


def test_a_bounce_that_comes_before_the_outcome_is_linked_at_the_next_fetch(
    books: Books, receiver: Receiver, dovecot: Dovecot
) -> None:  # receive.md R59
    record_id = sent(books, status="SENDING")
    config_id = mailbox_with_a_bounce(dovecot, books.engine, tenant_id=7)
    assert receiver.fetch_mailbox(config_id) == 1
    assert books.record(record_id).status == "SENDING"
    books.put(record_id, status="SENT", claimed_at=None, recipient_results={ADDRESS: ACCEPTED})
    assert receiver.fetch_mailbox(config_id) == 0
    assert books.record(record_id).status == "FAILED"


def test_what_was_stored_and_not_linked_is_linked_at_the_next_fetch(
    books: Books, receiver: Receiver, dovecot: Dovecot
) -> None:  # receive.md R60
    record_id = sent(books)
    config_id = mailbox_with_a_bounce(dovecot, books.engine, tenant_id=7)

    def cut(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE mail_send_record"):
            connection.connection.dbapi_connection.close()

    event.listen(books.engine, "before_cursor_execute", cut)
    with pytest.raises(OperationalError):
        receiver.fetch_mailbox(config_id)
    event.remove(books.engine, "before_cursor_execute", cut)
    assert books.record(record_id).status == "SENT"
    assert receiver.fetch_mailbox(config_id) == 0
    assert books.record(record_id).status == "FAILED"
    assert len(books.suppressed()) == 1
