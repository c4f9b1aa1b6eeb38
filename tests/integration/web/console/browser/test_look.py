"""How the pages look and whom they serve: laptop and phone, light and dark, without serious findings of axe."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Engine

from messaging import api, tenancy
from messaging.access.roles import Role
from tests.integration.web.console import stories
from tests.integration.web.console.browser.conftest import LAPTOP, PHONE, Keep, OpenTab

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: One browser for both files, in one process.
pytestmark = pytest.mark.xdist_group("browser")

HTML = """<div style="font-family:sans-serif;max-width:520px;margin:auto;padding:24px"><h1 style="color:#0b5c8f">
On its way</h1><p>Dear Ann, your order <b>4711</b> left our house today.</p>
<img src="cid:logo" alt="logo" width="80"></div>"""

#: What makes the page wider than the window; what scrolls within itself, or is for screen readers only, does not.
WIDER = """document.scrollingElement.scrollWidth <= document.scrollingElement.clientWidth ? [] :
    [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1)
        .map(e => e.tagName + "." + e.className).slice(0, 10)"""


def _seed(engine: Engine) -> int:
    """A day's records; answers the one with everything on it."""
    people = ("ann", "bea.long-name.of-a-department", "carl", "dora", "emil")
    said = "550 5.1.1 <ann@example.org>: Recipient address rejected: User unknown in virtual mailbox table"
    for number in range(36):
        status = ("SENT", "SENT", "SENT", "RETRY", "FAILED", "PENDING", "DEAD_LETTER", "SENDING")[number % 8]
        stories.mail(
            engine,
            status=status,
            subject=f"Your order {4700 + number} is on its way" + " and will be there soon" * (number % 3),
            to=[f"{people[number % 5]}@example.org"],
            said=None if status == "SENT" else said,
        )
    whole = stories.mail(
        engine,
        status="DEAD_LETTER",
        said=said,
        html_body=HTML,
        template_variables={"name": "Ann", "order": {"number": 4711, "items": ["cup", "plate"]}},
        attachments=[
            stories.attachment(),
            stories.attachment("logo.png", stories.PNG, content_type="image/png", content_id="logo"),
        ],
    )
    stories.dead_letter(engine, whole, error=said)
    stories.sms(engine, status="SENT")
    stories.sms(engine, status="FAILED", said="30003 Unreachable destination handset")
    return whole


#: Lists that one template draws.
LISTS = (
    *("webhooks", "batches", "captured", "received", "watermarks", "mail-templates", "sms-templates", "send-servers"),
    *("receive-servers", "sms-providers", "routes", "bindings", "webhook-endpoints", "quotas", "suppressions"),
    *("operators", "tokens"),
)


def _configure() -> None:
    """One of each kind, in the platform's own tier."""
    with tenancy.tenant(tenancy.PLATFORM_TENANT_ID):
        api.add_mail_server(
            name="main", host="mail.example.org", port=587, from_address="shop@example.org", daily_send_limit=1000
        )
        template = api.add_mail_template(
            code="order", name="Order confirmation", subject="Order {{ number }}", body_html=HTML, body_mode="HTML"
        )
        api.change_mail_template(template, subject="Your order {{ number }}")
        provider = api.add_sms_provider(
            name="main",
            provider_type="TWILIO",
            api_key="AC" + "0" * 32,
            api_secret="x" * 32,
            sender_number="+14155550100",
        )
        api.add_sms_route(provider, "DE")
        api.add_sms_template(code="code", name="Code", content="Your code is {{ code }}")
        api.add_mailbox(name="bounces", protocol="IMAP", host="mail.example.org", port=993, username="b", password="x")
        api.add_webhook_endpoint(name="shop", url="https://shop.example.org/events")
        api.add_suppression("gone@example.org")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["laptop", "phone"])
def test_every_page_is_readable_and_none_scrolls_sideways(
    open_tab: OpenTab, keep: Keep, engine: Engine, scheme: str, size: str
) -> None:
    whole = _seed(engine)
    tab = open_tab(Role.PLATFORM, color_scheme=scheme, viewport=LAPTOP if size == "laptop" else PHONE)
    _configure()
    pages = {
        "dashboard": "/console/",
        **{path: f"/console/{path}" for path in LISTS},
        "server": "/console/send-servers/1",
        "editor": "/console/mail-templates/1",
        "versions": "/console/mail-templates/1/versions",
        "route-answer": "/console/routes?to=%2B4915112345678",
        "new-token": "/console/tokens/new",
        "import": "/console/suppressions/import",
        "retry-all": "/console/mail/retry-all",
        "mail": "/console/mail",
        "mail-none": "/console/mail?q=nobody@example.org",
        "mail-wrong": "/console/mail?since=yesterday",
        "record": f"/console/mail/{whole}",
        "sms": "/console/sms",
        "confirm": f"/console/mail/{whole}/retry",
        "dead-letters": "/console/dead-letters",
        "dead-letter": "/console/dead-letters/1",
        "audit": "/console/audit",
        "nothing": "/console/mail/999999",
    }
    faults: dict[str, Any] = {}
    for name, path in pages.items():
        tab.goto(path)
        tab.wait_for_load_state("networkidle")
        keep(tab, f"{name}-{size}-{scheme}")
        assert tab.evaluate(WIDER) == [], f"{name} scrolls sideways"
        assert tab.locator("main h1").count() == 1, name
        found = _axe(tab)
        if found:
            faults[name] = found
    assert faults == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_way_in_is_readable(browser: "Browser", address: str, keep: Keep, scheme: str) -> None:
    with browser.new_context(color_scheme=scheme, viewport=LAPTOP, base_url=address) as context:
        tab = context.new_page()
        for name, path in {"sign-in": "/", "link-gone": "/console/link/x"}.items():
            tab.goto(path)
            keep(tab, f"{name}-{scheme}")
            assert _axe(tab) == []
        tab.goto("/")
        tab.fill("#user_name", "nobody")
        tab.fill("#password", "wrong")
        tab.keyboard.press("Enter")
        tab.get_by_role("alert").wait_for()
        assert tab.evaluate("document.activeElement.id") == "password"


def test_a_phone_has_its_menu_and_the_keyboard_its_ways(open_tab: OpenTab, keep: Keep) -> None:
    tab = open_tab(viewport=PHONE)
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the content"
    tab.get_by_role("link", name="Menu").click()
    tab.get_by_role("link", name="Audit log").wait_for()
    keep(tab, "menu-phone")
    tab.get_by_role("link", name="Text messages").click()
    tab.wait_for_url("**/console/sms")
    tab.keyboard.press("/")
    assert tab.evaluate("document.activeElement.id") == "f-q"


def _axe(tab: Any) -> list[str]:
    """What axe-core finds, but for what it cannot tell."""
    import axe_playwright_python

    script = Path(axe_playwright_python.__file__).parent / "axe.min.js"
    # Through the debugger, which the page's policy does not bind.
    tab.evaluate(script.read_text() + "\n;0")
    found = tab.evaluate("axe.run(document, {iframes: false}).then(r => r.violations)")
    return [f"{one['id']} ({one['impact']}): {one['nodes'][0]['html'][:200]}" for one in found]
