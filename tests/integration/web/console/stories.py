"""Records in every state, with what a page of them can show; every text that a stranger writes is given."""

import json
from typing import Any

from sqlalchemy import Engine, text

from messaging import api, tenancy
from messaging.requests import Attachment

#: A picture of one point.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da63fcffff3f0300050001"
    "ff5ba7e1940000000049454e44ae426082"
)


def mail(
    engine: Engine,
    tenant: int = 7,
    *,
    status: str = "PENDING",
    subject: str = "Your order is on its way",
    said: str | None = None,
    **fields: Any,
) -> int:
    """A mail that got as far as `status`, by an attempt that was answered with `said`."""
    asked = {"to": ["ann@example.org"], "text_body": "Hello Ann,\nit left today.", "subject": subject, **fields}
    with tenancy.tenant(tenant):
        record_id = api.send_mail(**asked)
    _move(engine, "mail", "mail_send_record", record_id, status, said)
    if status != "PENDING":
        results = {"ann@example.org": _result(status, said)}
        change = "UPDATE mail_send_record SET recipient_results = CAST(:r AS jsonb), message_id = :m WHERE id = :id"
        with engine.begin() as connection:
            connection.execute(
                text(change), {"r": json.dumps(results), "m": f"<{record_id}@x.example>", "id": record_id}
            )
    return record_id


def sms(engine: Engine, tenant: int = 7, *, status: str = "PENDING", said: str | None = None, **fields: Any) -> int:
    """A text message that got as far as `status`."""
    asked = {"phone_number": "+4915112345678", "content": "Your code is 1234", **fields}
    with tenancy.tenant(tenant):
        record_id = api.send_sms(**asked)
    _move(engine, "sms", "sms_send_record", record_id, status, said)
    return record_id


def attachment(name: str = "invoice.pdf", content: bytes = b"%PDF-1.7 ...", **fields: Any) -> Attachment:
    """A file of a mail."""
    return Attachment(file_name=name, content=content, **{"content_type": "application/pdf", **fields})


def dead_letter(engine: Engine, record_id: int | None, *, error: str, event: str = "mail", tenant: int = 7) -> int:
    """One that nobody has seen to."""
    statement = text("""
        INSERT INTO dead_letter_message (source_tenant_id, source, channel, original_queue, event_type, event_id,
            status, last_error_msg, payload)
        VALUES (:tenant, 'SEND_EXHAUSTED', 'mail', 'mail_send', :event, :record, 'PENDING', CAST(:error AS text),
            jsonb_build_object('text', CAST(:error AS text)))
        RETURNING id
    """)
    given = {"tenant": tenant, "event": event, "record": record_id, "error": error}
    with engine.begin() as connection:
        return int(connection.execute(statement, given).scalar_one())


def _result(status: str, said: str | None) -> dict[str, Any]:
    result = {"SENT": "accepted", "FAILED": "refused"}.get(status, "deferred")
    return {
        "result": result,
        "code": "250" if status == "SENT" else "550",
        "text": said,
        "at": "2030-01-31T08:00:02+00:00",
    }


def _move(engine: Engine, channel: str, table: str, record_id: int, status: str, said: str | None) -> None:
    if status == "PENDING":
        return
    error = None if status == "SENT" else "SMTP_550_5.1.1"
    column = "sent_at = now()," if status == "SENT" else "claimed_at = now()," if status == "SENDING" else ""
    body = (
        "body_mode = CASE WHEN body_html IS NULL THEN 'PLAIN' ELSE 'HTML' END, from_address = 'shop@example.org',"
        if channel == "mail"
        else ""
    )
    with engine.begin() as connection:
        connection.execute(
            text(
                f"UPDATE {table} SET status = :status, {column} {body} prepared_at = now(), error_code = :error,"
                " error_message = :said, retry_count = 1 WHERE id = :id"
            ),
            {"status": status, "error": error, "said": said, "id": record_id},
        )
        if status != "SENDING":
            connection.execute(
                text(
                    """
                    INSERT INTO send_attempt (tenant_id, channel, record_id, attempt_no, started_at, ended_at, outcome,
                        category, error_code, error_message, worker_name)
                    SELECT tenant_id, :channel, id, 1, now(), now() + interval '0.31 seconds', :outcome, :category,
                        error_code, error_message, 'mail@host' FROM """
                    + table
                    + """ WHERE id = :id
                """
                ),
                {"channel": channel, "outcome": status, "category": error and "INVALID_INPUT", "id": record_id},
            )
