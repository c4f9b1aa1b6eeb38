"""What good IMAP servers never do, and what a fetch makes of it: receive.md section 4, cases receive/imap."""

import math
import os
import signal
import ssl
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
import trustme
from sqlalchemy import Engine

from messaging import tenancy
from messaging.errors import ReceiveError
from messaging.files import FileStore
from messaging.receive.arrival import Reader
from messaging.receive.classify.chain import classify
from messaging.receive.connecting import MailboxConnector
from messaging.receive.fetch import Receiver
from messaging.receive.imap import ImapConnector
from messaging.receive.imap_folder import fetch_folder
from messaging.receive.login import Credential
from messaging.receive.mailbox import find_mailbox
from messaging.receive.parse import ParseLimits, parse, parse_envelope
from messaging.receive.parsed import ParsedMail
from messaging.receive.run import Run
from messaging.receive.store import Store
from messaging.receive.watermark import Watermarks
from messaging.settings import Settings
from tests.conftest import MakeSettings
from tests.far_end.scripted_imap import Folder, Message, Rule, ScriptedImapServer
from tests.integration.receive.fetching import Stored, add_mailbox, mail

Fetch = Callable[..., int]


def inbox(*names: str, **more: Any) -> dict[str, Folder]:
    return {"INBOX": Folder({uid: Message(mail(name)) for uid, name in enumerate(names, start=1)}, **more)}


@pytest.fixture
def stored(engine: Engine) -> Stored:
    return Stored(engine)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def fetch(engine: Engine, make_settings: MakeSettings, authority: trustme.CA) -> Fetch:
    """Fetches the one mailbox of a server; `settings` are those of the fetch."""
    ids: dict[int, int] = {}

    def trusting() -> ssl.SSLContext:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        return context

    def fetch(
        server: ScriptedImapServer, *, config_id: int = 0, read_seconds: float = 5, fields: Any = None, **settings: Any
    ) -> int:
        if config_id:
            ids[server.port] = config_id
        elif server.port not in ids:
            ids[server.port] = add_mailbox(engine, server.port, **(fields or {}))
        transport = {"connection_timeout_seconds": 2, "read_timeout_seconds": read_seconds}
        given = make_settings(mail={"fetch": settings, "transport": transport})
        receiver = Receiver(engine, given, FileStore(engine, given), ssl_context_factory=trusting)
        return receiver.fetch_mailbox(ids[server.port])

    tenancy.use_multi_tenancy(False)
    return fetch


def failed(fetch: Fetch, server: ScriptedImapServer, **settings: Any) -> str:
    with pytest.raises(ReceiveError) as raised:
        fetch(server, **settings)
    text = str(raised.value)
    assert text.startswith(f"127.0.0.1:{server.port}: "), text
    return text


def test_a_new_numbering_has_every_message_looked_at(fetch: Fetch, stored: Stored) -> None:
    # receive/imap imap-01; receive.md R25
    with ScriptedImapServer(inbox("m1", validity=100)) as server:
        assert fetch(server) == 1
        stored.run("UPDATE mail_fetch_imap_watermark SET last_seen_uid = 500")
        server.folders = inbox("m1", "m2", validity=101)
        before = len(server.lines("UID FETCH"))
        assert fetch(server) == 1
        assert [line for line in server.lines("UID FETCH")[before:] if "BODY.PEEK[]" in line] == [
            "UID FETCH 2 (BODY.PEEK[]<0.104857601>)"
        ]
    assert stored.names() == ["m1", "m2"]
    assert (stored.watermark()["uid_validity"], stored.watermark()["last_seen_uid"]) == (101, 2)


def test_a_range_that_answers_the_last_old_message(fetch: Fetch, stored: Stored) -> None:
    # receive/imap imap-02; receive.md R26
    with ScriptedImapServer({"INBOX": Folder({28: Message(mail("old"))})}) as server:
        fetch(server)
        stored.run("DELETE FROM mail_receive_record")
        server.rules.append(Rule("UID SEARCH UID 29:*", "* SEARCH 28\r\n{tag} OK done\r\n"))
        before = len(server.lines("UID FETCH"))
        assert fetch(server) == 0
        assert len(server.lines("UID FETCH")) == before
    assert stored.watermark()["last_seen_uid"] == 28


def test_data_of_another_message_that_nobody_asked_for(fetch: Fetch, stored: Stored) -> None:
    # receive/imap imap-03
    raw = (
        "* 3 FETCH (FLAGS (\\Seen) UID 7)\r\n* 12 EXISTS\r\n"
        "* 4 FETCH (UID 10 BODY[]<0> {26}\r\nSubject: x\r\n\r\nMessage body FLAGS (\\Recent))\r\n{tag} OK done\r\n"
    )
    with ScriptedImapServer({"INBOX": Folder({10: Message(mail("x"))})}) as server:
        server.rules.append(Rule("UID FETCH 10 (BODY.PEEK[]", raw))
        assert fetch(server) == 1
    [row] = stored.rows()
    assert (row["server_uid"], row["subject"], row["body_text"]) == ("10", "x", "Message body")


def test_a_folder_is_named_in_modified_utf_7(fetch: Fetch, stored: Stored) -> None:
    # receive/imap imap-04
    with ScriptedImapServer({"[Gmail]/G&APY-nderilmi&AV8- Postalar": Folder({1: Message(mail("x"))})}) as server:
        assert fetch(server, fields={"fetch_folders": "[Gmail]/Gönderilmiş Postalar"}) == 1
        assert server.lines("EXAMINE") == ['EXAMINE "[Gmail]/G&APY-nderilmi&AV8- Postalar"']
    assert stored.column("folder_name") == ["[Gmail]/Gönderilmiş Postalar"]


def test_no_command_names_thousands_of_messages(fetch: Fetch, stored: Stored) -> None:
    # receive/imap imap-05; receive.md R27
    messages = {uid: Message(mail(f"{uid:05d}")) for uid in range(4_000_000_001, 4_000_000_501)}
    with ScriptedImapServer({"INBOX": Folder(messages)}) as server:
        assert [fetch(server), fetch(server, batch_limit=1000), fetch(server)] == [100, 400, 0]
        assert max(map(len, server.commands)) < 8000
    assert len(set(stored.names())) == 500
    assert stored.names() == sorted(stored.names())


@pytest.mark.parametrize("said", [10, None], ids=["understated", "not said"])
def test_a_server_that_lies_about_a_size(fetch: Fetch, stored: Stored, said: int | None) -> None:  # receive.md R10
    messages = {1: Message(mail("large", "x" * 9000), size=said or 0), 2: Message(mail("small"))}
    with ScriptedImapServer({"INBOX": Folder(messages)}) as server:
        assert fetch(server, max_message_bytes=5000) == 2
        assert all("<0.5001>" in line for line in server.lines("UID FETCH") if "BODY.PEEK[]" in line)
    assert stored.column("truncation_reason") == ["BODY_TOO_LARGE", None]
    assert stored.column("from_address") == ["ann@example.org"] * 2


def test_a_mail_longer_than_it_was_said_to_be_is_whole(fetch: Fetch, stored: Stored) -> None:
    messages = {1: Message(mail("large", "x" * 2_000_000), size=500), 2: Message(mail("small"))}
    with ScriptedImapServer({"INBOX": Folder(messages)}) as server:
        assert fetch(server) == 2
    assert [len(text.strip()) for text in stored.column("body_text")] == [2_000_000, 6]


def test_mails_that_are_longer_than_they_were_said_to_be_come_one_at_a_time(fetch: Fetch, stored: Stored) -> None:
    large = 4_000_000
    messages = {uid: Message(mail(str(uid), "x" * large), size=500) for uid in range(1, 11)}
    with ScriptedImapServer({"INBOX": Folder(messages)}) as server:
        tracemalloc.start()
        try:
            assert fetch(server) == 10
            # One of them, some times: as octets, as text, as a parameter. Not ten of them.
            assert tracemalloc.get_traced_memory()[1] < 10 * large + 20_000_000
        finally:
            tracemalloc.stop()
    assert len(stored.names()) == 10


@pytest.mark.parametrize("size", ["10000000000", "200000000", "1" * 4400], ids=["10 GB", "200 MB", "digits"])
def test_an_announced_literal_does_not_fill_the_memory(fetch: Fetch, stored: Stored, size: str) -> None:
    rule = Rule("UID FETCH 2 (BODY.PEEK[]", f"* 2 FETCH (UID 2 BODY[]<0> {{{size}}}\r\nxx", is_last=True)
    folders = {"INBOX": Folder({1: Message(mail("one")), 2: Message(mail("two"), size=2_000_000)})}
    with ScriptedImapServer(folders, [rule]) as server:
        tracemalloc.start()
        try:
            text = failed(fetch, server)
            assert tracemalloc.get_traced_memory()[1] < 50_000_000
        finally:
            tracemalloc.stop()
    assert "FETCH failed" in text
    assert stored.names() == ["one"]
    assert (stored.watermark()["last_seen_uid"], stored.watermark()["in_progress_since"]) == (1, None)


def test_answers_without_end_are_not_read_for_ever(fetch: Fetch) -> None:
    flood = b"* 1 EXISTS\r\n" * 200_000
    with ScriptedImapServer(inbox("one"), [Rule("EXAMINE", flood)]) as server:
        assert "more than 1048576 octets" in failed(fetch, server)
    with ScriptedImapServer(inbox("one"), [Rule("EXAMINE", b"* OK " + b"x" * 3_000_000)]) as server:
        assert "more than 1048576 octets" in failed(fetch, server)


def test_a_server_that_says_nothing_is_not_waited_for(fetch: Fetch) -> None:
    with ScriptedImapServer(inbox("one"), [Rule("UID SEARCH", "")]) as server:
        began = time.monotonic()
        assert "SEARCH failed" in failed(fetch, server, read_seconds=0.3)
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("validity", [None, "x", "0"])
def test_a_folder_without_uidvalidity_is_not_read(fetch: Fetch, stored: Stored, validity: str | None) -> None:
    with ScriptedImapServer(inbox("one", validity=validity)) as server:
        failed(fetch, server)
    assert not stored.rows()
    watermark = stored.watermark()
    assert (watermark["in_progress_since"], watermark["last_fetched_at"]) == (None, None)


@pytest.mark.parametrize(
    "raw",
    [
        "{tag} BAD no\r\n",
        "{tag} NO [UNAVAILABLE] later\r\n",
        "* BYE going down\r\n",
        "garbage\r\n",
        "* SEARCH 1 2\r\n",
        "+ go on\r\n{tag} OK\r\n",
        "{tag} OK\r\n",
        "* OK [UIDVALIDITY\r\n{tag} OK done\r\n",
        "* OK [UIDVALIDITY 99999999999999999999999] x\r\n{tag} WHAT\r\n",
        "* FLAGS\r\n* 1 EXISTS\r\n* OK [UIDVALIDITY 1] x\r\n{tag} OK\r\n\x00\xff",
    ],
)
def test_strange_answers_to_examine(fetch: Fetch, stored: Stored, raw: str) -> None:
    with ScriptedImapServer(inbox("one"), [Rule("EXAMINE", raw, is_last=True)]) as server:
        failed(fetch, server)
    assert not stored.rows()
    assert stored.watermark()["in_progress_since"] is None


@pytest.mark.parametrize(
    ("raw", "count"),
    [
        ("* SEARCH 1\r\n* SEARCH 2 (MODSEQ 917162500)\r\n{tag} OK done\r\n", 2),
        ("* SEARCH 2 1 2 1\r\n{tag} OK done\r\n", 2),
        ("* SEARCH\r\n{tag} OK done\r\n", 0),
        ("{tag} OK done\r\n", 0),
        ("* SEARCH x -1 99999999999999999999\r\n{tag} OK done\r\n", 0),
        ("* SEARCH 1 2 7\r\n{tag} OK done\r\n", 2),
    ],
)
def test_answers_to_search(fetch: Fetch, stored: Stored, raw: str, count: int) -> None:
    with ScriptedImapServer(inbox("one", "two"), [Rule("UID SEARCH", raw)]) as server:
        assert fetch(server) == count
    assert stored.names() == ["one", "two"][:count]


@pytest.mark.parametrize(
    "raw",
    [
        "* 1 FETCH\r\n{tag} OK done\r\n",
        "* 1 FETCH (\r\n{tag} OK done\r\n",
        "* 1 FETCH (UID 1 BODY[] {5}\r\nabc",
        "* 1 FETCH (UID x BODY[] NIL)\r\n{tag} OK done\r\n",
        "* 1 FETCH " + "(" * 5000 + "\r\n{tag} OK done\r\n",
        '* 1 FETCH (UID 1 BODY[] "open)\r\n{tag} OK done\r\n',
        "* 1 FETCH (UID 1 ENVELOPE (NIL) BODY NIL)\r\n{tag} OK done\r\n",
        "{tag} NO [SERVERBUG] x\r\n",
        "{tag} BAD x\r\n",
        "* BYE\r\n",
    ],
)
def test_strange_answers_to_fetch_end_in_one_kind_of_error(fetch: Fetch, stored: Stored, raw: str) -> None:
    with ScriptedImapServer(inbox("one"), [Rule("UID FETCH 1 (BODY.PEEK[]", raw, is_last=True)]) as server:
        failed(fetch, server)
    assert stored.watermark()["in_progress_since"] is None
    assert not stored.rows()


@pytest.mark.parametrize("raw", ["{tag} OK done\r\n", "* 1 FETCH (UID 1 BODY[] NIL)\r\n{tag} OK done\r\n"])
def test_a_message_that_goes_between_search_and_fetch_counts_as_done(fetch: Fetch, stored: Stored, raw: str) -> None:
    with ScriptedImapServer(inbox("one", "two"), [Rule("UID FETCH 1 (BODY.PEEK[]", raw)]) as server:
        server.rules.append(Rule("UID FETCH 1,2 (BODY.PEEK[]", "{tag} NO some are gone\r\n"))
        assert fetch(server) == 1
    assert stored.names() == ["two"]
    assert stored.watermark()["last_seen_uid"] == 2


def test_a_message_without_a_header_in_the_answer_is_asked_for_all_the_same(fetch: Fetch, stored: Stored) -> None:
    with ScriptedImapServer(inbox("one", "two")) as server:
        server.rules.append(Rule("UID FETCH 1,2 (RFC822.SIZE", "* 1 FETCH (UID 1)\r\n{tag} OK done\r\n"))
        assert fetch(server) == 2
    assert stored.names() == ["one", "two"]


def test_an_answer_of_another_form_is_read_as_well(fetch: Fetch, stored: Stored) -> None:
    octets = mail("one").decode()
    head = f'* 1 FETCH (BODY[HEADER] {{{len(octets)}}}\r\n{octets} INTERNALDATE "bad" UID 1)\r\n'
    body = '* 1 FETCH (body[]<0> "Subject: quoted" UID 1)\r\n* 1 FETCH (UID 1 FLAGS (\\Seen))\r\n'
    with ScriptedImapServer(inbox("one")) as server:
        server.rules.append(Rule("UID FETCH 1 (RFC822.SIZE", head + "{tag} OK done\r\n"))
        server.rules.append(Rule("UID FETCH 1 (BODY.PEEK[]", body + "{tag} OK done\r\n"))
        assert fetch(server) == 1
    assert stored.column("subject") == ["quoted"]


def test_small_new_mails_come_with_the_first_look_at_them(fetch: Fetch, stored: Stored) -> None:
    with ScriptedImapServer(inbox("one", "two")) as server:
        assert fetch(server) == 2
        assert server.lines("UID FETCH") == ["UID FETCH 1,2 (BODY.PEEK[]<0.8193> RFC822.SIZE INTERNALDATE)"]
    assert stored.names() == ["one", "two"]


def test_a_large_mail_that_is_known_from_another_folder_is_not_downloaded_again(fetch: Fetch, stored: Stored) -> None:
    large = mail("large", "x" * 20_000)
    folders = {"INBOX": Folder({1: Message(large)}), "Junk": Folder({1: Message(mail("small"))})}
    with ScriptedImapServer(folders) as server:
        assert fetch(server, fields={"fetch_folders": "INBOX,Junk"}) == 2
        folders["Junk"].messages[2] = Message(large)
        server.commands.clear()
        assert fetch(server) == 0
        assert server.lines("UID FETCH") == ["UID FETCH 2 (BODY.PEEK[]<0.8193> RFC822.SIZE INTERNALDATE)"]
    assert stored.watermark("Junk")["last_seen_uid"] == 2


def test_what_was_stored_before_the_connection_broke_stays(fetch: Fetch, stored: Stored) -> None:
    messages = {uid: Message(mail(str(uid))) for uid in range(1, 521)}
    with ScriptedImapServer({"INBOX": Folder(messages)}) as server:
        # It breaks at message 273, in whatever company that is asked for.
        group = ",".join(map(str, range(251, 501)))
        server.rules.append(Rule(f"UID FETCH {group} (BODY", "* BYE\r\n", is_last=True))
        server.rules.append(Rule("UID FETCH 273 ", "* BYE\r\n", is_last=True))
        failed(fetch, server, batch_limit=520)
        assert stored.watermark()["last_seen_uid"] == 272
        assert stored.watermark()["in_progress_since"] is None
        assert stored.watermark()["last_fetched_at"] is None
        server.rules.clear()
        assert fetch(server, batch_limit=520) == 248
    assert len(set(stored.names())) == 520


def test_after_a_lost_connection_the_other_folders_are_read_over_another(fetch: Fetch, stored: Stored) -> None:
    folders = {**inbox("one"), "Junk": Folder({1: Message(mail("two"))})}
    with ScriptedImapServer(folders, [Rule("UID SEARCH", "* BYE\r\n", times=2, is_last=True)]) as server:
        assert fetch(server, fields={"fetch_folders": "INBOX,Junk"}) == 1
        assert server.logins == 3
    assert stored.names() == ["two"]


def test_a_folder_that_is_refused_stops_no_other(fetch: Fetch, stored: Stored) -> None:
    folders = {**inbox("one"), "Junk": Folder({1: Message(mail("two"))})}
    with ScriptedImapServer(folders, [Rule('EXAMINE "INBOX', "{tag} NO [UNAVAILABLE] later\r\n")]) as server:
        assert fetch(server, fields={"fetch_folders": "INBOX,Junk"}) == 1
        assert server.logins == 1
    assert stored.watermark("INBOX")["last_fetched_at"] is None


def test_a_connection_that_cannot_be_had_again_is_the_error_of_the_mailbox(fetch: Fetch, stored: Stored) -> None:
    folders = {**inbox("one"), "Junk": Folder({1: Message(mail("two"))})}
    with ScriptedImapServer(folders) as server:
        server.rules.append(Rule("UID SEARCH", "* BYE\r\n", times=1, is_last=True))
        server.rules.append(Rule("LOGIN", times=1))
        server.rules.append(Rule("LOGIN", "{tag} NO [UNAVAILABLE] later\r\n"))
        assert "logging in" in failed(fetch, server, fields={"fetch_folders": "INBOX,Junk"})
    assert not stored.rows()


def test_a_folder_taken_over_meanwhile_is_left_at_once(fetch: Fetch, stored: Stored) -> None:  # receive.md R22
    def take_over(_line: str) -> None:
        stored.run("UPDATE mail_fetch_imap_watermark SET version = version + 1, in_progress_since = now()")

    messages = {uid: Message(mail(str(uid))) for uid in range(1, 1001)}
    with ScriptedImapServer({"INBOX": Folder(messages)}, [Rule("UID FETCH 751", then=take_over)]) as server:
        # The group that was being stored, or the one after it, finds out; none after that is begun.
        count = fetch(server, batch_limit=1000)
    assert count in (500, 750)
    assert stored.watermark()["last_seen_uid"] == count - 250
    assert stored.watermark()["in_progress_since"] is not None


def test_a_server_that_wants_no_password_in_the_clear_gets_none(fetch: Fetch) -> None:
    with ScriptedImapServer(inbox("one"), capabilities="IMAP4rev1 STARTTLS LOGINDISABLED") as server:
        assert "LOGINDISABLED" in failed(fetch, server)
        assert not [line for line in server.commands if "dovecot" in line]


@pytest.mark.parametrize("said", ['no "dovecot" here', "x" * 287 + " dovecot"])
def test_a_password_is_in_no_error(fetch: Fetch, said: str) -> None:
    with ScriptedImapServer(inbox("one"), [Rule("LOGIN", f"{{tag}} NO {said}\r\n")]) as server:
        text = failed(fetch, server)
    assert "logging in" in text
    assert "dove" not in text


def test_a_password_is_in_no_error_as_it_was_sent_either(fetch: Fetch) -> None:
    rule = Rule("LOGIN", '{tag} BAD what is LOGIN "ann" "s3\\"cret"?\r\n')
    with ScriptedImapServer(inbox("one"), [rule]) as server:
        assert "cret" not in failed(fetch, server, fields={"password": 's3"cret'})


@pytest.mark.parametrize(
    ("username", "password", "sent"),
    [
        ('ann "x" y\\', "s p", r'LOGIN "ann \"x\" y\\" "s p"'),
        ("änn", "pässwörd", "AUTHENTICATE PLAIN"),
    ],
)
def test_names_and_passwords_of_all_kinds(fetch: Fetch, username: str, password: str, sent: str) -> None:
    with ScriptedImapServer(inbox("one"), capabilities="IMAP4rev1 AUTH=PLAIN") as server:
        assert fetch(server, fields={"username": username, "password": password}) == 1
        assert sent in server.commands


def test_a_server_that_knows_us_already_is_sent_no_password(fetch: Fetch) -> None:
    with ScriptedImapServer(inbox("one"), greeting=b"* PREAUTH hello\r\n") as server:
        assert fetch(server) == 1
        assert server.logins == 0


@pytest.mark.parametrize("greeting", [b"220 mx.example.com ESMTP\r\n", b"* BYE too busy\r\n", b"\xff\xfe\r\n", b"* OK"])
def test_what_is_no_imap_server(fetch: Fetch, greeting: bytes) -> None:
    with ScriptedImapServer(inbox("one"), greeting=greeting) as server:
        assert "no IMAP server's greeting" in failed(fetch, server, read_seconds=0.3)


@pytest.mark.parametrize("switch", [{"protocol": "IMAPS"}, {"ssl_enabled": True}])
def test_tls_is_verified(fetch: Fetch, authority: trustme.CA, switch: dict[str, Any]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with ScriptedImapServer(inbox("one"), tls=context) as server:
        assert fetch(server, fields=switch) == 1
    other = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(other)
    with ScriptedImapServer(inbox("one"), tls=other) as server:
        assert "certificate verify failed" in failed(fetch, server, fields=switch)
        assert server.logins == 0


def test_a_server_without_tls_is_no_imaps_server(fetch: Fetch) -> None:
    with ScriptedImapServer(inbox("one")) as server:
        failed(fetch, server, fields={"protocol": "IMAPS"})
        assert server.logins == 0


def test_a_dead_host_is_given_up_in_time(fetch: Fetch) -> None:
    with ScriptedImapServer(inbox("one")) as server:
        pass
    began = time.monotonic()
    assert "connecting" in failed(fetch, server)
    assert time.monotonic() - began < 10


#: A worker as a process of its own: what it is at when it is killed, it never ends.
WORKER = """
import sys
from messaging.db.encryption import use_keys
from messaging.db.engine import create_engine
from messaging.files import FileStore
from messaging.receive.arrival import Reader
from messaging.receive.classify.chain import classify
from messaging.receive.connecting import MailboxConnector
from messaging.receive.fetch import Receiver
from messaging.receive.imap import ImapConnector
from messaging.receive.imap_folder import fetch_folder
from messaging.receive.login import Credential
from messaging.receive.mailbox import find_mailbox
from messaging.receive.parse import ParseLimits, parse, parse_envelope
from messaging.receive.parsed import ParsedMail
from messaging.receive.run import Run
from messaging.receive.store import Store
from messaging.receive.watermark import Watermarks
from messaging.settings import load_settings
from messaging.tenancy import use_multi_tenancy

settings = load_settings()
use_keys(settings.secrets_keys)
use_multi_tenancy(False)
engine = create_engine(settings)
Receiver(engine, settings, FileStore(engine, settings)).fetch_mailbox(int(sys.argv[1]))
"""


def test_a_worker_that_is_killed_loses_no_mail_and_doubles_none(
    fetch: Fetch, engine: Engine, settings: Settings, stored: Stored
) -> None:  # receive.md R19
    def kill(_line: str) -> None:
        worker.kill()
        worker.wait()

    messages = {uid: Message(mail(str(uid))) for uid in range(1, 1001)}
    rule = Rule("UID FETCH 751", then=kill, times=1, is_last=True)
    with ScriptedImapServer({"INBOX": Folder(messages)}, [rule]) as server:
        environment = {
            "MESSAGING_DATABASE_URL": settings.database_url,
            "MESSAGING_REDIS_URL": settings.redis_url,
            "MESSAGING_SECRETS_KEYS": settings.secrets_keys[0],
            "MESSAGING_MAIL__FETCH__BATCH_LIMIT": "1000",
        }
        config_id = add_mailbox(engine, server.port)
        worker = subprocess.Popen([sys.executable, "-c", WORKER, str(config_id)], env={**os.environ, **environment})
        assert worker.wait(60) == -signal.SIGKILL
        count = len(stored.names())
        # It was about to store the second group.
        assert 250 <= stored.watermark()["last_seen_uid"] <= count <= 500
        assert fetch(server, config_id=config_id) == 0
        stored.run("UPDATE mail_fetch_imap_watermark SET in_progress_since = now() - interval '61 minutes'")
        assert fetch(server, config_id=config_id, batch_limit=1000) == 1000 - count
    assert len(set(stored.names())) == len(stored.names()) == 1000


def test_what_a_dead_worker_stored_beyond_the_watermark_is_not_downloaded_again(fetch: Fetch, stored: Stored) -> None:
    # receive.md R19 R25
    with ScriptedImapServer(inbox("one", "two")) as server:
        assert fetch(server) == 2
        stored.run("UPDATE mail_fetch_imap_watermark SET last_seen_uid = 0")
        server.commands.clear()
        assert fetch(server) == 0
        assert not [line for line in server.commands if "BODY.PEEK[]" in line]
    assert stored.watermark()["last_seen_uid"] == 2


def test_the_time_budget_ends_a_fetch_between_mails(
    engine: Engine, make_settings: MakeSettings, stored: Stored
) -> None:
    messages = {uid: Message(mail(str(uid))) for uid in range(1, 301)}
    settings = make_settings(mail={"fetch": {"batch_limit": 300, "time_budget_seconds": 50}})
    with ScriptedImapServer({"INBOX": Folder(messages)}) as server:
        late = False

        def ticker() -> float:
            return time.monotonic() + (51 if late else 0)

        def be_late(_line: str) -> None:
            nonlocal late
            late = True

        server.rules.append(Rule("UID FETCH 251", then=be_late))
        receiver = Receiver(engine, settings, None, ticker=ticker)
        assert receiver.fetch_mailbox(add_mailbox(engine, server.port)) == 250
    assert (stored.watermark()["last_seen_uid"], stored.watermark()["in_progress_since"]) == (250, None)
    assert stored.watermark()["last_fetched_at"] is not None


def test_no_connection_to_the_database_is_held_while_a_server_is_waited_for(
    engine: Engine, settings: Settings, stored: Stored
) -> None:
    held: list[int] = []
    rule = Rule("", then=lambda _line: held.append(engine.pool.checkedout()))  # type: ignore[attr-defined]
    with ScriptedImapServer(inbox("one", "two"), [rule]) as server:
        assert Receiver(engine, settings, None).fetch_mailbox(add_mailbox(engine, server.port)) == 2
    assert held
    assert set(held) == {0}


def test_a_mail_that_cannot_be_parsed_is_stored_and_passed(
    engine: Engine, settings: Settings, stored: Stored
) -> None:  # receive.md R17
    def failing(octets: bytes, limits: ParseLimits) -> ParsedMail:
        if b"poison" in octets:
            raise RuntimeError("boom")
        return parse(octets, limits)

    messages = {1: Message(mail("one")), 2: Message(mail("two", "poison")), 3: Message(mail("three"))}
    with ScriptedImapServer({"INBOX": Folder(messages)}) as server:
        mailbox = find_mailbox(engine, add_mailbox(engine, server.port))
        assert mailbox is not None
        run = Run(
            mailbox=mailbox,
            settings=settings.mail.fetch,
            reader=Reader(ParseLimits(), parse=failing, parse_envelope=parse_envelope, classify=classify),
            store=Store(engine, FileStore(engine, settings)),
            watermarks=Watermarks(engine, lease_timeout_seconds=3600),
            ticker=time.monotonic,
            until=math.inf,
            is_stopping=lambda: False,
        )
        connector = ImapConnector(MailboxConnector(settings.mail.transport))
        session = connector.open(mailbox.login, Credential("dovecot"))
        try:
            fetch_folder(session, run, "INBOX")
        finally:
            session.close()
    assert run.new_count == 3
    assert stored.column("truncation_reason") == [None, "PARSE_FAILED", None]
    poison = stored.rows()[1]
    assert (poison["mail_type"], poison["subject"], poison["body_text"]) == ("UNKNOWN", "Mail two", None)
    assert poison["eml_file_id"] is not None
    assert stored.watermark()["last_seen_uid"] == 3
