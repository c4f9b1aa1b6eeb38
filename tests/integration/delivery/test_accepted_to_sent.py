"""Test points that go all the way, from send_mail to what the server was sent: what is settled once and replayed."""

import logging
from collections.abc import Callable
from email import message_from_bytes
from email.message import Message
from typing import Any

import pytest

from messaging import api, tenancy
from messaging.category import MARKER_CATEGORY, ErrorCategory, MarkerCode
from messaging.delivery.status import SendStatus
from messaging.errors import PreparationError, RecordNotFound
from messaging.requests import BodyMode, MessageScope
from tests.integration.delivery.desk import Desk

pytestmark = pytest.mark.postgres16

PENDING, SENDING, SENT, RETRY, FAILED, DEAD_LETTER = SendStatus

MakeDesk = Callable[..., Desk]


@pytest.fixture
def opened(make_desk: MakeDesk) -> MakeDesk:
    """A desk on which the public functions work; without a mail server."""

    def opened(**overrides: Any) -> Desk:
        desk = make_desk(**overrides)
        api.configure(desk.settings, engine=desk.engine)
        return desk

    return opened


def accept(**fields: Any) -> int:
    return api.send_mail(**{"to": ["a@example.com"], "subject": "s", "text_body": "t", **fields})


def last(desk: Desk) -> Message:
    return message_from_bytes(desk.server.transactions[-1].content)


def test_without_any_server_a_mail_is_accepted_fails_and_is_sent_once_there_is_one(
    opened: MakeDesk, caplog: pytest.LogCaptureFixture
) -> None:  # send.md A19, S4; operate.md O36
    desk = opened()
    record_id = accept(server_config_id=404)
    other_id = accept()
    with caplog.at_level(logging.ERROR, "messaging"):
        assert desk.deliver(record_id, other_id) == {"failed": 2}
    rows = desk.records.rows()
    assert {(r.status, r.error_code, r.prepared_at) for r in rows.values()} == {(FAILED, "CONFIG_NOT_RESOLVABLE", None)}
    assert {r.__dict__["record_id"] for r in caplog.records if r.levelname == "ERROR"} == {record_id, other_id}
    assert desk.records.dead_letters(record_id) == []
    config_id = desk.add_server()
    assert api.retry_batch([record_id, other_id]) == 2
    # The pinned one is still not there: no fall-through to the default.
    assert desk.deliver(record_id, other_id) == {"failed": 1, "sent": 1}
    row = desk.records.row(other_id)
    assert (row.status, row.error_code, row.server_config_id) == (SENT, None, config_id)


def test_markers_that_an_operator_must_see_to_are_of_category_auth() -> None:  # send.md F12
    for marker in (MarkerCode.CONFIG_NOT_RESOLVABLE, MarkerCode.CREDENTIAL_UNREADABLE):
        assert MARKER_CATEGORY[marker] is ErrorCategory.AUTH
        assert PreparationError(marker, "x").category is ErrorCategory.AUTH


def test_a_retry_replays_the_derived_text_that_was_stored(opened: MakeDesk) -> None:  # send.md B4
    desk = opened()
    desk.add_server()
    desk.server.on("EOD", "451 4.3.0 later", times=1)
    html = "<p>Welcome <b>back</b></p>"
    record_id = accept(text_body=None, html_body=html, body_mode=BodyMode.HTML_WITH_DERIVED_PLAIN)
    assert desk.records.row(record_id).body_text is None
    assert desk.deliver(record_id) == {"retry": 1}
    assert desk.records.row(record_id).body_text == "Welcome back"
    # As an older version of the product would have derived it.
    desk.records.put(record_id, body_text="WELCOME BACK")
    assert desk.deliver(record_id) == {"sent": 1}
    plain, rich = last(desk).get_payload()
    assert plain.get_payload(decode=True) == b"WELCOME BACK\r\n"
    assert rich.get_payload(decode=True).strip() == html.encode()
    assert desk.records.row(record_id).body_mode == "HTML_WITH_DERIVED_PLAIN"


def test_a_named_server_goes_before_the_default(opened: MakeDesk) -> None:  # send.md S6
    desk = opened()
    desk.add_server()
    named = desk.add_server(is_default=False, from_address="named@example.org")
    record_id = accept(server_config_id=named)
    assert desk.deliver(record_id) == {"sent": 1}
    assert desk.records.row(record_id).server_config_id == named
    assert desk.server.messages[0].sender == "named@example.org"


def test_what_preparation_took_from_the_server_is_replayed_after_a_change(opened: MakeDesk) -> None:
    # send.md S15, S18; operate.md O37
    desk = opened()
    config_id = desk.add_server(
        reply_to_address="Help <help@example.org>; ops@example.org",
        from_name="The Shop",
        envelope_sender="bounces@example.org",
        read_receipt_enabled=True,
    )
    desk.server.on("EOD", "451 4.3.0 later", times=1)
    record_id = accept()
    assert desk.deliver(record_id) == {"retry": 1}
    row = desk.records.row(record_id)
    assert row.reply_to == "Help <help@example.org>, ops@example.org"
    assert (row.from_name, row.envelope_sender, row.read_receipt_requested) == ("The Shop", "bounces@example.org", True)
    desk.run(
        "UPDATE mail_send_server_config SET reply_to_address = 'new@example.org', from_name = 'New',"
        " from_address = 'new@example.org', envelope_sender = NULL, read_receipt_enabled = false,"
        " is_default = false, updated_at = now()"
    )
    desk.add_server(from_address="other@example.org")
    assert desk.deliver(record_id) == {"sent": 1}
    first, second = desk.server.transactions
    assert first.raw == second.raw
    assert first.sender == second.sender == "bounces@example.org"
    assert last(desk)["Reply-To"] == "Help <help@example.org>, ops@example.org"
    assert last(desk)["Disposition-Notification-To"] == "shop@example.org"
    assert desk.records.row(record_id).server_config_id == config_id


def test_the_requests_reply_to_and_receipt_go_before_the_servers(opened: MakeDesk) -> None:  # send.md S15, S18
    desk = opened()
    desk.add_server(reply_to_address="help@example.org", read_receipt_enabled=True)
    record_id = accept(reply_to="me@example.com", read_receipt_requested=False)
    assert desk.deliver(record_id) == {"sent": 1}
    assert last(desk)["Reply-To"] == "me@example.com"
    assert "Disposition-Notification-To" not in last(desk)
    assert "Return-Receipt-To" not in last(desk)


def test_a_platform_mail_from_a_tenant_uses_the_platforms_server_and_stays_the_tenants(opened: MakeDesk) -> None:
    # operate.md O1, O4; send.md S3
    desk = opened(multi_tenancy=True)
    desk.add_server(tenant_id=7, from_address="seven@example.org")
    platforms = desk.add_server(tenant_id=-1, from_address="platform@example.org")
    with tenancy.tenant(7):
        record_id = accept(scope=MessageScope.PLATFORM)
    assert desk.deliver(record_id) == {"sent": 1}
    row = desk.records.row(record_id)
    assert (row.tenant_id, row.scope, row.server_config_id) == (7, "PLATFORM", platforms)
    assert desk.server.messages[0].sender == "platform@example.org"
    with tenancy.tenant(7):
        assert api.status(record_id).status is SENT
    with tenancy.tenant(8), pytest.raises(RecordNotFound):
        api.status(record_id)


@pytest.mark.parametrize("call", [api.status, api.retry, api.cancel])
def test_an_unknown_id_is_said_to_be_unknown(
    opened: MakeDesk, call: Callable[[int], object]
) -> None:  # operate.md O53; send.md F18
    opened()
    with pytest.raises(RecordNotFound, match="404"):
        call(404)
