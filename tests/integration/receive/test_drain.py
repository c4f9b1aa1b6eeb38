"""POP3 mailboxes are drained: stored, then deleted, and nothing else: receive.md section 5, on a scripted server."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from messaging import metrics
from messaging.errors import ReceiveError
from messaging.files import FileStore
from messaging.receive.fetch import Receiver
from messaging.receive.parse import ParseLimits, parse
from messaging.receive.parsed import ParsedMail
from tests.conftest import MakeSettings
from tests.far_end.pop3_server import Message, ScriptedPop3Server
from tests.integration.receive.fetching import Stored, add_mailbox, mail

Fetch = Callable[..., int]
MakeFetch = Callable[..., Fetch]


@pytest.fixture
def stored(engine: Engine) -> Stored:
    return Stored(engine)


@pytest.fixture
def make_fetch(engine: Engine, make_settings: MakeSettings) -> Iterator[MakeFetch]:
    """Fetches the mailbox of a server; each call is another run."""

    def make(
        server: ScriptedPop3Server,
        *,
        file_store_url: str = "none:",
        read_timeout_seconds: float = 10,
        is_stopping: Callable[[], bool] = lambda: False,
        **fetch: Any,
    ) -> Fetch:
        transport = {"read_timeout_seconds": read_timeout_seconds}
        settings = make_settings(mail={"fetch": fetch, "transport": transport}, file_store_url=file_store_url)
        files = FileStore(engine, settings)
        receiver = Receiver(engine, settings, files if files.is_on else None, is_stopping=is_stopping)
        config_id = add_mailbox(engine, server.port, protocol="POP3", password="secret")
        return lambda: receiver.fetch_mailbox(config_id)

    return make


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mail whose subject begins with `bad` makes the parser raise, as none is known that does."""

    def parse_or_raise(raw: bytes, limits: ParseLimits) -> ParsedMail:
        if b"Subject: Mail bad" in raw:
            raise RuntimeError("no parser reads this")
        return parse(raw, limits)

    monkeypatch.setattr("messaging.receive.fetch.parse", parse_or_raise)


def mails(*names: str) -> list[bytes]:
    return [mail(name) for name in names]


# receive.md R29
def test_what_is_stored_is_deleted_and_counted_once(make_fetch: MakeFetch, stored: Stored) -> None:
    with ScriptedPop3Server(mails("a", "b")) as server:
        fetch = make_fetch(server)
        assert fetch() == 2
        assert (server.uids, stored.names()) == ([], ["a", "b"])
        assert stored.column("server_uid") == ["uid-1", "uid-2"]
        assert fetch() == 0
    watermark = stored.watermark()
    assert (watermark["in_progress_since"], watermark["uid_validity"], watermark["last_seen_uid"]) == (None, None, 0)
    assert watermark["last_fetched_at"] is not None


# receive.md R29
def test_deletion_waits_for_the_commit(make_fetch: MakeFetch, stored: Stored) -> None:
    with ScriptedPop3Server(mails("a")) as server:
        rows_at_dele = []
        original = server.rule_for

        def watch(line: str) -> Any:
            if line.startswith("DELE"):
                rows_at_dele.extend(stored.names())
            return original(line)

        server.rule_for = watch  # type: ignore[method-assign]
        assert make_fetch(server)() == 1
        assert rows_at_dele == ["a"]


# receive.md R29
def test_a_crash_before_quit_leaves_everything_and_the_next_run_deletes_it(
    make_fetch: MakeFetch, stored: Stored
) -> None:
    with ScriptedPop3Server(mails("a", "b")) as server:
        server.on("QUIT", close=True, times=1)
        fetch = make_fetch(server)
        with pytest.raises(ReceiveError, match="QUIT"):
            fetch()
        assert (server.uids, stored.names()) == (["uid-1", "uid-2"], ["a", "b"])
        retrieved = server.count("RETR")
        assert fetch() == 0
        assert (server.uids, stored.names()) == ([], ["a", "b"])
        assert server.count("RETR") == retrieved  # what is known is not transferred again


# receive/imap imap-06
def test_a_message_is_known_by_its_unique_id_and_not_by_its_number(make_fetch: MakeFetch, stored: Stored) -> None:
    with ScriptedPop3Server(mails("aaa", "bbb", "ccc")) as server:
        server.on("DELE", "-ERR not now", times=3)
        fetch = make_fetch(server)
        assert fetch() == 3
        assert server.uids == ["uid-1", "uid-2", "uid-3"]
        server.messages = [*server.messages[1:], Message(mail("ddd"), "ddd")]
        server.commands.clear()
        assert fetch() == 1
        assert [line for line in server.commands if line.startswith("RETR")] == ["RETR 3"]
        assert (server.uids, stored.names()) == ([], ["aaa", "bbb", "ccc", "ddd"])


def test_an_id_that_a_server_gives_to_another_message_deletes_nothing_unread(
    make_fetch: MakeFetch, stored: Stored
) -> None:
    with ScriptedPop3Server(mails("a")) as server:
        fetch = make_fetch(server)
        assert fetch() == 1
        server.messages = [Message(mail("b"), "uid-1")]
        assert fetch() == 1
        assert (server.uids, stored.names()) == ([], ["a", "b"])


def test_two_messages_that_are_the_same_are_stored_once_and_both_deleted(make_fetch: MakeFetch, stored: Stored) -> None:
    with ScriptedPop3Server(mails("a", "a")) as server:
        assert make_fetch(server)() == 1
        assert (server.uids, stored.names()) == ([], ["a"])


# receive.md R27, of POP3
def test_a_run_takes_a_batch_and_the_rest_waits(make_fetch: MakeFetch, stored: Stored) -> None:
    with ScriptedPop3Server(mails(*"abcde")) as server:
        fetch = make_fetch(server, batch_limit=2)
        assert [fetch(), fetch(), fetch(), fetch()] == [2, 2, 1, 0]
        assert stored.names() == list("abcde")


# receive.md R30
@pytest.mark.usefixtures("unreadable")
def test_what_cannot_be_read_stays_and_keeps_nothing_behind_it_waiting(make_fetch: MakeFetch, stored: Stored) -> None:
    with ScriptedPop3Server(mails(*(f"bad-{n}" for n in range(100)), "good")) as server:
        fetch = make_fetch(server)
        assert [fetch(), fetch(), fetch()] == [100, 1, 0]
        assert len(server.uids) == 100
        assert server.count("RETR") == 101
    assert stored.column("truncation_reason") == ["PARSE_FAILED"] * 100 + [None]


@pytest.mark.usefixtures("unreadable")
def test_what_cannot_be_read_is_deleted_once_its_source_is_a_file(make_fetch: MakeFetch, stored: Stored) -> None:
    with ScriptedPop3Server(mails("bad")) as server:
        assert make_fetch(server, file_store_url="db:")() == 1
        assert server.uids == []
    [row] = stored.rows()
    assert (row["truncation_reason"], row["subject"]) == ("PARSE_FAILED", "Mail bad")
    [file] = stored.rows("stored_file")
    assert (file["id"], bytes(file["content"])) == (row["eml_file_id"], mail("bad"))


# receive.md R9, of POP3
def test_an_oversized_message_is_stored_as_its_envelope_and_deleted(make_fetch: MakeFetch, stored: Stored) -> None:
    with ScriptedPop3Server([mail("big", "x" * 5000), mail("small")]) as server:
        assert make_fetch(server, max_message_bytes=1000)() == 2
        assert server.uids == []
        assert [line for line in server.commands if line.startswith(("RETR", "TOP"))] == ["TOP 1 0", "RETR 2"]
    big, small = stored.rows()
    assert (big["truncation_reason"], big["from_address"], big["body_text"]) == (
        "BODY_TOO_LARGE",
        "ann@example.org",
        None,
    )
    assert (small["truncation_reason"], small["size"]) == (None, len(mail("small")))


@pytest.mark.parametrize("knows", [("UIDL", "TOP"), ("UIDL",), ()])
def test_an_oversized_message_is_deleted_also_without_top_and_uidl(
    make_fetch: MakeFetch, stored: Stored, monkeypatch: pytest.MonkeyPatch, knows: tuple[str, ...]
) -> None:
    monkeypatch.setattr("messaging.receive.drain.MAX_HEADER_BYTES", 1500)
    with ScriptedPop3Server([mail("big", "x\r\n" * 5000), mail("small")], knows=knows) as server:
        fetch = make_fetch(server, max_message_bytes=2000)
        assert fetch() == 2
        assert (fetch(), server.uids) == (0, [])
    assert stored.column("truncation_reason") == ["BODY_TOO_LARGE", None]
    assert stored.names() == ["big", "small"]


# receive.md R10, of POP3
def test_a_message_without_an_end_is_cut_off_and_the_others_are_fetched(make_fetch: MakeFetch, stored: Stored) -> None:
    with ScriptedPop3Server(mails("a", "liar", "c")) as server:
        head = mail("liar").partition(b"\r\n\r\n")[0].decode()
        server.on("RETR 2", f"+OK 20 octets\r\n{head}\r\n", endless=b"x" * 60_000 + b"\r\n")
        fetch = make_fetch(server, max_message_bytes=300_000)
        assert fetch() == 3
        assert (server.uids, server.sessions) == ([], 2)
        assert fetch() == 0
    assert stored.names() == ["a", "liar", "c"]
    assert stored.column("truncation_reason") == [None, "BODY_TOO_LARGE", None]


@pytest.mark.parametrize("fault", [{"close": True}, {"hang": True}])
def test_a_message_at_which_the_session_breaks_is_told_and_keeps_no_other_waiting(
    make_fetch: MakeFetch, stored: Stored, fault: dict[str, bool]
) -> None:
    with ScriptedPop3Server(mails("a", "b", "c")) as server:
        server.on("RETR 2", "+OK", **fault)
        fetch = make_fetch(server, read_timeout_seconds=0.5)
        with pytest.raises(ReceiveError, match="retrieving message 2"):
            fetch()
        assert stored.names() == ["a", "c"]
        assert server.uids == ["uid-2"]
    assert stored.watermark()["in_progress_since"] is None


def test_a_message_that_the_server_refuses_keeps_no_other_waiting(make_fetch: MakeFetch, stored: Stored) -> None:
    with ScriptedPop3Server(mails("a", "b", "c")) as server:
        server.on("RETR 2", "-ERR [SYS/PERM] message is damaged")
        assert make_fetch(server)() == 2
        assert (stored.names(), server.uids) == (["a", "c"], ["uid-2"])


def test_a_listing_without_an_end_is_an_error(
    make_fetch: MakeFetch, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("messaging.receive.pop3.MAX_LISTING_BYTES", 100_000)
    with ScriptedPop3Server(mails("a")) as server:
        server.on("UIDL", "+OK", endless=b"1 uid-1\r\n" * 1000)
        with pytest.raises(ReceiveError, match=f"127.0.0.1:{server.port}: the answer to UIDL is longer than"):
            make_fetch(server)()
        assert server.sessions == 1
    assert stored.watermark()["in_progress_since"] is None


@pytest.mark.parametrize("said", ["-ERR mailbox in use", "-ERR [IN-USE] later"])
def test_a_message_that_is_refused_as_busy_is_not_the_whole_maildrop(
    make_fetch: MakeFetch, stored: Stored, said: str
) -> None:
    with ScriptedPop3Server(mails("a", "b")) as server:
        server.on("RETR 1", said)
        assert make_fetch(server)() == 1
        assert (stored.names(), server.uids) == (["b"], ["uid-1"])


def test_a_batch_of_messages_that_the_server_refuses_keeps_no_other_waiting(
    make_fetch: MakeFetch, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedPop3Server(mails(*"abcd")) as server:
        for number in (1, 2, 3):
            server.on(f"RETR {number}", "-ERR message is damaged")
        fetch = make_fetch(server, batch_limit=2)
        assert (fetch(), stored.names()) == (1, ["d"])
        monkeypatch.setattr("messaging.receive.drain.MAX_REFUSED", 2)
        server.commands.clear()
        assert (fetch(), server.count("RETR")) == (0, 2)


def test_a_maildrop_that_is_still_locked_by_the_broken_session_hides_no_failure(
    make_fetch: MakeFetch, stored: Stored
) -> None:
    with ScriptedPop3Server(mails("a", "b")) as server:
        server.on("RETR 1", close=True)
        original = server.rule_for

        def lock(line: str) -> Any:
            if line == "RETR 1":
                server.on("PASS", "-ERR [IN-USE] another session")
            return original(line)

        server.rule_for = lock  # type: ignore[method-assign]
        with pytest.raises(ReceiveError, match="retrieving message 1"):
            make_fetch(server)()
        assert (stored.names(), server.sessions) == ([], 2)


def test_a_server_that_breaks_at_every_message_is_left_after_a_few_sessions(make_fetch: MakeFetch) -> None:
    with ScriptedPop3Server(mails(*"abcdefgh")) as server:
        server.on("RETR", close=True)
        with pytest.raises(ReceiveError, match="retrieving message"):
            make_fetch(server)()
        assert server.sessions == 5


# receive.md R18, of POP3
def test_when_the_database_fails_what_was_stored_is_deleted_and_nothing_else(
    make_fetch: MakeFetch, stored: Stored
) -> None:
    with ScriptedPop3Server(mails("a", "b", "c")) as server:
        stored.refuse(["Mail b"])
        fetch = make_fetch(server)
        with pytest.raises(DBAPIError):
            fetch()
        assert (stored.names(), server.uids) == (["a"], ["uid-2", "uid-3"])
        assert stored.watermark()["in_progress_since"] is None
        stored.run("DROP TRIGGER refuse ON mail_receive_record")
        assert fetch() == 2
        assert (stored.names(), server.uids) == (["a", "b", "c"], [])


def test_a_maildrop_that_another_session_has_is_left_quietly(make_fetch: MakeFetch, stored: Stored) -> None:
    with ScriptedPop3Server(mails("a")) as server:
        server.on("PASS", "-ERR [IN-USE] Do you have another POP session running?", times=1)
        fetch = make_fetch(server)
        assert [fetch(), fetch()] == [0, 1]
    assert stored.watermark()["in_progress_since"] is None


def test_a_mailbox_that_another_worker_drains_is_left(make_fetch: MakeFetch, stored: Stored) -> None:
    with ScriptedPop3Server(mails("a")) as server:
        fetch = make_fetch(server)
        fetch()
        stored.run("UPDATE mail_fetch_imap_watermark SET in_progress_since = now() - interval '10 minutes'")
        server.messages = [Message(mail("b"), "b")]
        sessions = server.sessions
        assert (fetch(), server.sessions) == (0, sessions)
        stored.run("UPDATE mail_fetch_imap_watermark SET in_progress_since = now() - interval '2 hours'")
        assert fetch() == 1


def test_a_worker_that_was_superseded_stops_and_what_it_stored_is_deleted(
    make_fetch: MakeFetch, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("messaging.receive.hold.HEARTBEAT_MAILS", 1)
    with ScriptedPop3Server(mails("a", "b")) as server:
        original = server.rule_for

        def take_over(line: str) -> Any:
            if line == "RETR 1":
                stored.run("UPDATE mail_fetch_imap_watermark SET version = version + 1")
            return original(line)

        server.rule_for = take_over  # type: ignore[method-assign]
        assert make_fetch(server)() == 1
        assert stored.names() == ["a"]
        assert server.count("RETR") == 1


def test_a_worker_that_is_to_stop_ends_between_messages_and_deletes_what_it_stored(
    make_fetch: MakeFetch, stored: Stored
) -> None:
    with ScriptedPop3Server(mails("a", "b", "c")) as server:
        fetch = make_fetch(server, is_stopping=lambda: server.count("RETR") >= 2)
        assert fetch() == 2
        assert (stored.names(), server.uids) == (["a", "b"], ["uid-3"])
    watermark = stored.watermark()
    assert watermark["in_progress_since"] is None


def test_a_refused_login_is_an_error_that_is_counted(make_fetch: MakeFetch, stored: Stored) -> None:
    def failures() -> float:
        # Not as it is shown: other tests of this process may have led the metrics into a directory since.
        return float(metrics._make_metrics().fetch_failures.labels("POP3")._value.get())

    with ScriptedPop3Server(users={"ann": "another"}) as server:
        before = failures()
        with pytest.raises(ReceiveError, match=r"logging in: -ERR \[AUTH\]"):
            make_fetch(server)()
        assert failures() == before + 1
    watermark = stored.watermark()
    assert (watermark["in_progress_since"], watermark["last_fetched_at"]) == (None, None)


def test_other_folders_of_a_maildrop_are_ignored(make_fetch: MakeFetch, stored: Stored, engine: Engine) -> None:
    with ScriptedPop3Server(mails("a")) as server:
        fetch = make_fetch(server)
        with engine.begin() as connection:
            connection.execute(text("UPDATE mail_receive_server_config SET fetch_folders = 'Junk,Archive'"))
        assert fetch() == 1
    assert stored.column("folder_name") == ["INBOX"]


# -- servers without UIDL


@pytest.mark.usefixtures("unreadable")
@pytest.mark.parametrize("knows", [("TOP",), ()])
def test_without_uidl_messages_are_told_apart_by_their_content(
    make_fetch: MakeFetch, stored: Stored, knows: tuple[str, ...]
) -> None:
    with ScriptedPop3Server(mails("bad-1", "bad-2", "a", "b"), knows=knows) as server:
        fetch = make_fetch(server, batch_limit=2)
        assert [fetch(), fetch(), fetch()] == [2, 2, 0]
        assert len(server.messages) == 2
    assert stored.names() == ["bad-1", "bad-2", "a", "b"]
    prefix = "top:" if knows else "retr:"
    assert all(uid.startswith(prefix) for uid in stored.column("server_uid"))


@pytest.mark.usefixtures("unreadable")
def test_a_status_that_the_server_writes_into_a_message_makes_it_no_other(
    make_fetch: MakeFetch, stored: Stored
) -> None:
    with ScriptedPop3Server(mails("bad"), knows=("TOP",)) as server:
        fetch = make_fetch(server)
        assert fetch() == 1
        server.messages[0].octets = b"Status: RO\r\nX-Status: A\r\n" + server.messages[0].octets
        assert (fetch(), server.count("RETR")) == (0, 1)


def test_a_crash_before_quit_is_mended_also_without_uidl(make_fetch: MakeFetch, stored: Stored) -> None:
    with ScriptedPop3Server(mails("a", "b"), knows=("TOP",)) as server:
        server.on("QUIT", close=True, times=1)
        fetch = make_fetch(server)
        with pytest.raises(ReceiveError):
            fetch()
        assert fetch() == 0
        assert (server.messages, stored.names(), server.count("RETR")) == ([], ["a", "b"], 2)


def test_a_header_without_an_end_blocks_nothing(
    make_fetch: MakeFetch, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("messaging.receive.pop3.MAX_HEADER_BYTES", 2000)
    long = b"X-Long: " + b"x" * 3000 + b"\r\n" + mail("long")
    with ScriptedPop3Server([mail("a"), long, mail("c")], knows=("TOP",)) as server:
        assert make_fetch(server)() == 3
        assert server.messages == []
    assert stored.names() == ["a", "long", "c"]
