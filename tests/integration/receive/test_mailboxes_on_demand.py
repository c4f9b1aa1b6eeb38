"""A fetch that somebody asks for, and a test of a connection, by the public calls: receive.md sections 1, 2 and 15."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine

import messaging
from messaging import ReceiveError, RecordNotFound, TenantMismatch, fetch_new_mails, tenancy
from messaging.embedded import free_port
from messaging.receive.watermark import Watermarks
from messaging.tenancy import PLATFORM_TENANT_ID, tenant
from tests.conftest import MakeSettings
from tests.far_end.pop3_server import GREETING, ScriptedPop3Server
from tests.integration.receive.fetching import Stored, mail


@pytest.fixture
def server() -> Iterator[ScriptedPop3Server]:
    with ScriptedPop3Server([mail("one")]) as server:
        yield server


@pytest.fixture(autouse=True)
def in_tenant_7(make_settings: MakeSettings, engine: Engine) -> Iterator[None]:
    transport = {"connection_timeout_seconds": 0.5}
    messaging.configure(make_settings(multi_tenancy=True, mail={"transport": transport}), engine=engine)
    with tenant(7):
        yield
    tenancy.use_multi_tenancy(False)


def add(port: int, owner: int = 7, **fields: Any) -> int:
    given = {"name": "in", "protocol": "POP3", "host": "127.0.0.1", "port": port, "username": "ann"}
    with tenant(owner):
        return messaging.add_mailbox(**{**given, "password": "secret", **fields})


def owners(engine: Engine) -> list[int]:
    return [row["tenant_id"] for row in Stored(engine).rows()]


def test_the_default_is_fetched_where_none_is_named(server: ScriptedPop3Server, engine: Engine) -> None:
    add(free_port())
    add(server.port, is_default=True)
    assert fetch_new_mails() == 1
    assert owners(engine) == [7]


# receive.md R34
def test_without_a_default_the_platforms_is_fetched_in_its_own_books(
    server: ScriptedPop3Server, engine: Engine
) -> None:
    add(free_port(), is_default=True, active=False)
    add(free_port(), owner=8, is_default=True)
    add(server.port, owner=PLATFORM_TENANT_ID, is_default=True)
    assert fetch_new_mails() == 1
    assert owners(engine) == [PLATFORM_TENANT_ID]
    assert tenancy.current().tenant_id == 7


def test_without_any_default_there_is_no_receiving_mail_server() -> None:
    add(free_port())
    with pytest.raises(ReceiveError, match="no receiving mail server"):
        fetch_new_mails()


def test_one_that_is_named_may_be_disabled_and_must_be_the_tenants_own(server: ScriptedPop3Server) -> None:
    disabled = add(server.port, active=False)
    foreign, platform = add(free_port(), owner=8), add(free_port(), owner=PLATFORM_TENANT_ID)
    assert fetch_new_mails(disabled) == 1
    for missing in (foreign, platform + 1):
        with pytest.raises(RecordNotFound, match=f"no mailbox {missing}"):
            fetch_new_mails(missing)
    with pytest.raises(TenantMismatch, match="belongs to the platform"):
        fetch_new_mails(platform)


def test_a_mailbox_that_fails_says_where_and_why() -> None:
    port = free_port()
    with pytest.raises(ReceiveError, match=f"127.0.0.1:{port}: connecting: "):
        fetch_new_mails(add(port))


def test_a_secret_that_nobody_can_decrypt_is_told(server: ScriptedPop3Server, engine: Engine) -> None:
    config_id = add(server.port)
    Stored(engine).run("UPDATE mail_receive_server_config SET password = 'no ciphertext'")
    with pytest.raises(ReceiveError, match=f"the password of mailbox {config_id}"):
        fetch_new_mails(config_id)
    came = messaging.test_mailbox(config_id)
    assert (came.success, came.server_greeting) == (False, None)
    assert f"the password of mailbox {config_id}" in (came.error_message or "")


# -- tests of a connection


def test_a_mailbox_that_is_ready_also_when_it_is_disabled(server: ScriptedPop3Server, engine: Engine) -> None:
    came = messaging.test_mailbox(add(server.port, active=False))
    assert (came.success, came.server_greeting, came.error_message) == (True, GREETING, None)
    assert server.commands == ["USER ann", "PASS ...", "QUIT"]
    assert Stored(engine).rows("mail_fetch_imap_watermark") == []


# receive.md R64
def test_nobody_there_no_such_host_and_one_that_swallows_everything() -> None:
    refused = messaging.test_mailbox(add(free_port()))
    unknown = messaging.test_mailbox(add(110, host="host.invalid"))
    began = time.monotonic()
    dead = messaging.test_mailbox(add(110, host="192.0.2.1"))
    assert time.monotonic() - began < 5
    for came in (refused, unknown, dead):
        assert (came.success, came.server_greeting) == (False, None)
        assert ": connecting: " in (came.error_message or "")


def test_a_long_greeting_is_cut(server: ScriptedPop3Server) -> None:
    server.on("CONNECT", "+OK " + "x" * 1000)
    assert len(messaging.test_mailbox(add(server.port)).server_greeting or "") == 500


def test_a_maildrop_that_another_session_has_is_told(server: ScriptedPop3Server) -> None:
    server.on("PASS", "-ERR [IN-USE] another session")
    came = messaging.test_mailbox(add(server.port))
    assert not came.success
    assert "[IN-USE]" in (came.error_message or "")


Call = Callable[[int], Any]


@pytest.mark.parametrize("call", [messaging.test_mailbox, fetch_new_mails])
def test_a_tenant_tries_its_own_mailboxes_only(call: Call) -> None:
    foreign, platform = add(free_port(), owner=8), add(free_port(), owner=PLATFORM_TENANT_ID)
    with pytest.raises(RecordNotFound):
        call(foreign)
    with pytest.raises(TenantMismatch):
        call(platform)
    with tenancy.acting_as(tenancy.Context()), pytest.raises(messaging.TenantContextMissing):
        call(foreign)


def test_a_deleted_mailbox_leaves_its_mails_and_ends_a_fetch_that_is_under_way(
    server: ScriptedPop3Server, engine: Engine
) -> None:
    config_id, kept = add(server.port, is_default=True), add(free_port())
    assert fetch_new_mails(config_id) == 1
    watermarks = Watermarks(engine, lease_timeout_seconds=60)
    lease = watermarks.acquire(config_id, "INBOX", tenant_id=7)
    others = watermarks.acquire(kept, "INBOX", tenant_id=7)
    assert lease is not None
    assert others is not None

    messaging.delete_mailbox(config_id)

    assert (lease.heartbeat(), others.heartbeat()) == (False, True)
    assert [line.server_config_id for line in messaging.list_watermarks()] == [kept]
    assert [row["server_config_id"] for row in Stored(engine).rows()] == [config_id]
    with pytest.raises(RecordNotFound, match=f"no mailbox {config_id}"):
        fetch_new_mails(config_id)
    with pytest.raises(ReceiveError, match="no receiving mail server"):
        fetch_new_mails()
    assert add(server.port) > config_id
