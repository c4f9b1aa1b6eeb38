"""Routes and bindings kept by operators, and the explanation of a number's way, through the public functions."""

from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

import messaging
from messaging import (
    PLATFORM_TENANT_ID,
    ConfigRejected,
    MessageRejected,
    MessageScope,
    RecordNotFound,
    TenantContextMissing,
    TenantMismatch,
    add_sms_binding,
    add_sms_route,
    all_tenants,
    list_sms_bindings,
    list_sms_routes,
    remove_sms_binding,
    remove_sms_route,
    set_sms_binding_active,
    set_sms_route_active,
    tenant,
    which_provider,
)
from messaging.sms.models import SMS_PROVIDER_CONFIG
from tests.conftest import MakeSettings
from tests.integration.sms.accounts import CN, DE, DRAMA, Accounts


@pytest.fixture(autouse=True)
def in_tenant_7(accounts: Accounts, make_settings: MakeSettings, engine: Engine) -> Any:
    messaging.configure(make_settings(multi_tenancy=True), engine=engine)
    with tenant(7):
        yield


def test_a_route_is_added_listed_disabled_and_removed(accounts: Accounts) -> None:
    twilio, aliyun = accounts.provider("TWILIO"), accounts.provider("ALIYUN")
    first = add_sms_route(twilio, " cn ")  # R22
    second = add_sms_route(aliyun, "CN", priority=1)
    other = add_sms_route(twilio, "DE")
    lines = list_sms_routes()
    assert [(line.id, line.region_code, line.dial_code) for line in lines] == [
        (second, "CN", "86"),
        (first, "CN", "86"),
        (other, "DE", "49"),
    ]
    assert [(line.provider_name, line.is_used) for line in list_sms_routes("de")] == [("TWILIO", True)]
    set_sms_route_active(second, False)  # O12
    accounts.change(SMS_PROVIDER_CONFIG, twilio, active=False)
    assert [(line.id, line.active, line.is_used) for line in list_sms_routes("CN")] == [(first, True, False)]
    assert [line.id for line in list_sms_routes("CN", active="all")] == [second, first]
    remove_sms_route(first)
    with pytest.raises(RecordNotFound, match=f"no route {first}"):
        remove_sms_route(first)
    assert list_sms_routes("CN") == []


@pytest.mark.parametrize("region", ["ZZ", "*", "", "001"])
def test_a_route_to_no_country_is_refused(accounts: Accounts, region: str) -> None:
    provider_id = accounts.provider()
    with pytest.raises(ConfigRejected, match="region_code"):  # R22
        add_sms_route(provider_id, region)
    assert list_sms_routes() == []


def test_a_second_route_of_a_provider_to_a_country_is_named(accounts: Accounts, engine: Engine) -> None:
    provider_id = accounts.provider()
    route_id = add_sms_route(provider_id, "CN")
    set_sms_route_active(route_id, False)
    with Session(engine) as session:
        with pytest.raises(ConfigRejected, match=rf"already, {route_id} \(disabled\)"):
            add_sms_route(provider_id, "cn", session=session)
        add_sms_route(provider_id, "DE", session=session)
        session.commit()
    with pytest.raises(ConfigRejected, match="priority"):
        add_sms_route(provider_id, "FR", priority="first")  # type: ignore[arg-type]


def test_of_two_that_add_a_route_at_once_the_second_is_told(accounts: Accounts, engine: Engine) -> None:
    """A waits for nobody and commits between B's look and B's write."""
    from messaging.sms import route_admin

    provider_id = accounts.provider()
    with Session(engine) as session:
        session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        assert route_admin.list_routes(session) == []  # B's snapshot
        add_sms_route(provider_id, "CN")
        with pytest.raises(ConfigRejected, match="already"):
            add_sms_route(provider_id, "CN", session=session)
        add_sms_route(provider_id, "DE", session=session)
        session.commit()
    assert len(list_sms_routes()) == 2


def test_a_route_leads_to_a_provider_of_the_same_tenant(accounts: Accounts) -> None:
    platforms, theirs = accounts.provider(tenant_id=PLATFORM_TENANT_ID), accounts.provider(tenant_id=8)
    for provider_id, reason in ((platforms, "belongs to the platform"), (theirs, "there is no such SMS provider")):
        with pytest.raises(ConfigRejected, match=f"provider_config_id is '{provider_id}': .*{reason}"):
            add_sms_route(provider_id, "CN")
    with tenant(PLATFORM_TENANT_ID):
        route_id = add_sms_route(platforms, "CN")
    for act in (remove_sms_route, lambda i: set_sms_route_active(i, False)):
        with pytest.raises(TenantMismatch, match=f"route {route_id} belongs to the platform"):
            act(route_id)
    assert list_sms_routes() == []


def test_a_binding_is_added_listed_disabled_and_removed(accounts: Accounts) -> None:
    own, platforms = accounts.provider(), accounts.provider(tenant_id=PLATFORM_TENANT_ID)
    accounts.template("otp")
    first = add_sms_binding("otp", own, external_template_id=" T1 ", sign_name="Shop")
    second = add_sms_binding("otp", platforms, " cn ", external_template_id="T2", priority=1)
    lines = list_sms_bindings("otp")
    assert [(line.id, line.region_code, line.external_template_id, line.sign_name) for line in lines] == [
        (second, "CN", "T2", None),
        (first, "", "T1", "Shop"),
    ]
    assert [(line.template_code, line.provider_name) for line in lines] == [("otp", None), ("otp", "TWILIO")]
    with pytest.raises(ConfigRejected, match=f"for it already, {first}"):
        add_sms_binding("otp", own, "  ")
    set_sms_binding_active(first, False)  # O12
    assert [line.id for line in list_sms_bindings()] == [second]
    remove_sms_binding(second)
    assert [line.id for line in list_sms_bindings(active="all")] == [first]
    with pytest.raises(RecordNotFound, match=f"no binding {second}"):
        remove_sms_binding(second)


def test_a_binding_names_what_the_tenant_may_use(accounts: Accounts) -> None:
    own, theirs = accounts.provider(), accounts.provider(tenant_id=8)
    accounts.template("otp")
    accounts.template("platforms", tenant_id=PLATFORM_TENANT_ID)
    for provider_id in (theirs, theirs + 1, 0, 2**63):
        with pytest.raises(ConfigRejected, match=f"provider_config_id is '{provider_id}'"):
            add_sms_binding("otp", provider_id)
    with pytest.raises(RecordNotFound, match="SMS template 'platforms' is none of this tenant"):
        add_sms_binding("platforms", own)
    for wrong in ({"region_code": "ZZ"}, {"region_code": "*"}, {"sign_name": "x" * 51}, {"priority": None}):
        with pytest.raises(ConfigRejected, match=next(iter(wrong))):
            add_sms_binding("otp", own, **wrong)  # type: ignore[arg-type]
    assert list_sms_bindings() == []


def test_the_way_of_a_number_is_told_step_by_step(accounts: Accounts) -> None:
    aliyun, off = accounts.provider("ALIYUN"), accounts.provider("SINCH", active=False)
    default = accounts.provider("TWILIO", is_default=True)
    accounts.route(aliyun, "CN")
    accounts.route(off, "DE")
    told = which_provider(CN)
    assert (told.provider_config_id, told.provider_type, told.region_code) == (aliyun, "ALIYUN", "CN")
    assert told.steps == [
        f"{CN} is of CN, calling code +86",
        f"tenant 7's routes to CN: SMS provider {aliyun} (ALIYUN, ALIYUN); nothing after this is looked at",
        f"so it goes out by SMS provider {aliyun} (ALIYUN, ALIYUN)",
    ]
    told = which_provider(DE)
    assert told.provider_config_id == default
    assert told.steps[1] == f"tenant 7's routes to DE: none (not counted, as disabled or not its own: {off})"
    assert told.steps[2].startswith(f"tenant 7's default providers: SMS provider {default}")


def test_why_a_number_takes_no_provider_is_told(accounts: Accounts) -> None:
    told = which_provider(DE)
    assert (told.error_code, told.provider_config_id, told.region_code) == ("CONFIG_NOT_RESOLVABLE", None, "DE")
    assert [step.split(":")[0] for step in told.steps[1:5]] == [
        "tenant 7's routes to DE",
        "tenant 7's default providers",
        "the platform's routes to DE",
        "the platform's default providers",
    ]
    assert which_provider(DRAMA).error_code == "REGION_NOT_RESOLVABLE"
    assert which_provider(DE, template_code="gone").error_code == "TEMPLATE_NOT_FOUND"
    with pytest.raises(MessageRejected, match="phone_number"):
        which_provider("13800138000")
    with all_tenants(), pytest.raises(TenantContextMissing):
        which_provider(DE)


def test_bindings_are_told_too(accounts: Accounts) -> None:
    twilio, other = accounts.provider(is_default=True), accounts.provider()
    template = accounts.template("otp")
    fits = accounts.bind(template, twilio, external_template_id="T1", sign_name="Shop")
    not_here = accounts.bind(template, other, priority=1)
    told = which_provider(DE, template_code="otp")
    assert (told.external_template_id, told.sign_name) == ("T1", "Shop")
    assert told.steps[3:5] == [
        f"binding {not_here}: SMS provider {other} for any country, priority 1: does not fit",
        f"binding {fits}: SMS provider {twilio} for any country, priority 100: fits",
    ]
    assert (
        which_provider(DE, template_code="otp", scope=MessageScope.PLATFORM).error_code == "TEMPLATE_NOT_FOUND"
    )  # R24
