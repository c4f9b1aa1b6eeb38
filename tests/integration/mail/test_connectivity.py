"""A test connection tells what a mail would meet, sends nothing and shows no secret: send.md section 7."""

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trustme
from sqlalchemy import Engine, text

import messaging
from messaging import RecordNotFound, TenantMismatch, tenancy
from messaging.embedded import free_port
from messaging.mail.connectivity import Connectivity, probe_server
from messaging.settings import Settings
from messaging.tenancy import PLATFORM_TENANT_ID, tenant
from tests.conftest import MakeSettings
from tests.far_end.smtp_server import ScriptedSmtpServer

LOGIN = {"username": "shop@example.org", "password": "s3cret-pass"}
GREETING = "220 mx.example.com ESMTP"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture(autouse=True)
def configured(settings: Settings, engine: Engine) -> Iterator[None]:
    messaging.configure(settings, engine=engine)
    yield
    tenancy.use_multi_tenancy(False)


def add(port: int, **fields: Any) -> int:
    given = {"name": "out", "host": "127.0.0.1", "port": port, "from_address": "shop@example.org", **fields}
    return messaging.add_mail_server(**given)  # type: ignore[typeddict-item]


@pytest.fixture
def probe(settings: Settings, engine: Engine, authority: trustme.CA) -> Callable[..., Connectivity]:
    def trusting() -> ssl.SSLContext:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        return context

    def probe(port: int, max_seconds: float = 5, **fields: Any) -> Connectivity:
        return probe_server(
            engine, settings.mail, add(port, **fields), max_seconds=max_seconds, ssl_context_factory=trusting
        )

    return probe


@pytest.mark.parametrize(("is_implicit", "switch"), [(False, "starttls_enabled"), (True, "ssl_enabled")])
def test_tls_and_login_that_work(
    probe: Callable[..., Connectivity], server_tls: ssl.SSLContext, is_implicit: bool, switch: str
) -> None:
    users = {LOGIN["username"]: LOGIN["password"]}
    with ScriptedSmtpServer(tls=server_tls, is_implicit_tls=is_implicit, users=users) as server:
        came = probe(server.port, **LOGIN, **{switch: True})
        server.wait_for_command("QUIT", 5)
        assert server.logins == [LOGIN["username"]]
        assert not server.lines("MAIL")
        assert not server.transactions
    assert (came.success, came.server_greeting, came.error_message) == (True, GREETING, None)
    assert 0 <= came.latency_ms < 5000


def test_a_plain_server_by_the_public_call_also_when_it_is_disabled() -> None:
    with ScriptedSmtpServer() as server:
        config_id = add(server.port, active=False)
        assert messaging.test_connectivity(config_id).success


def test_starttls_that_was_taken_away_is_a_failure_and_no_secret_goes_out(probe: Callable[..., Connectivity]) -> None:
    with ScriptedSmtpServer(users={LOGIN["username"]: LOGIN["password"]}) as server:  # sec-02
        came = probe(server.port, **LOGIN, starttls_enabled=True)
        assert not server.lines("AUTH")
    assert (came.success, came.server_greeting) == (False, GREETING)
    assert "SMTP_NOT_SUPPORTED" in (came.error_message or "")
    assert "TLS is required" in (came.error_message or "")


def test_a_certificate_that_nobody_vouches_for_is_a_failure(server_tls: ssl.SSLContext) -> None:
    with ScriptedSmtpServer(tls=server_tls) as server:
        came = messaging.test_connectivity(add(server.port, starttls_enabled=True))
    assert not came.success
    assert "SMTP_TLS_CERT" in (came.error_message or "")


def test_a_wrong_password_is_told_in_the_servers_words_without_it(probe: Callable[..., Connectivity]) -> None:
    with ScriptedSmtpServer(users={LOGIN["username"]: "another"}, mechanisms=["LOGIN"]) as server:
        server.on("AUTH", "535 5.7.8 wrong: s3cret-pass")
        came = probe(server.port, **LOGIN)
    assert (came.success, came.server_greeting) == (False, GREETING)
    assert "SMTP_535_5.7.8" in (came.error_message or "")
    assert "s3cret-pass" not in repr(came)  # O60


def test_no_listener_and_no_such_host(probe: Callable[..., Connectivity]) -> None:
    came = probe(free_port())
    assert (came.success, came.server_greeting) == (False, None)
    assert "SMTP_CONNECT" in (came.error_message or "")
    assert "SMTP_DNS" in (probe(25, host="host.invalid").error_message or "")


def test_a_server_that_refuses_everybody(probe: Callable[..., Connectivity]) -> None:
    with ScriptedSmtpServer() as server:
        server.on("CONNECT", "554 5.7.1 go away")
        came = probe(server.port)
    assert (came.success, came.server_greeting) == (False, "554 5.7.1 go away")
    assert "SMTP_554" in (came.error_message or "")


@pytest.mark.parametrize("hangs_at", ["CONNECT", "EHLO"])
def test_a_slow_server_takes_no_longer_than_allowed(probe: Callable[..., Connectivity], hangs_at: str) -> None:
    with ScriptedSmtpServer() as server:
        server.on(hangs_at, hang=True)
        began = time.monotonic()
        came = probe(server.port, max_seconds=0.3)
        assert time.monotonic() - began < 3
        server.release()
    assert not came.success
    assert "SMTP_TIMEOUT" in (came.error_message or "")
    assert came.latency_ms >= 290


def test_a_server_that_accepts_and_says_nothing_takes_no_longer_either(probe: Callable[..., Connectivity]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        came = probe(silent.getsockname()[1], max_seconds=0.3)
    assert "SMTP_TIMEOUT" in (came.error_message or "")


def test_a_secret_that_cannot_be_decrypted_is_told(engine: Engine) -> None:
    config_id = add(25, **LOGIN)
    with engine.begin() as connection:
        connection.execute(text("UPDATE mail_send_server_config SET password = 'no ciphertext'"))
    came = messaging.test_connectivity(config_id)
    assert (came.success, came.server_greeting) == (False, None)
    assert "CREDENTIAL_UNREADABLE" in (came.error_message or "")


def test_a_tenant_tries_its_own_servers_only(make_settings: MakeSettings, engine: Engine) -> None:
    messaging.configure(make_settings(multi_tenancy=True), engine=engine)
    ids = {}
    for tenant_id in (7, 8, PLATFORM_TENANT_ID):
        with tenant(tenant_id):
            ids[tenant_id] = add(free_port())
    with tenant(7):
        assert not messaging.test_connectivity(ids[7]).success
        for missing in (ids[8], max(ids.values()) + 1, 0):
            with pytest.raises(RecordNotFound, match=f"no mail server {missing}"):
                messaging.test_connectivity(missing)
        with pytest.raises(TenantMismatch, match="belongs to the platform"):
            messaging.test_connectivity(ids[PLATFORM_TENANT_ID])
    with pytest.raises(messaging.TenantContextMissing):
        messaging.test_connectivity(ids[7])
