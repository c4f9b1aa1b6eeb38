"""Text messages of a template that has its records redacted."""

import hashlib
from collections.abc import Callable

from sqlalchemy import update

from messaging.sms.models import SMS_TEMPLATE
from tests.integration.sms.desk import SmsDesk


def test_a_text_loses_its_content_with_the_outcome_and_keeps_a_hash(make_desk: Callable[..., SmsDesk]) -> None:
    desk = make_desk()
    server = desk.serve()
    desk.add_provider(server)
    desk.accounts.template("otp", tenant_id=0, content="Your code is {{ code }}.")
    with desk.engine.begin() as connection:
        connection.execute(update(SMS_TEMPLATE).values(redact=True))
    record_id = desk.one(content=None, template_code="otp", template_variables={"code": "482913"})
    assert desk.deliver(record_id) == {"sent": 1}
    assert [request.form()["Body"] for request in server.requests] == ["Your code is 482913."]
    row = desk.row(record_id)
    assert (row.status, row.content, row.template_variables, row.template_params) == ("SENT", None, None, None)
    assert row.content_sha256 == hashlib.sha256(b"Your code is 482913.").hexdigest()
    # What a receipt is told by stays.
    assert (row.provider_message_id is None, row.redacted_at) == (False, row.sent_at)
