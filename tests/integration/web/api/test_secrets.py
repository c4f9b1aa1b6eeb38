"""No answer of the API, no probe and no log line holds a secret of a configuration, a caller or the settings."""

import logging

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import Engine
from starlette.types import ASGIApp

from messaging import logs, tenancy
from messaging.access.models import Operator
from messaging.access.roles import Role
from messaging.db.engine import create_engine
from messaging.db.session import transaction
from messaging.mail.models import MailSendServerConfig
from messaging.receive.models import MailReceiveServerConfig
from messaging.sms.models import SmsProviderConfig
from messaging.webhooks.models import WebhookEndpoint
from tests.conftest import MakeSettings
from tests.integration.web.api import samples
from tests.integration.web.api.conftest import MakeClient, OpenApi
from tests.integration.web.api.rows import ROWS
from tests.integration.web.api.samples import OPERATIONS

SECRET = "s3cret"
STREAMS = frozenset({"hear_my_inbox"})


@pytest.fixture
def ids(app: ASGIApp, engine: Engine) -> list[int]:
    """Rows of tenant 7 that hold a secret wherever they may."""
    with tenancy.tenant(7), transaction(engine) as session:
        rows = [
            MailSendServerConfig(
                name="a",
                protocol="SMTP",
                host="127.0.0.1",
                port=1,
                username="u",
                password=SECRET,
                dkim_domain="example.org",
                dkim_selector="s",
                dkim_private_key=SECRET,
            ),
            MailReceiveServerConfig(name="a", protocol="IMAP", host="127.0.0.1", port=1, username="u", password=SECRET),
            SmsProviderConfig(
                name="a",
                provider_type="TWILIO",
                api_key="k",
                api_secret=SECRET,
                account_id="AC1",
                ext_config={"password": SECRET},
                # Part of an address that administrators are told on purpose.
                receipt_token="address",
            ),
            WebhookEndpoint(name="a", url="https://127.0.0.1/", secret=f"whsec_{SECRET}"),
            Operator(user_name="ann", role=Role.VIEWER, password_hash=SECRET),
        ]
        session.add_all(rows)
        session.flush()
        return sorted({row.id for row in rows} | {make(session) for make in ROWS.values()})


# operate.md O60
def test_no_answer_shows_a_secret_that_a_row_holds(client: MakeClient, ids: list[int]) -> None:
    admin = client(Role.TENANT_ADMIN, 7, user_id=12)

    leaking = []
    for operation in OPERATIONS:
        if Role.TENANT_ADMIN not in operation.roles or operation.method == "DELETE" or operation.name in STREAMS:
            continue
        for row_id in ids if operation.has_id else ids[:1]:
            answer = admin.request(
                operation.method,
                operation.at(row_id),
                params=samples.query(operation, row_id),
                json=samples.body(operation, row_id),
            )
            if SECRET in answer.text:
                leaking.append(f"{operation.method} {operation.path}: {answer.text[:300]}")

    assert leaking == []


# web/admin web-03; operate.md O60
def test_neither_probes_nor_errors_nor_logs_show_a_secret_of_the_settings(
    open_api: OpenApi, make_settings: MakeSettings, client: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = Fernet.generate_key().decode()
    away = make_settings(
        database_url=f"postgresql://app:{SECRET}@127.0.0.1:1/x",
        redis_url=f"redis://:{SECRET}@127.0.0.1:1/1",
        secrets_keys=(key,),
        database={"connect_timeout_seconds": 1},
    )
    engine = create_engine(away)
    app = open_api(
        engine=engine,
        database_url=away.database_url,
        redis_url=away.redis_url,
        secrets_keys=(key,),
        database={"connect_timeout_seconds": 1},
    )
    caller = client(None, app=app)

    token = {"authorization": "Bearer msg_" + SECRET * 7 + "a"}
    answers = [
        caller.get("/healthz"),
        caller.get("/readyz"),
        caller.get("/metrics"),
        caller.get("/api/v1/openapi.json"),
        caller.get("/api/v1/me", headers=token),
        caller.get("/api/v1/mail/messages", headers=token),
        caller.post("/api/v1/session", json={"user_name": "ann", "password": SECRET * 3}),
        caller.post("/api/v1/session", json={"user_name": "ann", "password": [SECRET]}),
        caller.post("/api/v1/session", json={"user_name": "ann", SECRET: SECRET, "password": SECRET}),
    ]
    engine.dispose()

    assert [one.status_code for one in answers[4:7]] == [503, 503, 503]
    shown = logs.formatter()
    told = [one.text for one in answers[:8]] + [shown.format(record) for record in caplog.records]
    assert [one for one in told if SECRET in one or key in one] == []
