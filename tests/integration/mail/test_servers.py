"""Which server a mail uses, by request, template, tenant and scope (send.md section 7, operate.md section 2)."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, insert

from messaging.clock import boot_seconds
from messaging.config_cache import ConfigCache
from messaging.errors import PreparationError
from messaging.mail.models import MAIL_SEND_SERVER_CONFIG
from messaging.mail.servers import find_visible_by_id, resolve_server
from messaging.tenancy import PLATFORM_TENANT_ID, use_multi_tenancy
from tests.conftest import MakeSettings

PLATFORM = PLATFORM_TENANT_ID


@pytest.fixture(autouse=True)
def tenants(make_settings: MakeSettings) -> Iterator[None]:
    make_settings()
    use_multi_tenancy(True)
    yield
    use_multi_tenancy(False)


@pytest.fixture
def configs(engine: Engine) -> ConfigCache:
    return ConfigCache(engine, MAIL_SEND_SERVER_CONFIG, ttl_seconds=0, ticker=boot_seconds)


@pytest.fixture
def add(engine: Engine) -> Callable[..., int]:
    def add(tenant_id: int, **columns: Any) -> int:
        t = MAIL_SEND_SERVER_CONFIG
        values = {"name": "x", "host": "mail.example.com", "port": 25, "tenant_id": tenant_id, **columns}
        with engine.begin() as connection:
            return connection.execute(insert(t).values(values).returning(t.c.id)).scalar_one()  # type: ignore[no-any-return]

    return add


def record(*, pinned: int | None = None, scope: str = "TENANT") -> dict[str, Any]:
    return {"tenant_id": 7, "scope": scope, "server_config_id": pinned}


def test_s6_the_request_goes_before_the_template_and_that_before_the_default(
    configs: ConfigCache, add: Callable[..., int]
) -> None:
    default = add(7, is_default=True)
    preferred, pinned = add(7, active=False), add(7, active=False)
    assert resolve_server(record(), configs)["id"] == default
    assert resolve_server(record(), configs, preferred_id=preferred)["id"] == preferred
    assert resolve_server(record(pinned=pinned), configs, preferred_id=preferred)["id"] == pinned


@pytest.mark.parametrize("named_by", ["request", "template"])
@pytest.mark.parametrize(
    ("scope", "owner", "why"),
    [
        ("TENANT", PLATFORM, "belongs to the platform"),  # O6
        ("TENANT", 8, "is none of this tenant"),  # S7
        ("TENANT", None, "is none of this tenant"),
        ("PLATFORM", 7, "is none of this tenant"),
    ],
)
def test_a_named_server_of_another_tier_is_an_error_and_no_default_is_taken(
    configs: ConfigCache, add: Callable[..., int], named_by: str, scope: str, owner: int | None, why: str
) -> None:
    add(7, is_default=True)
    last = add(PLATFORM, is_default=True)
    named = last + 1 if owner is None else add(owner)
    asked = record(pinned=named if named_by == "request" else None, scope=scope)
    with pytest.raises(PreparationError, match=f"mail server {named}.*{why}") as refused:
        resolve_server(asked, configs, preferred_id=named if named_by == "template" else None)
    assert refused.value.marker == "CONFIG_NOT_RESOLVABLE"
    assert ("which the template prefers" in str(refused.value)) == (named_by == "template")


def test_the_platforms_preferred_server_serves_the_platforms_mail(
    configs: ConfigCache, add: Callable[..., int]
) -> None:
    add(7, is_default=True)
    preferred = add(PLATFORM)
    assert resolve_server(record(scope="PLATFORM"), configs, preferred_id=preferred)["id"] == preferred


@pytest.mark.parametrize(("owner", "is_visible"), [(7, True), (PLATFORM, True), (8, False), (None, False)])
def test_a_prepared_record_reaches_its_own_and_the_platforms_servers_disabled_or_not(
    configs: ConfigCache, add: Callable[..., int], owner: int | None, is_visible: bool
) -> None:  # S8, S9, O13
    config_id = add(PLATFORM) + 1 if owner is None else add(owner, active=False)
    if is_visible:
        assert find_visible_by_id(record(pinned=config_id), configs)["id"] == config_id
        return
    with pytest.raises(PreparationError, match=f"mail server {config_id} is gone"):
        find_visible_by_id(record(pinned=config_id), configs)
