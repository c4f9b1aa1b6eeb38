"""A template's bindings and the providers of a country: which pair a message takes, and under which names."""

import pytest

from messaging.errors import PreparationError
from messaging.sms.models import SMS_TEMPLATE_PROVIDER_BINDING
from messaging.tenancy import PLATFORM_TENANT_ID as PLATFORM
from tests.integration.sms.accounts import CN, DE, FR, Accounts


def test_between_providers_the_priority_of_the_binding_decides(accounts: Accounts) -> None:
    twilio, aliyun = accounts.provider("TWILIO"), accounts.provider("ALIYUN")
    accounts.route(twilio, "CN", priority=1)
    accounts.route(aliyun, "CN", priority=2)
    template = accounts.template()
    accounts.bind(template, twilio, priority=10, external_template_id="tw")
    accounts.bind(template, aliyun, "CN", priority=1, external_template_id="ali_cn", sign_name="Aliyun")
    planned = accounts.plan(CN, template)  # R17
    assert planned.config["id"] == aliyun
    assert (planned.external_template_id, planned.sign_name, planned.region_code) == ("ali_cn", "Aliyun", "CN")


def test_of_one_provider_the_countrys_binding_goes_first_whatever_the_priorities(accounts: Accounts) -> None:
    aliyun = accounts.provider("ALIYUN", is_default=True)
    template = accounts.template()
    accounts.bind(template, aliyun, priority=0, external_template_id="any")
    accounts.bind(template, aliyun, "CN", priority=50, external_template_id="cn")
    accounts.bind(template, aliyun, "TW", priority=1, external_template_id="tw")
    assert accounts.plan(CN, template).external_template_id == "cn"  # R18
    assert accounts.plan(FR, template).external_template_id == "any"


def test_with_equal_bindings_the_order_of_the_providers_decides(accounts: Accounts) -> None:
    second, first = accounts.provider(is_default=True, priority=2), accounts.provider(is_default=True, priority=1)
    template = accounts.template()
    accounts.bind(template, second)
    accounts.bind(template, first)
    assert accounts.chosen(CN, template) == first


def test_a_template_without_bindings_takes_the_first_provider_and_the_requests_names(accounts: Accounts) -> None:
    first = accounts.provider(is_default=True)
    template = accounts.template()
    accounts.bind(template, first, active=False, external_template_id="off")
    accounts.bind(accounts.template("other"), first, external_template_id="another's")
    planned = accounts.plan(CN, template, external_template_id="mine", sign_name="Shop")  # R19
    assert (planned.config["id"], planned.external_template_id, planned.sign_name) == (first, "mine", "Shop")


@pytest.mark.parametrize("region", ["", "DE"])
def test_bindings_of_others_only_are_no_way_out(accounts: Accounts, region: str) -> None:
    eligible, other = accounts.provider(is_default=True), accounts.provider()
    template = accounts.template()
    accounts.bind(template, eligible if region else other, region)
    with pytest.raises(PreparationError) as refused:  # R20
        accounts.plan(CN, template)
    assert (refused.value.marker, refused.value.category) == ("NO_TEMPLATE_BINDING", "AUTH")
    assert all(part in str(refused.value) for part in ("'otp'", "CN", f"({eligible})"))


def test_direct_content_keeps_the_requests_names(accounts: Accounts) -> None:
    provider_id = accounts.provider(is_default=True)
    accounts.bind(accounts.template(), provider_id, external_template_id="bound")
    planned = accounts.plan(CN, external_template_id=" mine ", sign_name=" ")  # R21
    assert (planned.external_template_id, planned.sign_name) == ("mine", None)


def test_a_binding_wins_over_the_request_and_the_request_fills_its_gaps(accounts: Accounts) -> None:
    provider_id = accounts.provider(is_default=True)
    template = accounts.template()
    accounts.bind(template, provider_id, external_template_id="bound", sign_name=" ")
    planned = accounts.plan(CN, template, external_template_id="mine", sign_name="Shop")
    assert (planned.external_template_id, planned.sign_name) == ("bound", "Shop")


def test_a_pinned_provider_is_the_only_one_that_bindings_may_name(accounts: Accounts) -> None:
    pinned, other = accounts.provider(), accounts.provider(is_default=True)
    template = accounts.template()
    binding = accounts.bind(template, other)
    with pytest.raises(PreparationError, match="none for DE"):
        accounts.plan(DE, template, provider_config_id=pinned)
    accounts.change(SMS_TEMPLATE_PROVIDER_BINDING, binding, provider_config_id=pinned)
    assert accounts.chosen(DE, template, provider_config_id=pinned) == pinned


def test_a_tenants_template_is_bound_to_the_platforms_provider_in_its_own_tier(accounts: Accounts) -> None:
    platforms = accounts.provider(tenant_id=PLATFORM, is_default=True)
    template = accounts.template()
    accounts.bind(template, platforms, external_template_id="ours")
    accounts.bind(template, platforms, "DE", tenant_id=PLATFORM, external_template_id="theirs")
    assert accounts.plan(DE, template).external_template_id == "ours"
