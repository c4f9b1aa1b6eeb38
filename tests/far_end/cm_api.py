"""CM.com's JSON gateway as its public description has it, for one product token."""

import re
from typing import Any

from tests.far_end.provider_server import Reply, Request, Taken

PRODUCT_TOKEN = "cm-product-token-0001"


class CmApi:
    """Accepts what is well formed; names no message id."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []

    def answer(self, request: Request) -> Reply:
        if request.path != "/v1.0/message" or request.method != "POST":
            return Reply(404, b"")
        if request.media_type != "application/json":
            return _refused(202, "The content type is not supported")
        asked = request.json()
        messages = asked.get("messages") if isinstance(asked, dict) else None
        if not isinstance(messages, dict):
            return _refused(202, "Malformed request")
        if messages.get("authentication") != {"producttoken": PRODUCT_TOKEN}:
            return _refused(103, "No account found for the given authentication")
        listed = messages.get("msg")
        if not isinstance(listed, list) or len(listed) != 1 or not isinstance(listed[0], dict):
            return _refused(203, "The MSG array is invalid")
        return self._send(listed[0])

    def _send(self, message: dict[str, Any]) -> Reply:
        code, details = _violation(message)
        to = message["to"][0]["number"] if code != 302 else ""
        reference = message.get("reference")
        if code:
            failed = outcome(to, reference, code, details)
            return Reply(400, {"details": "Created 0 message(s)", "errorCode": 201, "messages": [failed]})
        sender, text = message["from"], message["body"]["content"]
        self.taken.append(Taken(reference, to.removeprefix("00"), text, sender, reference))
        return Reply(200, accepted(to, reference))


def accepted(to: str, reference: str | None) -> dict[str, Any]:
    """The documented answer to a message that was taken."""
    return {"details": "Created 1 message(s)", "errorCode": 0, "messages": [outcome(to, reference, 0, None)]}


def outcome(to: str, reference: str | None, code: int, details: str | None) -> dict[str, Any]:
    """What an answer says of one message."""
    return {
        "to": to,
        "status": "Rejected" if code else "Accepted",
        "reference": reference,
        "parts": 0 if code else 1,
        "messageDetails": details,
        "messageErrorCode": code,
    }


def _violation(message: dict[str, Any]) -> tuple[int, str | None]:
    unknown = message.keys() - {"from", "to", "body", "reference", "allowedChannels", "minimumNumberOfMessageParts"}
    to, body = message.get("to"), message.get("body")
    if not re.fullmatch(r"[A-Za-z0-9 ]{1,11}|(\+|00)?\d{1,16}", str(message.get("from") or "")):
        return 301, "The from field is invalid"
    if not isinstance(to, list) or len(to) != 1 or not isinstance(to[0], dict) or "number" not in to[0]:
        return 302, "The to field is invalid"
    number = str(to[0]["number"])
    if not re.fullmatch(r"00[1-9]\d{6,14}", number) or number.endswith("5550001"):
        return 303, f"The phone number {number} is invalid"
    if not isinstance(body, dict) or not body.get("content") or body.get("type", "AUTO") != "AUTO":
        return 304, "The body is invalid"
    if unknown or message.get("allowedChannels", ["SMS"]) != ["SMS"]:
        return 305, "A field is invalid"
    if not re.fullmatch(r"[A-Za-z0-9]{1,32}", str(message.get("reference", "x"))):
        return 305, "The reference is invalid"
    return 0, None


def _refused(code: int, details: str) -> Reply:
    return Reply(400, {"details": details, "errorCode": code, "messages": []})
