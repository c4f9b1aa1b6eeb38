"""Sinch's SMS REST API as its public description has it, for one service plan."""

import re
from datetime import UTC, datetime
from typing import Any

from tests.far_end.provider_server import Reply, Request, Taken

SERVICE_PLAN = "0123456789abcdef0123456789abcdef"
API_TOKEN = "sinch-api-token-0001"
_KEYS = {
    "from", "to", "body", "type", "client_reference", "delivery_report", "callback_url", "send_at", "expire_at",
    "udh", "parameters", "flash_message", "max_number_of_message_parts", "feedback_enabled", "truncate_concat",
}  # fmt: skip


class SinchApi:
    """Accepts what is well formed."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []

    def answer(self, request: Request) -> Reply:
        if request.path != f"/xms/v1/{SERVICE_PLAN}/batches":
            return Reply(404, b"")
        if request.headers.get("authorization") != f"Bearer {API_TOKEN}":
            return Reply(401, b"")
        if request.method == "GET":
            return self._list(request)
        if request.media_type != "application/json":
            return Reply(415, {"code": "unsupported_media_type", "text": "The content type is not supported"})
        asked = request.json()
        if not isinstance(asked, dict):
            return _refused("syntax_invalid_json", "The request body is not JSON")
        wrong = _violation(asked)
        if wrong is not None:
            return wrong
        batch_id = f"01FC66621XXXXX119Z8PMV{len(self.taken):04d}"
        self.taken.append(
            Taken(
                batch_id, asked["to"][0].removeprefix("+"), asked["body"], asked.get("from"),
                asked.get("client_reference"),
            )
        )  # fmt: skip
        return Reply(201, _batch(self.taken[-1]) | {"delivery_report": asked.get("delivery_report", "none")})

    def _list(self, request: Request) -> Reply:
        asked = request.query
        unknown = asked.keys() - {"page", "page_size", "from", "start_date", "end_date", "client_reference"}
        size = int(asked.get("page_size", "30"))
        if unknown or not 1 <= size <= 100:
            return _refused("syntax_invalid_parameter_format", f"{min(unknown, default='page_size')}")
        since = (
            datetime.fromisoformat(asked["start_date"]) if "start_date" in asked else datetime.min.replace(tzinfo=UTC)
        )
        wanted = asked.get("client_reference")
        found = [t for t in reversed(self.taken) if t.at >= since and wanted in (None, t.reference)]
        batches = [_batch(taken) for taken in found[:size]]
        return Reply(200, {"count": len(found), "page": 0, "page_size": len(batches), "batches": batches})


def _batch(taken: Taken) -> dict[str, Any]:
    """The resource of a message."""
    at = f"{taken.at:%Y-%m-%dT%H:%M:%S}.{taken.at.microsecond // 1000:03}Z"
    return {
        "id": taken.id,
        "to": [taken.number],
        "from": taken.sender,
        "canceled": False,
        "body": taken.text,
        "type": "mt_text",
        "created_at": at,
        "modified_at": at,
        "delivery_report": "none",
        "client_reference": taken.reference,
        "flash_message": False,
    }


def _violation(asked: dict[str, Any]) -> Reply | None:
    unknown = asked.keys() - _KEYS
    if unknown:
        return _refused("syntax_constraint_violation", f"Unknown property {min(unknown)}")
    to = asked.get("to")
    if not isinstance(to, list) or not to or not asked.get("body"):
        return _refused("syntax_constraint_violation", "to and body are required")
    for number in to:
        if not isinstance(number, str) or not re.fullmatch(r"\+?[1-9]\d{6,14}", number) or number.endswith("5550001"):
            return _refused("syntax_invalid_parameter_format", f"to: {number} is not a valid MSISDN")
    if asked.get("delivery_report", "none") not in ("none", "summary", "full", "per_recipient", "per_recipient_final"):
        return _refused("syntax_invalid_parameter_format", "delivery_report")
    return None


def _refused(code: str, text: str) -> Reply:
    return Reply(400, {"code": code, "text": text})
