"""Infobip's SMS API, version 3, as its public description has it, for one account."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.far_end.provider_server import Reply, Request, Taken

API_KEY = "infobip-api-key-0001"
_STATUS = {
    "PENDING_ACCEPTED": (1, "PENDING", 26, "Message sent to next instance"),
    "REJECTED_DESTINATION": (5, "REJECTED", 13, "By Infobip: destination is not valid"),
    "REJECTED_PREFIX_MISSING": (5, "REJECTED", 8, "Number prefix missing"),
}
_KEPT = timedelta(hours=48)
_MESSAGE_KEYS = {"sender", "destinations", "content", "webhooks", "options"}
_WEBHOOK_KEYS = {"delivery", "contentType", "callbackData"}


class InfobipApi:
    """Accepts what is well formed."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []

    def answer(self, request: Request) -> Reply:
        served = (request.method, request.path)
        if served not in (("POST", "/sms/3/messages"), ("GET", "/sms/3/logs"), ("GET", "/account/1/balance")):
            return Reply(404, {"errorCode": "E404", "description": "Requested URL was not found."})
        if request.headers.get("authorization") != f"App {API_KEY}":
            return Reply(401, {"errorCode": "E401", "description": "Invalid login details"})
        if request.path == "/sms/3/logs":
            return self._logs(request)
        if request.method == "GET":
            return Reply(200, {"balance": 47.79134, "currency": "EUR"})
        if request.media_type != "application/json":
            return Reply(415, {"errorCode": "E415", "description": "Unsupported media type"})
        asked = request.json()
        wrong = _violation(asked)
        if wrong is not None:
            return Reply(
                400,
                {
                    "errorCode": "E400",
                    "description": "Request cannot be processed.",
                    "action": "Check the syntax, violations and adjust the request.",
                    "violations": [{"property": wrong, "violation": "is not valid"}],
                    "resources": [],
                },
            )
        message = asked["messages"][0]
        number = message["destinations"][0]["to"]
        if re.fullmatch(r"[1-9]\d{6,14}", number) is None:
            return _answered(number, "REJECTED_PREFIX_MISSING", "m-refused")
        if number.endswith("5550001"):
            return _answered(number, "REJECTED_DESTINATION", "m-refused")
        message_id = f"{2033247207850523790 + len(self.taken)}"
        webhooks = message.get("webhooks", {})
        self.taken.append(
            Taken(message_id, number, message["content"]["text"], message.get("sender"), webhooks.get("callbackData"))
        )
        return _answered(number, "PENDING_ACCEPTED", message_id)

    def _logs(self, request: Request) -> Reply:
        asked = request.query
        if not asked.keys() <= {"destination", "sentSince", "sentUntil", "limit", "messageId", "bulkId", "sender"}:
            return Reply(400, {"errorCode": "E400", "description": "Request cannot be processed."})
        since = datetime.fromisoformat(asked["sentSince"]) if "sentSince" in asked else datetime.now(UTC) - _KEPT
        listed = [t for t in reversed(self.taken) if t.at >= since and asked.get("destination") in (None, t.number)]
        return Reply(200, {"results": [_logged(taken) for taken in listed[: int(asked.get("limit", "50"))]]})


def _logged(taken: Taken) -> dict[str, Any]:
    """An entry of the logs, which names no `callbackData`."""
    group_id, group, status_id, words = _STATUS["PENDING_ACCEPTED"]
    return {
        "sender": taken.sender,
        "destination": taken.number,
        "bulkId": "b-1",
        "messageId": taken.id,
        "sentAt": f"{taken.at:%Y-%m-%dT%H:%M:%S.}{taken.at.microsecond // 1000:03}+0000",
        "messageCount": 1,
        "status": {"groupId": group_id, "groupName": group, "id": status_id, "name": "PENDING_ACCEPTED",
                   "description": words},
        "content": {"text": taken.text},
    }  # fmt: skip


def _answered(number: str, name: str, message_id: str) -> Reply:
    group_id, group, status_id, words = _STATUS[name]
    status = {"groupId": group_id, "groupName": group, "id": status_id, "name": name, "description": words}
    message = {"messageId": message_id, "status": status, "destination": number, "details": {"messageCount": 1}}
    return Reply(200, {"bulkId": "b-1", "messages": [message]})


def _violation(asked: Any) -> str | None:
    """The first property that is missing, unknown or of another type."""
    if not isinstance(asked, dict) or not isinstance(asked.get("messages"), list) or not asked["messages"]:
        return "messages"
    message = asked["messages"][0]
    if not isinstance(message, dict) or not message.keys() <= _MESSAGE_KEYS:
        return "messages[0]"
    destinations = message.get("destinations")
    if not isinstance(destinations, list) or not destinations or not isinstance(destinations[0].get("to"), str):
        return "messages[0].destinations[0].to"
    if not isinstance(message.get("content"), dict) or not message["content"].get("text"):
        return "messages[0].content.text"
    if not message.get("webhooks", {}).keys() <= _WEBHOOK_KEYS:
        return "messages[0].webhooks"
    return None
