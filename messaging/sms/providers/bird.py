"""Bird, formerly MessageBird, by its older REST API: https://developers.messagebird.com/api/sms-messaging
(`sms.md` section 7.6); the list of messages there is the look-up, and https://developers.messagebird.com/api/balance
what the account is tried by.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode

from messaging.category import ErrorCategory
from messaging.clock import Clock, utc_now
from messaging.errors import ReceiptUnreadable
from messaging.http.client import HttpClient, HttpReply
from messaging.sms.models import DeliveryStatus
from messaging.sms.providers.base import (
    Accepted,
    Inbound,
    OutgoingSms,
    Provider,
    ProviderConfig,
    Receipt,
    Rejected,
    base_url,
    e164_of,
    entry,
    header_of,
    json_of,
    refusal,
    time_of,
)

BASE = "https://rest.messagebird.com"
#: Our code for a message that was created and went to nobody.
NOT_SENT = "NOT_SENT"
#: Newest messages to one number that a look-up reads.
MAX_LISTED = 50

RECEIPT_STATUS: dict[str, DeliveryStatus] = {
    "scheduled": DeliveryStatus.UNKNOWN,
    "sent": DeliveryStatus.UNKNOWN,
    "buffered": DeliveryStatus.UNKNOWN,
    "delivered": DeliveryStatus.DELIVERED,
    "expired": DeliveryStatus.UNDELIVERED,
    "delivery_failed": DeliveryStatus.FAILED,
}

SIGNATURE = "MessageBird-Signature-JWT"
ISSUER = "MessageBird"
HASHES = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}
#: Seconds by which its clock and ours may disagree.
LEEWAY_SECONDS = 5
_BLANK_ZONE = re.compile(r"(?<=:[0-9]{2}) (?=[0-9]{2}:?[0-9]{2}$)")

#: Codes of refusals.
ERROR_CATEGORY: dict[str, ErrorCategory] = {
    "2": ErrorCategory.AUTH,  # request not allowed
    "9": ErrorCategory.INVALID_INPUT,  # missing parameters
    "10": ErrorCategory.INVALID_INPUT,  # invalid parameters
    "20": ErrorCategory.AUTH,  # not found
    "21": ErrorCategory.INVALID_INPUT,  # bad request
    "25": ErrorCategory.AUTH,  # not enough balance
    "98": ErrorCategory.AUTH,  # no such API
    "99": ErrorCategory.TRANSIENT,  # internal error
    NOT_SENT: ErrorCategory.PERMANENT,
}


class Bird(Provider):
    """`api_secret`, if set, is the signing key of its requests to us; the access key is `api_key`."""

    type = "BIRD"
    label = "bird"
    needs_sender = True
    receives_by_get = True
    can_find_sent = True
    finds_by_reference = True
    takes_callback = True
    can_try_account = True
    codes = ERROR_CATEGORY

    def __init__(self, clock: Clock = utc_now) -> None:
        self._clock = clock

    def send(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, before_body: Callable[[], None]
    ) -> Accepted | Rejected:
        self.check(config, message)
        asked: dict[str, Any] = {
            "originator": config.sender,
            "body": message.content,
            "recipients": [message.digits],
            "reference": message.reference,
            # Else what the GSM alphabet has not is replaced.
            "datacoding": "auto",
        }
        if config.callback is not None:
            asked["reportUrl"] = config.callback
        reply = client.post(
            f"{base_url(config, self.label, BASE)}/messages",
            headers={**_authorization(config), "Content-Type": "application/json"},
            body=json.dumps(asked).encode(),
            before_body=before_body,
        )
        said = reply.json()
        if not reply.is_success:
            return self._refused(config, message, reply)
        message_id, sent = entry(said, "id"), entry(said, "recipients", "totalSentCount")
        if sent == 0:
            return self.reject(config, message, reply, NOT_SENT, "sent to nobody")
        if message_id is None and isinstance(sent, int):
            return Accepted(None)
        return self.accept(reply, message_id)

    def find_sent(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, since: datetime
    ) -> Sequence[Accepted]:
        """By number and our reference, which another installation with the same account may use too: the text tells."""
        asked = urlencode({"recipient": message.digits, "direction": "mt", "limit": MAX_LISTED})
        url = f"{base_url(config, self.label, BASE)}/messages?{asked}"
        reply = client.get(url, headers=_authorization(config))
        if not reply.is_success:
            raise refusal(self, self._refused(config, message, reply))
        items = entry(reply.json(), "items")
        if not isinstance(items, list):
            raise self.bad_response(reply, is_uncertain=False)
        found = []
        for item in items:
            at = time_of(entry(item, "createdDatetime"))
            is_ours = entry(item, "reference") == message.reference and entry(item, "body") == message.content
            if is_ours and at is not None and at >= since:
                found.append((at, self.accept(reply, entry(item, "id"))))
        return [accepted for _, accepted in sorted(found, key=lambda listed: listed[0])]

    def try_account(self, config: ProviderConfig, client: HttpClient) -> Rejected | None:
        self.check_config(config)
        reply = client.get(f"{base_url(config, self.label, BASE)}/balance", headers=_authorization(config))
        return None if reply.is_success else self._refused(config, None, reply)

    def _refused(self, config: ProviderConfig, message: OutgoingSms | None, reply: HttpReply) -> Rejected:
        error = entry(reply.json(), "errors", 0)
        return self.reject(config, message, reply, entry(error, "code"), entry(error, "description"))

    def parse_receipts(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Receipt]:
        said = _fields(body, query)
        message_id, status = said.get("id"), said.get("status")
        if not message_id or not status:
            raise ReceiptUnreadable(self.label, "no id or no status")
        known = RECEIPT_STATUS.get(status.lower(), DeliveryStatus.UNKNOWN)
        return [Receipt(message_id, known, _time(said.get("statusDatetime")), status)]

    def check_receipt(
        self, config: ProviderConfig, url: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]
    ) -> bool | None:
        if not config.api_secret:
            return None
        claims = _verified_claims(header_of(headers, SIGNATURE) or "", config.api_secret)
        return claims is not None and _is_about(claims, url, body, self._clock())

    def parse_inbound(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Inbound]:
        said = _fields(body, query)
        number = e164_of(said.get("originator") or said.get("sender"))
        words = said.get("body") or said.get("message")
        if number is None:
            raise ReceiptUnreadable(self.label, "no originator")
        if words is None:
            return []  # a picture
        to = said.get("recipient") or said.get("receiver") or said.get("shortcode") or ""
        at = said.get("createdDatetime") or said.get("receive_datetime") or ""
        # To short codes: "20230727004929"
        at = f"{at[:8]}T{at[8:]}" if len(at) == 14 and at.isdigit() else at
        return [Inbound(number, to, words, _time(at))]


def _authorization(config: ProviderConfig) -> dict[str, str]:
    return {"Authorization": f"AccessKey {config.api_key}"}


def _fields(body: bytes, query: Mapping[str, str]) -> dict[str, str]:
    """Query, form and JSON alike: receipts come as GET, inbound messages as either, by the account's settings."""
    said = json_of(body)
    if isinstance(said, dict):
        return {**query, **{key: str(value) for key, value in said.items() if isinstance(value, str | int)}}
    return {**query, **dict(parse_qsl(body.decode("utf-8", "replace")))}


def _time(stated: str | None) -> datetime | None:
    """A time; the plus of its zone comes out of a query that does not escape it as a blank."""
    return time_of(_BLANK_ZONE.sub("+", stated or ""))


def _verified_claims(token: str, key: str) -> dict[str, Any] | None:
    """The claims of a JSON Web Token (RFC 7519) signed with this key; None where it is none."""
    signed, _, signature = token.rpartition(".")
    header, _, payload = signed.partition(".")
    used = HASHES.get(str(entry(_decoded(header), "alg")))
    if used is None:
        return None
    expected = hmac.new(key.encode(), signed.encode(), used).digest()
    if not hmac.compare_digest(base64.urlsafe_b64encode(expected).rstrip(b"="), signature.encode()):
        return None
    claims = _decoded(payload)
    return claims if isinstance(claims, dict) else None


def _decoded(part: str) -> Any:
    try:
        return json_of(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except ValueError:
        return None


def _is_about(claims: Mapping[str, Any], url: str, body: bytes, now: datetime) -> bool:
    not_before, expires = claims.get("nbf"), claims.get("exp")
    at = now.astimezone(UTC).timestamp()
    if isinstance(not_before, int | float) and at < not_before - LEEWAY_SECONDS:
        return False
    if not isinstance(expires, int | float) or at > expires + LEEWAY_SECONDS:
        return False
    payload_hash = claims.get("payload_hash")
    is_payload = _is_hash(payload_hash, body) if body else not payload_hash
    return claims.get("iss") == ISSUER and _is_hash(claims.get("url_hash"), url.encode()) and is_payload


def _is_hash(stated: object, content: bytes) -> bool:
    return isinstance(stated, str) and hmac.compare_digest(
        hashlib.sha256(content).hexdigest().encode(), stated.encode()
    )
