"""The HTTP API in the test's process, on the test's own PostgreSQL: clients of a role and a tenant."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from sqlalchemy import Engine
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from messaging import api, tenancy
from messaging.access.roles import Role
from messaging.api import access
from messaging.web.app import create_app
from tests.conftest import MakeSettings

#: Makes an application; settings as keywords, areas as dicts. Multi-tenancy is on unless said.
OpenApi = Callable[..., ASGIApp]
#: A caller of a role in a tenant, with a token of its own; `user_id` and the application as keywords.
MakeClient = Callable[..., TestClient]


@pytest.fixture
def open_api(make_settings: MakeSettings, engine: Engine, unconfigured: None) -> OpenApi:

    def open_api(*, engine: Engine = engine, options: Mapping[str, Any] | None = None, **settings: Any) -> ASGIApp:
        made = make_settings(**{"multi_tenancy": True, **settings})
        api.configure(made, engine=engine)
        return create_app(made, engine, **(options or {}))

    return open_api


@pytest.fixture
def app(open_api: OpenApi) -> ASGIApp:
    return open_api()


@pytest.fixture
def client(app: ASGIApp) -> Iterator[MakeClient]:
    with ExitStack() as stack:

        def client(
            role: Role | None = Role.TENANT_ADMIN,
            tenant: int = 7,
            *,
            user_id: int | None = None,
            app: ASGIApp = app,
        ) -> TestClient:
            """None of role: nobody known."""
            headers = {}
            if role is not None:
                owner = tenancy.PLATFORM_TENANT_ID if role is Role.PLATFORM else tenant
                with tenancy.tenant(owner):
                    token = access.add_token(f"a {role}", role=role, user_id=user_id).token
                headers["authorization"] = f"Bearer {token}"
            made = TestClient(app, headers=headers, base_url="http://testserver")
            stack.callback(made.close)
            return made

        yield client
