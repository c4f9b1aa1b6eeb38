"""Sandbox mode in front of the transports: what is kept, redirected, and let through, and what its records say."""

from collections.abc import Callable
from email import message_from_bytes, policy
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import text

from messaging import api
from messaging.delivery.status import SendStatus
from messaging.requests import Attachment
from tests.far_end.smtp_server import Rule
from tests.integration.delivery.desk import Desk, counted

pytestmark = pytest.mark.postgres16

MakeDesk = Callable[..., Desk]

ANN, BOB = "ann@example.com", "bob@example.org"


@pytest.fixture
def boxed(make_desk: MakeDesk) -> MakeDesk:
    """A desk in sandbox mode on which the public functions work."""

    def make(mode: str, **settings: Any) -> Desk:
        desk = make_desk(sandbox={"mode": mode, **settings})
        api.configure(desk.settings, engine=desk.engine)
        desk.add_server()
        return desk

    return make


def kept(desk: Desk) -> list[SimpleNamespace]:
    with desk.own.connect() as connection:
        found = connection.execute(text("SELECT * FROM captured_message ORDER BY id")).fetchall()
    return [SimpleNamespace(**row._mapping) for row in found]


def codes(desk: Desk, record_id: int) -> dict[str, str]:
    return {address: told["code"] for address, told in desk.records.row(record_id).recipient_results.items()}


def test_captured_mail_is_kept_as_it_would_have_gone_out_and_sent_to_nobody(boxed: MakeDesk) -> None:
    desk = boxed("capture")
    before = counted("messaging_sent_total", channel="mail", provider="sandbox")
    files = [Attachment(file_name="a.txt", content=b"words", content_type="text/plain")]
    record_id = api.send_mail(to=[ANN], bcc=[BOB], subject="s", text_body="t", attachments=files)
    assert desk.deliver(record_id) == {"sent": 1}
    assert desk.server.transactions == []
    [captured] = kept(desk)
    assert (captured.channel, captured.record_id, captured.tenant_id) == ("mail", record_id, 0)
    assert (captured.sender, captured.recipients, captured.subject) == ("shop@example.org", [ANN, BOB], "s")
    message = message_from_bytes(captured.raw, policy=policy.default)
    assert (message["To"], message["Subject"], message["Bcc"]) == (ANN, "s", None)
    assert [part.get_content() for part in message.iter_attachments()] == ["words"]  # type: ignore[attr-defined]
    row = desk.records.row(record_id)
    assert row.status == SendStatus.SENT
    assert codes(desk, record_id) == {ANN: "SANDBOX_CAPTURED", BOB: "SANDBOX_CAPTURED"}
    assert [(one.outcome, one.provider) for one in desk.records.attempts(record_id)] == [("SENT", "sandbox")]
    assert counted("messaging_sent_total", channel="mail", provider="sandbox") == before + 1


def test_a_repeated_attempt_keeps_a_message_once(boxed: MakeDesk) -> None:
    # A worker that was killed after it kept it: the sweep brings the record back.
    desk = boxed("capture")
    record_id = api.send_mail(to=[ANN], subject="s", text_body="t")
    desk.deliver(record_id)
    desk.run("UPDATE mail_send_record SET status = 'RETRY', recipient_results = '{}', next_attempt_at = now()")
    assert desk.deliver(record_id) == {"sent": 1}
    assert [one.recipients for one in kept(desk)] == [[ANN]]


def test_what_is_captured_uses_up_no_window_of_its_server(boxed: MakeDesk) -> None:
    desk = boxed("capture")
    desk.run("UPDATE mail_send_server_config SET rate_limit_per_minute = 1")
    ids = [api.send_mail(to=[ANN], subject="s", text_body="t") for _ in range(3)]
    assert desk.deliver(*ids) == {"sent": 3}


def test_the_suppression_list_holds_in_sandbox_mode_too(boxed: MakeDesk) -> None:
    desk = boxed("capture")
    api.add_suppression(channel="mail", address=ANN, reason="MANUAL")
    record_id = api.send_mail(to=[ANN], subject="s", text_body="t")
    assert desk.deliver(record_id) == {"failed": 1}
    assert kept(desk) == []


def test_a_redirected_mail_goes_to_one_address_and_tells_whom_it_was_for(boxed: MakeDesk) -> None:
    desk = boxed("redirect", redirect_to=("dev@example.net",))
    record_id = api.send_mail(to=[f"Ann Lee <{ANN}>"], cc=[BOB], subject="Hi", text_body="t")
    assert desk.deliver(record_id) == {"sent": 1}
    [sent] = desk.server.transactions
    assert sent.recipients == ("dev@example.net",)
    message = message_from_bytes(sent.content, policy=policy.default)
    assert (message["To"], message["Cc"], message["Subject"]) == ("dev@example.net", None, f"[to {ANN} and 1 more] Hi")
    assert (message["X-Sandbox-To"], message["X-Sandbox-Cc"]) == (f"Ann Lee <{ANN}>", BOB)
    assert message["X-Sandbox-Recipients"] == f"{ANN}, {BOB}"
    assert codes(desk, record_id) == {ANN: "SANDBOX_REDIRECTED", BOB: "SANDBOX_REDIRECTED"}
    row = desk.records.row(record_id)
    assert (row.to_addresses, row.subject) == ([f"Ann Lee <{ANN}>"], "Hi")


def test_a_redirected_mail_that_is_refused_is_refused_for_those_it_was_for(boxed: MakeDesk) -> None:
    desk = boxed("redirect", redirect_to=("dev@example.net",))
    desk.server.rules = [Rule("RCPT", "550 5.1.1 no such user")]
    record_id = api.send_mail(to=[ANN], subject="Hi", text_body="t")
    assert desk.deliver(record_id) == {"failed": 1}
    assert codes(desk, record_id) == {ANN: "SMTP_550_5.1.1"}


def test_listed_recipients_get_a_mail_and_the_others_are_kept(boxed: MakeDesk) -> None:
    desk = boxed("allowlist", allow=("example.org",))
    record_id = api.send_mail(to=[ANN, BOB], subject="s", text_body="t")
    assert desk.deliver(record_id) == {"sent": 1}
    [sent] = desk.server.transactions
    assert sent.recipients == (BOB,)
    assert [one.recipients for one in kept(desk)] == [[ANN]]
    assert codes(desk, record_id) == {ANN: "SANDBOX_CAPTURED", BOB: "SMTP_250_2.0.0"}
    assert [one.provider for one in desk.records.attempts(record_id)] == ["smtp"]


def test_what_fails_for_the_listed_ones_is_tried_again_and_kept_once(boxed: MakeDesk) -> None:
    desk = boxed("allowlist", allow=("example.org",))
    desk.server.rules = [Rule("MAIL", "451 4.3.0 later", times=1)]
    record_id = api.send_mail(to=[ANN, BOB], subject="s", text_body="t")
    assert desk.deliver(record_id) == {"retry": 1}
    assert desk.deliver(record_id) == {"sent": 1}
    assert [one.recipients for one in kept(desk)] == [[ANN]]
    assert [one.recipients for one in desk.server.transactions] == [(BOB,)]


def test_a_mail_that_cannot_be_kept_is_not_sent_either(boxed: MakeDesk) -> None:
    desk = boxed("allowlist", allow=("example.org",))
    desk.run("ALTER TABLE captured_message RENAME TO captured_elsewhere")
    try:
        record_id = api.send_mail(to=[ANN, BOB], subject="s", text_body="t")
        assert desk.deliver(record_id) == {"released": 1}
    finally:
        desk.run("ALTER TABLE captured_elsewhere RENAME TO captured_message")
    assert desk.server.transactions == []


def test_with_the_mode_off_the_channel_is_the_channel_itself(make_desk: MakeDesk) -> None:
    desk = make_desk()
    assert desk.worker._delivery.channel is desk.channel
