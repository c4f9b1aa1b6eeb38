"""The rest of the house: received mail, suppressions, captured messages, quotas, deliveries, operators and tokens."""

import re

import pytest
from sqlalchemy import Engine, text

from messaging import api, tenancy
from messaging.access.roles import Role
from tests.integration.web.console import stories
from tests.integration.web.console.conftest import Browse

HOSTILE = '"><script>alert(1)</script>{{7*7}}'
SHOWN = "&lt;script&gt;alert(1)&lt;/script&gt;"


def received(engine: Engine, tenant: int = 7, **columns: object) -> int:
    """A mail that was fetched."""
    given = {
        "tenant_id": tenant,
        "server_config_id": 1,
        "folder_name": "INBOX",
        "subject": HOSTILE,
        "from_address": "ann@example.org",
        "from_name": HOSTILE,
        "body_text": HOSTILE,
        "body_html": f"<p>{HOSTILE}</p>",
        "status": "UNREAD",
        "mail_type": "NORMAL",
        "message_id": f"<{HOSTILE}{tenant}@example.org>",
        **columns,
    }
    with engine.begin() as connection:
        existing = connection.execute(
            text(
                "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'mail_receive_record'"
                " AND is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO'"
            )
        )
        fillers = {"timestamp with time zone": "2030-01-31T08:00:00Z", "jsonb": "[]", "bigint": 1, "integer": 1}
        for name, kind in existing:
            given.setdefault(name, fillers.get(kind, "x"))
        names = ", ".join(given)
        values = ", ".join(f":{name}" for name in given)
        statement = text(f"INSERT INTO mail_receive_record ({names}) VALUES ({values}) RETURNING id")
        return int(connection.execute(statement, given).scalar_one())


def test_received_mail_is_listed_shown_and_marked_and_runs_nothing(browse: Browse, engine: Engine) -> None:
    mail = received(engine)
    received(engine, 8, subject="another tenant's")
    browser = browse(Role.OPERATOR)
    shown = browser.get("/console/received").text
    assert SHOWN in shown
    assert "<script>alert" not in shown
    assert "another tenant" not in shown
    one = browser.get(f"/console/received/{mail}").text
    assert "<script>alert" not in one
    assert "sandbox" in one
    frame = browser.get(f"/console/received/{mail}/html", headers={"sec-fetch-dest": "iframe"})
    assert frame.headers["content-security-policy"].startswith("sandbox")
    assert browser.post(f"/console/received/{mail}/read").status_code == 303
    assert browser.post(f"/console/received/{mail}/read").status_code == 303
    assert "somebody was there before" in browser.get(f"/console/received/{mail}").text
    assert browser.post(f"/console/received/{mail}/archive").status_code == 303
    assert SHOWN in browser.get("/console/received?status=ARCHIVED").text
    assert "No mail matches" in browser.get("/console/received?status=READ").text
    assert browse(Role.OPERATOR, 8).get(f"/console/received/{mail}").status_code == 404
    assert browse(Role.VIEWER).post(f"/console/received/{mail}/read").status_code == 403
    assert browser.get("/console/received?type=NOTHING&before=-1").status_code == 200


def test_an_entry_is_added_lifted_with_a_reason_and_a_file_is_looked_at_first(browse: Browse) -> None:
    browser = browse(Role.TENANT_ADMIN)
    given = {"address": "gone@example.org", "channel": "mail", "reason": "MANUAL", "note": HOSTILE}
    assert browser.post("/console/suppressions/new", data=given).status_code == 303
    wrong = browser.post("/console/suppressions/new", data=given | {"address": HOSTILE})
    assert wrong.status_code == 422
    assert "<script>alert" not in wrong.text
    shown = browser.get("/console/suppressions").text
    assert "gone@example.org" in shown
    assert "<script>alert" not in shown
    assert "Lift" in browser.get("/console/suppressions/1/lift").text
    assert browser.post("/console/suppressions/1/lift", data={"remark": " "}).status_code == 422
    assert browser.post("/console/suppressions/1/lift", data={"remark": "asked us to"}).status_code == 303
    assert "Nothing here yet" in browser.get("/console/suppressions").text
    assert "asked us to" in browser.get("/console/suppressions?lifted=yes").text
    assert "gone@example.org" in browser.get("/console/suppressions.csv").text
    file = {"file": ("list.csv", "address\nnew@example.org\nnew@example.org\n", "text/csv")}
    looked = browser.post("/console/suppressions/import", files=file)
    assert "would add <b>1</b>" in looked.text
    assert "new@example.org" not in browser.get("/console/suppressions").text
    sure = {"sure": "yes", "text": "address\nnew@example.org\n", "channel": "mail", "reason": ""}
    assert browser.post("/console/suppressions/import", data=sure).status_code == 303
    assert "new@example.org" in browser.get("/console/suppressions").text
    bad = {"file": ("list.csv", "address\nnobody\n", "text/csv")}
    assert browser.post("/console/suppressions/import", files=bad).status_code == 422
    assert browse(Role.VIEWER).post("/console/suppressions/2/lift", data={"remark": "x"}).status_code == 403
    assert browse(Role.OPERATOR).post("/console/suppressions/new", data=given).status_code == 403
    assert browse(Role.OPERATOR, 8).post("/console/suppressions/2/lift", data={"remark": "x"}).status_code == 404


def test_operators_are_added_changed_and_let_in_by_nobody_who_may_less(browse: Browse) -> None:
    admin = browse(Role.TENANT_ADMIN)
    given = {"user_name": "bea", "role": "OPERATOR", "password": "", "display_name": HOSTILE}
    added = admin.post("/console/operators/new", data=given)
    path = added.headers["location"]
    assert "<script>alert" not in admin.get("/console/operators").text
    assert admin.post(path, data={"role": "VIEWER", "display_name": "Bea"}).status_code == 303
    assert "Viewer" in admin.get("/console/operators").text
    assert admin.post(path, data={"role": "PLATFORM"}).status_code == 403
    assert admin.post("/console/operators/new", data=given | {"role": "PLATFORM"}).status_code == 403
    assert admin.post("/console/operators/new", data=given | {"user_name": "b b"}).status_code == 422
    assert admin.post("/console/operators/new", data=given).status_code == 422
    link = re.search(r'class="once">([^<]+)<', admin.post(f"{path}/link").text)
    assert link is not None
    entered = browse(None).post(link[1].removeprefix("http://testserver"))
    assert entered.status_code == 303
    assert admin.post(f"{path}/disable").status_code == 303
    assert path not in admin.get("/console/operators").text
    assert "is disabled" in admin.get(admin.post(f"{path}/link").headers["location"]).text
    assert admin.post(f"{path}/enable").status_code == 303
    assert browse(Role.TENANT_ADMIN, 8).get(path).status_code == 404
    assert browse(Role.OPERATOR).get("/console/operators").status_code == 403


def test_a_token_is_shown_once_and_ends_when_it_is_revoked(browse: Browse) -> None:
    admin = browse(Role.TENANT_ADMIN)
    made = admin.post(
        "/console/tokens/new", data={"name": HOSTILE, "role": "SENDER", "expires_at": "2099-01-31T08:00:00Z"}
    )
    secret = re.search(r'class="once">([^<]+)<', made.text)
    assert secret is not None
    listed = admin.get("/console/tokens").text
    assert secret[1] not in listed
    assert "<script>alert" not in listed
    assert "2099-01-31" in listed
    assert admin.post("/console/tokens/new", data={"name": "x", "role": "PLATFORM"}).status_code == 403
    assert (
        admin.post("/console/tokens/new", data={"name": "x", "role": "SENDER", "expires_at": "soon"}).status_code == 422
    )
    assert browse(Role.TENANT_ADMIN, 8).post("/console/tokens/1/revoke").status_code == 404
    assert admin.post("/console/tokens/1/revoke").status_code == 303
    assert "Nothing here yet" in admin.get("/console/tokens").text
    assert "Revoked" in admin.get("/console/tokens?active=all").text


def test_captured_messages_are_read_like_mail_and_deleted_at_once(browse: Browse, engine: Engine) -> None:
    raw = (
        f"From: a@example.org\r\nTo: b@example.org\r\nSubject: x\r\nContent-Type: text/html\r\n\r\n<p>{HOSTILE}</p>\r\n"
    )
    insert = text(
        "INSERT INTO captured_message (tenant_id, channel, record_id, recipients, subject, raw, content)"
        " VALUES (:t, :c, :r, CAST(:to AS jsonb), :s, :raw, :content)"
    )
    with engine.begin() as connection:
        for number, (tenant, channel) in enumerate(((7, "mail"), (7, "sms"), (8, "mail")), 1):
            is_mail = channel == "mail"
            connection.execute(
                insert,
                {
                    "t": tenant,
                    "c": channel,
                    "r": number,
                    "to": '["b@example.org"]',
                    "s": HOSTILE if is_mail else None,
                    "raw": raw.encode() if is_mail else None,
                    "content": None if is_mail else HOSTILE,
                },
            )
    browser = browse(Role.TENANT_ADMIN)
    shown = browser.get("/console/captured").text
    assert SHOWN in shown
    assert shown.count('class="c-to"') == 3  # the head and two of three
    for one in (1, 2):
        page = browser.get(f"/console/captured/{one}").text
        assert "<script>alert" not in page
    frame = browser.get("/console/captured/1/html", headers={"sec-fetch-dest": "iframe"})
    assert frame.headers["content-security-policy"].startswith("sandbox")
    assert browser.get("/console/captured/1/source").content == raw.encode()
    assert browser.get("/console/captured/3").status_code == 404
    assert browse(Role.OPERATOR).post("/console/captured/clear").status_code == 403
    browser.post("/console/captured/clear")
    assert "2 captured messages deleted" in browser.get("/console/captured").text


def test_the_platform_keeps_quotas_and_a_tenant_sees_its_use(browse: Browse, engine: Engine) -> None:
    platform, viewer = browse(Role.PLATFORM), browse(Role.VIEWER)
    limits = {"tenant_id": "7", "mail_monthly_limit": "100", "sms_monthly_limit": ""}
    assert platform.post("/console/quotas/limits/new", data=limits).status_code == 303
    assert platform.post("/console/quotas/limits/new", data=limits).status_code == 422
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO tenant_message_usage (tenant_id, period, mail_used, sms_used) VALUES"
                " (7, to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM'), 85, 3), (7, '2025-01', 12, 0)"
            )
        )
    shown = viewer.get("/console/quotas").text
    assert "85 / 100" in shown
    assert "15 left" in shown
    assert "2025-01" in shown
    assert "85 / 100" in platform.get("/console/quotas?tenant=7").text
    assert "85 / 100" in viewer.get("/console/quotas?tenant=8").text  # that is not read
    assert viewer.get("/console/quotas/limits").status_code == 403
    assert browse(Role.TENANT_ADMIN).post("/console/quotas/limits/1/delete").status_code == 403
    assert platform.get("/console/quotas/limits?tenant_id=7").status_code == 200


@pytest.mark.parametrize("status", ["FAILED", "SENT"])
def test_a_delivery_is_shown_and_told_again_where_it_failed(browse: Browse, engine: Engine, status: str) -> None:
    browser = browse(Role.TENANT_ADMIN)
    with tenancy.tenant(7):
        endpoint = api.add_webhook_endpoint(name=HOSTILE[:50], url="https://shop.example.org/events")
        delivery = api.try_webhook_endpoint(endpoint.id)
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE webhook_send_record SET status = :s, error_message = :e, prepared_at = now()"),
            {"s": status, "e": HOSTILE},
        )
    shown = browser.get("/console/webhooks").text
    assert "<script>alert" not in shown
    one = browser.get(f"/console/webhooks/{delivery}").text
    assert "<script>alert" not in one
    assert ("Retry…" in one) is (status == "FAILED")
    asked = browser.get(f"/console/webhooks/{delivery}/retry")
    assert asked.status_code == (200 if status == "FAILED" else 409)
    done = browser.post(f"/console/webhooks/{delivery}/retry")
    words = "is requeued" if status == "FAILED" else "Nothing was changed"
    assert words in browser.get(done.headers["location"]).text
    assert browse(Role.OPERATOR, 8).get(f"/console/webhooks/{delivery}").status_code == 404


def test_what_is_about_a_record_is_linked_both_ways(browse: Browse, engine: Engine) -> None:
    record = stories.mail(engine, status="FAILED")
    mail = received(engine, mail_type="BOUNCE", bounce_kind="HARD", link_status="LINKED", linked_send_record_id=record)
    browser = browse(Role.VIEWER)
    assert f"/console/mail/{record}" in browser.get(f"/console/received/{mail}").text
    assert f"/console/received/{mail}" in browser.get(f"/console/mail/{record}").text
