"""The audit log: what operators do to rows is there, without secrets, once; nothing in it ever changes."""

import io
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, inspect, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

import messaging
from messaging import api, audit, suppression, tenancy
from messaging.access.models import ApiToken, Operator
from messaging.audit import AUDIT_LOG, AuditEntry, Noted, trail
from messaging.audit.noted import is_secret
from messaging.audit.noting import MAX_TEXT_CHARS
from messaging.audit.trail import AuditLine
from messaging.clock import utc_now
from messaging.db.base import Base
from messaging.errors import StateError, TemplateRejected
from messaging.mail.models import MAIL_TEMPLATE, MailSendServerConfig, MailTemplate
from messaging.settings import Settings
from messaging.tenancy import PLATFORM_TENANT_ID, Context

SERVER: dict[str, Any] = {"name": "relay", "host": "smtp.example.com", "port": 587, "from_address": "shop@example.com"}

OPERATOR = Context(
    tenant_id=7,
    user_id=12,
    user_name="Ann",
    actor="operator:5",
    request_id="request-1",
    trace_id="0af7651916cd43dd8448eb211c80319c",
)


@pytest.fixture
def session(settings: Settings, engine: Engine, unconfigured: None) -> Iterator[Session]:
    """Of an operator of tenant 7."""
    api.configure(settings.model_copy(update={"multi_tenancy": True}), engine=engine)
    with tenancy.acting_as(OPERATOR), Session(engine) as session:
        yield session


def entries(session: Session, **wanted: Any) -> list[AuditLine]:
    """Oldest first."""
    return trail.page(session, **wanted)[::-1]


def actions(session: Session) -> list[tuple[str, str, int | None]]:
    return [(line.action, line.target_type, line.target_id) for line in entries(session)]


# Rows


def test_a_new_row_is_noted_with_who_added_it_and_without_its_secrets(session: Session) -> None:
    server = messaging.add_mail_server(**SERVER, username="shop", password="s3cret", session=session)
    [line] = entries(session)
    assert (line.action, line.target_type, line.target_id) == ("create", "mail_send_server_config", server)
    assert (line.tenant_id, line.actor, line.actor_name) == (7, "operator:5", "Ann")
    assert (line.request_id, line.trace_id) == ("request-1", "0af7651916cd43dd8448eb211c80319c")
    assert line.before is None
    assert line.after is not None
    assert line.after.items() >= {"host": "smtp.example.com", "port": 587, "password": "***", "active": True}.items()
    assert "dkim_private_key" not in line.after
    assert timedelta(0) <= utc_now() - line.at < timedelta(minutes=5)


def test_a_change_is_noted_as_its_difference(session: Session) -> None:
    server = messaging.add_mail_server(**SERVER, session=session)
    messaging.change_mail_server(server, port=465, name="relay", password="s3cret", session=session)
    line = entries(session)[-1]
    assert (line.action, line.before, line.after) == ("update", {"port": 587}, {"port": 465, "password": "***"})


def test_what_changes_nothing_is_not_noted(session: Session) -> None:
    server = messaging.add_mail_server(**SERVER, session=session)
    messaging.change_mail_server(server, port=587, session=session)
    messaging.set_mail_server_active(server, True, session=session)
    assert [action for action, *_ in actions(session)] == ["create"]


def test_switches_have_words_of_their_own(session: Session) -> None:
    server = messaging.add_mail_server(**SERVER, session=session)
    messaging.set_mail_server_active(server, False, session=session)
    messaging.set_mail_server_active(server, True, session=session)
    messaging.set_default_mail_server(server, session=session)
    assert [action for action, *_ in actions(session)] == ["create", "disable", "enable", "set default"]


def test_a_deleted_row_is_noted_as_it_was(session: Session) -> None:
    provider = messaging.add_sms_provider(
        name="CM", provider_type="CM", api_key="s3cret", sender_id="Shop", session=session
    )
    route = messaging.add_sms_route(provider, "DE", session=session)
    messaging.remove_sms_route(route, session=session)
    line = entries(session)[-1]
    assert (line.action, line.target_type, line.target_id, line.after) == (
        "delete",
        "sms_provider_region",
        route,
        None,
    )
    assert line.before is not None
    assert line.before.items() >= {"region_code": "DE", "provider_config_id": provider}.items()


def test_of_a_long_text_the_beginning_and_the_hash_are_kept(session: Session) -> None:
    row = MailTemplate(code="a", name="A", subject="s", body_html="x" * 10_000, active=True)
    session.add(row)
    session.flush()
    shown = (entries(session)[-1].after or {})["body_html"]
    assert shown.startswith("x" * MAX_TEXT_CHARS + "… (10000 characters, SHA-256 ")
    assert len(shown) < MAX_TEXT_CHARS + 150


def test_credentials_in_an_address_are_left_out(session: Session) -> None:
    audit.note(session, "update", MAIL_TEMPLATE, 1, after={"url": "https://ann:s3cret@example.com/a@b"})
    assert entries(session)[-1].after == {"url": "https://***@example.com/a@b"}


def test_what_is_rolled_back_is_not_noted(session: Session) -> None:
    server = messaging.add_mail_server(**SERVER, session=session)
    session.commit()
    with pytest.raises(TemplateRejected):
        messaging.add_sms_template(code="x", name="X", content="{{ open", session=session)
    messaging.set_mail_server_active(server, False, session=session)
    session.rollback()
    assert actions(session) == [("create", "mail_send_server_config", server)]


def columns(cls: type[Any]) -> set[str]:
    return {column.name for column in cls.__table__.c}


def secrets_by_name(cls: type[Any]) -> set[str]:
    words = ("password", "secret", "token", "key", "hash")
    return {name for name in columns(cls) if any(word in name for word in words)}


#: In the same order in every process that shares the tests: the mappers are a set.
NOTED: list[type[Any]] = sorted(
    (mapper.class_ for mapper in Base.registry.mappers if issubclass(mapper.class_, Noted)),
    key=lambda cls: cls.__name__,
)


@pytest.mark.parametrize("cls", NOTED, ids=lambda cls: cls.__name__)
def test_no_column_that_is_called_like_a_secret_is_shown(cls: type[Any]) -> None:  # O60
    unnoted: frozenset[str] = cls.unnoted
    assert [n for n in secrets_by_name(cls) - unnoted if not is_secret(cls.__table__.c[n])] == []
    assert unnoted | set(cls.noted_as) <= columns(cls)


def test_every_table_that_operators_keep_is_noted() -> None:
    assert {cls.__tablename__ for cls in NOTED} == {
        "api_token",
        "mail_receive_server_config",
        "mail_send_server_config",
        "mail_template",
        "operator",
        "sms_provider_config",
        "sms_provider_region",
        "sms_template",
        "sms_template_provider_binding",
        "tenant_message_quota",
        "webhook_endpoint",
    }


@pytest.mark.parametrize(
    ("row", "column", "value", "action", "after"),
    [
        (
            ApiToken(name="t", token_hash="h", prefix="msg_abc", role="SENDER"),
            "revoked_at",
            "2030-01-31T08:00:00+00:00",
            "revoke",
            {"revoked_at": "2030-01-31T08:00:00+00:00"},
        ),
        (Operator(user_name="ann", role="VIEWER"), "password_hash", "argon2", "set password", {"password_hash": "***"}),
    ],
    ids=["revoke", "set password"],
)
def test_a_column_may_have_a_word_of_its_own(
    session: Session, row: Any, column: str, value: str, action: str, after: dict[str, str]
) -> None:
    session.add(row)
    session.flush()
    setattr(row, column, datetime.fromisoformat(value) if column == "revoked_at" else value)
    session.flush()
    line = entries(session)[-1]
    assert (line.action, line.after) == (action, after)
    row.last_used_at = row.last_signed_in_at = utc_now()
    session.flush()
    assert entries(session)[-1].id == line.id
    session.expunge_all()


# Statements


def test_suppressions_are_noted_when_put_on_lifted_and_imported(session: Session) -> None:
    entry = messaging.add_suppression("Ann <ann@Example.org>", note="asked", session=session)
    messaging.add_suppression("ann@example.org", session=session)
    messaging.lift_suppression(entry, note="asked again", session=session)
    messaging.lift_suppression(entry, note="asked again", session=session)
    messaging.import_suppressions(io.StringIO("address\nb@example.org\nc@example.org\n"), name="old", session=session)
    messaging.import_suppressions(io.StringIO("address\nd@example.org\n"), dry_run=True, session=session)
    assert [(line.action, line.target_id, line.after, line.note) for line in entries(session)] == [
        ("create", entry, {"channel": "mail", "address": "ann@example.org", "reason": "MANUAL"}, "asked"),
        ("lift", entry, {"lifted": True}, "asked again"),
        ("import", None, {"file": "old", "added": 2}, None),
    ]


def test_what_the_recipient_or_a_bounce_suppresses_is_no_operators_action(session: Session) -> None:
    suppression.add(session, channel="mail", address="ann@example.org", reason="HARD_BOUNCE")
    assert entries(session) == []


def test_quota_limits_are_in_the_platforms_log(session: Session) -> None:
    platform = replace(OPERATOR, tenant_id=PLATFORM_TENANT_ID)
    with tenancy.acting_as(platform):
        messaging.set_quota_limits(7, mail=10, session=session)
        messaging.set_quota_limits(7, mail=10, session=session)
        messaging.set_quota_limits(7, mail=20, sms=None, session=session)
        found = entries(session)
    assert [(line.action, line.before, line.after) for line in found] == [
        ("create", None, {"tenant_id": 7, "mail_monthly_limit": 10}),
        (
            "update",
            {"tenant_id": 7, "mail_monthly_limit": 10},
            {"tenant_id": 7, "mail_monthly_limit": 20},
        ),
    ]
    assert entries(session) == []


def test_retries_and_cancels_are_noted_where_they_took_effect(session: Session) -> None:
    one, two, sent = messaging.send_mail_batch(
        [messaging.SendMail(to=["a@example.com"], subject="s", text_body="t")] * 3, session=session
    )
    connection = session.connection()
    connection.execute(
        text("UPDATE mail_send_record SET status = 'FAILED', retry_count = 5, error_code = 'SMTP_550' WHERE id = :id"),
        {"id": one},
    )
    connection.execute(text("UPDATE mail_send_record SET status = 'SENT' WHERE id = :id"), {"id": sent})
    messaging.retry(one, session=session)
    with pytest.raises(StateError):
        messaging.retry(sent, session=session)
    messaging.retry_batch([two, sent], session=session)
    messaging.cancel(two, session=session)
    messaging.cancel(two, session=session)
    messaging.cancel(sent, session=session)
    assert [(line.action, line.target_id, line.before, line.after) for line in entries(session)] == [
        (
            "retry",
            one,
            {"status": "FAILED", "error_code": "SMTP_550", "retry_count": 5},
            {"status": "RETRY", "retry_count": 6},
        ),
        (
            "retry",
            two,
            {"status": "PENDING", "error_code": None, "retry_count": 0},
            {"status": "RETRY", "retry_count": 0},
        ),
        ("cancel", two, {"status": "RETRY"}, {"status": "FAILED", "answer": "cancelled"}),
    ]


def test_across_tenants_an_entry_is_in_the_log_of_the_rows_tenant(session: Session) -> None:
    record = messaging.send_mail(to=["a@example.com"], subject="s", text_body="t", session=session)
    with tenancy.acting_as(Context(actor="command line", user_name="root")), tenancy.all_tenants():
        messaging.cancel(record, session=session)
    [line] = entries(session)
    assert (line.tenant_id, line.actor, line.actor_name, line.action) == (7, "command line", "root", "cancel")


# Who, and whose


def test_without_an_operator_the_application_acts_or_its_user(session: Session) -> None:
    with tenancy.acting_as(Context(tenant_id=7)):
        messaging.add_mail_server(**SERVER, session=session)
    with tenancy.acting_as(Context(tenant_id=7, user_id=9, user_name="Ben")):
        messaging.add_mail_server(**SERVER, session=session)
    assert [(line.actor, line.actor_name) for line in entries(session)] == [
        ("application", None),
        ("user:9", "Ben"),
    ]


def test_a_tenant_sees_its_own_log_alone(session: Session) -> None:
    messaging.add_mail_server(**SERVER, session=session)
    with tenancy.tenant(8):
        assert messaging.list_audit_entries(session=session) == []
    with tenancy.tenant(PLATFORM_TENANT_ID):
        assert messaging.list_audit_entries(session=session) == []
    with tenancy.all_tenants():
        assert len(messaging.list_audit_entries(session=session)) == 1


def test_the_log_is_narrowed_and_paged(session: Session) -> None:
    first = messaging.add_mail_server(**SERVER, session=session)
    second = messaging.add_mail_server(**SERVER, session=session)
    messaging.set_mail_server_active(first, False, session=session)
    listed = messaging.list_audit_entries(session=session)
    assert [(line.action, line.target_id) for line in listed] == [
        ("disable", first),
        ("create", second),
        ("create", first),
    ]
    below = messaging.list_audit_entries(limit=1, before=listed[1].id, session=session)
    assert below == listed[2:]
    by_target = messaging.list_audit_entries(
        target_type="mail_send_server_config", target_id=second, actor="operator:5", session=session
    )
    assert by_target == [listed[1]]
    assert messaging.list_audit_entries(action="disable", session=session) == listed[:1]
    assert messaging.list_audit_entries(actor="operator:6", session=session) == []
    now = listed[0].at
    assert messaging.list_audit_entries(since=now, session=session) == listed
    assert messaging.list_audit_entries(until=now, session=session) == []


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"actor": 5}, TypeError),
        ({"action": "x" * 300}, ValueError),
        ({"target_type": "a\x00"}, ValueError),
        ({"since": "2030-01-31"}, TypeError),
        ({"until": utc_now().replace(tzinfo=None)}, ValueError),
        ({"limit": 0}, ValueError),
    ],
)
def test_what_cannot_be_asked_for_is_named(session: Session, wanted: dict[str, Any], error: type[Exception]) -> None:
    [name] = wanted
    with pytest.raises(error, match=f"^{name} is "):
        messaging.list_audit_entries(**wanted, session=session)


# Only ever added to


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_log SET actor = 'nobody'",
        "DELETE FROM audit_log",
        "TRUNCATE audit_log",
        "UPDATE audit_log SET actor = 'nobody' WHERE false",
    ],
)
def test_the_database_refuses_to_change_the_log(session: Session, statement: str) -> None:
    messaging.add_mail_server(**SERVER, session=session)
    session.commit()
    with pytest.raises(DBAPIError, match="only ever added to") as refused:
        session.execute(text(statement))
    assert getattr(refused.value.orig, "sqlstate", None) == "23001"
    session.rollback()
    assert len(entries(session)) == 1


@pytest.mark.parametrize(
    ("condition", "index"),
    [
        ("tenant_id = 7", "ix_audit_log_tenant"),
        ("tenant_id = 7 AND actor = 'operator:5'", "ix_audit_log_actor"),
        ("tenant_id = 7 AND target_type = 'mail_template' AND target_id = 5", "ix_audit_log_target"),
    ],
)
def test_a_page_reads_its_index(session: Session, condition: str, index: str) -> None:
    connection = session.connection()
    connection.execute(
        text("""
            INSERT INTO audit_log (tenant_id, actor, action, target_type, target_id)
            SELECT g % 20, 'operator:' || g % 50, 'update', 'mail_template', g % 500 FROM generate_series(1, 20000) g
        """)
    )
    connection.execute(text("ANALYZE audit_log"))
    plan = "\n".join(
        connection.execute(
            text(f"EXPLAIN SELECT * FROM audit_log WHERE {condition} ORDER BY id DESC LIMIT 50")
        ).scalars()
    )
    assert index in plan
    assert "Seq Scan" not in plan


def test_the_model_is_the_table(session: Session) -> None:
    assert set(AuditLine.__dataclass_fields__) == set(AUDIT_LOG.c.keys())
    assert inspect(AuditEntry).local_table is AUDIT_LOG
    assert not issubclass(MailSendServerConfig, AuditEntry)
