"""What becomes of text messages whose provider, template or binding is deleted: they end with a reason, and none takes
a way that nobody chose."""

from typing import Any

import pytest

from messaging import api
from messaging.delivery.status import SendStatus
from tests.far_end.provider_server import Reply
from tests.integration.sms.desk import SmsDesk

BUSY = Reply(503, "busy")
NUMBER = "+4915112345678"


@pytest.fixture
def opened(desk: SmsDesk) -> SmsDesk:
    """A desk on which the public functions work."""
    api.configure(desk.settings, engine=desk.engine)
    return desk


def send(**fields: Any) -> int:
    return api.send_sms(phone_number=NUMBER, **fields)


def end_of(desk: SmsDesk, record_id: int) -> tuple[str, str | None]:
    row = desk.row(record_id)
    return row.status, row.error_code


def test_messages_of_a_deleted_provider_fail_and_none_goes_out_by_another(opened: SmsDesk) -> None:
    server = opened.serve()
    deleted = opened.add_provider(server)
    route = api.add_sms_route(deleted, "DE")
    sent = send(content="first")
    assert opened.deliver(sent) == {"sent": 1}
    server.next.append(BUSY)
    prepared = send(content="second")
    assert opened.deliver(prepared) == {"retry": 1}
    pinned = send(content="third", provider_config_id=deleted)
    other = opened.add_provider(server)
    calls = len(server.requests)

    api.delete_sms_provider(deleted)

    assert opened.deliver(prepared, pinned) == {"failed": 2}
    assert [end_of(opened, i) for i in (prepared, pinned)] == [(SendStatus.FAILED, "CONFIG_NOT_RESOLVABLE")] * 2
    assert len(server.requests) == calls
    assert opened.row(sent).provider_config_id == deleted
    assert route not in [line.id for line in api.list_sms_routes(active="all")]
    # The country is served by the tenant's default now.
    fourth = send(content="fourth")
    assert opened.deliver(fourth) == {"sent": 1}
    assert opened.row(fourth).provider_config_id == other


def test_a_template_bound_to_a_deleted_provider_alone_goes_out_when_nobody_binds_it_any_more(opened: SmsDesk) -> None:
    server = opened.serve()
    deleted = opened.add_provider(server)
    opened.add_provider(server)
    api.add_sms_template(code="otp", name="OTP", content="Code")
    binding = api.add_sms_binding("otp", deleted, sign_name="Shop")
    api.delete_sms_provider(deleted)
    record_id = send(template_code="otp")
    assert opened.deliver(record_id) == {"failed": 1}
    assert end_of(opened, record_id) == (SendStatus.FAILED, "NO_TEMPLATE_BINDING")
    [line] = api.list_sms_bindings()
    assert (line.id, line.provider_name) == (binding, None)
    api.remove_sms_binding(binding)
    api.retry(record_id, channel="sms")
    assert opened.deliver(record_id) == {"sent": 1}


def test_messages_of_a_deleted_template_go_out_where_they_are_prepared_and_fail_elsewhere(opened: SmsDesk) -> None:
    server = opened.serve()
    provider = opened.add_provider(server)
    template_id = api.add_sms_template(code="otp", name="OTP", content="Code")
    api.add_sms_binding(template_id, provider)
    server.next.append(BUSY)
    prepared = send(template_code="otp")
    assert opened.deliver(prepared) == {"retry": 1}
    waiting = send(template_code="otp")

    api.delete_sms_template(template_id)

    assert api.list_sms_bindings(active="all") == []
    assert opened.deliver(prepared) == {"sent": 1}
    assert opened.row(prepared).template_code == "otp"
    assert opened.deliver(waiting) == {"failed": 1}
    assert end_of(opened, waiting) == (SendStatus.FAILED, "TEMPLATE_NOT_FOUND")
    api.add_sms_template(code="otp", name="OTP", content="Code again")
    api.retry(waiting, channel="sms")
    assert opened.deliver(waiting) == {"sent": 1}
    assert opened.row(waiting).content == "Code again"
