"""`messaging.check`: all that is in a message's way, and what would be used; nothing is written, charged or sent."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

import messaging
from messaging import Attachment, FileRef, MessageScope, SendMail, SendSms, api, tenancy
from messaging.files import FileStore
from messaging.mail.checking import MailCheck
from messaging.mail.models import MailTemplate
from messaging.settings import Settings
from messaging.sms.checking import SmsCheck
from messaging.tenancy import PLATFORM_TENANT_ID
from tests.conftest import MakeSettings

SERVER: dict[str, Any] = {
    "name": "relay",
    "host": "smtp.example.com",
    "port": 587,
    "from_address": "shop@example.com",
    "username": "shop",
    "password": "s3cret",
}
PROVIDER: dict[str, Any] = {"name": "CM", "provider_type": "CM", "api_key": "s3cret", "sender_id": "Shop"}
NUMBER = "+4915112345678"
TABLES = ("mail_send_record", "sms_send_record", "tenant_message_usage", "stored_file", "send_attempt")


@pytest.fixture
def settings(make_settings: MakeSettings) -> Settings:
    return make_settings(multi_tenancy=True)


@pytest.fixture
def session(settings: Settings, engine: Engine, unconfigured: None) -> Iterator[Session]:
    """Of tenant 7; whatever is checked in a test leaves no trace."""
    api.configure(settings, engine=engine)
    with tenancy.tenant(7), Session(engine) as session:
        yield session
        counts = [session.connection().execute(text(f"SELECT count(*) FROM {table}")).scalar_one() for table in TABLES]
        files_of_the_test = session.info.get("files", 0)
        assert counts == [0, 0, session.info.get("usage", 0), files_of_the_test, 0]


def mail(session: Session, **fields: Any) -> MailCheck:
    given = {"to": ["Ann <ann@example.org>"], "subject": "Hello", "text_body": "Hi", **fields}
    return messaging.check(SendMail(**given), session=session)


def sms(session: Session, **fields: Any) -> SmsCheck:
    return messaging.check(SendSms(**{"phone_number": NUMBER, **fields}), session=session)


def found(check: MailCheck | SmsCheck) -> list[tuple[str, str]]:
    return [(finding.severity, finding.code) for finding in check.findings]


def template(session: Session, **fields: Any) -> int:
    row = MailTemplate(
        **{
            "code": "order",
            "name": "Order",
            "subject": "Order {{ number }}",
            "body_html": "<p>{{ name }}</p>",
            "body_mode": "HTML",
            **fields,
        }
    )
    session.add(row)
    session.flush()
    found: int = row.id
    return found


# Mail


def test_a_mail_that_would_go_out_says_by_what(session: Session) -> None:
    server = messaging.add_mail_server(**SERVER, is_default=True, session=session)
    check = mail(session)
    assert (check.is_sendable, check.findings) == (True, [])
    assert (check.server_config_id, check.server_name, check.from_address) == (server, "relay", "shop@example.com")
    assert (check.subject, check.body_mode) == ("Hello", "PLAIN")
    assert (check.quota_tenant_id, check.quota_remaining, check.suppressed, check.template_id) == (7, None, [], None)


def test_what_acceptance_refuses_names_its_field(session: Session) -> None:
    check = mail(session, to=["nobody"])
    assert not check.is_sendable
    [finding] = check.findings
    assert (finding.severity, finding.code, finding.field) == ("ERROR", "REJECTED", "to")
    assert check.server_config_id is None


def test_everything_in_the_way_is_told_at_once(session: Session) -> None:
    messaging.add_suppression("ann@example.org", session=session)
    with tenancy.tenant(PLATFORM_TENANT_ID):
        messaging.set_quota_limits(7, mail=0, session=session)
    check = mail(session, template_code="order", attachments=[FileRef(file_id=99, file_name="a.pdf")])
    assert not check.is_sendable
    assert found(check) == [
        ("ERROR", "TEMPLATE_NOT_FOUND"),
        ("ERROR", "CONFIG_NOT_RESOLVABLE"),
        ("ERROR", "ATTACHMENT_NOT_FOUND"),
        ("ERROR", "SUPPRESSED"),
        ("ERROR", "MONTHLY_QUOTA_EXCEEDED"),
    ]
    assert check.quota_remaining == 0


def test_a_template_is_rendered_and_what_it_misses_is_told(session: Session) -> None:
    messaging.add_mail_server(**SERVER, is_default=True, session=session)
    row = template(session)
    check = mail(session, subject=None, text_body=None, template_code="order", template_variables={"number": 5})
    assert (check.is_sendable, check.template_id, check.subject, check.body_mode) == (True, row, "Order 5", "HTML")
    assert check.missing_variables == ["name"]
    assert found(check) == [("WARNING", "MISSING_VARIABLES")]


def test_a_strict_template_that_misses_one_fails_and_its_server_is_still_told(session: Session) -> None:
    server = messaging.add_mail_server(**SERVER, session=session)
    template(session, strict=True, preferred_server_config_id=server)
    check = mail(session, subject=None, text_body=None, template_code="order", template_variables={"number": 5})
    assert found(check) == [("ERROR", "RENDER_FAILED")]
    assert check.server_config_id == server


def test_a_secret_that_nobody_can_read_is_found(session: Session) -> None:
    server = messaging.add_mail_server(**SERVER, is_default=True, session=session)
    session.connection().execute(text("UPDATE mail_send_server_config SET password = 'gAAAA'"))
    check = mail(session)
    assert found(check) == [("ERROR", "CREDENTIAL_UNREADABLE")]
    assert check.server_config_id == server
    assert "s3cret" not in repr(check)


def test_of_several_recipients_the_suppressed_are_named(session: Session) -> None:
    messaging.add_mail_server(**SERVER, is_default=True, session=session)
    messaging.add_suppression("ben@example.org", session=session)
    messaging.add_suppression("ann@example.org", list_name="news", session=session)
    check = mail(session, to=["ann@example.org", "Ben <Ben@example.org>"])
    assert (check.is_sendable, check.suppressed) == (True, ["Ben@example.org"])
    assert found(check) == [("WARNING", "PARTLY_SUPPRESSED")]


def test_attachments_are_there_and_fit(session: Session, settings: Settings, engine: Engine) -> None:
    messaging.add_mail_server(**SERVER, is_default=True, session=session)
    store = FileStore(engine, settings)
    own, others = (
        store.store(session, b"x" * 1000, file_name="a", content_type=None, tenant_id=tenant) for tenant in (7, 8)
    )
    session.info["files"] = 2
    brought = Attachment(file_name="b.txt", content=b"y" * 24)
    check = mail(session, attachments=[FileRef(file_id=own, file_name="a"), brought])
    assert (check.is_sendable, check.attachment_bytes) == (True, 1024)
    check = mail(session, attachments=[FileRef(file_id=others, file_name="a")])
    assert [(f.code, f.field) for f in check.findings] == [("ATTACHMENT_NOT_FOUND", "attachments")]


def test_attachments_that_are_too_large_together_are_found(
    session: Session, make_settings: MakeSettings, engine: Engine
) -> None:
    small = make_settings(multi_tenancy=True, mail={"max_attachment_bytes": 1000})
    api.configure(small, engine=engine)
    messaging.add_mail_server(**SERVER, is_default=True, session=session)
    file_id = FileStore(engine, small).store(session, b"x" * 900, file_name="a", content_type=None, tenant_id=7)
    session.info["files"] = 1
    brought = Attachment(file_name="b.txt", content=b"y" * 200)
    check = mail(session, attachments=[FileRef(file_id=file_id, file_name="a"), brought])
    assert found(check) == [("ERROR", "ATTACHMENT_TOO_LARGE")]


def test_the_platforms_quota_and_server_are_looked_at_for_its_scope(session: Session) -> None:
    with tenancy.tenant(PLATFORM_TENANT_ID):
        server = messaging.add_mail_server(**SERVER, is_default=True, session=session)
        messaging.set_quota_limits(PLATFORM_TENANT_ID, mail=5, session=session)
    check = mail(session, scope=MessageScope.PLATFORM)
    assert (check.server_config_id, check.quota_tenant_id, check.quota_remaining) == (server, -1, 5)
    check = mail(session, server_config_id=server)
    assert found(check) == [("ERROR", "CONFIG_NOT_RESOLVABLE")]


def test_sandbox_mode_is_told(session: Session, make_settings: MakeSettings, engine: Engine) -> None:
    api.configure(make_settings(multi_tenancy=True, sandbox={"mode": "capture"}), engine=engine)
    messaging.add_mail_server(**SERVER, is_default=True, session=session)
    check = mail(session)
    assert (check.is_sendable, found(check)) == (True, [("WARNING", "SANDBOX")])


def test_a_check_sees_what_its_transaction_has_written_and_another_does_not(session: Session) -> None:
    messaging.add_mail_server(**SERVER, is_default=True, session=session)
    template(session)
    assert mail(session, text_body=None, template_code="order").template_id is not None
    other = messaging.check(SendMail(to=["ann@example.org"], template_code="order"))
    assert {finding.code for finding in other.findings} >= {"TEMPLATE_NOT_FOUND", "CONFIG_NOT_RESOLVABLE"}
    session.rollback()


def test_a_check_leaves_the_transaction_usable(session: Session) -> None:
    mail(session, to=["nobody"])
    mail(session, template_code="none")
    sms(session, content="hi")
    assert session.connection().execute(text("SELECT 1")).scalar_one() == 1


def test_a_record_of_the_same_request_is_what_the_check_said(session: Session, engine: Engine) -> None:
    """The month is charged by workers, never by a check."""
    with tenancy.tenant(PLATFORM_TENANT_ID):
        messaging.set_quota_limits(7, mail=5, sms=0, session=session)
    session.connection().execute(
        text("INSERT INTO tenant_message_usage (tenant_id, period, mail_used) VALUES (7, to_char(now(), 'YYYY-MM'), 3)")
    )
    session.info["usage"] = 1
    for _ in range(3):
        assert mail(session).quota_remaining == 2
    assert ("ERROR", "MONTHLY_QUOTA_EXCEEDED") in found(sms(session, content="hi"))


# Text messages


def test_a_text_that_would_go_out_says_by_whom_and_in_how_many_parts(session: Session) -> None:
    provider = messaging.add_sms_provider(**PROVIDER, is_default=True, session=session)
    check = sms(session, content="Grüße " * 30)
    assert (check.is_sendable, check.findings) == (True, [])
    assert (check.provider_config_id, check.provider_name, check.provider_type) == (provider, "CM", "CM")
    assert (check.phone_number, check.region_code, check.encoding, check.segments) == (NUMBER, "DE", "GSM7", 2)
    assert check.quota_tenant_id == 7


def test_a_number_without_a_route_is_found_with_the_rest(session: Session) -> None:
    messaging.add_suppression(NUMBER, channel="sms", session=session)
    check = sms(session, template_code="code")
    assert found(check) == [
        ("ERROR", "TEMPLATE_NOT_FOUND"),
        ("ERROR", "CONFIG_NOT_RESOLVABLE"),
        ("ERROR", "SUPPRESSED"),
    ]
    assert (check.provider_config_id, check.suppressed) == (None, [NUMBER])


def test_an_opt_out_to_the_providers_sender_is_found(session: Session) -> None:
    messaging.add_sms_provider(**PROVIDER, is_default=True, session=session)
    messaging.add_suppression(NUMBER, channel="sms", sender="SHOP", session=session)
    assert found(sms(session, content="hi")) == [("ERROR", "SUPPRESSED")]


def test_a_texts_template_and_route_are_used(session: Session) -> None:
    messaging.add_sms_provider(**PROVIDER, is_default=True, session=session)
    routed = messaging.add_sms_provider(**PROVIDER | {"name": "routed"}, session=session)
    messaging.add_sms_route(routed, "DE", session=session)
    row = messaging.add_sms_template(code="code", name="Code", content="Code {{ code }}{{ more }}", session=session)
    check = sms(session, template_code="code", template_variables={"code": "123"})
    assert (check.provider_config_id, check.template_id, check.content) == (routed, row, "Code 123")
    assert found(check) == [("WARNING", "MISSING_VARIABLES")]
    assert check.missing_variables == ["more"]


def test_a_number_that_is_none_is_refused(session: Session) -> None:
    [finding] = sms(session, phone_number="0151", content="hi").findings
    assert (finding.code, finding.field) == ("REJECTED", "phone_number")


def test_only_messages_are_checked(session: Session) -> None:
    with pytest.raises(TypeError, match="check takes a SendMail or a SendSms, not dict"):
        messaging.check({"to": ["ann@example.org"]}, session=session)  # type: ignore[call-overload]
