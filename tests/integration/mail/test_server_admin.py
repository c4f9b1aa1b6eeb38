"""Mail servers kept by operators, in their own tenant: operate.md sections 1 and 2, O6, O12, O16, O60."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, inspect, text
from sqlalchemy.orm import Session

import messaging
from messaging import (
    ConfigRejected,
    RecordNotFound,
    StateError,
    TenantMismatch,
    add_mail_server,
    change_mail_server,
    list_mail_servers,
    set_default_mail_server,
    set_mail_server_active,
    tenancy,
)
from messaging.mail.models import MailSendServerConfig
from messaging.tenancy import PLATFORM_TENANT_ID, tenant
from tests.conftest import MakeSettings

GIVEN: dict[str, Any] = {"name": "out", "host": "mail.example.com", "port": 587, "username": "shop@example.org"}


@pytest.fixture(autouse=True)
def in_tenant_7(make_settings: MakeSettings, engine: Engine) -> Iterator[None]:
    messaging.configure(make_settings(multi_tenancy=True), engine=engine)
    with tenant(7):
        yield
    tenancy.use_multi_tenancy(False)


def row(engine: Engine, config_id: int) -> Any:
    with engine.connect() as connection:
        return connection.execute(text("SELECT * FROM mail_send_server_config WHERE id = :i"), {"i": config_id}).one()


def test_a_server_is_added_to_the_tenant_with_its_secret_encrypted(engine: Engine) -> None:
    with tenancy.acting_as(tenancy.Context(tenant_id=7, user_id=5, user_name="ada")):
        config_id = add_mail_server(**GIVEN, password="s3cret", is_default=True)
    stored = row(engine, config_id)
    assert (stored.tenant_id, stored.host, stored.created_by_id, stored.created_by) == (7, "mail.example.com", 5, "ada")
    assert "s3cret" not in repr(stored)  # O60
    [line] = list_mail_servers()
    assert (line.id, line.is_default, line.has_password, line.signs_dkim) == (config_id, True, True, False)
    assert "s3cret" not in repr(line)


def test_what_is_refused_leaves_nothing_behind_and_the_transaction_usable(engine: Engine) -> None:
    with Session(engine) as session:
        for wrong in ({"port": 0}, {"host": "a b"}, {"username": None}, {"dkim_domain": "example.org"}):
            with pytest.raises(ConfigRejected):
                add_mail_server(**{**GIVEN, **wrong}, session=session)
        with pytest.raises(ConfigRejected, match="host is 'None'"):
            add_mail_server(name="x", port=25, session=session)
        assert add_mail_server(**GIVEN, session=session)
        session.commit()
    assert len(list_mail_servers()) == 1


def test_only_what_is_given_changes_and_a_secret_is_taken_away_by_none(engine: Engine) -> None:
    config_id = add_mail_server(**GIVEN, password="s3cret", description="ours")
    before = row(engine, config_id)
    change_mail_server(config_id, host="other.example.com", daily_send_limit=10)
    after = row(engine, config_id)
    assert (after.host, after.daily_send_limit, after.description) == ("other.example.com", 10, "ours")
    assert after.password == before.password
    assert after.updated_at > before.updated_at
    change_mail_server(config_id, password=None)
    assert not list_mail_servers()[0].has_password
    with pytest.raises(ConfigRejected, match="from_address"):
        change_mail_server(config_id, username="apikey")
    assert row(engine, config_id).username == "shop@example.org"


def test_a_secret_that_nobody_can_read_any_more_can_be_replaced(engine: Engine) -> None:
    config_id = add_mail_server(**GIVEN, password="s3cret")
    with engine.begin() as connection:
        connection.execute(text("UPDATE mail_send_server_config SET password = 'lost', dkim_private_key = 'lost'"))
        connection.execute(text("UPDATE mail_send_server_config SET dkim_domain = 'example.org', dkim_selector = 's'"))
    change_mail_server(config_id, password="new")
    set_default_mail_server(config_id)
    with Session(engine) as session:
        assert session.get_one(MailSendServerConfig, config_id).password == "new"


def test_a_row_that_is_loaded_holds_no_secret_until_it_is_asked_for(engine: Engine) -> None:
    config_id = add_mail_server(**GIVEN, password="s3cret")
    with Session(engine) as session:
        loaded = session.get_one(MailSendServerConfig, config_id)
        assert {"password", "dkim_private_key"} <= inspect(loaded).unloaded
        assert loaded.password == "s3cret"


def test_a_disabled_server_is_gone_from_the_list_and_comes_back() -> None:  # O12
    config_id = add_mail_server(**GIVEN)
    set_mail_server_active(config_id, False)
    assert list_mail_servers() == []
    assert [line.active for line in list_mail_servers(active="all")] == [False]
    change_mail_server(config_id, name="still there")
    set_mail_server_active(config_id, True)
    assert [line.name for line in list_mail_servers()] == ["still there"]


def test_the_default_moves_also_away_from_a_disabled_one_and_from_what_sql_has_set(engine: Engine) -> None:
    first = add_mail_server(**GIVEN, is_default=True)  # O16
    second = add_mail_server(**GIVEN)
    set_mail_server_active(first, False)
    with pytest.raises(StateError, match=f"mail server {first} is disabled"):
        set_default_mail_server(first)
    set_default_mail_server(second)
    assert {line.id: line.is_default for line in list_mail_servers(active="all")} == {first: False, second: True}
    with engine.begin() as connection:
        connection.execute(text("UPDATE mail_send_server_config SET is_default = true"))
    set_default_mail_server(second)
    assert {line.id: line.is_default for line in list_mail_servers(active="all")} == {first: False, second: True}


@pytest.mark.parametrize(
    "write",
    [
        lambda i: change_mail_server(i, name="taken over"),
        lambda i: set_mail_server_active(i, False),
        set_default_mail_server,
    ],
)
def test_a_platform_row_is_explained_and_any_other_foreign_one_does_not_exist(write: Any, engine: Engine) -> None:
    with tenant(PLATFORM_TENANT_ID):
        platforms = add_mail_server(**GIVEN)
    with tenant(8):
        foreign = add_mail_server(**GIVEN)
    with pytest.raises(TenantMismatch, match=f"mail server {platforms} belongs to the platform"):  # O6
        write(platforms)
    for missing in (foreign, foreign + 1, 0, 2**63):  # O5
        with pytest.raises(RecordNotFound, match=f"no mail server {missing}"):
            write(missing)
    assert list_mail_servers(active="all") == []
    assert row(engine, platforms).name == row(engine, foreign).name == "out"


def test_a_server_of_the_platform_cannot_be_added_from_a_tenant(engine: Engine) -> None:
    with Session(engine) as session:
        session.add(MailSendServerConfig(**GIVEN, tenant_id=PLATFORM_TENANT_ID))
        with pytest.raises(TenantMismatch, match="the platform"):  # O6
            session.flush()
