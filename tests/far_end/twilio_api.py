"""Twilio's Programmable Messaging as its public API describes it, for one account."""

import base64
import re
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

from tests.far_end.provider_server import Reply, Request, Taken

ACCOUNT = "AC00000000000000000000000000000001"
AUTH_TOKEN = "twilio-auth-token-0001"
#: A key pair of the account.
KEY, KEY_SECRET = "SK00000000000000000000000000000002", "twilio-key-secret-0002"
OWN_NUMBERS = ("+14155550100",)
#: Numbers that Twilio's documentation refuses by their meaning.
OPTED_OUT = "+14155550111"
NOT_MOBILE = "+14155550112"
UNROUTABLE = "+14155550113"
_FORM = "application/x-www-form-urlencoded"


class TwilioApi:
    """Accepts what is well formed and owned by the account."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []
        #: The message resources as the list returns them, newest first.
        self.resources: list[dict[str, Any]] = []

    def answer(self, request: Request) -> Reply:
        if request.method == "GET" and request.path == f"/2010-04-01/Accounts/{ACCOUNT}.json":
            return self._account() if _is_authorised(request) else _error(401, 20003, "Authenticate")
        found = re.fullmatch(r"/2010-04-01/Accounts/([^/]+)/Messages\.json", request.path)
        if found is None:
            return _error(404, 20404, f"The requested resource {request.path} was not found")
        if not _is_authorised(request) or found[1] != ACCOUNT:
            return _error(401, 20003, "Authenticate", {"WWW-Authenticate": 'Basic realm="Twilio API"'})
        if request.method == "GET":
            return self._list(request)
        # Another media type has no parameters for Twilio.
        return self.create(request.form() if request.media_type == _FORM else {})

    def create(self, form: dict[str, str]) -> Reply:
        """Take a message, or refuse it."""
        to, sender, text = form.get("To", ""), form.get("From"), form.get("Body", "")
        service = form.get("MessagingServiceSid")
        refused = _refusal(to, sender, service, text)
        if refused is not None:
            return refused
        sid = f"SM{len(self.resources) + 1:032x}"
        self.taken.append(Taken(sid, to.removeprefix("+"), text, sender or service, None))
        now = format_datetime(datetime.now(UTC))
        resource = {
            "account_sid": ACCOUNT,
            "api_version": "2010-04-01",
            "body": text,
            "date_created": now,
            "date_sent": None,
            "date_updated": now,
            "direction": "outbound-api",
            "error_code": None,
            "error_message": None,
            "from": sender,
            "messaging_service_sid": service,
            "num_media": "0",
            "num_segments": "1",
            "price": None,
            "price_unit": None,
            "sid": sid,
            "status": "accepted" if service else "queued",
            "subresource_uris": {"media": f"/2010-04-01/Accounts/{ACCOUNT}/Messages/{sid}/Media.json"},
            "to": to,
            "uri": f"/2010-04-01/Accounts/{ACCOUNT}/Messages/{sid}.json",
        }
        self.resources.insert(0, resource)
        return Reply(201, resource)

    def _account(self) -> Reply:
        said = {"sid": ACCOUNT, "friendly_name": "Shop", "status": "active", "type": "Full", "auth_token": AUTH_TOKEN}
        return Reply(200, said)

    def _list(self, request: Request) -> Reply:
        known = {"To", "From", "DateSent", "DateSent<", "DateSent>", "PageSize", "Page", "PageToken"}
        if not request.query.keys() <= known:
            return _error(400, 20001, "Unknown parameters")
        size = int(request.query.get("PageSize", "50"))
        matching = [r for r in self.resources if request.query.get("To") in (None, r["to"])]
        page = {
            "end": min(size, len(matching)) - 1,
            "first_page_uri": f"{request.path}?PageSize={size}&Page=0",
            "next_page_uri": f"{request.path}?PageSize={size}&Page=1" if len(matching) > size else None,
            "previous_page_uri": None,
            "messages": matching[:size],
            "page": 0,
            "page_size": size,
            "start": 0,
            "uri": request.path,
        }
        return Reply(200, page)


def _refusal(to: str, sender: str | None, service: str | None, text: str) -> Reply | None:
    if not to:
        return _error(400, 21604, "A 'To' phone number is required.")
    if not sender and not service:
        return _error(400, 21603, "A 'From' phone number is required.")
    if not text:
        return _error(400, 21602, "Message body is required.")
    if len(text) > 1600:
        return _error(400, 21617, "The concatenated message body exceeds the 1600 character limit")
    if not re.fullmatch(r"\+[1-9]\d{6,14}", to) or to.endswith("5550001"):
        return _error(400, 21211, f"Invalid 'To' Phone Number: {to}")
    if sender and sender.startswith("+") and sender not in OWN_NUMBERS:
        return _error(400, 21659, f"'From' {sender} is not a Twilio phone number or Short Code")
    if sender and not sender.startswith("+") and not re.fullmatch(r"[A-Za-z0-9 ]{1,11}", sender):
        return _error(400, 21212, f"The 'From' number {sender} is not a valid phone number")
    if service and not re.fullmatch(r"MG[0-9a-f]{32}", service):
        return _error(400, 21212, "The MessagingServiceSid is invalid")
    if to == OPTED_OUT:
        return _error(400, 21610, "Attempt to send to unsubscribed recipient")
    if to == NOT_MOBILE:
        return _error(400, 21614, f"'To' number is not a valid mobile number: {to}")
    if to == UNROUTABLE:
        return _error(
            400, 21612, "Message cannot be sent with the current combination of 'To' and/or 'From' parameters"
        )
    return None


def _is_authorised(request: Request) -> bool:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    pairs = {f"{ACCOUNT}:{AUTH_TOKEN}", f"{KEY}:{KEY_SECRET}"}
    return scheme == "Basic" and given in {base64.b64encode(pair.encode()).decode() for pair in pairs}


def _error(status: int, code: int, message: str, headers: dict[str, str] | None = None) -> Reply:
    said = {
        "code": code,
        "message": message,
        "more_info": f"https://www.twilio.com/docs/errors/{code}",
        "status": status,
    }
    return Reply(status, said, headers or {})
