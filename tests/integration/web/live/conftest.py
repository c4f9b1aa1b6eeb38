"""An application on a real port, and people who listen to their inboxes over HTTP."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from sqlalchemy import Engine

from messaging import api, tenancy
from messaging.access.roles import Role
from messaging.api import access
from tests.conftest import MakeSettings
from tests.integration.web.callers import Site
from tests.integration.web.live.streams import Stream

#: A token of a person in a tenant.
TokenOf = Callable[..., str]
#: A stream of a person; `site`, `tenant`, `since` and `token` as keywords.
Listen = Callable[..., Stream]


@pytest.fixture(autouse=True)
def _many_tenants(make_settings: MakeSettings, engine: Engine, unconfigured: None) -> None:
    api.configure(make_settings(multi_tenancy=True), engine=engine)


@pytest.fixture
def token_of() -> TokenOf:
    def token_of(user_id: int | None, tenant: int = 7) -> str:
        with tenancy.tenant(tenant):
            return access.add_token("a person", role=Role.SENDER, user_id=user_id).token

    return token_of


@pytest.fixture
def site(open_site: Callable[..., Site]) -> Site:
    return open_site({"multi_tenancy": True})


@pytest.fixture
def listen(site: Site, token_of: TokenOf) -> Iterator[Listen]:
    with ExitStack() as stack:

        def listen(user_id: int = 41, *, site: Site = site, tenant: int = 7, token: str = "", **options: Any) -> Stream:
            if "cookie" not in options and not token:
                token = token_of(user_id, tenant)
            made = Stream(site.port, token, **options)
            stack.callback(made.close)
            return made

        yield listen
