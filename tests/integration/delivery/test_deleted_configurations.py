"""What becomes of mails whose server or template is deleted: they end with a reason, and none takes another way."""

from collections.abc import Callable
from typing import Any

import pytest

from messaging import api
from messaging.delivery.status import SendStatus
from tests.integration.delivery.desk import Desk


@pytest.fixture
def opened(make_desk: Callable[..., Desk]) -> Desk:
    """A desk with a default mail server, on which the public functions work."""
    desk = make_desk()
    api.configure(desk.settings, engine=desk.engine)
    desk.add_server()
    return desk


def send(**fields: Any) -> int:
    return api.send_mail(**{"to": ["a@example.com"], "subject": "s", "text_body": "t", **fields})


def add_template(**fields: Any) -> int:
    texts = {"subject": "Hi", "body_html": "<p>Hello</p>"}
    return api.add_mail_template(**{"code": "welcome", "name": "Welcome", **texts, **fields})


def test_mails_of_a_deleted_server_fail_and_none_goes_out_by_another(opened: Desk) -> None:
    deleted = opened.add_server(is_default=False)
    sent = send(server_config_id=deleted)
    assert opened.deliver(sent) == {"sent": 1}
    opened.server.on("EOD", "451 4.3.0 later", times=1)
    prepared = send(server_config_id=deleted)
    assert opened.deliver(prepared) == {"retry": 1}
    waiting = send(server_config_id=deleted)

    api.delete_mail_server(deleted)

    assert opened.deliver(prepared, waiting) == {"failed": 2}
    for record_id in (prepared, waiting):
        row = opened.records.row(record_id)
        assert (row.status, row.error_code) == (SendStatus.FAILED, "CONFIG_NOT_RESOLVABLE")
        assert (row.server_config_id, f"mail server {deleted}" in row.error_message) == (deleted, True)
    assert opened.records.row(sent).server_config_id == deleted
    assert len(opened.server.messages) == 1
    assert opened.add_server(is_default=False) > deleted


def test_mails_of_a_template_that_prefers_a_deleted_server_fail_until_it_prefers_another(opened: Desk) -> None:
    deleted = opened.add_server(is_default=False)
    template_id = add_template(preferred_server_config_id=deleted)
    api.delete_mail_server(deleted)
    record_id = send(template_id=template_id, subject=None, text_body=None)
    assert opened.deliver(record_id) == {"failed": 1}
    assert opened.records.row(record_id).error_code == "CONFIG_NOT_RESOLVABLE"
    # What it names already is not looked at again where something else is changed.
    api.change_mail_template(template_id, subject="Hello")
    api.change_mail_template(template_id, preferred_server_config_id=None)
    api.retry(record_id)
    assert opened.deliver(record_id) == {"sent": 1}


def test_after_the_default_server_is_deleted_mails_wait_for_nobody_and_say_so(opened: Desk) -> None:
    [server] = api.list_mail_servers()
    api.delete_mail_server(server.id)
    record_id = send()
    assert opened.deliver(record_id) == {"failed": 1}  # operate.md O36
    assert opened.records.row(record_id).error_message == "no default mail server is configured"
    opened.add_server()
    api.retry(record_id)
    assert opened.deliver(record_id) == {"sent": 1}


def test_mails_of_a_deleted_template_go_out_where_they_are_prepared_and_fail_elsewhere(opened: Desk) -> None:
    template_id = add_template()
    templated: dict[str, Any] = {"subject": None, "text_body": None}
    opened.server.on("EOD", "451 4.3.0 later", times=1)
    prepared = send(template_id=template_id, **templated)
    assert opened.deliver(prepared) == {"retry": 1}
    by_id, by_code = send(template_id=template_id, **templated), send(template_code="welcome", **templated)

    api.delete_mail_template(template_id)

    assert opened.deliver(prepared) == {"sent": 1}  # operate.md O37
    assert opened.deliver(by_id, by_code) == {"failed": 2}
    assert {opened.records.row(i).error_code for i in (by_id, by_code)} == {"TEMPLATE_NOT_FOUND"}
    assert opened.records.row(prepared).template_id == template_id
    assert add_template() > template_id
    for record_id in (by_id, by_code):
        api.retry(record_id)
    assert opened.deliver(by_id, by_code) == {"failed": 1, "sent": 1}
    assert opened.records.row(by_code).status == SendStatus.SENT
