"""Attempts of a worker at far ends that speak providers' APIs: the points L of sms.md."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import text, update

from messaging.category import ErrorCategory
from messaging.clock import utc_now
from messaging.delivery.status import SendStatus
from messaging.http.client import HttpClient
from messaging.sms.models import SMS_SEND_RECORD, SMS_TEMPLATE_PROVIDER_BINDING
from messaging.sms.providers.base import Accepted, OutgoingSms, Provider, ProviderConfig, Rejected
from messaging.sms.receipts import record_delivery_status
from tests.far_end import aliyun_api, tencent_api
from tests.far_end.provider_server import Fault, Reply
from tests.integration.delivery.desk import counted
from tests.integration.delivery.records import ACCEPTED, STALE
from tests.integration.sms.desk import SmsDesk
from tests.integration.sms.providers.subjects import ALIYUN, NUMBER, TENCENT, TWILIO, Subject

PENDING, SENDING, SENT, RETRY, FAILED, DEAD_LETTER = SendStatus

MakeDesk = Callable[..., SmsDesk]

BUSY = Reply(503, {"code": 20503, "message": "Service unavailable", "status": 503})


def told(desk: SmsDesk, record_id: int) -> tuple[str, str | None, str]:
    """Status, code and category of the last attempt."""
    row = desk.row(record_id)
    attempts = desk.records.attempts(record_id)
    return row.status, row.error_code, attempts[-1].category if attempts else None


# One attempt


@pytest.mark.parametrize("status", [None, SENT])
def test_a_record_that_is_gone_or_sent_calls_nobody(desk: SmsDesk, status: str | None) -> None:  # L1
    server = desk.serve()
    desk.add_provider(server)
    record_id = desk.one(status=status) if status else 4711
    assert desk.deliver(record_id) == {"not_mine": 1}
    assert server.requests == []


def test_a_lost_claim_looks_nothing_up(desk: SmsDesk) -> None:  # L2
    server = desk.serve()
    desk.add_provider(server)
    record_id = desk.one()
    row = desk.row(record_id)
    assert desk.worker.deliver([[record_id, row.version + 1]]) == {"not_mine": 1}
    assert (server.requests, desk.row(record_id)) == ([], row)


def test_a_configuration_that_is_gone_fails_the_record(desk: SmsDesk) -> None:  # L3
    server = desk.serve()
    config_id = desk.add_provider(server)
    record_id = desk.one()
    server.next.append(BUSY)
    assert desk.deliver(record_id) == {"retry": 1}
    desk.drop_provider(config_id)
    before = counted("messaging_failed_total", channel="sms", provider="unknown", outcome="failed")
    assert desk.deliver(record_id) == {"failed": 1}
    assert told(desk, record_id) == (FAILED, "CONFIG_NOT_RESOLVABLE", ErrorCategory.AUTH)
    assert [a.provider for a in desk.records.attempts(record_id)] == ["twilio", "unknown"]
    assert counted("messaging_failed_total", channel="sms", provider="unknown", outcome="failed") == before + 1
    assert len(server.requests) == 1


def test_a_full_window_holds_back_before_any_call(desk: SmsDesk) -> None:  # L4
    server = desk.serve()
    desk.add_provider(server, daily_send_limit=1)
    first, second = desk.one(), desk.one()
    assert desk.deliver(first, second) == {"sent": 1, "released": 1}
    row = desk.row(second)
    assert (row.status, row.error_code, row.retry_count) == (RETRY, "QUOTA_EXCEEDED", 0)
    assert (row.next_attempt_at - row.updated_at).total_seconds() >= 300
    assert len(server.requests) == 1


def test_a_success_is_stored_with_the_providers_id(desk: SmsDesk) -> None:  # L5
    server = desk.serve()
    config_id = desk.add_provider(server)
    record_id = desk.one("+14155550123", content="Ready: 3 € only")
    before = counted("messaging_sent_total", channel="sms", provider="twilio")
    assert desk.deliver(record_id) == {"sent": 1}
    row = desk.row(record_id)
    [taken] = server.api.taken
    assert (taken.number, taken.text) == ("14155550123", "Ready: 3 € only")
    assert (row.status, row.provider_message_id, row.provider_type) == (SENT, taken.id, "TWILIO")
    assert (row.provider_config_id, row.region_code, row.encoding, row.segments) == (config_id, "US", "GSM7", 1)
    assert (row.delivery_status, row.error_code, row.prepared_at is not None) == ("UNKNOWN", None, True)
    [attempt] = desk.records.attempts(record_id)
    assert (attempt.channel, attempt.provider, attempt.config_id, attempt.outcome) == (
        "sms",
        "twilio",
        config_id,
        "SENT",
    )
    assert counted("messaging_sent_total", channel="sms", provider="twilio") == before + 1


def test_a_refusal_is_a_failure_with_its_code(desk: SmsDesk) -> None:  # L6
    server = desk.serve()
    desk.add_provider(server)
    record_id = desk.one("+14155550112")
    assert desk.deliver(record_id) == {"failed": 1}
    assert told(desk, record_id) == (FAILED, "21614", ErrorCategory.PERMANENT)
    assert desk.row(record_id).provider_message_id is None


class Broken(Provider):
    """An adapter of an application's own that does what none should."""

    type = "BROKEN"
    label = "broken"
    required = ()

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def send(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, before_body: Callable[[], None]
    ) -> Accepted | Rejected:
        if self.answer == "raise before":
            raise LookupError("secret words")
        before_body()
        if self.answer == "raise after":
            raise LookupError("secret words")
        answer: Any = self.answer
        return answer


class Listing(Broken):
    """It can be asked what it took, and lists an id that no column holds."""

    can_find_sent = True

    def find_sent(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, since: datetime
    ) -> Sequence[Accepted]:
        return [Accepted(self.answer)]


BROKEN = Subject(type="BROKEN", api=TWILIO.api, config={})


@pytest.mark.parametrize(
    ("answer", "is_uncertain"), [("raise before", False), ("raise after", True), (None, True), ("SM1", True)]
)
def test_an_adapter_that_raises_or_answers_nothing_is_tried_again(
    desk: SmsDesk, answer: Any, is_uncertain: bool
) -> None:  # L7
    desk.registry.register(Broken(answer))
    desk.add_provider(None, BROKEN)
    record_id = desk.one()
    assert desk.deliver(record_id) == {"retry": 1}
    assert told(desk, record_id) == (RETRY, "UNEXPECTED", ErrorCategory.UNKNOWN)
    row = desk.row(record_id)
    assert (row.uncertain, "secret" in row.error_message) == (is_uncertain, False)


@pytest.mark.parametrize("listed", ["x" * 300, "a\x00b", "\ud800"])
def test_what_the_database_refuses_of_a_look_up_is_an_attempt_and_ends(desk: SmsDesk, listed: str) -> None:  # rule 7
    """Given back as if the database were away, the record would be claimed and refused for ever."""
    desk.registry.register(Listing(listed))
    desk.add_provider(None, BROKEN)
    record_id = desk.one(uncertain=True)
    assert desk.deliver(record_id) == {"retry": 1}
    assert told(desk, record_id) == (RETRY, "UNEXPECTED", ErrorCategory.UNKNOWN)
    assert desk.row(record_id).retry_count == 1


def test_what_an_adapter_took_is_sent_though_its_id_is_a_number(desk: SmsDesk) -> None:
    odd_id: Any = 4711
    desk.registry.register(Broken(Accepted(odd_id)))
    desk.add_provider(None, BROKEN)
    record_id = desk.one()
    assert desk.deliver(record_id) == {"sent": 1}
    assert desk.row(record_id).provider_message_id == "4711"


@pytest.mark.parametrize(
    ("odd", "code", "category"),
    [
        (("A", "b", "TRANSIENT"), "A", ErrorCategory.TRANSIENT),
        (("A", "b", ErrorCategory.QUOTA, "5"), "A", ErrorCategory.QUOTA),
        (("A", "b", "SOME"), "UNEXPECTED", ErrorCategory.UNKNOWN),
        ((5, "b", ErrorCategory.TRANSIENT), "UNEXPECTED", ErrorCategory.UNKNOWN),
    ],
)
def test_an_odd_refusal_of_an_adapter_touches_no_other_record(
    desk: SmsDesk, odd: Any, code: str, category: ErrorCategory
) -> None:
    desk.registry.register(Broken(Rejected(*odd)))
    desk.add_provider(None, BROKEN)
    proper = desk.add_provider(desk.serve(), is_default=False)
    first, second = desk.one(), desk.one("+14155550123", provider_config_id=proper)
    assert desk.deliver(first, second) == {"retry": 1, "sent": 1}
    assert told(desk, first) == (RETRY, code, category)


# What a retry sends


def bound(desk: SmsDesk, subject: Subject, content: str, **binding: Any) -> tuple[dict[str, Any], int, Any]:
    server = desk.serve(subject)
    config_id = desk.add_provider(server, subject)
    template = desk.accounts.template(tenant_id=0, content=content)
    binding_id = desk.accounts.bind(template, config_id, **binding)
    return template, binding_id, server


def test_a_retry_after_the_binding_was_edited_sends_the_old_names(desk: SmsDesk) -> None:  # L8, L9
    names = {"external_template_id": aliyun_api.TEMPLATE_CODE, "sign_name": aliyun_api.SIGN_NAME}
    _, binding_id, server = bound(desk, ALIYUN, "Code {{ code }}", **names)
    record_id = desk.one("+8613800138000", content=None, template_code="otp", template_variables={"code": "123456"})
    server.next.extend([Reply(503, b""), Reply(503, b"")])
    assert desk.deliver(record_id) == {"retry": 1}
    desk.accounts.change(SMS_TEMPLATE_PROVIDER_BINDING, binding_id, external_template_id="SMS_1", sign_name="x")
    assert desk.deliver(record_id) == {"retry": 1}
    assert desk.deliver(record_id) == {"sent": 1}
    sent = [request.form() for request in server.requests]
    for field in ("TemplateCode", "SignName", "TemplateParam", "PhoneNumbers"):
        assert len({form[field] for form in sent}) == 1, field
    assert (sent[2]["TemplateCode"], sent[2]["TemplateParam"]) == (aliyun_api.TEMPLATE_CODE, '{"code":"123456"}')
    row = desk.row(record_id)
    assert (row.sign_name, row.content, row.region_code) == (aliyun_api.SIGN_NAME, "Code 123456", "CN")


def test_positional_values_are_the_same_at_every_attempt(desk: SmsDesk) -> None:  # L9, P25
    _, _, server = bound(
        desk,
        TENCENT,
        "{{ code }}, good for {{ time }}",
        external_template_id=tencent_api.TEMPLATE_ID,
        sign_name=tencent_api.SIGN_NAME,
    )
    variables = {"time": "ten minutes", "code": 123456}
    record_id = desk.one("+14155550199", content=None, template_code="otp", template_variables=variables)
    server.next.extend([Reply(503, b""), Reply(503, b"")])
    assert [desk.deliver(record_id) for _ in range(3)] == [{"retry": 1}, {"retry": 1}, {"sent": 1}]
    sets = [request.json()["TemplateParamSet"] for request in server.requests]
    assert sets == [["123456", "ten minutes"]] * 3
    assert desk.row(record_id).template_params == ["123456", "ten minutes"]


# Refusals


@pytest.mark.parametrize("subject", [TWILIO, ALIYUN, TENCENT], ids=lambda s: s.type)
def test_wrong_credentials_fail_at_once(desk: SmsDesk, subject: Subject) -> None:  # L10
    server = desk.serve(subject)
    desk.add_provider(server, subject, **{subject.key_field: "wrong"})
    message = subject.message
    record_id = desk.one(
        message.phone_number, sign_name=message.sign_name, external_template_id=message.external_template_id
    )
    assert desk.deliver(record_id) == {"failed": 1}
    status, _, category = told(desk, record_id)
    assert (status, category, server.api.taken) == (FAILED, ErrorCategory.AUTH, [])


def test_the_sixth_temporary_failure_is_a_dead_letter(desk: SmsDesk) -> None:  # L11
    server = desk.serve()
    desk.add_provider(server)
    record_id = desk.one()
    server.next.extend([BUSY] * 6)
    assert [desk.deliver(record_id) for _ in range(6)] == [{"retry": 1}] * 5 + [{"dead_letter": 1}]
    [letter] = desk.records.dead_letters(record_id)
    assert (letter.channel, letter.original_queue) == ("sms", "sms_send")
    shown = {name: letter.payload[name] for name in ("channel", "provider", "retry_count", "error_code")}
    assert shown == {"channel": "sms", "provider": "twilio", "retry_count": 5, "error_code": "20503"}


def test_a_busy_ledger_gives_back_and_charges_each_record_once(make_desk: MakeDesk) -> None:  # L12
    desk = make_desk(database={"lock_timeout_seconds": 0.1})
    server = desk.serve()
    desk.add_provider(server)
    ids = [desk.one() for _ in range(6)]
    assert desk.deliver(ids[0]) == {"sent": 1}
    with desk.engine.connect() as holder, holder.begin():
        holder.execute(text("SELECT 1 FROM tenant_message_usage FOR UPDATE"))
        assert desk.deliver(*ids[1:]) == {"released": 5}
    row = desk.row(ids[1])
    assert (row.status, row.error_code, row.retry_count) == (RETRY, "QUOTA_LEDGER_CONFLICT", 0)
    assert desk.deliver(*ids[1:]) == {"sent": 5}
    with desk.engine.connect() as connection:
        assert connection.execute(text("SELECT sms_used, mail_used FROM tenant_message_usage")).one() == (6, 0)
    assert len(server.api.taken) == 6


def test_two_workers_send_each_record_once(desk: SmsDesk) -> None:  # L13
    server = desk.serve()
    desk.add_provider(server)
    ids = [desk.one(f"+141555502{n:02}") for n in range(30)]
    other = desk.new_worker("worker-2")
    chunks = [desk.begin(*ids), desk.begin(*ids, worker=other), desk.begin(*reversed(ids)), desk.begin(*ids)]
    assert sum(chunk.result(60).get("sent", 0) for chunk in chunks) == 30
    sent = [message.number for message in server.api.taken]
    assert (len(sent), len(set(sent))) == (30, 30)


def test_a_text_rendered_blank_fails(desk: SmsDesk) -> None:  # L14
    server = desk.serve()
    desk.add_provider(server)
    desk.accounts.template(tenant_id=0, content="  {{ nothing }}\n")
    record_id = desk.one(content=None, template_code="otp")
    assert desk.deliver(record_id) == {"failed": 1}
    assert told(desk, record_id) == (FAILED, "RENDER_EMPTY", ErrorCategory.INVALID_INPUT)
    assert server.requests == []


def test_the_months_quota_of_text_messages_is_its_own(make_desk: MakeDesk) -> None:
    desk = make_desk(quota={"sms_monthly_default": 1, "mail_monthly_default": 0})
    desk.add_provider(desk.serve())
    first, second = desk.one(), desk.one()
    assert desk.deliver(first, second) == {"sent": 1, "failed": 1}
    assert told(desk, second) == (FAILED, "MONTHLY_QUOTA_EXCEEDED", ErrorCategory.AUTH)


# Uncertain outcomes


def test_an_attempt_without_a_reply_is_looked_for_before_the_next(desk: SmsDesk) -> None:  # P37, O60
    server = desk.serve()
    desk.add_provider(server)
    record_id = desk.one()
    take = server.api.answer

    def take_and_hang_up(request: Any) -> Any:
        server.api.answer = take  # type: ignore[method-assign]
        take(request)
        return Fault.CLOSE_AFTER

    server.api.answer = take_and_hang_up  # type: ignore[method-assign]
    assert desk.deliver(record_id) == {"retry": 1}
    row = desk.row(record_id)
    assert (row.error_code, row.uncertain, row.provider_message_id) == ("HTTP_NO_REPLY", True, None)
    assert desk.deliver(record_id) == {"sent": 1}
    [taken] = server.api.taken
    assert desk.row(record_id).provider_message_id == taken.id
    assert [request.method for request in server.requests] == ["POST", "GET"]


def test_the_same_text_of_another_record_is_not_taken_for_this_one(desk: SmsDesk) -> None:
    server = desk.serve()
    desk.add_provider(server)
    lost, other = desk.one(), desk.one()
    server.next.append(Fault.CLOSE_AFTER)
    assert desk.deliver(lost) == {"retry": 1}
    assert desk.deliver(other) == {"sent": 1}
    assert desk.deliver(lost) == {"sent": 1}
    assert desk.row(lost).provider_message_id != desk.row(other).provider_message_id
    assert len(server.api.taken) == 2


def test_a_look_up_that_fails_is_the_attempts_failure(desk: SmsDesk) -> None:
    server = desk.serve()
    desk.add_provider(server)
    record_id = desk.one()
    server.next.extend([Fault.CLOSE_AFTER, BUSY])
    assert [desk.deliver(record_id) for _ in range(2)] == [{"retry": 1}, {"retry": 1}]
    assert told(desk, record_id) == (RETRY, "20503", ErrorCategory.TRANSIENT)
    assert desk.row(record_id).uncertain


def test_a_swept_record_is_looked_for_too(desk: SmsDesk) -> None:
    server = desk.serve()
    desk.add_provider(server)
    record_id = desk.one()
    claimed = desk.records.claim_now(record_id)
    desk.records.prepare(claimed)
    assert desk.records.swept(record_id) == RETRY
    [attempt] = desk.records.attempts(record_id)
    assert (attempt.outcome, attempt.provider) == ("SWEPT", "twilio")
    row = desk.row(record_id)
    with desk.engine.begin() as connection:  # as if prepared with this very account
        config_id = connection.execute(text("SELECT id FROM sms_provider_config")).scalar_one()
        connection.execute(update(SMS_SEND_RECORD).values(provider_config_id=config_id))
    assert row.uncertain
    assert desk.deliver(record_id) == {"sent": 1}
    assert [request.method for request in server.requests] == ["GET", "POST"]


def test_a_late_success_is_recorded_with_the_providers_id(desk: SmsDesk) -> None:  # T14
    server = desk.serve()
    desk.add_provider(server)
    record_id = desk.one()
    [claimed] = desk.records.claim_now(record_id)
    desk.records.prepare([claimed])
    desk.records.shift(STALE + 1, record_id)
    outcome = desk.records.judge(claimed, {NUMBER: replace(ACCEPTED, message_id="SM77")})
    assert desk.records.sweep() == {record_id: RETRY}
    assert desk.records.write(outcome) == {claimed.key: "sent"}
    row = desk.row(record_id)
    assert (row.status, row.provider_message_id, row.swept_at) == (SENT, "SM77", None)
    [attempt] = desk.records.attempts(record_id)
    assert (attempt.outcome, attempt.provider) == ("SENT", "twilio")


def test_an_outcome_whose_reply_was_lost_stands_though_a_receipt_came_first(desk: SmsDesk) -> None:
    record_id = desk.one()
    [claimed] = desk.records.claim_now(record_id)
    desk.records.prepare([claimed])
    outcome = desk.records.judge(claimed, {NUMBER: replace(ACCEPTED, message_id="SM78")})
    assert desk.records.write(outcome) == {claimed.key: "sent"}
    assert record_delivery_status(1, "SM78", "DELIVERED", engine=desk.engine)
    row = desk.row(record_id)
    assert desk.records.write(outcome, is_repeat=True) == {claimed.key: "sent"}
    assert desk.row(record_id) == row
    assert (row.status, row.delivery_status, row.version) == (SENT, "DELIVERED", claimed.version + 2)


# What is never logged


def test_neither_number_nor_text_nor_secrets_are_logged(desk: SmsDesk, caplog: pytest.LogCaptureFixture) -> None:  # O55
    caplog.set_level(logging.DEBUG)
    server = desk.serve()
    desk.add_provider(server)
    content, good, bad = "Your code is 987654.", "+14155550133", "+14155550001"
    ids = [desk.one(number, content=content) for number in (good, bad)]
    server.next.append(BUSY)
    for _ in range(2):
        desk.deliver(*ids)
    assert sorted(desk.row(i).status for i in ids) == [FAILED, SENT]
    shown = "\n".join(str(vars(record)) for record in caplog.records if not record.name.startswith("sqlalchemy"))
    for secret in ("987654", good[1:], bad[1:], *TWILIO.secrets):
        assert secret not in shown


def test_one_record_that_raises_does_not_touch_the_others(desk: SmsDesk) -> None:
    server = desk.serve()
    desk.add_provider(server)
    unsupported = desk.add_provider(None, BROKEN, is_default=False)
    ids = [desk.one(), desk.one(provider_config_id=unsupported), desk.one()]
    assert desk.deliver(*ids) == {"sent": 2, "failed": 1}
    assert told(desk, ids[1]) == (FAILED, "PROVIDER_UNSUPPORTED", ErrorCategory.AUTH)


def test_a_fault_before_the_request_leaves_no_doubt(desk: SmsDesk) -> None:
    desk.add_provider(None)
    record_id = desk.one()
    assert desk.deliver(record_id) == {"retry": 1}
    assert told(desk, record_id) == (RETRY, "HTTP_CONNECT", ErrorCategory.TRANSIENT)
    assert not desk.row(record_id).uncertain


def test_retry_after_is_waited_for(desk: SmsDesk) -> None:
    server = desk.serve()
    desk.add_provider(server)
    record_id = desk.one()
    server.next.append(Reply(429, {"code": 20429, "message": "Too Many Requests"}, {"Retry-After": "1200"}))
    assert desk.deliver(record_id) == {"retry": 1}
    row = desk.row(record_id)
    assert (row.next_attempt_at - row.updated_at).total_seconds() >= 1200


def test_who_opted_out_at_the_provider_is_not_sent_to_again(desk: SmsDesk) -> None:  # O64
    server = desk.serve()
    desk.add_provider(server)
    first, second = (desk.one("+14155550111") for _ in range(2))
    assert desk.deliver(first) == {"failed": 1}
    assert told(desk, first) == (FAILED, "21610", ErrorCategory.PERMANENT)
    assert desk.deliver(second) == {"failed": 1}
    assert told(desk, second) == (FAILED, "SUPPRESSED", ErrorCategory.PERMANENT)
    assert (len(server.requests), desk.row(second).prepared_at) == (1, None)


def test_a_lost_reply_waits_while_the_same_is_being_sent_to_the_same_number(desk: SmsDesk) -> None:
    server = desk.serve()
    desk.add_provider(server)
    lost, fresh = desk.one(), desk.one()
    server.next.append(Fault.RESET_AFTER)
    desk.deliver(lost)
    desk.deliver(fresh)
    # As if its outcome were not recorded yet.
    desk.records.put(fresh, status="SENDING", claimed_at=utc_now(), sent_at=None, provider_message_id=None)
    count = desk.row(lost).retry_count

    assert desk.deliver(lost) == {"released": 1}

    row = desk.row(lost)
    assert (row.status, row.error_code, row.retry_count) == (RETRY, "CLAIM_RELEASED", count)
    assert "the same is being sent" in row.error_message
    desk.records.put(fresh, status="SENT", claimed_at=None, provider_message_id=server.api.taken[0].id)
    assert desk.deliver(lost) == {"sent": 1}
    assert [message.id for message in server.api.taken] == [
        desk.row(record_id).provider_message_id for record_id in (fresh, lost)
    ]
