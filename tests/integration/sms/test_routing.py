"""Which providers serve a country: tiers, order, what does not count, and how old what is known of it may be."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, event

from messaging import tenancy
from messaging.errors import PreparationError
from messaging.sms.models import SMS_PROVIDER_CONFIG, SMS_PROVIDER_REGION
from messaging.sms.providers.base import ProviderConfig
from messaging.sms.routing import RouteCache, find_visible_by_id, provider_config
from messaging.tenancy import PLATFORM_TENANT_ID as PLATFORM
from tests.integration.sms.accounts import DE, DRAMA, FR, TW, Accounts, record


def refusal(plan: Callable[[], Any]) -> PreparationError:
    with pytest.raises(PreparationError) as refused:
        plan()
    return refused.value


def test_a_country_with_a_route_uses_no_default(accounts: Accounts) -> None:
    aliyun = accounts.provider("ALIYUN")
    accounts.provider("TWILIO", is_default=True)
    accounts.route(aliyun, "CN")
    assert accounts.serving("CN") == [aliyun]  # R5


def test_routes_are_ordered_by_their_priority_then_the_providers_then_the_id(accounts: Accounts) -> None:
    tencent, aliyun = accounts.provider("TENCENT"), accounts.provider("ALIYUN")
    accounts.route(tencent, "CN", priority=20)
    accounts.route(aliyun, "CN", priority=10)
    assert accounts.serving("CN") == [aliyun, tencent]  # R6
    late, third, second = accounts.provider(priority=2), accounts.provider(priority=1), accounts.provider(priority=1)
    for provider_id in (late, second, third):
        accounts.route(provider_id, "CN", priority=15)
    assert accounts.serving("CN") == [aliyun, third, second, late, tencent]


def test_a_country_without_a_route_goes_by_the_defaults(accounts: Accounts) -> None:
    sinch = accounts.provider("SINCH", is_default=True, priority=2)
    twilio = accounts.provider("TWILIO", is_default=True, priority=1)
    accounts.provider("BIRD")
    assert accounts.serving("FR") == [twilio, sinch]
    assert accounts.chosen(FR) == twilio  # R7


def test_a_country_that_nobody_serves_is_named_and_a_route_serves_it(accounts: Accounts) -> None:
    refused = refusal(lambda: accounts.plan(DE))  # R8
    assert (refused.marker, refused.category) == ("CONFIG_NOT_RESOLVABLE", "AUTH")
    assert " DE" in str(refused)
    provider_id = accounts.provider()
    accounts.route(provider_id, "DE")
    assert accounts.chosen(DE) == provider_id


def test_taiwan_is_not_served_by_a_route_to_china(accounts: Accounts) -> None:
    accounts.route(accounts.provider(), "CN")
    refused = str(refusal(lambda: accounts.plan(TW)))  # R9
    assert "TW" in refused
    assert "CN" not in refused


def test_a_provider_with_a_route_and_a_default_serves_by_its_route(accounts: Accounts) -> None:
    twilio = accounts.provider("TWILIO", is_default=True, priority=2)
    accounts.provider("SINCH", is_default=True, priority=1)
    accounts.route(twilio, "TW")
    assert accounts.serving("TW") == [twilio]  # R10


def test_routes_of_disabled_providers_do_not_count(accounts: Accounts) -> None:
    aliyun, twilio = accounts.provider("ALIYUN", active=False), accounts.provider("TWILIO")
    default = accounts.provider("SINCH", is_default=True)
    accounts.route(aliyun, "CN", priority=1)
    route = accounts.route(twilio, "CN", priority=2)
    assert accounts.serving("CN") == [twilio]  # R11
    accounts.change(SMS_PROVIDER_CONFIG, twilio, active=False)
    assert accounts.serving("CN") == [default]  # R12
    accounts.change(SMS_PROVIDER_CONFIG, twilio, active=True)
    accounts.change(SMS_PROVIDER_REGION, route, active=False)
    assert accounts.serving("CN") == [default]  # O12: a disabled route


def test_the_platform_serves_what_the_tenant_has_nobody_for(accounts: Accounts) -> None:
    own, platforms = accounts.provider(), accounts.provider(tenant_id=PLATFORM, is_default=True)
    accounts.route(own, "CN")
    assert accounts.chosen(FR) == platforms  # R13
    routed = accounts.provider(tenant_id=PLATFORM)
    accounts.route(routed, "FR", tenant_id=PLATFORM)
    assert accounts.serving("FR") == [routed]
    assert accounts.serving("CN") == [own]


def test_the_tenants_default_goes_before_the_platforms_route(accounts: Accounts) -> None:
    own = accounts.provider(is_default=True)
    accounts.route(accounts.provider(tenant_id=PLATFORM), "CN", tenant_id=PLATFORM)
    assert accounts.serving("CN") == [own]  # R14


def test_the_platforms_own_record_sees_the_platform_alone(accounts: Accounts) -> None:
    accounts.provider(is_default=True)
    platforms = accounts.provider(tenant_id=PLATFORM, is_default=True)
    assert accounts.serving("FR", PLATFORM) == [platforms]
    assert accounts.chosen(FR, tenant_id=PLATFORM, scope="PLATFORM") == platforms  # R23
    own = accounts.provider(is_default=True)
    assert accounts.chosen(FR, scope="PLATFORM") in (own, own - 2)  # scope does not change the route


def test_another_tenants_account_is_not_reached_by_a_route(accounts: Accounts) -> None:
    theirs, platforms = accounts.provider(tenant_id=8), accounts.provider(tenant_id=PLATFORM)
    for provider_id in (theirs, platforms, platforms + 1):
        accounts.route(provider_id, "CN")
    assert accounts.serving("CN") == []
    [precise, *_] = accounts.routes.tiers("CN", 7)
    assert precise.ignored_ids == (theirs, platforms, platforms + 1)


def test_a_pinned_provider_needs_no_country_without_a_template(accounts: Accounts) -> None:
    provider_id = accounts.provider(active=False)
    planned = accounts.plan(DRAMA, provider_config_id=provider_id)  # R15
    assert (planned.config["id"], planned.region_code) == (provider_id, None)
    assert accounts.plan(DE, provider_config_id=provider_id).region_code == "DE"


def test_a_number_of_no_country_is_refused_unless_it_is_pinned(accounts: Accounts) -> None:
    provider_id = accounts.provider(is_default=True)
    refused = refusal(lambda: accounts.plan(DRAMA))  # R16
    assert (refused.marker, refused.category) == ("REGION_NOT_RESOLVABLE", "INVALID_INPUT")
    assert DRAMA not in str(refused)
    template = accounts.template()
    assert refusal(lambda: accounts.plan(DRAMA, template, provider_config_id=provider_id)).marker == refused.marker


@pytest.mark.parametrize("number", ["+80012345678", "+38344123456"])
def test_a_number_of_no_country_that_routes_name_goes_by_the_defaults(accounts: Accounts, number: str) -> None:
    default = accounts.provider(is_default=True)
    accounts.route(accounts.provider(), "DE")
    assert accounts.chosen(number) == default


@pytest.mark.parametrize(
    ("scope", "owner", "why"),
    [
        ("TENANT", PLATFORM, "belongs to the platform"),
        ("TENANT", 8, "is none of this tenant"),
        ("TENANT", None, "is none of this tenant"),
        ("PLATFORM", 8, "is none of this tenant"),
    ],
)
def test_a_pinned_provider_of_others_is_refused(accounts: Accounts, scope: str, owner: int | None, why: str) -> None:
    last = accounts.provider(is_default=True)
    pinned = last + 1 if owner is None else accounts.provider(tenant_id=owner)
    refused = refusal(lambda: accounts.plan(DE, provider_config_id=pinned, scope=scope))
    assert refused.marker == "CONFIG_NOT_RESOLVABLE"
    assert f"SMS provider {pinned} {why}" in str(refused)


@pytest.mark.parametrize("owner", [7, PLATFORM])
def test_scope_platform_may_pin_its_own_and_the_platforms(accounts: Accounts, owner: int) -> None:
    pinned = accounts.provider(tenant_id=owner, active=False)
    assert accounts.chosen(DE, provider_config_id=pinned, scope="PLATFORM") == pinned


def test_without_tenants_there_is_one(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenancy, "_multi_tenancy", False)
    only, default = accounts.provider(tenant_id=0), accounts.provider(tenant_id=0, is_default=True)
    accounts.provider(tenant_id=PLATFORM, is_default=True)
    accounts.route(only, "CN", tenant_id=0)
    assert accounts.serving("CN", 0) == [only]
    assert accounts.serving("DE", 0) == [default]
    assert accounts.chosen(DE, tenant_id=0, scope="PLATFORM") == default


def test_a_prepared_record_reaches_its_own_and_the_platforms_provider(accounts: Accounts) -> None:
    own, platforms = accounts.provider(active=False), accounts.provider(tenant_id=PLATFORM)
    theirs = accounts.provider(tenant_id=8)
    for provider_id in (own, platforms):
        found = find_visible_by_id(record(DE, provider_config_id=provider_id), accounts.routes)
        assert found["id"] == provider_id
    for gone in (theirs, theirs + 1):
        refused = refusal(lambda i=gone: find_visible_by_id(record(DE, provider_config_id=i), accounts.routes))  # type: ignore[misc]
        assert (refused.marker, str(refused)) == ("CONFIG_NOT_RESOLVABLE", f"SMS provider {gone} is gone")


def test_secrets_are_read_for_the_process_that_sends_and_stay_out_of_its_words(accounts: Accounts) -> None:
    provider_id = accounts.provider(api_key="AC1", api_secret="s3cret", sender_id="Shop", ext_config={"region": "eu"})
    row = accounts.routes.find(provider_id)
    assert row is not None
    assert "s3cret" not in repr(row)
    config = provider_config(row)
    assert (config.api_key, config.api_secret, config.sender, config.ext("region")) == ("AC1", "s3cret", "Shop", "eu")
    assert "s3cret" not in repr(config)
    refused = refusal(lambda: provider_config({**row, "api_secret": "lost"}))
    assert (refused.marker, str(refused)[:11]) == ("CREDENTIAL_UNREADABLE", "api_secret ")


def test_secrets_are_decrypted_once_for_as_long_as_a_row_is_cached(accounts: Accounts, engine: Engine) -> None:
    clock = Clock()
    routes = RouteCache(engine, ttl_seconds=1, ticker=clock)
    provider_id = accounts.provider(api_key="AC1", api_secret="s3cret")

    def account() -> ProviderConfig:
        row = routes.find(provider_id)
        assert row is not None
        return routes.account(row)

    first = account()
    assert (first.api_secret, account() is first) == ("s3cret", True)
    accounts.change(SMS_PROVIDER_CONFIG, provider_id, api_key="AC2")
    clock.now += 1
    assert account().api_key == "AC2"


class Clock:
    """Time that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_chunk_is_read_by_two_queries_and_nothing_is_asked_again_within_the_second(
    accounts: Accounts, engine: Engine
) -> None:
    own, default = accounts.provider(), accounts.provider(is_default=True)
    platforms = accounts.provider(tenant_id=PLATFORM, is_default=True)
    accounts.route(own, "CN")
    routes = RouteCache(engine, ttl_seconds=1, ticker=Clock())
    asked: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
    routes.ensure([7, 8], ["CN", "DE", "001"], [own])
    assert len(asked) == 2
    for _ in range(20):
        assert [c["id"] for c in routes.providers_for("CN", 7)] == [own]
        assert [c["id"] for c in routes.providers_for("DE", 7)] == [default]
        assert [c["id"] for c in routes.providers_for("001", 8)] == [platforms]
        assert routes.find(own)
    assert len(asked) == 2


def test_a_change_of_a_provider_or_a_route_is_used_a_second_later(accounts: Accounts, engine: Engine) -> None:
    clock = Clock()
    routes = RouteCache(engine, ttl_seconds=1, ticker=clock)
    first, second = accounts.provider(priority=1), accounts.provider(priority=2)
    accounts.route(first, "CN")

    def serving() -> list[int]:
        routes.ensure([7], ["CN"], [])
        return [config["id"] for config in routes.providers_for("CN", 7)]

    assert serving() == [first]
    accounts.route(second, "CN")
    accounts.change(SMS_PROVIDER_CONFIG, first, priority=3)  # O61
    clock.now += 0.9
    assert serving() == [first]
    clock.now += 0.2
    assert serving() == [second, first]
    accounts.change(SMS_PROVIDER_CONFIG, second, active=False)
    clock.now += 0.5
    routes.ensure([7], ["DE"], [second + 1])  # something new keeps the promise for the rest
    clock.now += 0.6
    assert serving() == [first]
