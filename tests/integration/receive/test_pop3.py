"""The POP3 client against a scripted server: RFC 1939, and what a good server never does."""

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest
import trustme
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from messaging.embedded import free_port
from messaging.errors import ReceiveError
from messaging.receive.connecting import MailboxConnector
from messaging.receive.login import Credential, Login, LoginRefused
from messaging.receive.pop3 import CommandRefused, Entry, MaildropBusy, Pop3Session, TooLong
from messaging.settings import MailTransportSettings
from tests.far_end.pop3_server import GREETING, ScriptedPop3Server

HELLO = b"From: a@example.com\r\nSubject: hello\r\n\r\n.first line\r\n..\r\nlast\r\n"
PASSWORD = Credential("secret")

Open = Callable[..., Pop3Session]


def login(port: int, **changed: Any) -> Login:
    given = {"protocol": "POP3", "host": "127.0.0.1", "is_tls": False, "username": "ann", "auth": "PASSWORD"}
    return Login(config_id=1, tenant_id=0, port=port, **{**given, **changed})


@pytest.fixture
def connect() -> Iterator[Open]:
    opened = []

    def connect(
        port: int,
        *,
        read_timeout_seconds: float = 10,
        deadline: float = float("inf"),
        ssl_context_factory: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        **changed: Any,
    ) -> Pop3Session:
        limits = MailTransportSettings(read_timeout_seconds=read_timeout_seconds)
        connector = MailboxConnector(limits, ssl_context_factory=ssl_context_factory)
        opened.append(Pop3Session(login(port, **changed), connector, deadline=deadline))
        return opened[-1]

    yield connect
    for session in opened:
        session.close()


@pytest.fixture
def enter(connect: Open) -> Open:
    def enter(port: int, **more: Any) -> Pop3Session:
        session = connect(port, **more)
        session.log_in(PASSWORD)
        return session

    return enter


def test_a_session_from_the_greeting_to_quit(enter: Open) -> None:
    with ScriptedPop3Server([HELLO, HELLO + b"more\r\n"]) as server:
        session = enter(server.port)
        assert session.greeting == GREETING
        assert session.entries() == [Entry(1, len(HELLO), "uid-1"), Entry(2, len(HELLO) + 6, "uid-2")]
        assert session.retrieve(1, 1000) == HELLO  # dots unstuffed
        assert session.header(1) == HELLO.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        session.delete(1)
        assert server.uids == ["uid-1", "uid-2"]
        session.quit()
        assert server.uids == ["uid-2"]


def test_without_quit_nothing_is_deleted(enter: Open) -> None:
    with ScriptedPop3Server([HELLO]) as server:
        session = enter(server.port)
        session.delete(1)
        session.close()
        assert server.uids == ["uid-1"]


def test_lines_of_any_length_are_read(enter: Open) -> None:  # receive.md section 16
    message = b"Subject: long\r\n\r\n" + b"x" * 3_000_000 + b"\r\n.\r\n" + b"y" * 70_000 + b"\r\n"
    with ScriptedPop3Server([message]) as server:
        assert enter(server.port).retrieve(1, 4_000_000) == message


# receive.md R10
def test_a_message_that_is_longer_than_it_said_is_not_read_to_its_end(enter: Open) -> None:
    with ScriptedPop3Server([HELLO]) as server:
        server.on("RETR", "+OK 20 octets\r\nSubject: endless\r\n", endless=b"x" * 60_000 + b"\r\n")
        with pytest.raises(TooLong, match="longer than 500000 octets") as caught:
            enter(server.port).retrieve(1, 500_000)
    assert caught.value.begin.startswith(b"Subject: endless\r\n\r\nxxx")
    assert len(caught.value.begin) < 600_000


def test_a_message_of_just_the_limit_is_read(enter: Open) -> None:
    with ScriptedPop3Server([HELLO]) as server:
        session = enter(server.port)
        assert session.retrieve(1, len(HELLO)) == HELLO
        with pytest.raises(TooLong):
            session.retrieve(1, len(HELLO) - 1)


def test_an_endless_listing_is_given_up(enter: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("messaging.receive.pop3.MAX_LISTING_BYTES", 100_000)
    with ScriptedPop3Server() as server:
        server.on("LIST", "+OK", endless=b"1 20\r\n" * 1000)
        with pytest.raises(ReceiveError, match="the answer to LIST is longer"):
            enter(server.port).entries()


def test_a_message_that_dribbles_in_ends_with_the_time_of_the_fetch(enter: Open) -> None:
    with ScriptedPop3Server([HELLO]) as server:
        server.on("RETR", "+OK", endless=b"x\r\n")
        began = time.monotonic()
        session = enter(server.port, deadline=began + 0.3)
        with pytest.raises(ReceiveError, match="the time for this fetch is over"):
            session.retrieve(1, 10**9)
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("on", ["CONNECT", "PASS", "LIST", "UIDL", "RETR"])
@pytest.mark.parametrize("fault", ["close", "hang"])
def test_a_connection_that_ends_or_hangs_is_an_error_that_names_the_server(connect: Open, on: str, fault: str) -> None:
    with ScriptedPop3Server([HELLO]) as server:
        server.on(on, **{fault: True})

        def read_a_message() -> None:
            session = connect(server.port, read_timeout_seconds=0.3)
            session.log_in(PASSWORD)
            session.entries()
            session.retrieve(1, 1000)

        with pytest.raises(ReceiveError, match=f"127.0.0.1:{server.port}: ") as caught:
            read_a_message()
        assert "secret" not in str(caught.value)
        assert not isinstance(caught.value, LoginRefused | CommandRefused)


def test_a_refused_login_shows_the_servers_words_without_the_password(connect: Open) -> None:
    with ScriptedPop3Server() as server:
        server.on("PASS", "-ERR [AUTH] s3cr3t is wrong")
        with pytest.raises(LoginRefused, match=r"logging in: -ERR \[AUTH\] \*\*\* is wrong") as caught:
            connect(server.port).log_in(Credential("s3cr3t"))
    assert "s3cr3t" not in str(caught.value)
    assert "s3cr3t" not in repr(Credential("s3cr3t"))


@pytest.mark.parametrize("username", ["ann", "ann\r\nDELE 1"])
def test_a_line_break_in_a_credential_is_no_command(connect: Open, username: str) -> None:
    with ScriptedPop3Server() as server:
        session = connect(server.port, username=username)
        with pytest.raises(LoginRefused, match="control character"):
            session.log_in(Credential("secret\r\nDELE 1" if username == "ann" else "secret"))
        assert server.commands == []


@pytest.mark.parametrize(
    "said",
    [
        "-ERR [IN-USE] Do you have another POP session running?",
        "-ERR [LOGIN-DELAY] minimum time between mail checks violation",
        "-ERR maildrop already locked",
        "-ERR Unable to lock maildrop: Mailbox is locked by POP server",
        "-ERR another POP3 session is active",
        "-ERR mailbox in use",
    ],
)
def test_a_maildrop_that_another_session_has_is_busy(connect: Open, said: str) -> None:
    with ScriptedPop3Server() as server:
        server.on("PASS", said)
        with pytest.raises(MaildropBusy):
            connect(server.port).log_in(PASSWORD)


@pytest.mark.parametrize("said", ["-ERR [AUTH] mailbox is locked for abuse", "-ERR account locked", "-ERR no"])
def test_a_locked_account_is_not_busy(connect: Open, said: str) -> None:
    with ScriptedPop3Server() as server:
        server.on("PASS", said)
        with pytest.raises(LoginRefused):
            connect(server.port).log_in(PASSWORD)


def test_a_server_without_uidl_or_top(enter: Open) -> None:
    with ScriptedPop3Server([HELLO], knows=()) as server:
        session = enter(server.port)
        assert session.entries() == [Entry(1, len(HELLO), None)]
        with pytest.raises(CommandRefused, match="retrieving the header of message 1"):
            session.header(1)
        assert session.retrieve(1, 1000) == HELLO


def test_a_listing_of_nonsense_is_of_no_messages(enter: Open) -> None:
    with ScriptedPop3Server() as server:
        server.on("LIST", "+OK\r\nfoo\r\n-1 5\r\n2 7\r\n.")
        server.on("UIDL", "+OK\r\n2 a\x7fb\r\n3 ccc extra\r\n.")
        assert enter(server.port).entries() == [Entry(2, 7, "a"), Entry(3, None, "ccc")]


def test_a_quit_that_is_refused_is_told(enter: Open) -> None:
    with ScriptedPop3Server([HELLO]) as server:
        server.on("QUIT", "-ERR some deleted messages not removed")
        with pytest.raises(CommandRefused, match="not removed"):
            enter(server.port).quit()


# -- TLS


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_context(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def trusting(authority: trustme.CA) -> Callable[[], ssl.SSLContext]:
    def make() -> ssl.SSLContext:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        return context

    return make


def test_tls_from_the_first_byte(enter: Open, authority: trustme.CA) -> None:
    with ScriptedPop3Server([HELLO], tls=server_context(authority, "127.0.0.1")) as server:
        session = enter(server.port, is_tls=True, ssl_context_factory=trusting(authority))
        assert session.retrieve(1, 1000) == HELLO
        session.quit()


@pytest.mark.parametrize("name", ["127.0.0.1", "other.example.com"])
def test_a_certificate_of_nobody_or_of_another_name_is_refused(connect: Open, authority: trustme.CA, name: str) -> None:
    with ScriptedPop3Server(tls=server_context(authority, name)) as server:
        trust = {} if name == "127.0.0.1" else {"ssl_context_factory": trusting(authority)}
        with pytest.raises(ReceiveError, match="connecting: TLS: CERTIFICATE_VERIFY_FAILED"):
            connect(server.port, is_tls=True, **trust)
        assert server.commands == []


def test_a_plain_server_where_tls_is_wanted_is_an_error(connect: Open) -> None:
    with ScriptedPop3Server() as server, pytest.raises(ReceiveError, match="TLS"):
        connect(server.port, is_tls=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "host.invalid"])
def test_nobody_there(connect: Open, host: str) -> None:
    port = free_port()
    with pytest.raises(ReceiveError, match=f"{host}:{port}: connecting: "):
        connect(port, host=host)


# -- XOAUTH2


def test_a_token_logs_in_and_a_wrong_one_is_refused_with_the_reason(connect: Open) -> None:
    with ScriptedPop3Server(tokens={"t0ken": "ann"}) as server:
        connect(server.port).log_in(Credential("t0ken", is_token=True))
        with pytest.raises(LoginRefused, match=r'authentication failed \(\{"status": "401"\}\)') as caught:
            connect(server.port).log_in(Credential("0ther", is_token=True))
        assert "0ther" not in str(caught.value)


#: What a server may say by itself, at its worst.
_LINES = st.sampled_from(
    ["+OK", "-ERR", "+OK 2 200", ".", "..", "1 10", "2 uid", "1 uid-1", "", "\0", "+ ", "x" * 3000, "99999999999999 1"]
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(answers=st.lists(st.tuples(st.sampled_from(["CONNECT", "PASS", "LIST", "UIDL", "RETR", "TOP"]), _LINES, _LINES)))
def test_whatever_a_server_says_is_an_answer_or_an_error_of_ours(
    connect: Open, answers: list[tuple[str, str, str]]
) -> None:
    with ScriptedPop3Server([HELLO]) as server:
        for on, first, second in answers:
            server.on(on, f"{first}\r\n{second}", close=True)
        with suppress(ReceiveError):
            session = connect(server.port, read_timeout_seconds=5)
            session.log_in(PASSWORD)
            for entry in session.entries()[:3]:
                assert len(session.header(entry.number)) <= 4000
                assert len(session.retrieve(entry.number, 4000)) <= 4000
            session.quit()


@pytest.mark.parametrize(
    ("answers", "is_refused"),
    [(["+", "+OK"], False), (["+ ", "+"], True), (["+", "-ERR no"], True), (["-ERR unknown mechanism"], True)],
)
def test_a_challenge_is_one_with_and_without_a_space(connect: Open, answers: list[str], is_refused: bool) -> None:
    with ScriptedPop3Server() as server:
        for on, answer in zip(("AUTH", ""), answers, strict=False):
            if answer != "+OK":
                server.on(on or "dXNlcj", answer)
        server.on("dXNlcj", "+OK")
        session = connect(server.port, read_timeout_seconds=5)
        with pytest.raises(LoginRefused) if is_refused else nullcontext():
            session.log_in(Credential("t0ken", is_token=True))
