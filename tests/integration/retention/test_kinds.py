"""What each kind of pruning takes, and what it leaves: by age, by state, and whatever the age of what is not final."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, text

from messaging.delivery.dead_letter import DEAD_LETTER_MESSAGE
from messaging.delivery.record import SEND_ATTEMPT
from messaging.files import STORED_FILE
from messaging.inbox.models import INBOX_NOTIFICATION
from messaging.mail.models import MAIL_SEND_RECORD, MAIL_TEMPLATE
from messaging.receive.models import MAIL_RECEIVE_RECORD, MAIL_RECEIVE_SERVER_CONFIG
from messaging.sandbox.models import CAPTURED_MESSAGE
from messaging.sms.models import SMS_RECEIPT, SMS_SEND_RECORD
from messaging.webhooks.models import WEBHOOK_SEND_RECORD
from tests.integration.retention.conftest import MakeStore, Store
from tests.integration.retention.rows import (
    ATTEMPT,
    CAPTURED,
    DEAD_LETTER,
    FILE,
    MAIL,
    NOTIFICATION,
    RECEIPT,
    RECEIVED,
    TEXT,
    WEBHOOK,
)

pytestmark = pytest.mark.postgres16

FINAL, OPEN = ("SENT", "FAILED", "DEAD_LETTER"), ("PENDING", "RETRY", "SENDING")


def claimed(status: str) -> dict[str, Any]:
    return {"claimed_at": text("now()")} if status == "SENDING" else {}


@pytest.mark.parametrize(
    ("table", "columns", "content"),
    [
        (MAIL_SEND_RECORD, MAIL, ("subject", "body_text", "template_variables")),
        (SMS_SEND_RECORD, TEXT, ("content",)),
    ],
    ids=["mail", "sms"],
)
def test_bodies_of_final_records_go_and_a_hash_stays(
    store: Store, table: Table, columns: dict[str, Any], content: tuple[str, ...]
) -> None:
    final = [store.add(table, status=status, **columns) for status in FINAL]
    others = [store.add(table, status=status, **columns, **claimed(status)) for status in OPEN]
    young = store.add(table, status="SENT", age=10, **columns)
    name = f"bodies/{'mail' if table is MAIL_SEND_RECORD else 'sms'}"
    assert store.count(bodies_days=30) == {name: 3}
    assert store.prune(bodies_days=30) == {name: 3}
    for record_id in final:
        row = store.row(table, record_id)
        assert [getattr(row, column) for column in content] == [None] * len(content)
        parts = [b"s", b"", b"t"] if table is MAIL_SEND_RECORD else [b"t"]
        assert row.content_sha256 == hashlib.sha256(b"\0".join(parts)).hexdigest()
        assert (row.redacted_at is None, row.version) == (False, 1)
    for record_id in [*others, young]:
        row = store.row(table, record_id)
        assert [getattr(row, column) for column in content] == [columns[column] for column in content]
    assert store.prune(bodies_days=30) == {}


def test_what_a_webhook_told_goes_too(store: Store) -> None:
    final = store.add(WEBHOOK_SEND_RECORD, status="SENT", **WEBHOOK)
    waiting = store.add(WEBHOOK_SEND_RECORD, status="RETRY", **WEBHOOK)
    assert store.prune(bodies_days=30) == {"bodies/webhook": 1}
    assert [store.row(WEBHOOK_SEND_RECORD, i).payload for i in (final, waiting)] == [{}, {"id": "1"}]
    assert store.prune(bodies_days=30) == {}


def test_a_record_s_age_counts_from_its_end(store: Store) -> None:
    # Accepted long ago and sent lately; a receipt that came lately does not make a mail young again.
    late = store.add(MAIL_SEND_RECORD, status="SENT", sent_at=text("now() - interval '1 day'"), **MAIL)
    read = store.add(MAIL_SEND_RECORD, status="SENT", updated_at=text("now()"), **MAIL)
    failed = store.add(MAIL_SEND_RECORD, status="FAILED", updated_at=text("now()"), **MAIL)
    store.prune(bodies_days=30)
    assert [store.row(MAIL_SEND_RECORD, i).redacted_at is None for i in (late, read, failed)] == [True, False, True]


def test_final_records_go_with_their_attempts(store: Store) -> None:
    tables = ((MAIL_SEND_RECORD, MAIL), (SMS_SEND_RECORD, TEXT), (WEBHOOK_SEND_RECORD, WEBHOOK))
    kept = []
    for table, columns in tables:
        for status in (*FINAL, *OPEN):
            record_id = store.add(table, status=status, **columns, **claimed(status))
            channel = table.name.removesuffix("_send_record")
            store.add(SEND_ATTEMPT, record_id=record_id, started_at=text("now()"), **{**ATTEMPT, "channel": channel})
            kept += [record_id] if status in OPEN else []
    assert store.prune(records_days=30) == {"records/mail": 3, "records/sms": 3, "records/webhook": 3}
    assert [record_id for table, _ in tables for record_id in store.ids(table)] == kept
    assert [store.row(SEND_ATTEMPT, i).record_id for i in store.ids(SEND_ATTEMPT)] == kept


def test_attempts_of_final_records_and_of_none_go(store: Store) -> None:
    final = store.add(MAIL_SEND_RECORD, status="SENT", **MAIL)
    waiting = store.add(MAIL_SEND_RECORD, status="RETRY", **MAIL)
    for record_id, age in ((final, 100), (waiting, 100), (987654, 100), (final + 10**6, 1)):
        at = text(f"now() - interval '{age} days'")
        store.add(SEND_ATTEMPT, record_id=record_id, started_at=at, age=age, **ATTEMPT)
    assert store.prune(attempts_days=30) == {"attempts": 2}
    assert [store.row(SEND_ATTEMPT, i).record_id for i in store.ids(SEND_ATTEMPT)] == [waiting, final + 10**6]


def test_received_mail_goes_with_its_files_but_those_that_another_mail_names(store: Store) -> None:
    eml, part, forwarded = (store.add(STORED_FILE, **FILE) for _ in range(3))
    files = [{"file_id": part, "file_name": "a"}, {"file_id": forwarded, "file_name": "b"}]
    store.add(MAIL_RECEIVE_RECORD, message_id="<1>", attachments=files, eml_file_id=eml, **RECEIVED)
    pending = store.add(MAIL_RECEIVE_RECORD, message_id="<2>", link_status="PENDING", **RECEIVED)
    young = store.add(MAIL_RECEIVE_RECORD, message_id="<3>", age=1, **RECEIVED)
    store.add(MAIL_SEND_RECORD, status="SENT", attachments=[{"file_id": forwarded, "file_name": "b"}], **MAIL)
    assert store.prune(received_days=30) == {"received": 1}
    assert store.ids(MAIL_RECEIVE_RECORD) == [pending, young]
    assert store.ids(STORED_FILE) == [forwarded]


def test_of_a_maildrop_s_mail_the_keys_stay_so_that_it_is_not_fetched_again(store: Store) -> None:
    mailbox = store.add(
        MAIL_RECEIVE_SERVER_CONFIG, name="pop", protocol="POP3", host="h", port=995, username="u", auth="PASSWORD"
    )
    columns = {**RECEIVED, "server_config_id": mailbox}
    mail = store.add(MAIL_RECEIVE_RECORD, message_id="<1>", server_uid="uid-1", **columns)
    assert store.prune(received_days=30) == {"received": 1}
    row = store.row(MAIL_RECEIVE_RECORD, mail)
    assert (row.message_id, row.server_uid, row.status) == ("<1>", "uid-1", "DELETED")
    assert (row.subject, row.body_text, row.from_address, row.to_addresses) == (None, None, None, [])
    assert store.prune(received_days=30) == {}


def test_files_go_that_nothing_names(store: Store) -> None:
    unnamed, mailed, received, raw, templated = (store.add(STORED_FILE, **FILE) for _ in range(5))
    young = store.add(STORED_FILE, age=1, **FILE)
    store.add(MAIL_SEND_RECORD, status="SENT", attachments=[{"file_id": mailed, "file_name": "a"}], **MAIL)
    store.add(
        MAIL_RECEIVE_RECORD,
        message_id="<1>",
        attachments=[{"file_id": received, "file_name": "a"}],
        eml_file_id=raw,
        **RECEIVED,
    )
    template = {"code": "c", "name": "n", "attachments": [{"file_id": templated, "file_name": "a"}]}
    store.add(MAIL_TEMPLATE, **template)
    assert store.prune(files_days=30) == {"files": 1}
    assert store.ids(STORED_FILE) == [mailed, received, raw, templated, young]
    # Once its mail has lost its content, a file is nobody's.
    store.run("UPDATE mail_send_record SET attachments = NULL")
    assert store.prune(files_days=30) == {"files": 1}
    assert mailed not in store.ids(STORED_FILE)
    assert unnamed not in store.ids(STORED_FILE)


def test_a_file_s_content_behind_a_url_goes_with_its_last_row(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store(f"file://{tmp_path}")

    def put(content: bytes) -> int:
        with store.engine.begin() as connection:
            return store.files.store(connection, content, file_name="a", content_type=None, tenant_id=7)

    def places() -> int:
        return sum(path.is_file() for path in tmp_path.rglob("*"))

    alone, first, second = put(b"one"), put(b"two"), put(b"two")
    assert places() == 2
    store.run(f"UPDATE stored_file SET created_at = now() - interval '100 days' WHERE id IN ({alone}, {first})")
    assert store.prune(files_days=30) == {"files": 2}
    assert (store.ids(STORED_FILE), places()) == ([second], 1)
    with store.files.open(second, {7}) as opened:
        assert opened.read() == b"two"


def test_content_that_a_caller_is_about_to_name_stays(make_store: MakeStore, tmp_path: Path) -> None:
    # The caller writes nothing, as equal content is there; then its last row goes, and the caller commits.
    store = make_store(f"file://{tmp_path}")
    with store.engine.begin() as connection:
        old = store.files.store(connection, b"same", file_name="a", content_type=None, tenant_id=7)
    store.run("UPDATE stored_file SET created_at = now() - interval '100 days'")
    with store.engine.begin() as caller:
        new = store.files.store(caller, b"same", file_name="a", content_type=None, tenant_id=7)
        assert store.prune(files_days=30) == {"files": 1}
    assert store.ids(STORED_FILE) == [new] != [old]
    with store.files.open(new, {7}) as opened:
        assert opened.read() == b"same"


def test_notifications_captured_messages_dead_letters_and_receipts_go_by_age_and_state(store: Store) -> None:
    store.add(INBOX_NOTIFICATION, **NOTIFICATION)
    notification = store.add(INBOX_NOTIFICATION, age=1, **NOTIFICATION)
    store.add(CAPTURED_MESSAGE, record_id=1, **CAPTURED)
    captured = store.add(CAPTURED_MESSAGE, record_id=2, age=1, **CAPTURED)
    for status in ("RESOLVED", "DISCARDED"):
        store.add(DEAD_LETTER_MESSAGE, status=status, **DEAD_LETTER)
    pending = store.add(DEAD_LETTER_MESSAGE, status="PENDING", **DEAD_LETTER)
    lately = store.add(DEAD_LETTER_MESSAGE, status="RESOLVED", updated_at=text("now()"), **DEAD_LETTER)
    store.add(SMS_RECEIPT, applied_at=text("now()"), **RECEIPT)
    store.add(SMS_RECEIPT, **RECEIPT)  # never found its record
    ages = {f"{kind}_days": 30.0 for kind in ("notifications", "captured", "dead_letters", "receipts")}
    assert store.count(**ages) == {"captured": 1, "notifications": 1, "receipts": 2, "dead_letters": 2}
    assert store.prune(**ages) == {"captured": 1, "notifications": 1, "receipts": 2, "dead_letters": 2}
    assert store.ids(INBOX_NOTIFICATION) == [notification]
    assert store.ids(CAPTURED_MESSAGE) == [captured]
    assert store.ids(DEAD_LETTER_MESSAGE) == [pending, lately]
    assert store.ids(SMS_RECEIPT) == []


def test_a_receipt_that_may_still_be_applied_stays(store: Store) -> None:
    waiting = store.add(SMS_RECEIPT, age=0.5, **RECEIPT)
    assert store.prune(receipts_days=0.1) == {}
    assert store.ids(SMS_RECEIPT) == [waiting]


def test_without_an_age_nothing_goes(store: Store) -> None:
    store.add(MAIL_SEND_RECORD, status="SENT", age=30_000, **MAIL)
    assert store.prune() == {}
    assert store.size(MAIL_SEND_RECORD) == 1
