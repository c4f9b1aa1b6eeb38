"""Providers kept by operators, through the public functions: stored encrypted, listed without secrets, confined."""

from collections.abc import Iterator
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from cryptography.fernet import Fernet
from sqlalchemy import Engine, inspect, select, text
from sqlalchemy.orm import Session

import messaging
from messaging import (
    PLATFORM_TENANT_ID,
    ConfigRejected,
    RecordNotFound,
    TenantMismatch,
    add_sms_provider,
    change_sms_provider,
    check_sms_provider,
    get_sms_provider,
    list_sms_providers,
    set_sms_provider_active,
    tenancy,
    tenant,
    try_sms_provider,
)
from messaging.db import schema
from messaging.db.encryption import use_keys
from messaging.sms import connectivity
from messaging.sms.ext_config import unseal
from messaging.sms.models import SmsProviderConfig
from tests.conftest import MakeSettings
from tests.far_end import twilio_api
from tests.far_end.provider_server import serving
from tests.far_end.twilio_api import TwilioApi

GIVEN: dict[str, Any] = {
    "name": "out",
    "provider_type": "twilio",
    "api_key": "AC0123456789",
    "api_secret": "s3cret",
    "sender_number": "+14155550100",
}


@pytest.fixture(autouse=True)
def in_tenant_7(make_settings: MakeSettings, engine: Engine) -> Iterator[None]:
    messaging.configure(make_settings(multi_tenancy=True), engine=engine)
    with tenant(7):
        yield
    tenancy.use_multi_tenancy(False)


def row(engine: Engine, config_id: int) -> Any:
    with engine.connect() as connection:
        return connection.execute(text("SELECT * FROM sms_provider_config WHERE id = :i"), {"i": config_id}).one()


def test_a_provider_is_added_to_the_tenant_with_its_secrets_encrypted(engine: Engine) -> None:
    with tenancy.acting_as(tenancy.Context(tenant_id=7, user_id=5, user_name="ada")):
        config_id = add_sms_provider(**GIVEN, ext_config={"authToken": "t0ken"})
    stored = row(engine, config_id)
    assert (stored.tenant_id, stored.provider_type, stored.created_by_id, stored.created_by) == (7, "TWILIO", 5, "ada")
    assert not any(secret in repr(stored) for secret in ("s3cret", "t0ken", GIVEN["api_key"]))  # O60
    [line] = list_sms_providers()
    assert (line.id, line.has_api_key, line.has_api_secret, line.ext_keys) == (config_id, True, True, ["authToken"])
    assert not any(secret in repr(line) for secret in ("s3cret", "t0ken", GIVEN["api_key"]))
    assert line.receipt_path == f"/hooks/sms/twilio/{stored.receipt_token}"
    assert (line.receipt_url, line.inbound_url, line.is_told_receipt_url) == (None, None, False)


def test_receipt_tokens_differ_and_are_long() -> None:
    add_sms_provider(**GIVEN)
    add_sms_provider(**GIVEN)
    tokens = {line.receipt_path.rsplit("/", 1)[1] for line in list_sms_providers()}
    assert len(tokens) == 2
    assert min(map(len, tokens)) >= 32


def test_several_defaults_stand_beside_each_other() -> None:
    first, second = (add_sms_provider(**GIVEN, is_default=True, priority=n) for n in (2, 1))
    assert [(line.id, line.is_default) for line in list_sms_providers()] == [(second, True), (first, True)]
    change_sms_provider(first, is_default=False)
    assert [line.is_default for line in list_sms_providers()] == [True, False]


def test_what_is_refused_leaves_nothing_behind_and_the_transaction_usable(engine: Engine) -> None:
    with Session(engine) as session:
        for wrong in ({"provider_type": "vonage"}, {"api_secret": None}, {"sender_number": None}, {"name": None}):
            with pytest.raises(ConfigRejected):
                add_sms_provider(**{**GIVEN, **wrong}, session=session)
        assert add_sms_provider(**GIVEN, session=session)
        session.commit()
    assert len(list_sms_providers()) == 1


def test_only_what_is_given_changes(engine: Engine) -> None:
    config_id = add_sms_provider(**GIVEN, description="ours")
    before = row(engine, config_id)
    change_sms_provider(config_id, sender_id="Shop", daily_send_limit=10)
    after = row(engine, config_id)
    assert (after.sender_id, after.daily_send_limit, after.description) == ("Shop", 10, "ours")
    assert (after.api_secret, after.receipt_token) == (before.api_secret, before.receipt_token)
    assert after.updated_at > before.updated_at
    with pytest.raises(ConfigRejected, match="api_secret is missing"):
        change_sms_provider(config_id, api_secret=None)
    assert row(engine, config_id).api_secret == before.api_secret


def test_a_secret_that_nobody_can_read_any_more_can_be_replaced(engine: Engine) -> None:
    config_id = add_sms_provider(**GIVEN)
    with engine.begin() as connection:
        connection.execute(text("UPDATE sms_provider_config SET api_secret = 'lost'"))
    came = check_sms_provider(config_id)
    assert (came.success, (came.error_message or "")[:21]) == (False, "CREDENTIAL_UNREADABLE")
    with pytest.raises(ConfigRejected, match="api_secret is stored and unreadable"):
        change_sms_provider(config_id, name="other")
    set_sms_provider_active(config_id, False)
    change_sms_provider(config_id, api_secret="new")
    assert check_sms_provider(config_id).success


def test_a_row_that_is_loaded_holds_no_secret_until_it_is_asked_for(engine: Engine) -> None:
    config_id = add_sms_provider(**GIVEN)
    with Session(engine) as session:
        loaded = session.get_one(SmsProviderConfig, config_id)
        assert {"api_key", "api_secret"} <= inspect(loaded).unloaded
        assert loaded.api_secret == "s3cret"


def test_a_disabled_provider_is_gone_from_lists_and_comes_back(engine: Engine) -> None:  # O12
    config_id = add_sms_provider(**GIVEN)
    set_sms_provider_active(config_id, False)
    assert list_sms_providers() == []
    assert [line.active for line in list_sms_providers(active="all")] == [False]
    with Session(engine) as session:
        assert session.scalars(select(SmsProviderConfig)).all() == []
        assert session.get(SmsProviderConfig, config_id) is not None
    set_sms_provider_active(config_id, True)
    assert len(list_sms_providers()) == 1


def test_a_provider_is_checked_without_calling_anybody(engine: Engine) -> None:
    config_id = add_sms_provider(**GIVEN)
    assert check_sms_provider(config_id).success
    with engine.begin() as connection:
        connection.execute(text("UPDATE sms_provider_config SET sender_number = NULL"))
    assert (check_sms_provider(config_id).error_message or "").startswith("SENDER_REQUIRED: twilio: ")
    with engine.begin() as connection:
        connection.execute(text("UPDATE sms_provider_config SET provider_type = 'VONAGE'"))
    assert (check_sms_provider(config_id).error_message or "").startswith("PROVIDER_UNSUPPORTED: ")
    assert list_sms_providers()[0].receipt_path.startswith("/hooks/sms/vonage/")


@pytest.mark.parametrize(
    "act",
    [
        lambda i: change_sms_provider(i, name="taken over"),
        lambda i: set_sms_provider_active(i, False),
        check_sms_provider,
    ],
)
def test_a_platform_row_is_explained_and_any_other_foreign_one_does_not_exist(act: Any, engine: Engine) -> None:
    with tenant(PLATFORM_TENANT_ID):
        platforms = add_sms_provider(**GIVEN)
    with tenant(8):
        foreign = add_sms_provider(**GIVEN)
    with pytest.raises(TenantMismatch, match=f"SMS provider {platforms} belongs to the platform"):  # O6
        act(platforms)
    for missing in (foreign, foreign + 1, 0, 2**63):  # O5
        with pytest.raises(RecordNotFound, match=f"no SMS provider {missing}"):
            act(missing)
    assert list_sms_providers(active="all") == []
    assert row(engine, platforms).name == row(engine, foreign).name == "out"


def test_what_is_no_secret_of_an_account_can_be_read_where_it_is_stored(engine: Engine) -> None:
    config_id = add_sms_provider(**GIVEN, ext_config={"region": "eu", "authToken": "t0ken", "pin": 4711})
    stored = row(engine, config_id).ext_config
    assert stored["region"] == "eu"
    assert [list(stored[key]) for key in ("authToken", "pin")] == [["encrypted"]] * 2
    assert unseal(stored) == {"region": "eu", "authToken": "t0ken", "pin": 4711}


def test_a_change_of_something_else_leaves_the_secrets_of_an_account(engine: Engine) -> None:
    config_id = add_sms_provider(**GIVEN, ext_config={"authToken": "t0ken"})
    change_sms_provider(config_id, name="other")
    assert unseal(row(engine, config_id).ext_config) == {"authToken": "t0ken"}
    change_sms_provider(config_id, ext_config={"authToken": "n3w"})
    assert unseal(row(engine, config_id).ext_config) == {"authToken": "n3w"}


def test_a_secret_of_an_account_that_nobody_can_read_any_more_is_told(engine: Engine) -> None:
    config_id = add_sms_provider(**GIVEN, ext_config={"authToken": "t0ken"})
    use_keys((Fernet.generate_key().decode(),))
    with pytest.raises(ConfigRejected, match="ext_config is stored and unreadable"):
        change_sms_provider(config_id, name="other", api_key="new", api_secret="new")


def test_accounts_of_the_version_before_are_sealed_by_the_migration(engine: Engine, database_url: str) -> None:
    config_id = add_sms_provider(**GIVEN)
    change = text("UPDATE sms_provider_config SET ext_config = CAST(:c AS jsonb) WHERE id = :i")
    with engine.begin() as connection:
        connection.execute(change, {"c": '{"authToken": "t0ken", "region": "eu"}', "i": config_id})
        connection.execute(text("ALTER TABLE sms_send_record DROP COLUMN asked_at"))
        connection.execute(text("DROP INDEX ix_sms_send_swept"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0004'"))
    schema.upgrade(database_url, "0005")
    stored = row(engine, config_id).ext_config
    assert stored["region"] == "eu"
    assert "t0ken" not in str(stored)
    assert unseal(stored) == {"authToken": "t0ken", "region": "eu"}


def test_the_version_before_reads_what_this_one_sealed(engine: Engine, database_url: str) -> None:
    config_id = add_sms_provider(**GIVEN, ext_config={"authToken": "t0ken"})
    assert "t0ken" not in str(row(engine, config_id).ext_config)
    alembic = Config()
    alembic.set_main_option("script_location", str(schema.migrations_folder()).replace("%", "%%"))
    alembic.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        alembic.attributes["connection"] = connection
        command.downgrade(alembic, "0004")
        stored = connection.execute(text("SELECT ext_config FROM sms_provider_config")).scalar_one()
    assert stored == {"authToken": "t0ken"}
    schema.upgrade(database_url, "0005")
    assert unseal(row(engine, config_id).ext_config) == {"authToken": "t0ken"}


@pytest.mark.parametrize(("provider_type", "is_told"), [("twilio", True), ("aliyun", False)])
def test_the_addresses_that_a_provider_is_to_call_are_shown(
    make_settings: MakeSettings, engine: Engine, provider_type: str, is_told: bool
) -> None:
    messaging.configure(make_settings(multi_tenancy=True, public_base_url="https://msg.example.com"), engine=engine)
    config_id = add_sms_provider(**GIVEN | {"provider_type": provider_type})
    line = get_sms_provider(config_id)
    token = row(engine, config_id).receipt_token
    assert line.receipt_url == f"https://msg.example.com/hooks/sms/{provider_type}/{token}"
    assert line.inbound_url == f"{line.receipt_url}/inbound"
    assert line.is_told_receipt_url is is_told
    with pytest.raises(RecordNotFound):
        get_sms_provider(config_id + 1)


# Tried


def account_at(url: str, **changes: Any) -> int:
    given = GIVEN | {"api_key": twilio_api.ACCOUNT, "api_secret": twilio_api.AUTH_TOKEN}
    return add_sms_provider(**given | {"api_endpoint": f"{url}/2010-04-01"} | changes)


def test_credentials_are_tried_without_a_message() -> None:
    with serving(TwilioApi()) as server:
        came = try_sms_provider(account_at(server.url))
        assert (came.success, came.was_called, came.provider_type, came.error_message) == (True, True, "TWILIO", None)
        assert came.latency_ms >= 0
        assert [request.method for request in server.requests] == ["GET"]


def test_wrong_credentials_are_told_without_the_secret() -> None:
    with serving(TwilioApi()) as server:
        came = try_sms_provider(account_at(server.url, api_secret="wrong-s3cret"))
    assert (came.success, came.was_called, came.error_message) == (False, True, "20003: Authenticate")
    assert "wrong-s3cret" not in repr(came)


def test_a_provider_that_is_away_is_told() -> None:
    came = try_sms_provider(account_at("http://127.0.0.1:9"))
    assert (came.success, came.was_called) == (False, True)
    assert (came.error_message or "").startswith("HTTP_CONNECT: ")


def test_somebody_waits_for_a_test_so_its_times_are_short(make_settings: MakeSettings) -> None:
    limits = connectivity._limits(make_settings())
    assert limits.connect_seconds <= connectivity.MAX_CONNECT_SECONDS
    assert max(limits.read_seconds, limits.reply_seconds) <= connectivity.MAX_REPLY_SECONDS


def test_what_the_configuration_lacks_is_told_without_a_call(engine: Engine) -> None:
    config_id = account_at("http://127.0.0.1:9")
    with engine.begin() as connection:
        connection.execute(text("UPDATE sms_provider_config SET api_secret = NULL WHERE id = :i"), {"i": config_id})
    came = try_sms_provider(config_id)
    assert (came.success, came.was_called) == (False, False)
    assert came.error_message == "PROVIDER_CONFIG_INVALID: twilio: api_secret is missing"


def test_a_provider_with_nothing_to_read_is_checked_only() -> None:
    came = try_sms_provider(add_sms_provider(**GIVEN | {"provider_type": "cm"}))
    assert (came.success, came.was_called, came.error_message) == (True, False, None)
