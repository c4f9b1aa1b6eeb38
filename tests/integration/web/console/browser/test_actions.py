"""What operators do, by a browser with its script; and what hostile mails do: nothing."""

import re

import pytest
from sqlalchemy import Engine, text

from messaging.access.roles import Role
from tests.integration.web.console import stories
from tests.integration.web.console.browser.conftest import Keep, OpenTab

#: One browser for both files, in one process.
pytestmark = pytest.mark.xdist_group("browser")

HOSTILE = """<h1 id="shown">shown</h1><style>#shown { color: rgb(1, 2, 3) }</style>
<script>document.title = "ran"; top.ran = 1; fetch("/console/mail")</script>
<img src="/probe-image" onerror="top.ran = 1"><iframe src="/probe-frame"></iframe>
<form action="/probe-form" method="post"><button id="go">go</button></form>
<meta http-equiv="refresh" content="0; url=/probe-refresh"><a id="out" href="/probe-link" target="_top">out</a>"""


def test_a_retry_is_asked_for_in_a_dialog_and_the_list_keeps_its_filter(
    open_tab: OpenTab, keep: Keep, engine: Engine
) -> None:
    failed = stories.mail(engine, status="FAILED", said="550 no")
    stories.mail(engine, status="SENT")
    tab = open_tab()
    tab.click(".chip.s-failed")
    tab.wait_for_url("**/console/mail?status=FAILED")
    assert tab.locator("tbody tr").count() == 1
    assert tab.locator(".chip.s-failed .n").inner_text() == "1"

    tab.click(f"tbody a[href*='/{failed}/retry']")
    dialog = tab.locator("dialog")
    dialog.get_by_role("heading", name=f"Retry mail {failed}?").wait_for()
    keep(tab, "dialog-retry")
    tab.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert tab.evaluate("document.activeElement.textContent").startswith("Retry")
    assert _status(engine, failed) == "FAILED"

    tab.keyboard.press("Enter")
    dialog.get_by_role("button", name="Retry").click()
    tab.get_by_text(f"Mail {failed} is requeued and due now.").wait_for()
    keep(tab, "notice")
    assert tab.url.endswith("/console/mail?status=FAILED")
    assert tab.get_by_text("No mail matches.").is_visible()
    assert _status(engine, failed) == "RETRY"


def test_a_cancel_that_comes_too_late_says_so(open_tab: OpenTab, engine: Engine) -> None:
    record_id = stories.mail(engine)
    tab = open_tab()
    tab.goto(f"/console/mail/{record_id}")
    tab.get_by_role("link", name="Cancel…").click()
    dialog = tab.locator("dialog")
    dialog.get_by_role("button", name="Cancel it").wait_for()
    # The dangerous answer is not the one that Enter gives.
    assert tab.evaluate("document.activeElement.textContent") == "Leave it"
    with engine.begin() as connection:
        moved = "UPDATE mail_send_record SET status = 'SENT', sent_at = now(), version = version + 1 WHERE id = :id"
        connection.execute(text(moved), {"id": record_id})

    dialog.get_by_role("button", name="Cancel it").click()

    tab.get_by_text(f"Mail {record_id}: Nothing was changed: it is sent.").wait_for()
    assert _status(engine, record_id) == "SENT"


def test_a_dead_letter_is_settled_with_a_remark(open_tab: OpenTab, engine: Engine) -> None:
    letter = stories.dead_letter(engine, None, error="no such thing")
    tab = open_tab(Role.PLATFORM)
    tab.goto("/console/dead-letters")
    tab.get_by_role("link", name=f"Resolve… dead letter {letter}").click()
    tab.fill("dialog textarea", "seen to")
    tab.get_by_role("button", name="Resolve", exact=True).click()
    tab.get_by_text(f"Dead letter {letter} is resolved.").wait_for()
    assert tab.get_by_text("seen to", exact=True).is_visible()


def test_a_record_that_moves_is_shown_where_it_is_and_stays_in_place(open_tab: OpenTab, engine: Engine) -> None:
    record_id = stories.mail(engine)
    tab = open_tab()
    tab.goto(f"/console/mail/{record_id}")
    tab.locator("details summary", has_text="Text").click()
    with engine.begin() as connection:
        moved = "UPDATE mail_send_record SET status = 'SENT', sent_at = now(), version = version + 1 WHERE id = :id"
        connection.execute(text(moved), {"id": record_id})

    tab.locator(".why .s-sent").wait_for()

    assert tab.get_by_role("link", name="Cancel…").count() == 0
    assert tab.locator("#record").get_attribute("data-every") is None


@pytest.mark.parametrize("script", [True, False], ids=["with-script", "without-script"])
def test_colours_are_remembered_with_a_script_and_without(open_tab: OpenTab, script: bool) -> None:
    tab = open_tab(java_script_enabled=script, color_scheme="light")
    tab.get_by_role("button", name="Dark").click()
    tab.goto("/console/audit")
    assert tab.locator("html").get_attribute("data-theme") == "dark"


def test_all_of_it_works_without_a_script(open_tab: OpenTab, engine: Engine) -> None:
    failed = stories.sms(engine, status="FAILED", said="unreachable")
    tab = open_tab(java_script_enabled=False)
    tab.goto("/console/sms")
    tab.fill("#f-q", "+4915112345678")
    tab.get_by_role("button", name="Find").click()
    tab.click(f"tbody a[href*='/{failed}/retry']")
    tab.get_by_role("button", name="Retry").click()
    tab.get_by_text(f"Text message {failed} is requeued and due now.").wait_for()
    assert "q=%2B4915112345678" in tab.url


def test_hostile_html_is_shown_in_its_frame_and_does_nothing(open_tab: OpenTab, keep: Keep, engine: Engine) -> None:
    # security sec-03, for bodies
    record_id = stories.mail(engine, html_body=HOSTILE, status="SENT")
    tab = open_tab()
    answered: list[str] = []
    # What the policy blocks is announced as a request, and never answered.
    tab.on("response", lambda response: answered.append(response.url))
    tab.goto(f"/console/mail/{record_id}")
    frame = tab.frame_locator("iframe.mail")
    frame.locator("#shown").wait_for()
    assert frame.locator("#shown").evaluate("e => getComputedStyle(e).color") == "rgb(1, 2, 3)"
    frame.locator("#go").click()
    frame.locator("#out").click()
    tab.wait_for_load_state("networkidle")
    keep(tab, "hostile-mail")
    assert not [address for address in answered if "probe" in address]
    assert tab.evaluate("[window.ran, document.title]")[0] is None
    assert tab.url.endswith(f"/console/mail/{record_id}")


def test_markup_in_any_text_is_text(open_tab: OpenTab, keep: Keep, engine: Engine) -> None:
    # security sec-03
    markup = "<img src=x onerror=document.title='ran'><script>document.title='ran'</script>"
    record_id = stories.mail(engine, status="FAILED", subject=markup, said=markup, template_variables={"a": markup})
    tab = open_tab()
    faults: list[str] = []
    tab.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    for path in ("", f"/{record_id}", f"/{record_id}/retry", f"?q={record_id}", "?error=%3Cimg+src%3Dx%3E"):
        tab.goto(f"/console/mail{path}")
        tab.wait_for_load_state("networkidle")
        assert tab.locator("main img, main script, aside img").count() == 0
        assert not re.search("^ran", tab.title())
    tab.goto(f"/console/mail/{record_id}")
    assert tab.locator("h1").inner_text().endswith(markup)
    keep(tab, "markup")
    # The pages keep the policy that they are sent with.
    assert [fault for fault in faults if "Content Security Policy" in fault or "404" not in fault] == []


def _status(engine: Engine, record_id: int) -> str:
    with engine.connect() as connection:
        found = connection.execute(text("SELECT status FROM mail_send_record WHERE id = :id"), {"id": record_id})
        return str(found.scalar_one())
