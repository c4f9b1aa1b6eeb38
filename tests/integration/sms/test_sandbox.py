"""Sandbox mode in front of the providers of text messages."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import text

from messaging.delivery.status import SendStatus
from tests.integration.sms.desk import SmsDesk
from tests.integration.sms.providers.subjects import NUMBER

DEV = "+15005550006"


def boxed(make_desk: Callable[..., SmsDesk], **settings: Any) -> SmsDesk:
    return make_desk(sandbox=settings)


def kept(desk: SmsDesk) -> list[Any]:
    with desk.engine.connect() as connection:
        return list(connection.execute(text("SELECT * FROM captured_message")))


def test_a_captured_text_is_kept_and_no_provider_is_called(make_desk: Callable[..., SmsDesk]) -> None:
    desk = boxed(make_desk, mode="capture")
    server = desk.serve()
    config_id = desk.add_provider(server, sender_number="+4915100000000")
    record_id = desk.one(content="Your code is 7.")
    assert desk.deliver(record_id) == {"sent": 1}
    assert server.requests == []
    [captured] = kept(desk)
    assert (captured.channel, captured.record_id, captured.recipients) == ("sms", record_id, [NUMBER])
    assert (captured.sender, captured.content, captured.raw) == ("+4915100000000", "Your code is 7.", None)
    assert captured.details["provider_config_id"] == config_id
    row = desk.row(record_id)
    assert (row.status, row.provider_message_id) == (SendStatus.SENT, None)


def test_a_redirected_text_goes_to_the_one_number_and_tells_whom_it_was_for(make_desk: Callable[..., SmsDesk]) -> None:
    desk = boxed(make_desk, mode="redirect", redirect_to=(DEV,))
    server = desk.serve()
    desk.add_provider(server)
    record_id = desk.one(content="Your code is 7.")
    assert desk.deliver(record_id) == {"sent": 1}
    [request] = server.requests
    assert (request.form()["To"], request.form()["Body"]) == (DEV, f"(to {NUMBER}) Your code is 7.")
    row = desk.row(record_id)
    assert (row.phone_number, row.content, row.status) == (NUMBER, "Your code is 7.", SendStatus.SENT)


def test_a_listed_number_gets_its_text_as_it_is(make_desk: Callable[..., SmsDesk]) -> None:
    desk = boxed(make_desk, mode="allowlist", allow=(NUMBER,))
    server = desk.serve()
    desk.add_provider(server)
    assert desk.deliver(desk.one(content="Your code is 7.")) == {"sent": 1}
    assert [request.form()["Body"] for request in server.requests] == ["Your code is 7."]
    assert kept(desk) == []
