"""Mailboxes kept by operators, in their own tenant: operate.md sections 1 and 2."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

import messaging
from messaging import (
    ConfigRejected,
    RecordNotFound,
    StateError,
    TenantMismatch,
    add_mailbox,
    change_mailbox,
    list_mailboxes,
    list_watermarks,
    set_default_mailbox,
    set_mailbox_active,
    tenancy,
)
from messaging.receive.models import MailReceiveServerConfig
from messaging.tenancy import PLATFORM_TENANT_ID, tenant
from tests.conftest import MakeSettings

GIVEN: dict[str, Any] = {
    "name": "support",
    "host": "imap.example.com",
    "port": 993,
    "username": "support@example.org",
    "password": "s3cret",
}


@pytest.fixture(autouse=True)
def in_tenant_7(make_settings: MakeSettings, engine: Engine) -> Iterator[None]:
    messaging.configure(make_settings(multi_tenancy=True), engine=engine)
    with tenant(7):
        yield
    tenancy.use_multi_tenancy(False)


def row(engine: Engine, config_id: int) -> Any:
    statement = text("SELECT * FROM mail_receive_server_config WHERE id = :i")
    with engine.connect() as connection:
        return connection.execute(statement, {"i": config_id}).one()


def write(engine: Engine, assignments: str) -> None:
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE mail_receive_server_config SET {assignments}"))


def test_a_mailbox_is_added_to_the_tenant_with_its_secret_encrypted(engine: Engine) -> None:
    with tenancy.acting_as(tenancy.Context(tenant_id=7, user_id=5, user_name="ada")):
        config_id = add_mailbox(**GIVEN)
    stored = row(engine, config_id)
    assert (stored.tenant_id, stored.protocol, stored.auth, stored.fetch_folders) == (7, "IMAPS", "PASSWORD", "INBOX")
    assert (stored.created_by_id, stored.created_by, stored.next_fetch_at) == (5, "ada", None)
    assert "s3cret" not in repr(stored)  # O60
    [line] = list_mailboxes()
    assert (line.id, line.has_password) == (config_id, True)
    assert "s3cret" not in repr(line)


def test_what_is_refused_leaves_nothing_behind_and_the_transaction_usable(engine: Engine) -> None:
    with Session(engine) as session:
        for wrong in ({"port": 0}, {"host": "a b"}, {"username": None}, {"password": None}, {"protocol": "NNTP"}):
            with pytest.raises(ConfigRejected):
                add_mailbox(**{**GIVEN, **wrong}, session=session)
        assert add_mailbox(**GIVEN, session=session)
        session.commit()
    assert len(list_mailboxes()) == 1


def test_only_what_is_given_changes_and_the_interval_counts_from_now(engine: Engine) -> None:
    config_id = add_mailbox(**GIVEN, fetch_interval_seconds=3600)
    write(engine, "next_fetch_at = now() + interval '1 hour'")
    before = row(engine, config_id)
    change_mailbox(config_id, host="other.example.com", fetch_folders="INBOX, Junk")
    after = row(engine, config_id)
    assert (after.host, after.fetch_folders, after.password) == ("other.example.com", "INBOX,Junk", before.password)
    assert after.next_fetch_at is not None
    change_mailbox(config_id, fetch_interval_seconds=15)
    assert row(engine, config_id).next_fetch_at is None
    with pytest.raises(ConfigRejected, match="password"):
        change_mailbox(config_id, password=None)


@pytest.mark.parametrize("changed", [{"username": "other@example.org"}, {"host": "b.example.com"}])
def test_another_login_forgets_the_token_of_the_one_before(engine: Engine, changed: dict[str, Any]) -> None:
    config_id = add_mailbox(**{**GIVEN, "password": None, "auth": "XOAUTH2"})
    with Session(engine) as session, session.begin():
        session.get_one(MailReceiveServerConfig, config_id).oauth_token = "t0ken"
    write(engine, "oauth_token_expires_at = now() + interval '1 hour'")
    change_mailbox(config_id, description="ours")
    assert row(engine, config_id).oauth_token is not None
    change_mailbox(config_id, **changed)
    assert (row(engine, config_id).oauth_token, row(engine, config_id).oauth_token_expires_at) == (None, None)


def test_a_mailbox_whose_secret_nobody_can_read_is_mended(engine: Engine) -> None:
    config_id = add_mailbox(**GIVEN)
    write(engine, "password = 'no ciphertext', oauth_token = 'no ciphertext'")
    change_mailbox(config_id, password="again", host="b.example.com")
    assert row(engine, config_id).password != "no ciphertext"


# operate.md O12
def test_a_disabled_mailbox_is_hidden_from_lists_and_found_by_its_id() -> None:
    config_id = add_mailbox(**GIVEN, is_default=True)
    set_mailbox_active(config_id, False)
    assert list_mailboxes() == []
    [line] = list_mailboxes(active="all")
    assert (line.id, line.active) == (config_id, False)
    with pytest.raises(StateError, match=f"mailbox {config_id} is disabled"):
        set_default_mailbox(config_id)
    change_mailbox(config_id, name="still there")
    set_mailbox_active(config_id, True)
    assert [line.name for line in list_mailboxes()] == ["still there"]


# operate.md O16
def test_a_new_default_demotes_the_old_one_also_where_that_is_disabled(engine: Engine) -> None:
    with tenant(8):
        foreign_id = add_mailbox(**GIVEN, is_default=True)
    old_id = add_mailbox(**GIVEN, is_default=True)
    set_mailbox_active(old_id, False)
    new_id = add_mailbox(**GIVEN)
    set_default_mailbox(new_id)
    assert [row(engine, i).is_default for i in (old_id, new_id, foreign_id)] == [False, True, True]


def test_lists_are_in_the_order_of_polling() -> None:
    ids = [add_mailbox(**GIVEN, sequence=sequence) for sequence in (5, 0, 5)]
    assert [line.id for line in list_mailboxes()] == [ids[1], ids[0], ids[2]]


def test_other_tenants_mailboxes_are_none_and_the_platforms_are_said_to_be() -> None:  # operate.md O5, O6
    ids = {}
    for tenant_id in (8, PLATFORM_TENANT_ID):
        with tenant(tenant_id):
            ids[tenant_id] = add_mailbox(**GIVEN)
    assert list_mailboxes() == []
    calls: list[Callable[[int], object]] = [
        lambda config_id: change_mailbox(config_id, name="x"),
        lambda config_id: set_mailbox_active(config_id, False),
        set_default_mailbox,
        list_watermarks,
    ]
    for call in calls:
        with pytest.raises(RecordNotFound, match=f"no mailbox {ids[8]}"):
            call(ids[8])
        with pytest.raises(TenantMismatch, match="belongs to the platform"):
            call(ids[PLATFORM_TENANT_ID])


def test_watermarks_tell_how_far_each_folder_was_read(engine: Engine) -> None:
    config_id = add_mailbox(**GIVEN, active=False)
    at = datetime(2026, 5, 1, 12, tzinfo=UTC)
    statement = text(
        "INSERT INTO mail_fetch_imap_watermark (tenant_id, server_config_id, folder_name, uid_validity, last_seen_uid,"
        " last_fetched_at) VALUES (7, :i, 'INBOX', 77, 12, :at), (8, :i + 1, 'INBOX', 1, 1, :at)"
    )
    with engine.begin() as connection:
        connection.execute(statement, {"i": config_id, "at": at})
    for asked in (None, config_id):
        [line] = list_watermarks(asked)
        assert (line.server_config_id, line.folder_name, line.uid_validity) == (config_id, "INBOX", 77)
        assert (line.last_seen_uid, line.last_fetched_at, line.in_progress_since) == (12, at, None)


@pytest.mark.parametrize("given", [True, "1", 1.5])
def test_an_id_of_another_type_is_named(given: Any) -> None:
    uses: list[Callable[[Any], object]] = [
        set_default_mailbox,
        list_watermarks,
        messaging.fetch_new_mails,
        messaging.test_mailbox,
    ]
    for use in uses:
        with pytest.raises(TypeError, match=f"a mailbox id is an int, not {given!r}"):
            use(given)
