"""Mail servers and mailboxes over HTTP: senders, the default, a test of the connection, changes that workers see.

operate.md section 9: O6, O16, O61.
"""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import redis
from sqlalchemy import Engine

from messaging import api, rate_limit, tenancy
from messaging.access.roles import Role
from messaging.clock import boot_seconds, utc_now
from messaging.embedded import free_port
from messaging.mail.channel import MailChannel
from messaging.mail.smtp import SmtpTransport
from messaging.tenancy import tenant
from messaging.web.limits import Limits
from tests.far_end.pop3_server import GREETING, ScriptedPop3Server
from tests.far_end.smtp_server import ScriptedSmtpServer
from tests.integration.delivery.desk import Desk
from tests.integration.web.api.conftest import MakeClient, OpenApi

SERVERS, BOXES = "/api/v1/mail/send-servers", "/api/v1/mail/receive-servers"
GIVEN = {"name": "out", "host": "127.0.0.1", "from_address": "shop@example.org"}
BOX = {"name": "in", "host": "127.0.0.1", "protocol": "POP3", "username": "ann", "password": "secret"}


@pytest.fixture
def smtp() -> Iterator[ScriptedSmtpServer]:
    with ScriptedSmtpServer() as server:
        yield server


def test_senders_are_offered_to_whoever_sends(client: MakeClient) -> None:
    admin = client(Role.TENANT_ADMIN)
    second = admin.post(SERVERS, json=GIVEN | {"port": 25, "sequence": 2}).json()
    first = admin.post(SERVERS, json=GIVEN | {"port": 25, "sequence": 1, "is_default": True}).json()
    admin.post(SERVERS, json=GIVEN | {"port": 25, "active": False})
    senders = client(Role.SENDER).get("/api/v1/mail/senders").json()["items"]
    assert client(Role.VIEWER).get("/api/v1/mail/senders").json()["items"] == senders
    assert [one["id"] for one in senders] == [first["id"], second["id"]]
    assert senders[0] == {
        "id": first["id"],
        "name": "out",
        "from_address": "shop@example.org",
        "from_name": None,
        "is_default": True,
    }


@pytest.mark.parametrize(("path", "given"), [(SERVERS, GIVEN), (BOXES, BOX)], ids=["server", "mailbox"])
def test_the_default_moves_also_away_from_a_disabled_one(
    client: MakeClient, path: str, given: dict[str, object]
) -> None:
    admin = client(Role.TENANT_ADMIN)  # O16
    first = admin.post(path, json=given | {"port": 25, "is_default": True}).json()["id"]
    assert admin.patch(f"{path}/{first}", json={"active": False}).json()["is_default"] is True
    refused = admin.post(f"{path}/{first}/default")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    second = admin.post(path, json=given | {"port": 25}).json()["id"]
    assert admin.post(f"{path}/{second}/default").json()["is_default"] is True
    third = admin.post(path, json=given | {"port": 25, "is_default": True}).json()["id"]
    rows = admin.get(path, params={"active": "all"}).json()["items"]
    assert {row["id"]: row["is_default"] for row in rows} == {first: False, second: False, third: True}


def test_a_disabled_server_is_tried_without_sending_anything(client: MakeClient, smtp: ScriptedSmtpServer) -> None:
    admin = client(Role.TENANT_ADMIN)
    server_id = admin.post(SERVERS, json=GIVEN | {"port": smtp.port, "active": False}).json()["id"]
    came = admin.post(f"{SERVERS}/{server_id}/test").json()
    assert (came["success"], came["error_message"]) == (True, None)
    assert came["server_greeting"].startswith("220 ")
    assert came["latency_ms"] >= 0
    assert smtp.messages == []
    admin.patch(f"{SERVERS}/{server_id}", json={"port": free_port()})
    came = admin.post(f"{SERVERS}/{server_id}/test").json()
    assert (came["success"], came["server_greeting"]) == (False, None)
    assert came["error_message"]
    assert client(Role.OPERATOR).post(f"{SERVERS}/{server_id}/test").status_code == 403
    assert client(Role.TENANT_ADMIN, tenant=8).post(f"{SERVERS}/{server_id}/test").status_code == 404
    platforms = client(Role.PLATFORM).post(SERVERS, json=GIVEN | {"port": smtp.port}).json()["id"]
    assert admin.post(f"{SERVERS}/{platforms}/test").status_code == 403  # O6


def test_a_mailbox_is_tried_and_says_how_far_it_was_read(client: MakeClient) -> None:
    admin = client(Role.TENANT_ADMIN)
    with ScriptedPop3Server([]) as server:
        mailbox_id = admin.post(BOXES, json=BOX | {"port": server.port}).json()["id"]
        came = admin.post(f"{BOXES}/{mailbox_id}/test").json()
        assert came == {
            "success": True,
            "latency_ms": came["latency_ms"],
            "server_greeting": GREETING,
            "error_message": None,
            "missing_folders": [],
        }
        with tenant(7):
            assert api.fetch_new_mails(int(mailbox_id)) == 0
    (folder,) = client(Role.VIEWER).get(f"{BOXES}/{mailbox_id}/watermarks").json()["items"]
    assert (folder["folder_name"], folder["in_progress_since"]) == ("INBOX", None)
    assert folder["last_fetched_at"].endswith("Z")
    other = client(Role.TENANT_ADMIN, tenant=8)
    assert other.get(f"{BOXES}/{mailbox_id}/watermarks").status_code == 404


def test_what_is_saved_over_http_is_used_by_the_next_attempt_a_second_later(
    open_api: OpenApi, client: MakeClient, engine: Engine, smtp: ScriptedSmtpServer
) -> None:
    app = open_api(multi_tenancy=False)  # O61
    admin = client(Role.TENANT_ADMIN, tenant=0, app=app)
    server_id = admin.post(SERVERS, json=GIVEN | {"port": smtp.port, "is_default": True}).json()["id"]
    settings = api.environment().settings
    assert settings.config_cache_ttl_seconds == 1
    assert not tenancy.is_multi_tenancy()
    transport = SmtpTransport(settings.mail.transport, ehlo_name="worker.example.org", ticker=boot_seconds)
    desk = Desk(
        engine,
        settings,
        lambda engine, settings, ticker: MailChannel(engine, settings, transport, clock=utc_now, ticker=ticker),
        smtp,
    )
    try:
        smtp.refuse_rcpt("450 later", times=1)
        waiting = desk.records.one()
        assert desk.deliver(waiting) == {"retry": 1}
        with ScriptedSmtpServer() as moved:
            admin.patch(f"{SERVERS}/{server_id}", json={"port": moved.port, "from_address": "new@example.org"})
            desk.ticker.ahead += 1.0
            assert desk.deliver(waiting, desk.records.one()) == {"sent": 2}
            assert sorted(message.sender for message in moved.messages) == ["new@example.org", "shop@example.org"]
    finally:
        desk.close()
        transport.close_all()


def test_what_is_taken_of_a_servers_windows_is_told_to_who_reads(
    client: MakeClient, open_api: OpenApi, redis_client: redis.Redis
) -> None:
    server_id = client(Role.TENANT_ADMIN).post(SERVERS, json=GIVEN | {"port": 25, "daily_send_limit": 5}).json()["id"]
    windows = rate_limit.connect(api.environment().settings, clock=utc_now)
    windows.take("mail", 7, int(server_id), daily=5, per_minute=None, has_place=False)
    windows.close()
    path = f"{SERVERS}/{server_id}/windows"
    told = client(Role.VIEWER).get(path).json()
    assert told in (
        {"daily_send_limit": 5, "sent_this_day": sent, "rate_limit_per_minute": None, "sent_this_minute": 0}
        for sent in (0, 1)  # 0 where midnight has come in between
    )
    assert client(Role.VIEWER, tenant=8).get(path).status_code == 404
    away = client(Role.VIEWER, app=open_api(redis_url=f"redis://127.0.0.1:{free_port()}/0"))
    answer = away.get(path)
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")


def test_servers_that_say_nothing_leave_threads_for_everybody_else(open_api: OpenApi, client: MakeClient) -> None:
    app = open_api(options={"limits": Limits(threads=8)})
    admins = [client(Role.TENANT_ADMIN, tenant=tenant, app=app) for tenant in (7, 8, 9)]
    with ThreadPoolExecutor(2) as pool, ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        given = GIVEN | {"port": silent.getsockname()[1]}
        tests = [f"{SERVERS}/{one.post(SERVERS, json=given).json()['id']}/test" for one in admins]
        hanging = []
        for admin, test in zip(admins[:2], tests[:2], strict=True):
            hanging.append(pool.submit(admin.post, test))
            stack.enter_context(silent.accept()[0])
        # One tenant has one of the two that all may have.
        refused = [admins[0].post(tests[0]), admins[2].post(tests[2])]
    assert [one.status_code for one in refused] == [429, 429]
    assert refused[0].headers["retry-after"] == "5"
    assert [one.result().json()["success"] for one in hanging] == [False, False]
    assert admins[2].post(tests[2]).status_code == 200
