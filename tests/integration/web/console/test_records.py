"""Pages of records as a browser without a script gets them: lists, one record, what is done to it, what it says."""

import html
import json
import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from sqlalchemy import Engine, text
from starlette.testclient import TestClient

from messaging import api, tenancy
from messaging.access.roles import Role
from messaging.web.console import asking
from messaging.web.console.app import HEADERS
from tests.integration.web.console import stories
from tests.integration.web.console.conftest import Browse

STATUSES = ("PENDING", "SENDING", "SENT", "RETRY", "FAILED", "DEAD_LETTER")
MARKUP = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}\u202e"


def ids_of(page: str) -> list[int]:
    """Ids of the records that a list shows, in order."""
    return [int(found) for found in re.findall(r'class="c-id num"><a href="/console/[\w-]+/(\d+)', page)]


def link(page: str, word: str) -> str:
    """Where a link of the pager leads."""
    found = re.search(rf'href="([^"]+)"[^>]*>[‹ ]*{word}', page)
    assert found, word
    return html.unescape(found[1])


def test_a_list_shows_every_status_and_a_retry_where_there_may_be_one(browse: Browse, engine: Engine) -> None:
    browser = browse()
    ids = {status: stories.mail(engine, status=status, said="550 no") for status in STATUSES}

    page = browser.get("/console/mail").text

    assert ids_of(page) == sorted(ids.values(), reverse=True)
    for status, record_id in ids.items():
        assert (f"/console/mail/{record_id}/retry" in page) == (status in ("RETRY", "FAILED", "DEAD_LETTER"))
        assert ids_of(browser.get(f"/console/mail?status={status.lower()}").text) == [record_id]
        assert browser.get(f"/console/mail/{record_id}").status_code == 200
    counts = browser.get("/console/mail/counts?status=FAILED").text
    assert re.findall(r'<span class="n">([^<]+)</span>', counts) == ["1"] * 6


def test_pages_lead_down_and_up_again_with_the_filter_kept(
    browse: Browse, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "SIZE", 3)
    browser = browse()
    ids = [stories.mail(engine, status="FAILED", said="no") for _ in range(8)][::-1]
    stories.mail(engine, status="SENT")

    shown, address = [], "?status=FAILED"
    for _ in range(3):
        page = browser.get(f"/console/mail{address}").text
        shown.append(ids_of(page))
        if len(shown) < 3:
            address = link(page, "Older")
            assert ("status", "FAILED") in parse_qsl(urlsplit(address).query)
    assert shown == [ids[:3], ids[3:6], ids[6:]]
    assert "Older ›" not in page

    up = browser.get(f"/console/mail{link(page, 'Newer')}").text
    assert ids_of(up) == ids[3:6]
    # Above the second page stand just three: the first page again, with nothing above it.
    top = browser.get(f"/console/mail{link(up, 'Newer')}").text
    assert ids_of(top) == ids[:3]
    assert "‹ Newer" not in top


def test_a_record_is_found_by_whatever_names_it(browse: Browse, engine: Engine) -> None:
    browser = browse()
    record_id = stories.mail(engine, status="SENT", idempotency_key="order-4711")
    stories.mail(engine, to=["bea@example.org"])
    for query in (
        str(record_id),
        f"<{record_id}@x.example>",
        f"{record_id}@x.example",
        "order-4711",
        "ANN@example.org",
    ):
        assert ids_of(browser.get("/console/mail", params={"q": query}).text) == [record_id], query
    for query in ("order-4712", "99999999", "9" * 40, "nobody@example.org", "\x00", "é" * 600, "%", "' OR 1=1 --"):
        answer = browser.get("/console/mail", params={"q": query})
        assert (answer.status_code, ids_of(answer.text)) == (200, []), query
    assert ids_of(browser.get("/console/mail", params={"q": str(record_id), "status": "FAILED"}).text) == []

    sms_id = stories.sms(engine, status="SENT", idempotency_key="code-1")
    for query in (str(sms_id), "+4915112345678", "code-1"):
        assert ids_of(browser.get("/console/sms", params={"q": query}).text) == [sms_id], query


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("since=yesterday", "Since (UTC) is not a time"),
        ("until=9999-12-31T23:59:59-14:00", "Until (UTC) is not a time"),
        ("server=x", "Server is not an id"),
        ("server=9223372036854775808", "Server is not an id"),
        ("status=GONE", "cannot be read"),
        ("before=x", "cannot be read"),
        ("after=%00%ff", "cannot be read"),
        ("template=%00", "Template is not a text"),
        ("error=" + "x" * 600, "Error code is not a text"),
    ],
)
def test_a_filter_that_cannot_be_read_is_told_beside_its_field(browse: Browse, query: str, told: str) -> None:
    answer = browse().get(f"/console/mail?{query}")
    assert answer.status_code == 200
    assert told in html.unescape(answer.text)
    assert "a filter above cannot be read" in answer.text


def test_ids_that_no_row_has_are_no_page(browse: Browse) -> None:
    # web-01
    browser = browse(Role.PLATFORM)
    for record_id in ("2147483648", "9223372036854775807", "9223372036854775808", "9" * 30, "0", "-1", "x", "1%00"):
        for path in ("", "/retry", "/cancel", "/html", "/source", "/files/0"):
            assert browser.get(f"/console/mail/{record_id}{path}").status_code == 404, (record_id, path)
        assert browser.get(f"/console/dead-letters/{record_id}").status_code == 404
        assert browser.post(f"/console/sms/{record_id}/retry").status_code in (404, 405)
    for path in ("/console/nothing", "/console/fax", "/console/mail/1/files/-1", "/console/static/console.css"):
        answer = browser.get(path)
        assert answer.status_code == 404
        assert "Nothing here" in answer.text


def test_a_tenant_sees_itself_alone_and_the_platform_all(browse: Browse, engine: Engine) -> None:
    ours = stories.mail(engine, 7, status="FAILED", subject="property-of-7", said="property-of-7")
    theirs = stories.mail(
        engine, 8, status="FAILED", subject="property-of-8", said="property-of-8", attachments=[stories.attachment()]
    )
    browser = browse(Role.TENANT_ADMIN)
    for path in ("/mail?tenant=8", "/mail", f"/mail?q={theirs}", "/mail/counts?tenant=8", "/audit?tenant=8"):
        answer = browser.get(f"/console{path}")
        assert answer.status_code == 200
        assert "property-of-8" not in answer.text
        assert f"/{theirs}" not in answer.text
    for path in ("", "/retry", "/cancel", "/html", "/source", "/files/0"):
        assert browser.get(f"/console/mail/{theirs}{path}").status_code == 404
    for path in ("retry", "cancel"):
        assert browser.post(f"/console/mail/{theirs}/{path}").status_code == 404

    platform = browse(Role.PLATFORM)
    assert ids_of(platform.get("/console/mail").text) == [theirs, ours]
    assert ids_of(platform.get("/console/mail?tenant=8").text) == [theirs]
    assert "property-of-8" in platform.get(f"/console/mail/{theirs}").text
    assert platform.get(f"/console/mail/{theirs}/files/0").content.startswith(b"%PDF")
    requeued = platform.post(f"/console/mail/{theirs}/retry", data={"back": "tenant=8"})
    assert requeued.headers["location"] == "/console/mail?tenant=8"
    assert "is requeued" in platform.get("/console/mail?tenant=8").text
    with tenancy.tenant(8):
        assert [entry.action for entry in api.list_audit_entries()] == ["retry"]


def test_actions_answer_what_really_became_of_it(browse: Browse, engine: Engine) -> None:
    browser = browse()

    def told(record_id: int, action: str, back: str = "") -> str:
        answer = browser.post(f"/console/mail/{record_id}/{action}", data={"back": back})
        assert answer.status_code == 303
        page = browser.get(answer.headers["location"]).text
        found = re.search(r'class="notice (?:done|refused)">([^<]+)<', page)
        assert found
        # It is said once.
        assert found[0] not in browser.get(answer.headers["location"]).text
        return html.unescape(found[1])

    waiting, sent = stories.mail(engine, status="RETRY", said="450 later"), stories.mail(engine, status="SENT")
    assert told(waiting, "retry", "-") == f"Mail {waiting} is requeued and due now."
    assert told(waiting, "cancel").startswith(f"Mail {waiting}: It is ")
    assert told(waiting, "retry") == f"Mail {waiting} was not requeued: was cancelled; accept it anew."
    assert told(sent, "retry") == f"Mail {sent} was not requeued: is SENT."
    assert told(sent, "cancel") == f"Mail {sent}: Nothing was changed: it is sent."
    assert browser.get(f"/console/mail/{sent}/retry").status_code == 409
    forged = browser.post(f"/console/mail/{sent}/retry", data={"back": "https://evil.example/?x=%0d%0aA:1"})
    assert forged.headers["location"] == "/console/mail"


def test_every_text_of_a_stranger_is_text(browse: Browse, engine: Engine) -> None:
    # security sec-03
    record_id = stories.mail(
        engine,
        status="FAILED",
        subject=MARKUP,
        said=MARKUP,
        text_body=MARKUP,
        template_variables={MARKUP: MARKUP},
        attachments=[stories.attachment(name="><script>alert(1)</script>.html")],
        idempotency_key=MARKUP[:50],
    )
    sms_id = stories.sms(engine, status="FAILED", said=MARKUP, content=MARKUP)
    letter = stories.dead_letter(engine, record_id, error=MARKUP, event=MARKUP)
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE send_attempt SET worker_name = :m, error_code = :m, category = 'UNKNOWN'"), {"m": MARKUP}
        )
        connection.execute(text("UPDATE mail_send_record SET error_code = :m, message_id = :m"), {"m": MARKUP})
        connection.execute(
            text("""
                INSERT INTO audit_log
                    (tenant_id, actor, actor_name, action, target_type, target_id, before, after, note)
                VALUES (7, 'operator:1', :m, 'change', 'mail_send_record', 1, CAST(:j AS jsonb), CAST(:j AS jsonb), :m)
            """),
            {"m": MARKUP, "j": json.dumps({MARKUP: MARKUP})},
        )
    browser, platform = browse(), browse(Role.PLATFORM)
    asked = {"params": {"q": MARKUP, "error": MARKUP, "template": MARKUP, "since": MARKUP}}
    answers = [
        *(
            browser.get(f"/console{path}")
            for path in ("/mail", f"/mail/{record_id}", f"/mail/{record_id}/retry", "/sms")
        ),
        browser.get(f"/console/sms/{sms_id}"),
        browser.get("/console/audit"),
        browser.get("/console/mail", **asked),
        platform.get("/console/dead-letters"),
        platform.get(f"/console/dead-letters/{letter}"),
        platform.get(f"/console/dead-letters/{letter}/discard"),
        platform.get("/console/dead-letters", params={"event": MARKUP, "channel": MARKUP, "tenant": MARKUP}),
        browser.get(f"/console/{MARKUP}"),
    ]
    for answer in answers:
        assert "<script>alert" not in answer.text, answer.url
        assert "<img src=x" not in answer.text, answer.url
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert not re.search(r'\s(style|on\w+)="', answer.text), answer.url
    assert "alert(1)" in answers[1].text


def test_files_are_saved_and_never_shown(browse: Browse, engine: Engine) -> None:
    name = '..\\..\\évil\r\n"; x=.html'
    record_id = stories.mail(
        engine,
        status="SENT",
        html_body='<p>hello</p><img src="cid:logo"><img src="https://tracker.example/x.png">',
        attachments=[
            stories.attachment(name=name.replace("\r\n", ""), content=b"<script>1</script>", content_type="text/html"),
            stories.attachment(name="logo.png", content=stories.PNG, content_type="image/png", content_id="logo"),
        ],
    )
    browser = browse()

    file = browser.get(f"/console/mail/{record_id}/files/0")
    assert file.content == b"<script>1</script>"
    assert file.headers["content-type"] == "application/octet-stream"
    assert file.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
    assert not set('\r\n"/\\') & set(file.headers["content-disposition"].partition("''")[2])
    assert browser.get(f"/console/mail/{record_id}/files/2").status_code == 404

    frame = browser.get(f"/console/mail/{record_id}/html")
    assert 'src="data:image/png;base64,iVBOR' in frame.text
    policy = frame.headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'; img-src data:")
    assert frame.headers["x-frame-options"] == "SAMEORIGIN"
    alone = browser.get(f"/console/mail/{record_id}/html", headers={"sec-fetch-dest": "document"})
    assert alone.headers["location"] == f"/console/mail/{record_id}"

    source = browser.get(f"/console/mail/{record_id}/source")
    assert source.headers["content-type"] == "text/plain; charset=utf-8"
    assert "Subject: Your order is on its way" in source.text
    assert (
        browser.get(f"/console/mail/{record_id}/source?download=true").headers["content-disposition"].endswith(".eml")
    )
    assert browser.get(f"/console/mail/{stories.mail(engine)}/source").status_code == 409


def test_dead_letters_are_settled_once(browse: Browse, engine: Engine) -> None:
    # operate.md O34
    letters = [stories.dead_letter(engine, None, error=f"no {number}") for number in range(2)]
    platform = browse(Role.PLATFORM)
    assert ids_of(platform.get("/console/dead-letters?status=PENDING").text) == letters[::-1]

    target = f"/console/dead-letters/{letters[0]}"
    assert platform.post(f"{target}/resolve", data={"remark": "x" * 3001}).status_code == 422
    assert platform.post(f"{target}/resolve", data={"remark": "<b>seen to</b>"}).headers["location"] == target
    page = platform.get(target).text
    assert "is resolved." in page
    assert "&lt;b&gt;seen to" in page
    platform.post(f"{target}/discard")
    assert "Nothing was changed" in platform.get(target).text
    assert platform.get(f"{target}/discard").status_code == 409
    assert ids_of(platform.get("/console/dead-letters?status=PENDING").text) == letters[1:]


def test_the_audit_log_tells_what_was_done_page_by_page(
    browse: Browse, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "SIZE", 2)
    browser = browse()
    ids = [stories.mail(engine, status="FAILED", said="no") for _ in range(5)]
    for record_id in ids:
        browser.post(f"/console/mail/{record_id}/retry")

    def done_to(page: str) -> list[int]:
        return [int(found) for found in re.findall(r'href="/console/mail/(\d+)">Mail send record', page)]

    first = browser.get("/console/audit?action=retry").text
    second = browser.get(f"/console/audit{link(first, 'Older')}").text
    third = browser.get(f"/console/audit{link(second, 'Older')}").text
    assert [done_to(page) for page in (first, second, third)] == [ids[:2:-1], ids[2:0:-1], ids[:1]]
    assert done_to(browser.get(f"/console/audit{link(third, 'Newer')}").text) == ids[2:0:-1]
    assert done_to(browser.get(f"/console/audit{link(second, 'Newer')}").text) == ids[:2:-1]
    assert "<del>FAILED</del> → <ins>RETRY</ins>" in first
    assert done_to(browser.get(f"/console/audit?object=mail_send_record&id={ids[0]}").text) == ids[:1]


def test_assets_are_kept_for_good_under_the_name_of_their_content(browse: Browse) -> None:
    page = browse(None).get("/console/sign-in").text
    paths = re.findall(r'(?:href|src)="(/console/static/[^"]+)"', page)
    assert len(set(paths)) == 3
    for path in paths:
        answer = browse(None).get(path)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]


def test_while_the_database_is_away_the_page_says_so(browse: Browse, engine: Engine, postgres: object) -> None:
    browser: TestClient = browse()
    engine.dispose()
    postgres.stop()  # type: ignore[attr-defined]
    try:
        answer = browser.get("/console/mail")
    finally:
        postgres.start()  # type: ignore[attr-defined]
    assert answer.status_code == 503
    assert "The database does not answer" in answer.text
    assert int(answer.headers["retry-after"]) > 0
