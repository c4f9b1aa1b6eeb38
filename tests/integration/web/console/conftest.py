"""The console in the test's process: browsers without a script, in which operators have signed in."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from messaging import tenancy
from messaging.access.roles import Role
from messaging.api import access
from tests.integration.web.api.conftest import app, open_api

__all__ = ["app", "open_api"]

PASSWORD = "correct horse battery"

#: A browser in which an operator of a role and a tenant has signed in; None of role: nobody.
Browse = Callable[..., TestClient]


def browser_of(app: ASGIApp) -> TestClient:
    """What a browser sends with a form of our own pages."""
    headers = {"sec-fetch-site": "same-origin"}
    return TestClient(app, base_url="http://testserver", headers=headers, follow_redirects=False)


@pytest.fixture
def browse(app: ASGIApp) -> Iterator[Browse]:
    with ExitStack() as stack:

        def browse(role: Role | None = Role.OPERATOR, tenant: int = 7, *, app: ASGIApp = app) -> TestClient:
            browser = stack.enter_context(browser_of(app))
            if role is not None:
                name = f"{role}-{tenant}".lower()
                with tenancy.tenant(tenancy.PLATFORM_TENANT_ID if role is Role.PLATFORM else tenant):
                    if name not in [one.user_name for one in access.list_operators()]:
                        access.add_operator(name, password=PASSWORD, role=role)
                answer = browser.post("/console/sign-in", data={"user_name": name, "password": PASSWORD})
                assert answer.status_code == 303, answer.text
            return browser

        yield browse
