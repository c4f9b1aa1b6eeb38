"""Providers kept by operators, through the public functions: stored encrypted, listed without secrets, confined."""

from collections.abc import Iterator
from typing import Any

import pytest
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
    list_sms_providers,
    set_sms_provider_active,
    tenancy,
    tenant,
)
from messaging.sms.models import SmsProviderConfig
from tests.conftest import MakeSettings

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
    assert "s3cret" not in repr(stored)  # O60
    assert GIVEN["api_key"] not in repr(stored)
    [line] = list_sms_providers()
    assert (line.id, line.has_api_key, line.has_api_secret, line.ext_keys) == (config_id, True, True, ["authToken"])
    assert not any(secret in repr(line) for secret in ("s3cret", "t0ken", GIVEN["api_key"]))
    assert line.receipt_path == f"/hooks/sms/twilio/{stored.receipt_token}"


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
    assert [line.active for line in list_sms_providers(with_disabled=True)] == [False]
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
    assert list_sms_providers(with_disabled=True) == []
    assert row(engine, platforms).name == row(engine, foreign).name == "out"
