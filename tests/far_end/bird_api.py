"""Bird's (MessageBird's) REST API for text messages as its public description has it, for one account."""

import re
from typing import Any

from tests.far_end.provider_server import Reply, Request, Taken

ACCESS_KEY = "bird-access-key-0001"
_KEYS = {
    "originator", "body", "recipients", "reference", "reportUrl", "type", "validity", "gateway", "typeDetails",
    "datacoding", "mclass", "scheduledDatetime", "groupIds", "shortenUrls",
}  # fmt: skip


class BirdApi:
    """Accepts what is well formed."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []

    def answer(self, request: Request) -> Reply:
        served = (request.method, request.path)
        if served not in (("POST", "/messages"), ("GET", "/messages"), ("GET", "/balance")):
            return _error(404, 98, "API not found", None)
        if request.headers.get("authorization") != f"AccessKey {ACCESS_KEY}":
            return _error(401, 2, "Request not allowed (incorrect access_key)", "access_key")
        if request.path == "/balance":
            return Reply(200, {"payment": "prepaid", "type": "credits", "amount": 9})
        if request.method == "GET":
            return self._list(request)
        if request.media_type != "application/json":
            return _error(400, 21, "bad request", None)
        asked = request.json()
        if not isinstance(asked, dict):
            return _error(400, 21, "bad request", None)
        return self._create(asked)

    def _create(self, asked: dict[str, Any]) -> Reply:
        unknown = asked.keys() - _KEYS
        if unknown:
            return _error(422, 10, "unknown parameter", min(unknown))
        sender = asked.get("originator")
        if not isinstance(sender, str) or not re.fullmatch(r"\+?\d{1,17}|[A-Za-z0-9 ]{1,11}", sender):
            return _error(422, 9, "originator is required", "originator")
        if not asked.get("body"):
            return _error(422, 9, "body is required", "body")
        recipients = asked.get("recipients")
        numbers = recipients.split(",") if isinstance(recipients, str) else recipients or []
        if not numbers or not all(re.fullmatch(r"[1-9]\d{6,14}", str(n)) for n in numbers):
            return _error(422, 9, "no (correct) recipients found", "recipients")
        if str(numbers[0]).endswith("5550001"):
            return _error(422, 10, f"{numbers[0]} is not a valid recipient", "recipients")
        message_id = f"{len(self.taken) + 1:032x}"
        self.taken.append(Taken(message_id, str(numbers[0]), asked["body"], sender, asked.get("reference")))
        return Reply(201, created(message_id, sender, asked["body"], int(numbers[0]), sent=1))

    def _list(self, request: Request) -> Reply:
        asked = request.query
        unknown = asked.keys() - {"originator", "recipient", "direction", "type", "status", "limit", "offset"}
        if unknown:
            return _error(422, 10, "unknown parameter", min(unknown))
        found = [t for t in reversed(self.taken) if asked.get("recipient") in (None, t.number)]
        limit = int(asked.get("limit", "20"))
        items = [_listed(taken) for taken in found[:limit]]
        links = {
            "first": f"https://rest.messagebird.com/messages/?offset=0&limit={limit}",
            "previous": None,
            "next": None,
        }
        page = {
            "offset": 0,
            "limit": limit,
            "count": len(items),
            "totalCount": len(found),
            "links": links,
            "items": items,
        }
        return Reply(200, page)


def _listed(taken: Taken) -> dict[str, Any]:
    message = created(taken.id or "", taken.sender or "", taken.text, int(taken.number), sent=1)
    return message | {"reference": taken.reference, "createdDatetime": taken.at.isoformat(timespec="seconds")}


def created(message_id: str, sender: str, text: str, number: int, *, sent: int) -> dict[str, Any]:
    """The message resource."""
    item = {"recipient": number, "status": "sent", "statusDatetime": "2026-05-03T14:26:57+00:00"}
    return {
        "id": message_id,
        "href": f"https://rest.messagebird.com/messages/{message_id}",
        "direction": "mt",
        "type": "sms",
        "originator": sender,
        "body": text,
        "reference": None,
        "validity": None,
        "gateway": 10,
        "typeDetails": {},
        "datacoding": "plain",
        "mclass": 1,
        "scheduledDatetime": None,
        "createdDatetime": "2026-05-03T14:26:57+00:00",
        "recipients": {
            "totalCount": 1,
            "totalSentCount": sent,
            "totalDeliveredCount": 0,
            "totalDeliveryFailedCount": 0,
            "items": [item] if sent else [],
        },
    }


def _error(status: int, code: int, description: str, parameter: str | None) -> Reply:
    return Reply(status, {"errors": [{"code": code, "description": description, "parameter": parameter}]})
