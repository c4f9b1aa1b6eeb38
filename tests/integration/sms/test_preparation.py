"""Preparing text messages, from the record to the far end: markers, texts, segments, routes (`sms.md` section 5)."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text, update

from messaging import tenancy
from messaging.category import ErrorCategory
from messaging.delivery.requeue import retry
from messaging.delivery.status import SendStatus
from messaging.sms.channel import recipients
from messaging.sms.models import SMS_SEND_RECORD, SMS_TEMPLATE
from tests.far_end import aliyun_api
from tests.integration.sms.desk import SmsDesk
from tests.integration.sms.providers.subjects import ALIYUN, NUMBER, TWILIO

PENDING, SENDING, SENT, RETRY, FAILED, DEAD_LETTER = SendStatus
AUTH, INVALID = ErrorCategory.AUTH, ErrorCategory.INVALID_INPUT


def failed(desk: SmsDesk, record_id: int) -> tuple[str, str]:
    """Deliver a record that fails at once; its code and category."""
    assert desk.deliver(record_id) == {"failed": 1}
    row = desk.row(record_id)
    [attempt] = desk.records.attempts(record_id)
    assert (row.status, row.prepared_at, row.retry_count) == (FAILED, None, 0)
    return row.error_code, attempt.category


def add_template(desk: SmsDesk, content: str, **columns: Any) -> None:
    template = desk.accounts.template(tenant_id=0, content=content)
    with desk.engine.begin() as connection:
        if columns:
            connection.execute(update(SMS_TEMPLATE).where(SMS_TEMPLATE.c.id == template["id"]).values(columns))


def from_template(desk: SmsDesk, **columns: Any) -> int:
    return desk.one(**{"content": None, "template_code": "otp", **columns})


@pytest.fixture
def sending(desk: SmsDesk) -> SmsDesk:
    """A desk with a provider for every country."""
    desk.add_provider(desk.serve())
    return desk


@pytest.mark.parametrize(
    ("content", "columns", "record", "marker", "category"),
    [
        (None, {}, {}, "TEMPLATE_NOT_FOUND", AUTH),
        ("{{ code }}", {"active": False}, {}, "TEMPLATE_NOT_FOUND", AUTH),
        ("{{ 1 / 0 }}", {}, {}, "RENDER_FAILED", INVALID),
        ("Code {{ code }}", {"strict": True}, {}, "RENDER_FAILED", INVALID),
        ("{{ code }}", {}, {"template_variables": {"code": "a"}}, None, None),
        ("\n", {}, {}, "RENDER_EMPTY", INVALID),  # L14
        ("\u200b", {"to_gsm": True}, {}, "RENDER_EMPTY", INVALID),
        ("{{ 'x' * 2001 }}", {}, {}, "CONTENT_TOO_LONG", INVALID),
        ("{{ '…' * 700 }}", {"to_gsm": True}, {}, "CONTENT_TOO_LONG", INVALID),
        ("{{ 'x' * 161 }}", {"max_segments": 1}, {}, "CONTENT_TOO_LONG", INVALID),
        ("{{ 'x' * 160 }}", {"max_segments": 1}, {}, None, None),
        ("short", {"max_segments": 1}, {"content": "x" * 161}, "CONTENT_TOO_LONG", INVALID),
    ],
)
def test_a_template_that_gives_no_text_fails_the_record(
    sending: SmsDesk,
    content: str | None,
    columns: dict[str, Any],
    record: dict[str, Any],
    marker: str | None,
    category: ErrorCategory | None,
) -> None:
    if content is not None:
        add_template(sending, content, **columns)
    record_id = from_template(sending, **record)
    if marker is None:
        assert sending.deliver(record_id) == {"sent": 1}
    else:
        assert failed(sending, record_id) == (marker, category)


def test_missing_variables_are_empty_and_kept(sending: SmsDesk) -> None:
    add_template(sending, "Hello {{ user.name }}, code {{ code }}.")
    record_id = from_template(sending, template_variables={"code": 7})
    assert sending.deliver(record_id) == {"sent": 1}
    row = sending.row(record_id)
    assert (row.content, row.missing_variables) == ("Hello , code 7.", ["user.name"])
    assert row.template_params == ["", "7"]


@pytest.mark.parametrize(
    ("source", "to_gsm", "sent", "encoding", "segments"),
    [
        ("“Quoted” – well…", False, "“Quoted” – well…", "UCS2", 1),
        ("“Quoted” – well…", True, '"Quoted" - well...', "GSM7", 1),
        ("{{ '€' * 80 }}", False, "€" * 80, "GSM7", 1),
        ("{{ '€' * 81 }}", False, "€" * 81, "GSM7", 2),
        ("{{ 'ж' * 71 }}", True, "ж" * 71, "UCS2", 2),
        ("<b>{{ '<&>' }}</b>", False, "<b><&></b>", "GSM7", 1),
    ],
)
def test_encoding_and_segments_are_those_of_the_text_that_was_sent(
    sending: SmsDesk, source: str, to_gsm: bool, sent: str, encoding: str, segments: int
) -> None:
    add_template(sending, source, to_gsm=to_gsm)
    record_id = from_template(sending)
    assert sending.deliver(record_id) == {"sent": 1}
    row = sending.row(record_id)
    assert (row.content, row.encoding, row.segments) == (sent, encoding, segments)


def test_the_callers_text_goes_out_as_it_is_and_the_template_still_binds(desk: SmsDesk) -> None:  # R21
    server = desk.serve(ALIYUN)
    config_id = desk.add_provider(server, ALIYUN)
    template = desk.accounts.template(tenant_id=0, content="{{ code }}")
    names = {"external_template_id": aliyun_api.TEMPLATE_CODE, "sign_name": aliyun_api.SIGN_NAME}
    desk.accounts.bind(template, config_id, **names)
    variables = {"code": "123456"}
    bound = desk.one("+8613800138000", content="“mine”", template_code="otp", template_variables=variables)
    direct = desk.one("+8613800138000", content="“mine”", template_variables=variables, **names)
    assert desk.deliver(bound, direct) == {"sent": 2}
    for record_id in (bound, direct):
        row = desk.row(record_id)
        assert (row.content, row.external_template_id, row.sign_name) == ("“mine”", *names.values())


def test_a_country_nobody_serves_is_named_and_a_retry_after_adding_a_route_sends(desk: SmsDesk) -> None:  # R8, R9
    server = desk.serve()
    config_id = desk.add_provider(server, is_default=False)
    record_id = desk.one("+4915112345678")
    assert failed(desk, record_id) == ("CONFIG_NOT_RESOLVABLE", AUTH)
    assert "DE" in desk.row(record_id).error_message
    desk.accounts.route(config_id, "DE", tenant_id=0)
    with desk.engine.begin() as connection:
        retry(connection, SMS_SEND_RECORD, recipients, record_id, channel="sms")
    assert desk.deliver(record_id) == {"sent": 1}


def test_a_number_of_no_country_needs_a_pinned_provider(desk: SmsDesk) -> None:  # R15, R16
    config_id = desk.add_provider(desk.serve())
    unpinned, pinned = desk.one("+447700900123"), desk.one("+447700900123", provider_config_id=config_id)
    assert failed(desk, unpinned) == ("REGION_NOT_RESOLVABLE", INVALID)
    assert desk.deliver(pinned) == {"sent": 1}
    assert desk.row(pinned).region_code is None


def test_a_template_bound_elsewhere_only_fails(desk: SmsDesk) -> None:  # R20
    desk.add_provider(desk.serve())
    other = desk.add_provider(None, is_default=False)
    desk.accounts.bind(desk.accounts.template(tenant_id=0), other)
    assert failed(desk, from_template(desk, template_variables={"code": 1})) == ("NO_TEMPLATE_BINDING", AUTH)


@pytest.mark.parametrize(
    ("subject", "columns", "marker", "category"),
    [
        (TWILIO, {"sender_number": None}, "SENDER_REQUIRED", AUTH),
        (TWILIO, {"api_secret": None}, "PROVIDER_CONFIG_INVALID", AUTH),
        (TWILIO, {"provider_type": "VONAGE"}, "PROVIDER_UNSUPPORTED", AUTH),
        (ALIYUN, {}, "EXTERNAL_TEMPLATE_REQUIRED", INVALID),
    ],
)
def test_what_a_provider_needs_is_looked_at_before_anything_is_charged(
    desk: SmsDesk, subject: Any, columns: dict[str, Any], marker: str, category: ErrorCategory
) -> None:
    server = desk.serve(subject)
    config_id = desk.add_provider(server, subject)
    desk.change_provider(config_id, **columns)
    assert failed(desk, desk.one(NUMBER)) == (marker, category)
    assert server.requests == []
    with desk.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM tenant_message_usage").scalar_one() == 0


def test_a_secret_that_no_key_decrypts_is_told(sending: SmsDesk) -> None:
    with sending.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE sms_provider_config SET api_secret = 'nonsense'")
    assert failed(sending, sending.one()) == ("CREDENTIAL_UNREADABLE", AUTH)


def test_an_expired_record_ends_at_its_claim(sending: SmsDesk) -> None:
    record_id = sending.one()
    with sending.engine.begin() as connection:
        connection.execute(text("UPDATE sms_send_record SET expires_at = now() - interval '1 second'"))
    assert sending.deliver(record_id) == {"failed": 1}
    assert sending.row(record_id).error_code == "EXPIRED"


def test_a_tier_falls_back_to_no_other(make_desk: Callable[..., SmsDesk], monkeypatch: pytest.MonkeyPatch) -> None:
    # R24, R23: templates by scope; providers of the platform serve a tenant that has none.
    desk = make_desk(multi_tenancy=True)
    monkeypatch.setattr(tenancy, "_multi_tenancy", True)
    desk.add_provider(desk.serve(), tenant_id=-1)
    desk.accounts.template("both", tenant_id=7, content="of the tenant")
    desk.accounts.template("both", tenant_id=-1, content="of the platform")
    desk.accounts.template("platform", tenant_id=-1, content="of the platform")
    own = from_template(desk, template_code="both", tenant_id=7)
    platform = from_template(desk, template_code="both", tenant_id=7, scope="PLATFORM")
    missing = from_template(desk, template_code="platform", tenant_id=7)
    assert desk.deliver(own, platform, missing) == {"sent": 2, "failed": 1}
    assert [desk.row(i).content for i in (own, platform)] == ["of the tenant", "of the platform"]
    assert desk.row(missing).error_code == "TEMPLATE_NOT_FOUND"
    with desk.engine.connect() as connection:
        used = connection.exec_driver_sql("SELECT tenant_id, sms_used FROM tenant_message_usage ORDER BY 1").all()
    assert [tuple(row) for row in used] == [(-1, 1), (7, 1)]
