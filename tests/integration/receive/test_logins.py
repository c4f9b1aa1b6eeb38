"""Each way into a mailbox of a real Dovecot: IMAP, IMAPS, POP3 and POP3S, by password and by access token."""

import imaplib
import secrets
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from sqlalchemy import Engine

from messaging import tenancy
from messaging.errors import ReceiveError
from messaging.files import FileStore
from messaging.receive.connectivity import MailboxConnectivity, probe_mailbox
from messaging.receive.fetch import Receiver
from messaging.receive.login import Login, LoginRefused
from messaging.receive.oauth import use_oauth_token
from messaging.settings import Settings
from tests.far_end.dovecot import PASSWORD, Dovecot
from tests.far_end.token_server import TokenServer
from tests.integration.receive.fetching import LOCALHOST, Stored, add_mailbox, mail

PROTOCOLS = ["IMAP", "IMAPS", "POP3", "POP3S"]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def token_server() -> Iterator[TokenServer]:
    with TokenServer() as server:
        yield server


@pytest.fixture(scope="module")
def dovecot(servers_folder: Path, authority: trustme.CA, token_server: TokenServer) -> Iterator[Dovecot]:
    folder = servers_folder / f"dovecot-{secrets.token_hex(3)}"
    certificate = authority.issue_cert(LOCALHOST)
    with Dovecot(folder, certificate=certificate, tokeninfo_url=token_server.tokeninfo_url).start() as server:
        yield server


@pytest.fixture
def user(dovecot: Dovecot) -> str:
    """Somebody with one mail."""
    name = f"u{secrets.token_hex(6)}"
    with imaplib.IMAP4(LOCALHOST, dovecot.port, timeout=20) as client:
        client.login(name, PASSWORD)
        assert client.append("INBOX", "", "", mail("one"))[0] == "OK"
    return name


def count(dovecot: Dovecot, user: str) -> int:
    """Mails in the inbox."""
    with imaplib.IMAP4(LOCALHOST, dovecot.port, timeout=20) as client:
        client.login(user, PASSWORD)
        return int(client.select("INBOX", readonly=True)[1][0] or b"0")


@pytest.fixture
def trusting(authority: trustme.CA) -> Callable[[], ssl.SSLContext]:
    def make() -> ssl.SSLContext:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        return context

    return make


@pytest.fixture
def stored(engine: Engine) -> Stored:
    return Stored(engine)


@pytest.fixture
def receiver(engine: Engine, settings: Settings, trusting: Callable[[], ssl.SSLContext]) -> Iterator[Receiver]:
    tenancy.use_multi_tenancy(False)
    yield Receiver(engine, settings, FileStore(engine, settings), ssl_context_factory=trusting)
    use_oauth_token(None)


Add = Callable[..., int]


@pytest.fixture
def add(engine: Engine, dovecot: Dovecot, user: str) -> Add:
    def add(protocol: str, **fields: Any) -> int:
        port = {
            "IMAP": dovecot.port,
            "IMAPS": dovecot.imaps_port,
            "POP3": dovecot.pop3_port,
            "POP3S": dovecot.pop3s_port,
        }[protocol]
        return add_mailbox(engine, **{"port": port, "protocol": protocol, "username": user, **fields})

    return add


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_mail_is_fetched_and_only_pop3_deletes_it(
    receiver: Receiver, add: Add, stored: Stored, dovecot: Dovecot, user: str, protocol: str
) -> None:  # receive.md R1 R29
    config_id = add(protocol)
    assert [receiver.fetch_mailbox(config_id), receiver.fetch_mailbox(config_id)] == [1, 0]
    assert stored.names() == ["one"]
    assert count(dovecot, user) == (0 if protocol.startswith("POP3") else 1)


@pytest.mark.parametrize("protocol", ["IMAPS", "POP3S"])
def test_a_certificate_of_nobody_is_refused(
    engine: Engine, settings: Settings, receiver: Receiver, add: Add, protocol: str
) -> None:
    with pytest.raises(ReceiveError, match=r"(?i)certificate.verify.failed"):
        Receiver(engine, settings, None).fetch_mailbox(add(protocol))


@pytest.mark.parametrize("protocol", ["IMAP", "POP3"])
def test_ssl_is_tls_whatever_the_protocol_is_called(
    receiver: Receiver, add: Add, dovecot: Dovecot, stored: Stored, protocol: str
) -> None:
    port = dovecot.imaps_port if protocol == "IMAP" else dovecot.pop3s_port
    assert receiver.fetch_mailbox(add(protocol, ssl_enabled=True, port=port)) == 1


# -- access tokens


class Application:
    """What an installed application's entry point would be."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.asked: list[Login] = []

    def __call__(self, login: Login) -> tuple[str, datetime | None]:
        self.asked.append(login)
        return self.tokens.pop(0), datetime.now(UTC) + timedelta(hours=1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_token_logs_in_and_is_kept(
    receiver: Receiver, add: Add, stored: Stored, token_server: TokenServer, user: str, protocol: str
) -> None:
    token = secrets.token_urlsafe(400)  # longer than a line of POP3 may be
    token_server.users = {token: user}
    application = Application(token)
    use_oauth_token(application)
    config_id = add(protocol, auth="XOAUTH2", password=None)
    assert [receiver.fetch_mailbox(config_id), receiver.fetch_mailbox(config_id)] == [1, 0]
    assert [login.username for login in application.asked] == [user]
    [row] = stored.rows("mail_receive_server_config")
    assert token not in repr(row)


@pytest.mark.parametrize("protocol", ["IMAP", "POP3"])
def test_a_revoked_token_is_replaced_once(
    receiver: Receiver, add: Add, token_server: TokenServer, user: str, protocol: str
) -> None:
    first, second = secrets.token_hex(20), secrets.token_hex(20)
    application = Application(first, second)
    use_oauth_token(application)
    config_id = add(protocol, auth="XOAUTH2", password=None)
    token_server.users = {first: user}
    assert receiver.fetch_mailbox(config_id) == 1
    token_server.users = {second: user}
    assert receiver.fetch_mailbox(config_id) == 0
    assert application.tokens == []


@pytest.mark.parametrize("protocol", ["IMAP", "POP3"])
def test_a_token_of_somebody_else_is_refused_and_not_shown(
    receiver: Receiver, add: Add, token_server: TokenServer, protocol: str
) -> None:
    token = secrets.token_hex(20)
    token_server.users = {token: "somebody-else"}
    use_oauth_token(Application(token))
    with pytest.raises(LoginRefused) as caught:
        receiver.fetch_mailbox(add(protocol, auth="XOAUTH2", password=None))
    assert token not in str(caught.value)


def test_without_an_application_that_gets_tokens_the_fetch_says_so(receiver: Receiver, add: Add) -> None:
    with pytest.raises(ReceiveError, match=r"messaging\.oauth_token: none; needed for XOAUTH2"):
        receiver.fetch_mailbox(add("IMAP", auth="XOAUTH2", password=None))


# -- tests of a connection: receive.md section 15

Probe = Callable[[int], MailboxConnectivity]


@pytest.fixture
def probe(engine: Engine, settings: Settings, receiver: Receiver, trusting: Callable[[], ssl.SSLContext]) -> Probe:
    return lambda config_id: probe_mailbox(engine, settings.mail.transport, config_id, ssl_context_factory=trusting)


# receive.md R64
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_mailbox_that_is_ready(
    probe: Probe, add: Add, stored: Stored, dovecot: Dovecot, user: str, protocol: str
) -> None:
    came = probe(add(protocol, active=False))
    assert (came.success, came.error_message, came.missing_folders) == (True, None, ())
    assert "Dovecot" in (came.server_greeting or "")
    assert 0 <= came.latency_ms < 20_000
    # Nothing was fetched, deleted or leased.
    assert (stored.rows(), stored.rows("mail_fetch_imap_watermark"), count(dovecot, user)) == ([], [], 1)


def test_folders_that_are_not_there_are_named(probe: Probe, add: Add) -> None:
    came = probe(add("IMAP", fetch_folders="INBOX,Nowhere,Été"))
    assert (came.success, came.missing_folders) == (False, ("Nowhere", "Été"))
    assert "Nowhere, Été" in (came.error_message or "")


# receive.md R64
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_wrong_password_is_told_without_it(probe: Probe, add: Add, protocol: str) -> None:
    came = probe(add(protocol, password="wr0ng-pass"))
    assert not came.success
    assert "Dovecot" in (came.server_greeting or "")
    assert "logging in" in (came.error_message or "")
    assert "wr0ng-pass" not in repr(came)


def test_a_token_is_tried_as_a_fetch_would(probe: Probe, add: Add, token_server: TokenServer, user: str) -> None:
    token = secrets.token_hex(20)
    token_server.users = {token: user}
    use_oauth_token(Application(token))
    assert probe(add("POP3", auth="XOAUTH2", password=None)).success
