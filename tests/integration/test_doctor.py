"""Each finding of the doctor on real servers, and that it ends within seconds whatever is down."""

import re
import runpy
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from cryptography.fernet import Fernet
from sqlalchemy import Engine, text
from typer.core import TyperGroup
from typer.main import get_command

from messaging import doctor, tenancy
from messaging.channels import CHANNELS
from messaging.cli.entry import app
from messaging.clock import utc_now
from messaging.db.session import transaction
from messaging.delivery.dead_letter import DeadLetterMessage
from messaging.delivery.hints import WorkerHints
from messaging.doctor import Finding, Level, brokers, examine
from messaging.embedded import Postgres, Valkey, free_port
from messaging.mail.acceptance import accept_mails
from messaging.mail.mail_request import MAIL_REQUEST
from messaging.mail.models import MailSendServerConfig
from messaging.receive.polling import MAIL_FETCH
from messaging.requests import SendMail, SendSms
from messaging.settings import Settings
from messaging.sms.acceptance import accept_sms
from messaging.sms.models import SmsProviderConfig
from tasks import worker

MakeSettings = Callable[..., Settings]


@pytest.fixture(autouse=True)
def single_tenant() -> Iterator[None]:
    """Whether rows belong to tenants is said for the whole process."""
    before = tenancy._multi_tenancy
    tenancy.use_multi_tenancy(False)
    yield
    tenancy._multi_tenancy = before


@pytest.fixture
def default_server(engine: Engine) -> None:
    with transaction(engine) as session:
        session.add(
            MailSendServerConfig(name="out", host="mail.example.com", port=25, is_default=True, password="s3cret")
        )


@pytest.fixture
def running(redis_client: "redis.Redis") -> None:
    """What beat and a worker leave in Redis."""
    redis_client.set(brokers.BEAT_ALIVE_KEY, int(time.time()))
    for channel in CHANNELS:
        WorkerHints(redis_client, channel, worker_name=f"{channel}@host/1", threads=8).alive()


def look(settings: Settings, check: str, **options: Any) -> Finding:
    return next(finding for finding in examine(settings, **options) if finding.check == check)


def add_record(settings: Settings, engine: Engine, **columns: str) -> None:
    """An accepted mail, its columns then set to SQL expressions."""
    with transaction(engine) as session:
        request = SendMail(to=["ada@example.com"], text_body="hello")
        [record_id] = accept_mails(session, [request], settings=settings, now=utc_now(), single=True)
        sets = ", ".join(f"{name} = {value}" for name, value in columns.items())
        session.execute(text(f"UPDATE mail_send_record SET {sets} WHERE id = :id"), {"id": record_id})


@pytest.mark.usefixtures("default_server", "running")
def test_a_system_that_works_is_all_ok(settings: Settings) -> None:
    findings = examine(settings)
    assert {finding.level for finding in findings} == {Level.OK}
    assert not any(finding.advice for finding in findings)
    assert [finding.check for finding in findings] == [
        "database",
        "server settings",
        "schema",
        "mail: due records",
        "mail: overdue records",
        "mail: stuck sends",
        "sms: due records",
        "sms: overdue records",
        "sms: stuck sends",
        "webhook: due records",
        "webhook: overdue records",
        "webhook: stuck sends",
        "transactions",
        "mailboxes",
        "mail server",
        "SMS provider",
        "webhook endpoints",
        "redis",
        "beat",
        "mail: workers",
        "sms: workers",
        "webhook: workers",
        "broker",
        "queue control",
        "queue mail_send",
        "queue sms_send",
        "queue webhook_send",
        "queue mail_request",
        "queue mail_fetch",
        "queue maintenance",
        "mail requests",
        "fetches",
    ]


@pytest.mark.usefixtures("default_server", "running")
def test_an_endpoint_that_is_gone_and_one_whose_secret_nobody_reads_are_found(
    settings: Settings, engine: Engine
) -> None:
    columns = "tenant_id, name, url, secret, active, gone_at"
    with engine.begin() as connection:
        rows = "(0, 'shop', 'https://a.example', 'x', true, null), (7, 'old', 'https://b.example', 'x', false, now())"
        connection.execute(text(f"INSERT INTO webhook_endpoint ({columns}) VALUES {rows}"))
    found = look(settings, "webhook endpoints")
    assert (found.level, "410" in found.detail, "enable" in found.advice) == (Level.WARN, True, True)
    found = look(settings, "secrets")
    assert (found.level, "webhook endpoint" in found.detail) == (Level.FAIL, True)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM webhook_endpoint WHERE gone_at IS NOT NULL"))
    assert look(settings, "webhook endpoints").detail == "1 are told events"


def test_everything_that_refuses_a_connection_is_found_within_seconds(make_settings: MakeSettings) -> None:
    port = free_port()
    settings = make_settings(
        database_url=f"postgresql://ada:s3cret@127.0.0.1:{port}/x",
        redis_url=f"redis://127.0.0.1:{port}/0",
        broker_url=f"redis://127.0.0.1:{port}/1",
    )
    began = time.monotonic()
    findings = examine(settings)
    assert time.monotonic() - began < 5
    assert [(f.check, f.level) for f in findings] == [(name, Level.FAIL) for name in ("database", "redis", "broker")]
    assert "MESSAGING_DATABASE_URL" in findings[0].advice
    assert "MESSAGING_REDIS_URL" in findings[1].advice
    assert "MESSAGING_BROKER_URL" in findings[2].advice
    assert "s3cret" not in repr(findings)


def test_servers_that_accept_and_never_answer_are_found_within_seconds(make_settings: MakeSettings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        settings = make_settings(
            database_url=f"postgresql://127.0.0.1:{port}/x", redis_url=f"redis://127.0.0.1:{port}/0"
        )
        began = time.monotonic()
        findings = examine(settings)
        assert time.monotonic() - began < doctor.AREA_SECONDS + 2
    assert [(f.check, f.level) for f in findings] == [(name, Level.FAIL) for name in ("database", "redis", "broker")]


def test_a_schema_behind_the_code_names_the_command(postgres: Postgres, make_settings: MakeSettings) -> None:
    postgres.start().create_database("not_migrated")
    try:
        found = look(make_settings(database_url=postgres.url("not_migrated")), "schema")
    finally:
        postgres.drop_database("not_migrated")
    assert found.level is Level.FAIL
    assert "messaging db upgrade" in found.advice


@pytest.mark.usefixtures("redis_client")
def test_a_server_that_may_lose_commits_is_refused(settings: Settings, engine: Engine) -> None:  # I10
    with engine.begin() as connection:
        name = connection.execute(text("SELECT current_database()")).scalar_one()
        connection.execute(text(f"ALTER DATABASE {name} SET synchronous_commit TO off"))
    engine.dispose()
    found = look(settings, "server settings")
    assert found.level is Level.FAIL
    assert "I10" in found.detail


@pytest.mark.usefixtures("redis_client")
def test_no_heartbeat_is_a_failure(settings: Settings) -> None:
    found = look(settings, "beat")
    assert found.level is Level.FAIL
    assert "messaging beat" in found.advice
    assert "--queues control" in found.advice


def test_ticks_without_a_heartbeat_are_a_warning(settings: Settings, redis_client: "redis.Redis") -> None:
    redis_client.hset("msg:dispatch:mail", "begun", repr(time.time() - 1))
    assert look(settings, "beat").level is Level.WARN
    redis_client.hset("msg:dispatch:mail", "begun", repr(time.time() - 60))
    assert look(settings, "beat").level is Level.FAIL


@pytest.mark.usefixtures("redis_client")
def test_a_queue_without_workers_is_a_failure(settings: Settings) -> None:
    found = look(settings, "mail: workers")
    assert found.level is Level.FAIL
    assert "messaging worker --queues mail_send" in found.advice


def test_a_long_queue_is_a_warning(make_settings: MakeSettings, redis_client: "redis.Redis") -> None:
    settings = make_settings(dispatch={"queue_target": 2})
    redis_client.rpush("msg:mail_send", *range(3))
    redis_client.rpush("msg:control", *range(500))
    redis_client.rpush("msg:mail_request", *range(101))
    for queue in ("mail_send", "control", "mail_request"):
        found = look(settings, f"queue {queue}")
        assert found.level is Level.WARN
        assert f"--queues {queue}" in found.advice


def test_mail_requests_that_no_worker_takes_are_a_failure(settings: Settings, redis_client: "redis.Redis") -> None:
    # Whoever publishes none needs no worker for them.
    assert look(settings, "mail requests").level is Level.OK
    redis_client.rpush("msg:mail_request", "one")
    found = look(settings, "mail requests")
    assert found.level is Level.FAIL
    assert "messaging worker --queues mail_request" in found.advice
    WorkerHints(redis_client, MAIL_REQUEST, worker_name="asked@host/1", threads=2).alive()
    found = look(settings, "mail requests")
    assert (found.level, found.detail) == (Level.OK, "mail_request: 1 with 2 threads")


@pytest.mark.usefixtures("redis_client")
def test_a_broker_of_its_own_is_looked_at_by_itself(make_settings: MakeSettings, valkey: Valkey) -> None:
    settings = make_settings(broker_url=f"redis://:wrong@127.0.0.1:{valkey.port}/0")
    findings = {finding.check: finding.level for finding in examine(settings)}
    assert findings["redis"] is Level.OK
    assert findings["broker"] is Level.FAIL


@pytest.mark.usefixtures("redis_client")
def test_a_record_that_is_due_for_long_is_a_warning(settings: Settings, engine: Engine) -> None:
    add_record(settings, engine, next_attempt_at="now() - interval '1 hour'")
    found = look(settings, "mail: due records")
    assert found.level is Level.WARN
    assert "3600 s" in found.detail


@pytest.mark.usefixtures("redis_client")
def test_a_record_that_no_tick_puts_in_line_is_a_failure(settings: Settings, engine: Engine) -> None:
    add_record(
        settings, engine, next_attempt_at="now() - interval '60 seconds'", updated_at="now() - interval '120 seconds'"
    )
    assert look(settings, "mail: overdue records").level is Level.FAIL
    assert look(settings, "mail: due records").level is Level.OK


@pytest.mark.usefixtures("redis_client")
def test_a_claim_that_no_sweep_took_back_is_a_failure(
    settings: Settings, make_settings: MakeSettings, engine: Engine
) -> None:
    add_record(settings, engine, status="'SENDING'", claimed_at="now() - interval '310 seconds'")
    assert look(settings, "mail: stuck sends").level is Level.OK  # the next sweep takes it
    add_record(settings, engine, status="'SENDING'", claimed_at="now() - interval '1 hour'")
    found = look(settings, "mail: stuck sends")
    assert found.level is Level.FAIL
    assert "1 records are SENDING" in found.detail
    off = look(make_settings(sweeper={"enabled": False}), "mail: stuck sends")
    assert "MESSAGING_SWEEPER__ENABLED" in off.advice


@pytest.mark.usefixtures("redis_client")
def test_an_old_transaction_is_a_warning(settings: Settings, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("SELECT count(*) FROM mail_send_record"))
        assert look(settings, "transactions").level is Level.OK
        assert look(settings, "transactions", old_transaction_seconds=0.0).level is Level.WARN


@pytest.mark.usefixtures("redis_client")
def test_no_default_server_is_a_failure(settings: Settings) -> None:
    found = look(settings, "mail server")
    assert found.level is Level.FAIL
    assert "messaging server add" in found.advice


@pytest.mark.usefixtures("redis_client")
def test_tenants_need_a_default_of_the_platform(make_settings: MakeSettings, engine: Engine) -> None:
    settings = make_settings(multi_tenancy=True)
    assert look(settings, "mail server").level is Level.FAIL
    server = {"host": "mail.example.com", "port": 25, "is_default": True}
    for tenant_id, level in ((7, Level.WARN), (tenancy.PLATFORM_TENANT_ID, Level.OK)):
        with tenancy.tenant(tenant_id), transaction(engine) as session:
            session.add(MailSendServerConfig(name="out", **server))
        assert look(settings, "mail server").level is level


@pytest.mark.usefixtures("redis_client")
def test_dead_letters_that_nobody_has_seen_to_are_counted(settings: Settings, engine: Engine) -> None:
    def store(source: str, status: str) -> None:
        with transaction(engine) as session:
            session.add(DeadLetterMessage(source=source, status=status, event_type="x", payload={}))

    store("BROKER_POISON", "RESOLVED")
    store("SEND_EXHAUSTED", "DISCARDED")
    assert "dead letters" not in [finding.check for finding in examine(settings)]
    for source in ("BROKER_POISON", "SEND_EXHAUSTED", "SEND_EXHAUSTED"):
        store(source, "PENDING")
    found = look(settings, "dead letters")
    assert found.level is Level.WARN
    assert found.detail == "pending are 2 sends without attempts left, 1 messages that no worker could process"
    assert "messaging dead-letter list" in found.advice


def test_advice_names_commands_that_there_are() -> None:
    sources = [path.read_text(encoding="utf-8") for path in Path(doctor.__file__).parent.glob("*.py")]
    named = {
        tuple(found.split()) for source in sources for found in re.findall(r"messaging ([a-z-]+(?: [a-z-]+)?)", source)
    }
    there = get_command(app)
    assert isinstance(there, TyperGroup)
    for first, *rest in named:
        group = there.commands.get(first)
        if isinstance(group, TyperGroup) and rest:
            assert rest[0] in group.commands, (first, *rest)


@pytest.mark.usefixtures("redis_client")
def test_a_tenant_whose_mails_fail_is_told_with_what_they_fail_by(settings: Settings, engine: Engine) -> None:
    for _ in range(2):
        add_record(settings, engine, status="'FAILED'", error_code="'SMTP_535_5.7.8'", updated_at="now()")
    add_record(settings, engine, status="'SENT'", updated_at="now()")
    # What somebody wanted, and what is long ago.
    add_record(settings, engine, status="'FAILED'", error_code="'CANCELLED'", updated_at="now()")
    add_record(settings, engine, status="'FAILED'", error_code="'X'", updated_at="now() - interval '2 hours'")
    found = look(settings, "mail: failed sends")
    assert (found.level, found.detail) == (Level.OK, "2 of 3 that ended within the hour")

    add_record(settings, engine, status="'DEAD_LETTER'", error_code="'SMTP_451'", updated_at="now()")
    found = look(settings, "mail: failed sends")
    told = "within the hour failed of tenant 0: 3 of 4, by SMTP_535_5.7.8 (2), SMTP_451 (1)"
    assert (found.level, found.detail) == (Level.WARN, told)
    assert "messaging retry --error CODE" in found.advice


@pytest.mark.usefixtures("redis_client")
def test_a_few_failures_among_many_mails_are_no_warning(settings: Settings, engine: Engine) -> None:
    for _ in range(3):
        add_record(settings, engine, status="'FAILED'", error_code="'SMTP_550'", updated_at="now()")
    for _ in range(12):
        add_record(settings, engine, status="'SENT'", updated_at="now()")
    assert look(settings, "mail: failed sends").level is Level.OK


@pytest.mark.usefixtures("redis_client")
def test_tenants_with_servers_and_no_default_are_named(make_settings: MakeSettings, engine: Engine) -> None:
    settings = make_settings(multi_tenancy=True)
    tenancy.use_multi_tenancy(True)
    for tenant_id, is_default in ((7, True), (8, False), (9, False)):
        with tenancy.tenant(tenant_id), transaction(engine) as session:
            session.add(MailSendServerConfig(name="out", host="h", port=25, is_default=is_default))
    with tenancy.tenant(10), transaction(engine) as session:
        session.add(MailSendServerConfig(name="off", host="h", port=25, is_default=True, active=False))
    found = look(settings, "mail server")
    assert found.level is Level.WARN
    assert found.detail.endswith("1 tenants have one of their own, with servers but no default are 8, 9")
    assert "--tenant -1" in found.advice


@pytest.mark.usefixtures("redis_client", "default_server")
def test_a_password_that_no_key_decrypts_is_a_failure(make_settings: MakeSettings) -> None:
    settings = make_settings(secrets_keys=(Fernet.generate_key().decode(),))
    found = look(settings, "secrets")
    assert found.level is Level.FAIL
    assert "MESSAGING_SECRETS_KEYS" in found.advice
    assert "s3cret" not in repr(found)


@pytest.mark.usefixtures("redis_client", "default_server")
def test_a_dkim_key_of_a_disabled_server_that_no_key_decrypts_is_told(settings: Settings, engine: Engine) -> None:
    with transaction(engine) as session:
        server = MailSendServerConfig(name="off", host="h", port=25, active=False)
        session.add(server)
        session.flush()
        config_id = server.id
        session.execute(text(f"UPDATE mail_send_server_config SET dkim_private_key = 'lost' WHERE id = {config_id}"))
    assert f"decrypts the DKIM key of mail server {config_id}" in look(settings, "secrets").detail


def test_keys_in_redis_are_those_of_the_workers(
    monkeypatch: pytest.MonkeyPatch, database_url: str, valkey: Valkey, secrets_key: str
) -> None:
    monkeypatch.setenv("MESSAGING_DATABASE_URL", database_url)
    monkeypatch.setenv("MESSAGING_REDIS_URL", valkey.url)
    monkeypatch.setenv("MESSAGING_SECRETS_KEYS", secrets_key)
    celery = runpy.run_path(str(Path(worker.__file__).parents[1] / "celeryconfig.py"))
    assert celery["broker_transport_options"]["global_keyprefix"] == brokers.BROKER_KEY_PREFIX


@pytest.mark.usefixtures("default_server", "running")
def test_text_messages_without_worker_provider_or_readable_secret_are_told(
    settings: Settings, engine: Engine, redis_client: "redis.Redis"
) -> None:
    redis_client.flushall()
    found = look(settings, "sms: workers")
    assert (found.level, found.advice) == (Level.WARN, "start: messaging worker --queues sms_send")
    assert look(settings, "SMS provider").level is Level.OK
    with transaction(engine) as session:
        session.add(SmsProviderConfig(name="a", provider_type="TWILIO", api_key="k", api_secret="s"))
    assert look(settings, "SMS provider").level is Level.WARN
    with transaction(engine) as session:
        session.execute(text("UPDATE sms_provider_config SET is_default = true, api_secret = 'nonsense'"))
    assert look(settings, "SMS provider").level is Level.OK
    assert "the API secret of SMS provider 1" in look(settings, "secrets").detail


@pytest.mark.usefixtures("default_server", "running")
def test_a_text_message_that_no_sweep_took_back_is_a_failure(settings: Settings, engine: Engine) -> None:
    with transaction(engine) as session:
        [record_id] = accept_sms(
            session,
            [SendSms(phone_number="+4915112345678", content="hello")],
            settings=settings,
            now=utc_now(),
            single=True,
        )
        session.execute(
            text(
                "UPDATE sms_send_record SET status = 'SENDING', claimed_at = now() - interval '1 hour' WHERE id = :id"
            ),
            {"id": record_id},
        )
    assert look(settings, "sms: stuck sends").level is Level.FAIL
    assert look(settings, "mail: stuck sends").level is Level.OK


@pytest.mark.usefixtures("default_server", "running")
def test_a_public_address_that_is_missed_is_told(make_settings: MakeSettings, engine: Engine) -> None:
    settings = make_settings()
    add_record(settings, engine, unsubscribe_list="NULL")
    assert "public address" not in {finding.check for finding in examine(settings)}
    with transaction(engine) as session:
        session.add(SmsProviderConfig(name="a", provider_type="TWILIO", api_key="k", api_secret="s"))
    found = look(settings, "public address")
    assert (found.level, "MESSAGING_PUBLIC_BASE_URL" in found.advice) == (Level.WARN, True)
    add_record(settings, engine, unsubscribe_list="'news'")
    found = look(settings, "public address")
    assert (found.level, "unsubscribe links" in found.detail) == (Level.FAIL, True)
    settings = make_settings(public_base_url="https://mail.example.com")
    assert "public address" not in {finding.check for finding in examine(settings)}


# -- mailboxes


def add_polled(engine: Engine, **columns: str) -> int:
    """A mailbox that was added a day ago, fetched every five minutes and due in one; its columns as SQL expressions."""
    given = {
        "tenant_id": "0",
        "name": "'in'",
        "protocol": "'IMAPS'",
        "host": "'imap.example.com'",
        "port": "993",
        "updated_at": "now() - interval '1 day'",
        "next_fetch_at": "now() + interval '1 minute'",
        **columns,
    }
    statement = text(
        f"INSERT INTO mail_receive_server_config ({', '.join(given)}) VALUES ({', '.join(given.values())}) RETURNING id"
    )
    with engine.begin() as connection:
        return int(connection.execute(statement).scalar_one())


def add_watermark(engine: Engine, config_id: int, **columns: str) -> None:
    given = {"tenant_id": "0", "server_config_id": str(config_id), "folder_name": "'INBOX'", **columns}
    statement = text(f"INSERT INTO mail_fetch_imap_watermark ({', '.join(given)}) VALUES ({', '.join(given.values())})")
    with engine.begin() as connection:
        connection.execute(statement)


def test_mailboxes_that_are_polled_and_read_are_well(settings: Settings, engine: Engine) -> None:
    config_id = add_polled(engine)
    add_watermark(engine, config_id, last_fetched_at="now() - interval '4 minutes'")
    add_polled(engine, updated_at="now()", next_fetch_at="NULL")
    add_polled(engine, active="false", next_fetch_at="now() - interval '1 hour'")
    assert look(settings, "mailboxes: due").detail == "2 are polled, and none waits for a tick"
    finding = look(settings, "mailboxes: fetched")
    assert finding.level is Level.OK
    assert finding.detail.startswith("the last fetch ended at 20")


@pytest.mark.parametrize("columns", [{"next_fetch_at": "now() - interval '10 minutes'"}, {"next_fetch_at": "NULL"}])
def test_a_mailbox_that_no_tick_takes_is_told(settings: Settings, engine: Engine, columns: dict[str, str]) -> None:
    add_polled(engine)
    add_polled(engine, **columns)
    finding = look(settings, "mailboxes: due")
    assert finding.level is Level.FAIL
    assert finding.detail.startswith("1 of 2 are due and no tick took them, the longest for ")
    assert "beat" in finding.advice


@pytest.mark.parametrize(
    "watermark",
    [
        None,
        {"last_fetched_at": "now() - interval '20 minutes'"},
        {"last_fetched_at": "now() - interval '20 minutes'", "in_progress_since": "now() - interval '2 hours'"},
    ],
)
def test_a_mailbox_that_no_fetch_reads_is_told(
    settings: Settings, engine: Engine, watermark: dict[str, str] | None
) -> None:
    config_id = add_polled(engine)
    if watermark is not None:
        add_watermark(engine, config_id, **watermark)
    finding = look(settings, "mailboxes: fetched")
    assert finding.level is Level.WARN
    assert f": {config_id} (for " in finding.detail
    assert f"messaging mailbox test {config_id} says why" in finding.advice


def test_a_mailbox_that_is_being_read_is_no_failure(settings: Settings, engine: Engine) -> None:
    config_id = add_polled(engine)
    add_watermark(
        engine,
        config_id,
        last_fetched_at="now() - interval '30 minutes'",
        in_progress_since="now() - interval '10 minutes'",
    )
    assert look(settings, "mailboxes: fetched").level is Level.OK


def test_a_mailbox_whose_password_nobody_can_read_is_told(settings: Settings, engine: Engine) -> None:
    config_id = add_polled(engine, password="'no ciphertext'")
    finding = look(settings, "secrets")
    assert f"the password of mailbox {config_id}" in finding.detail
    assert "messaging mailbox change ID" in finding.advice


def test_fetches_that_no_worker_takes_are_told(settings: Settings, redis_client: "redis.Redis") -> None:
    assert look(settings, "fetches").level is Level.OK
    redis_client.lpush("msg:mail_fetch", "a message")
    finding = look(settings, "fetches")
    assert (finding.level, finding.detail) == (Level.FAIL, "no worker takes mail_fetch, and 1 wait there")
    WorkerHints(redis_client, MAIL_FETCH, worker_name="fetch@host/1", threads=16).alive()
    assert look(settings, "fetches").detail == "mail_fetch: 1 with 16 threads"


def test_sandbox_mode_is_told_of_and_in_production_warned_of(make_settings: MakeSettings) -> None:
    kept = make_settings(sandbox={"mode": "capture"})
    assert look(kept, "sandbox") == Finding(
        "sandbox", Level.OK, "SANDBOX__MODE is capture: every message is kept and sent to nobody"
    )
    found = look(make_settings(env="production", sandbox={"mode": "allowlist", "allow": ("example.com",)}), "sandbox")
    assert (found.level, "SANDBOX__MODE=off" in found.advice) == (Level.WARN, True)
    assert "sandbox" not in {finding.check for finding in examine(make_settings())}


def test_who_takes_the_nightly_run_is_asked_once_there_is_an_age(
    make_settings: MakeSettings, redis_client: "redis.Redis"
) -> None:
    assert "pruning" not in {finding.check for finding in examine(make_settings())}
    settings = make_settings(retention={"bodies_days": 30})
    redis_client.lpush("msg:maintenance", "a message")
    found = look(settings, "pruning")
    assert (found.level, found.detail) == (Level.FAIL, "no worker takes maintenance, and 1 wait there")


def test_a_night_that_was_left_out_is_found(make_settings: MakeSettings, engine: Engine) -> None:
    settings = make_settings(retention={"bodies_days": 30})
    assert "pruning runs" not in {finding.check for finding in examine(make_settings())}
    assert "no night's run so far" in look(settings, "pruning runs").detail
    with engine.begin() as connection:
        rows = "('nightly', now() - interval '5 h', null), ('bodies/mail', now() - interval '5 h', null)"
        connection.execute(text(f"INSERT INTO prune_progress (kind, started_at, finished_at) VALUES {rows}"))
    found = look(settings, "pruning runs")
    assert (found.level, found.detail) == (
        Level.OK,
        "the last night's run began 5 h ago; the next goes on with bodies/mail",
    )
    with engine.begin() as connection:
        connection.execute(text("UPDATE prune_progress SET started_at = now() - interval '40 h', finished_at = now()"))
    found = look(settings, "pruning runs")
    assert (found.level, found.detail) == (Level.WARN, "the last night's run began 40 h ago")
