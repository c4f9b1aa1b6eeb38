"""The console on a real port, looked at in headless Chromium; every page that a test shows is kept as a picture."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Engine

from messaging import api, tenancy
from messaging.access.roles import Role
from messaging.api import access
from tests.conftest import MakeSettings
from tests.far_end.browser import chromium
from tests.integration.web.conftest import Open
from tests.integration.web.console.conftest import PASSWORD

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: Where a run leaves its pictures.
PICTURES = Path(__file__).resolve().parents[5] / ".screenshots"

LAPTOP, PHONE = {"width": 1366, "height": 850}, {"width": 390, "height": 844}

#: Opens a tab in which an operator of a role has signed in; options of the browser's context as keywords.
OpenTab = Callable[..., "Page"]
#: Keeps a picture of a page under a name.
Keep = Callable[["Page", str], None]


# Not for longer: its event loop runs in this thread, in which tests of others run loops of their own.
@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Browser"]:
    with chromium(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def address(open_site: Open, make_settings: MakeSettings, engine: Engine, unconfigured: None) -> str:
    chosen: dict[str, Any] = {"multi_tenancy": True, "public_base_url": None}
    api.configure(make_settings(**chosen), engine=engine)
    return f"http://127.0.0.1:{open_site(chosen).port}"


@pytest.fixture
def open_tab(browser: "Browser", address: str) -> Iterator[OpenTab]:
    contexts = []

    def open_tab(role: Role = Role.OPERATOR, tenant: int = 7, **options: Any) -> "Page":
        name = f"{role}-{tenant}".lower()
        with tenancy.tenant(tenancy.PLATFORM_TENANT_ID if role is Role.PLATFORM else tenant):
            access.add_operator(name, password=PASSWORD, role=role, display_name="Ann Example")
        context = browser.new_context(**{"viewport": LAPTOP, "base_url": address, **options})
        contexts.append(context)
        context.set_default_timeout(20_000)
        tab = context.new_page()
        tab.goto("/console/mail")
        tab.fill("#user_name", name)
        tab.fill("#password", PASSWORD)
        tab.click("button.main")
        tab.wait_for_url("**/console/mail")
        return tab

    yield open_tab
    for context in contexts:
        context.close()


@pytest.fixture
def keep() -> Keep:
    def keep(tab: "Page", name: str) -> None:
        PICTURES.mkdir(exist_ok=True)
        tab.screenshot(path=PICTURES / f"{name}.png")

    return keep
