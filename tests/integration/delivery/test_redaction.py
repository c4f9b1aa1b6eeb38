"""What a template marks is taken off its records as they are sent, whichever way they come to be; a hash stays."""

import hashlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import event, insert, text

from messaging import api
from messaging.delivery import statements
from messaging.delivery.redaction import CONTENT_COLUMNS
from messaging.delivery.status import SendStatus
from messaging.errors import StateError
from messaging.mail.models import MAIL_SEND_RECORD, MAIL_TEMPLATE
from messaging.requests import Attachment
from tests.integration.delivery.desk import Desk
from tests.integration.delivery.records import ACCEPTED, DEFERRED, MAX_RETRIES, NUMBERS, REFUSED, A, B, Records, stored

pytestmark = pytest.mark.postgres16

MakeDesk = Callable[..., Desk]

#: What is left of a mail's content: nothing.
CONTENT = ("subject", "body_html", "body_text", "attachments", "headers", "template_variables")


@pytest.fixture
def desk(make_desk: MakeDesk) -> Desk:
    """A desk with a template that has its records redacted, on which the public functions work."""
    made = make_desk()
    api.configure(made.settings, engine=made.engine)
    made.add_server()
    values = {"code": "code", "name": "Code", "subject": "Code {{ code }}", "body_html": "<p>{{ code }}</p>"}
    with made.own.begin() as connection:
        connection.execute(insert(MAIL_TEMPLATE).values(**values, redact=True))
    return made


def asked(**fields: Any) -> int:
    return api.send_mail(**{"to": [A], "template_code": "code", "template_variables": {"code": "482913"}, **fields})


def content_of(row: SimpleNamespace) -> list[Any]:
    return [getattr(row, name) for name in CONTENT]


def sha256(*parts: str | None) -> str:
    return hashlib.sha256(b"\0".join((part or "").encode() for part in parts)).hexdigest()


def test_a_mail_loses_its_content_with_the_outcome_and_keeps_a_hash(desk: Desk) -> None:
    file = Attachment(file_name="a.txt", content=b"words", content_type="text/plain")
    record_id = asked(attachments=[file], headers={"X-Code": "482913"})
    assert desk.deliver(record_id) == {"sent": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.redact, content_of(row)) == (SendStatus.SENT, True, [None] * 6)
    assert row.redacted_at == row.sent_at
    # Whom, when and by what stays.
    assert (row.to_addresses, row.template_code, row.message_id is None) == ([A], "code", False)
    [sent] = desk.server.transactions
    assert b"482913" in sent.content
    assert row.content_sha256 == sha256("Code 482913", "<p>482913</p>", "482913")
    assert api.status(record_id).status is SendStatus.SENT


def test_what_no_template_marks_keeps_its_content(desk: Desk) -> None:
    record_id = api.send_mail(to=[A], subject="s", text_body="t")
    desk.deliver(record_id)
    row = desk.records.row(record_id)
    assert (row.subject, row.body_text, row.redact, row.redacted_at, row.content_sha256) == (
        "s",
        "t",
        False,
        None,
        None,
    )


def test_an_outcome_of_what_no_template_marks_speaks_of_no_content(desk: Desk) -> None:
    said: list[str] = []
    event.listen(desk.engine, "before_cursor_execute", lambda *given: said.append(given[2]))
    commit_engine = desk.worker._commit_engine
    event.listen(commit_engine, "before_cursor_execute", lambda *given: said.append(given[2]))
    desk.deliver(api.send_mail(to=[A], subject="s", text_body="t"))
    outcomes = [statement for statement in said if "due_to_sent" in statement]
    assert outcomes
    assert not any("redact" in statement for statement in outcomes)


def test_what_is_to_be_retried_or_has_failed_keeps_its_content(records: Records) -> None:
    waiting, failed = records.one(redact=True, to=(A, B)), records.one(redact=True)
    records.deliver(waiting, {A: ACCEPTED, B: DEFERRED})
    records.deliver(failed, {A: REFUSED})
    for record_id, status in ((waiting, SendStatus.RETRY), (failed, SendStatus.FAILED)):
        row = records.row(record_id)
        assert (row.status, row.body_text, row.redacted_at) == (status, "Thank you.", None)


@pytest.mark.parametrize("channel", ["mail", "sms"])
def test_every_way_to_sent_takes_the_content_off(request: pytest.FixtureRequest, channel: str) -> None:
    records: Records = request.getfixturevalue("records" if channel == "mail" else "sms_records")
    kind = records.kind
    accepted = {NUMBERS[A] if channel == "sms" else A: ACCEPTED}
    outcome, late = records.accept(count=2, redact=True)
    records.deliver(outcome, accepted)
    # T14: the sweep came between the send and its outcome.
    [claim] = records.claim_now(late)
    records.prepare([claim])
    assert records.swept(late) == SendStatus.RETRY
    assert records.end(claim, accepted) == "sent"
    for record_id in (outcome, late):
        row = records.row(record_id)
        assert (row.status, row.redacted_at) == (SendStatus.SENT, row.sent_at)
        content = [name for name in CONTENT_COLUMNS if hasattr(row, name)]
        assert [getattr(row, name) for name in content] == [None] * len(content)
        whole = kind.accepted([A])
        parts = ("content",) if channel == "sms" else ("subject", "body_html", "body_text")
        assert row.content_sha256 == sha256(*(whole.get(name) for name in parts))


def test_what_ends_as_sent_without_an_attempt_loses_its_content_too(records: Records) -> None:
    # Somebody accepted it before: past its time it is SENT at the claim, and at the end of its budget by the sweep.
    some = {A: stored(ACCEPTED)}
    expired = records.one(redact=True, to=(A, B), recipient_results=some, expires_at=text("now() - interval '1 s'"))
    stuck = records.one(redact=True, to=(A, B), recipient_results=some, retry_count=MAX_RETRIES)
    kept = records.one(to=(A, B), recipient_results=some, expires_at=text("now() - interval '1 s'"))
    assert records.claim_now(expired, stuck, kept) != []
    assert records.swept(stuck) == SendStatus.SENT
    for record_id in (expired, stuck):
        row = records.row(record_id)
        assert (row.status, row.body_text, row.content_sha256) == (
            SendStatus.SENT,
            None,
            sha256("Order 17", None, "Thank you."),
        )
    assert (records.row(kept).status, records.row(kept).body_text) == (SendStatus.SENT, "Thank you.")


def test_a_redacted_record_that_bounced_is_not_tried_again(desk: Desk) -> None:
    record_id = asked()
    desk.deliver(record_id)
    desk.records.bounce(record_id, A)
    row = desk.records.row(record_id)
    assert (row.status, row.content_sha256 is None) == (SendStatus.FAILED, False)
    with pytest.raises(StateError, match="has no content any more"):
        api.retry(record_id)
    assert api.retry_batch([record_id]) == 0
    # Also where it lost its content after it was looked at.
    asked_for = {"ids": [record_id], "versions": [row.version], "results": ["{}"]}
    assert desk.records.run(statements.requeue(MAIL_SEND_RECORD), **asked_for) == []
