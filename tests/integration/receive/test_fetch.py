"""Mailboxes of a real Dovecot, fetched as workers do: receive.md sections 2 to 7."""

import imaplib
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from imapclient.imap_utf7 import encode  # type: ignore[import-untyped]
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from messaging import tenancy
from messaging.errors import ReceiveError
from messaging.files import FileStore
from messaging.receive.fetch import Receiver
from messaging.settings import Settings
from tests.conftest import MakeSettings
from tests.far_end.dovecot import PASSWORD, Dovecot
from tests.integration.receive.fetching import LOCALHOST, Stored, add_mailbox, mail

MakeReceiver = Callable[..., Receiver]


class Owner:
    """Somebody with a mailbox, and a mail program."""

    def __init__(self, dovecot: Dovecot) -> None:
        self.name = f"u{secrets.token_hex(6)}"
        self.dovecot = dovecot

    @contextmanager
    def client(self) -> Iterator[imaplib.IMAP4]:
        with imaplib.IMAP4(LOCALHOST, self.dovecot.port, timeout=20) as client:
            client.login(self.name, PASSWORD)
            yield client

    def put(self, *mails: bytes, folder: str = "INBOX") -> None:
        with self.client() as client:
            name = f'"{encode(folder).decode()}"'
            if folder != "INBOX":
                client.create(name)
            for octets in mails:
                kind, answer = client.append(name, "", "", octets)
                assert kind == "OK", answer

    def flags(self) -> list[bytes]:
        with self.client() as client:
            client.select("INBOX", readonly=True)
            _, answer = client.fetch("1:*", "(FLAGS)")
            return [re.sub(rb"\\Recent ?", b"", one) for one in answer if isinstance(one, bytes)]

    def remove(self, uids: str) -> None:
        with self.client() as client:
            client.select("INBOX")
            client.uid("STORE", uids, "+FLAGS", r"(\Deleted)")
            client.expunge()


@pytest.fixture(scope="module")
def dovecot(servers_folder: Path) -> Iterator[Dovecot]:
    with Dovecot(servers_folder / f"dovecot-{secrets.token_hex(3)}").start() as server:
        yield server


@pytest.fixture
def owner(dovecot: Dovecot) -> Owner:
    return Owner(dovecot)


@pytest.fixture
def stored(engine: Engine) -> Stored:
    return Stored(engine)


@pytest.fixture
def make_receiver(engine: Engine, make_settings: MakeSettings) -> Iterator[MakeReceiver]:
    def make(*, multi_tenancy: bool = False, file_store_url: str = "db:", **fetch: Any) -> Receiver:
        settings: Settings = make_settings(mail={"fetch": fetch}, file_store_url=file_store_url)
        tenancy.use_multi_tenancy(multi_tenancy)
        return Receiver(engine, settings, FileStore(engine, settings))

    yield make
    tenancy.use_multi_tenancy(False)


@pytest.fixture
def add(engine: Engine, owner: Owner) -> Callable[..., int]:
    return lambda **fields: add_mailbox(engine, **{"port": owner.dovecot.port, "username": owner.name, **fields})


Add = Callable[..., int]


def numbered(count: int, start: int = 0) -> Iterable[bytes]:
    return (mail(f"{n:04d}") for n in range(start, start + count))


def test_a_mail_is_fetched_once(
    make_receiver: MakeReceiver, owner: Owner, add: Add, stored: Stored
) -> None:  # receive.md R1 R25 R28
    owner.put(mail("one"), mail("two"))
    receiver, config_id = make_receiver(), add()
    before = owner.flags()
    assert receiver.fetch_mailbox(config_id) == 2
    assert receiver.fetch_mailbox(config_id) == 0
    assert stored.names() == ["one", "two"]
    assert [body.strip() for body in stored.column("body_text")] == ["Hello.", "Hello."]
    assert stored.column("server_uid") == ["1", "2"]
    watermark = stored.watermark()
    assert (watermark["last_seen_uid"], watermark["in_progress_since"]) == (2, None)
    assert watermark["uid_validity"] == stored.rows()[0]["uid_validity"]
    assert owner.flags() == before


@pytest.mark.parametrize(
    ("folders", "read"),
    [
        (None, ["INBOX"]),
        (" ", ["INBOX"]),
        (" INBOX , Junk ", ["INBOX", "Junk"]),
        ("INBOX,,Junk,", ["INBOX", "Junk"]),
        ("Gönderilmiş Postalar/Été", ["Gönderilmiş Postalar/Été"]),
    ],
)
def test_the_folders_that_are_read(
    make_receiver: MakeReceiver, owner: Owner, add: Add, stored: Stored, folders: str | None, read: list[str]
) -> None:  # receive.md R4; receive/imap imap-04
    for name in read:
        owner.put(mail(secrets.token_hex(4)), folder=name)
    assert make_receiver().fetch_mailbox(add(fetch_folders=folders)) == len(read)
    assert stored.column("folder_name") == read


def test_a_mail_in_two_folders_is_one(make_receiver: MakeReceiver, owner: Owner, add: Add, stored: Stored) -> None:
    owner.put(mail("one"))
    owner.put(b"Received: by junk\r\n" + mail("one"), mail("one", "Another text."), folder="Junk")
    assert make_receiver().fetch_mailbox(add(fetch_folders="INBOX,Junk")) == 2
    first, second = stored.rows()
    assert (second["duplicate_of"], second["body_text"].strip()) == (first["id"], "Another text.")


def test_a_folder_that_is_not_there_stops_no_other(
    make_receiver: MakeReceiver, owner: Owner, add: Add, stored: Stored
) -> None:
    owner.put(mail("one"))
    assert make_receiver().fetch_mailbox(add(fetch_folders="Nowhere,INBOX")) == 1
    assert stored.watermark("Nowhere")["last_fetched_at"] is not None


def test_a_new_numbering_is_noticed_and_doubles_nothing(
    make_receiver: MakeReceiver, owner: Owner, add: Add, stored: Stored
) -> None:  # receive.md R25; receive/imap imap-01
    owner.put(mail("one"), mail("two"))
    receiver, config_id = make_receiver(), add()
    receiver.fetch_mailbox(config_id)
    owner.dovecot.doveadm("mailbox", "update", "--uid-validity", "777", "-u", owner.name, "INBOX")
    owner.put(mail("three"))
    assert receiver.fetch_mailbox(config_id) == 1
    assert stored.names() == ["one", "two", "three"]
    assert (stored.watermark()["uid_validity"], stored.watermark()["last_seen_uid"]) == (777, 3)


def test_a_watermark_beyond_the_newest_mail_stays(
    make_receiver: MakeReceiver, owner: Owner, add: Add, stored: Stored
) -> None:  # receive.md R26; receive/imap imap-02
    owner.put(mail("one"))
    receiver, config_id = make_receiver(), add()
    receiver.fetch_mailbox(config_id)
    stored.run("UPDATE mail_fetch_imap_watermark SET last_seen_uid = 105")
    stored.run("DELETE FROM mail_receive_record")
    assert receiver.fetch_mailbox(config_id) == 0
    assert stored.watermark()["last_seen_uid"] == 105


def test_a_batch_at_a_time_in_order(
    make_receiver: MakeReceiver, owner: Owner, add: Add, stored: Stored
) -> None:  # receive.md R27
    owner.put(*numbered(50))
    receiver, config_id = make_receiver(batch_limit=20), add()
    assert [receiver.fetch_mailbox(config_id) for _ in range(4)] == [20, 20, 10, 0]
    assert stored.names() == sorted(stored.names())
    assert len(stored.names()) == 50


def test_rows_belong_to_the_owner_of_the_mailbox(
    make_receiver: MakeReceiver, owner: Owner, add: Add, stored: Stored
) -> None:  # receive.md R33
    owner.put(mail("one"))
    receiver = make_receiver(multi_tenancy=True)
    with tenancy.tenant(9):
        assert [receiver.fetch_mailbox(add(tenant_id=tenant_id)) for tenant_id in (5, -1)] == [1, 1]
    assert stored.column("tenant_id") == [5, -1]
    assert [row["tenant_id"] for row in stored.rows("mail_fetch_imap_watermark")] == [5, -1]


def test_what_is_too_large_is_its_envelope(
    make_receiver: MakeReceiver, owner: Owner, add: Add, stored: Stored
) -> None:  # receive.md R9
    owner.put(mail("large", "x" * 5000), mail("small"))
    assert make_receiver(max_message_bytes=4000, archive_eml=True).fetch_mailbox(add()) == 2
    large, small = stored.rows()
    assert (large["truncation_reason"], large["from_address"], large["to_addresses"], large["subject"]) == (
        "BODY_TOO_LARGE",
        "ann@example.org",
        ["shop@example.com"],
        "Mail large",
    )
    assert (large["body_text"], large["body_mode"], large["eml_file_id"]) == (None, None, None)
    assert (small["truncation_reason"], small["eml_file_id"] is not None) == (None, True)


def test_mails_larger_than_a_group_come_alone(
    make_receiver: MakeReceiver, owner: Owner, add: Add, stored: Stored
) -> None:
    owner.put(mail("a"), mail("b", "x" * 2_000_000), mail("c"))
    assert make_receiver().fetch_mailbox(add()) == 3
    assert [len(body.strip()) for body in stored.column("body_text")] == [6, 2_000_000, 6]


def test_a_database_in_trouble_loses_no_mail(
    make_receiver: MakeReceiver, owner: Owner, add: Add, stored: Stored
) -> None:  # receive.md R18
    owner.put(mail("one"), mail("two"), mail("three"))
    stored.refuse(["Mail two"])
    receiver, config_id = make_receiver(), add()
    with pytest.raises(DBAPIError, match="refused"):
        receiver.fetch_mailbox(config_id)
    assert stored.names() == ["one"]
    assert (stored.watermark()["last_seen_uid"], stored.watermark()["in_progress_since"]) == (1, None)
    assert stored.watermark()["last_fetched_at"] is None
    stored.run("DROP TRIGGER refuse ON mail_receive_record")
    assert receiver.fetch_mailbox(config_id) == 2
    assert stored.names() == ["one", "two", "three"]


def test_a_folder_that_another_worker_holds_is_left(
    make_receiver: MakeReceiver, owner: Owner, add: Add, stored: Stored
) -> None:  # receive.md R20
    owner.put(mail("one"))
    receiver, config_id = make_receiver(), add()
    receiver.fetch_mailbox(config_id)
    owner.put(mail("two"))
    stored.run("UPDATE mail_fetch_imap_watermark SET in_progress_since = now() - interval '10 minutes'")
    assert receiver.fetch_mailbox(config_id) == 0
    stored.run("UPDATE mail_fetch_imap_watermark SET in_progress_since = now() - interval '2 hours'")
    assert receiver.fetch_mailbox(config_id) == 1


def test_a_mailbox_that_fails_stops_no_other(
    make_receiver: MakeReceiver, owner: Owner, add: Add, stored: Stored
) -> None:  # receive.md R31
    owner.put(mail("one"))
    receiver = make_receiver()
    wrong, right = add(password="s3cret-wrong", port=owner.dovecot.lmtp_port), add()
    with pytest.raises(ReceiveError, match=rf"^{LOCALHOST}:{owner.dovecot.lmtp_port}: "):
        receiver.fetch_mailbox(wrong)
    assert receiver.fetch_mailbox(right) == 1


def test_a_wrong_password_is_told_without_it(make_receiver: MakeReceiver, owner: Owner, add: Add) -> None:
    with pytest.raises(ReceiveError) as raised:
        make_receiver().fetch_mailbox(add(password="s3cret-wrong"))
    assert f"{LOCALHOST}:{owner.dovecot.port}: logging in: " in str(raised.value)
    assert "s3cret" not in repr(raised.value)


def test_what_is_gone_counts_as_done(make_receiver: MakeReceiver, owner: Owner, add: Add, stored: Stored) -> None:
    owner.put(mail("one"), mail("two"), mail("three"))
    owner.remove("2:3")
    receiver, config_id = make_receiver(), add()
    assert receiver.fetch_mailbox(config_id) == 1
    owner.put(mail("four"))
    assert receiver.fetch_mailbox(config_id) == 1
    assert stored.column("server_uid") == ["1", "4"]


def test_no_mailbox_is_an_error(make_receiver: MakeReceiver) -> None:
    with pytest.raises(ReceiveError, match="no mailbox 4711"):
        make_receiver().fetch_mailbox(4711)


def test_workers_at_one_mailbox_at_once_do_each_other_no_harm(
    make_receiver: MakeReceiver, owner: Owner, add: Add, stored: Stored
) -> None:  # receive.md R21
    owner.put(*numbered(60))
    receiver, config_id = make_receiver(), add()
    start = threading.Barrier(4)

    def work(_number: int) -> int:
        start.wait(30)
        return receiver.fetch_mailbox(config_id)

    with ThreadPoolExecutor(4) as workers:
        counts = list(workers.map(work, range(4)))
    assert sum(counts) == 60
    assert len(set(stored.names())) == len(stored.names()) == 60
    assert (stored.watermark()["last_seen_uid"], stored.watermark()["in_progress_since"]) == (60, None)


def test_two_workers_that_both_believe_to_hold_a_folder_double_nothing(
    make_receiver: MakeReceiver, owner: Owner, add: Add, stored: Stored
) -> None:  # receive.md R19 R22
    owner.put(*numbered(60))
    receiver, config_id = make_receiver(), add()
    # Whoever comes later takes the lease: the first one goes on until its next sign of life.
    stored.run(
        "CREATE FUNCTION age() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.in_progress_since IS NOT NULL THEN"
        " NEW.in_progress_since = now() - interval '2 hours'; END IF; RETURN NEW; END $$"
    )
    stored.run(
        "CREATE TRIGGER age BEFORE INSERT OR UPDATE ON mail_fetch_imap_watermark FOR EACH ROW EXECUTE FUNCTION age()"
    )
    start = threading.Barrier(3)

    def work(_number: int) -> int:
        start.wait(30)
        return receiver.fetch_mailbox(config_id)

    with ThreadPoolExecutor(3) as workers:
        counts = list(workers.map(work, range(3)))
    counts.append(receiver.fetch_mailbox(config_id))
    assert sum(counts) == 60
    assert len(set(stored.names())) == len(stored.names()) == 60
