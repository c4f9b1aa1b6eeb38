"""Columns of a row of each kind, as plain as they can be."""

from typing import Any

MAIL: dict[str, Any] = {
    "scope": "TENANT",
    "to_addresses": ["a@example.com"],
    "subject": "s",
    "body_text": "t",
    "body_mode": "PLAIN",
    "template_variables": {"name": "Kim"},
}
TEXT: dict[str, Any] = {"scope": "TENANT", "phone_number": "+4915112345678", "content": "t"}
WEBHOOK: dict[str, Any] = {"scope": "TENANT", "endpoint_id": 1, "event_type": "message.sent", "payload": {"id": "1"}}
FILE: dict[str, Any] = {
    "sha256": "0" * 64,
    "file_name": "a.txt",
    "content_type": "text/plain",
    "size": 1,
    "content": b"x",
}
RECEIVED: dict[str, Any] = {
    "server_config_id": 1,
    "folder_name": "INBOX",
    "subject": "s",
    "body_text": "t",
    "from_address": "a@example.com",
    "to_addresses": ["b@example.com"],
}
NOTIFICATION: dict[str, Any] = {"recipient_id": 1, "title": "t", "content": "c"}
CAPTURED: dict[str, Any] = {"channel": "mail", "recipients": ["a@example.com"]}
DEAD_LETTER: dict[str, Any] = {"source": "SEND_EXHAUSTED", "payload": {}}
RECEIPT: dict[str, Any] = {"provider_config_id": 1, "raw": "r"}
ATTEMPT: dict[str, Any] = {"channel": "mail", "attempt_no": 1, "outcome": "SENT"}
