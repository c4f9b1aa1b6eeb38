"""CM.com: the Business Messaging API's JSON gateway.

The product token stands in the body. The API names no message id: a message is known by the reference we send, which
is the record id. Receipts are not signed. Sources:
https://developers.cm.com/messaging/docs/message-api (request, reply, error codes),
https://developers.cm.com/messaging/docs/incoming-status-report (receipts),
https://developers.cm.com/messaging/docs/incoming-messages (replies); `sms.md` section 7.7.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from messaging.category import ErrorCategory
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
    json_of,
    readable,
    time_of,
    word_of,
)

DEFAULT_BASE_URL = "https://gw.messaging.cm.com"

#: `errorCode` of a request of which not every message was created: each message's own code says whether it was.
NOT_ALL = "201"

#: `NOT_ALL` is not here: the message's own code decides.
ERROR_CATEGORY: Mapping[str, ErrorCategory] = {
    "101": ErrorCategory.AUTH,  # account
    "102": ErrorCategory.AUTH,  # balance
    "103": ErrorCategory.AUTH,  # product token
    "202": ErrorCategory.INVALID_INPUT,  # malformed request
    "203": ErrorCategory.INVALID_INPUT,  # msg array
    "301": ErrorCategory.INVALID_INPUT,  # from
    "302": ErrorCategory.INVALID_INPUT,  # to
    "303": ErrorCategory.INVALID_INPUT,  # number
    "304": ErrorCategory.INVALID_INPUT,  # body
    "305": ErrorCategory.INVALID_INPUT,  # field
    "401": ErrorCategory.PERMANENT,  # spam
    "402": ErrorCategory.PERMANENT,  # blocklisted
    "403": ErrorCategory.PERMANENT,  # rejected
    "500": ErrorCategory.TRANSIENT,  # internal
    "999": ErrorCategory.UNKNOWN,
}

#: Words by which the older gateway, which names no code, refuses a product token: "Invalid product token".
AUTH_WORDS = ("product token", "authentication")

#: `status.code` of a receipt.
RECEIPT_STATUS = {
    "0": DeliveryStatus.UNKNOWN,  # accepted
    "1": DeliveryStatus.FAILED,  # rejected
    "2": DeliveryStatus.DELIVERED,
    "3": DeliveryStatus.UNDELIVERED,  # failed
    "4": DeliveryStatus.DELIVERED,  # read
}


class Cm(Provider):
    """The adapter."""

    type = "CM"
    label = "cm"
    codes = ERROR_CATEGORY
    needs_sender = True

    def send(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, before_body: Callable[[], None]
    ) -> Accepted | Rejected:
        self.check(config, message)
        reply = client.post(
            base_url(config, self.label, DEFAULT_BASE_URL) + "/v1.0/message",
            headers={"Content-Type": "application/json"},
            body=json.dumps(_content(config, message), separators=(",", ":")).encode("ascii"),
            before_body=before_body,
        )
        answer = reply.json()
        if not isinstance(answer, dict):
            if not reply.is_success:
                return self.reject(config, message, reply)
            if reply.body.strip():
                raise self.bad_response(reply)
            answer = {}
        return self._judge(config, message, reply, answer)

    def _judge(
        self, config: ProviderConfig, message: OutgoingSms, reply: HttpReply, answer: Mapping[str, Any]
    ) -> Accepted | Rejected:
        """By the documented codes: the message's own if it has one.

        `NOT_ALL` says nothing of a message whose own code is 0: it was created, and would be delivered twice if it were
        taken for refused.
        """
        own, whole = word_of(answer, "messages", 0, "messageErrorCode"), word_of(answer, "errorCode")
        if whole == NOT_ALL and own == "0":
            whole = "0"
        code = next((code for code in (own, whole) if code not in (None, "0")), None)
        words = entry(answer, "messages", 0, "messageDetails") or entry(answer, "details")
        if code is not None or not reply.is_success:
            return self.reject(config, message, reply, code, words)
        if whole is None and answer.get("messages") is None:
            return self._judge_older(config, message, reply, answer)
        status = word_of(answer, "messages", 0, "status") or ("Accepted" if own == "0" else None)
        if status is not None and status != "Accepted":
            return self.reject(config, message, reply, status, words)
        if status is None and answer.get("messages") is not None:
            raise self.bad_response(reply)
        return Accepted(message.reference)

    def _judge_older(
        self, config: ProviderConfig, message: OutgoingSms, reply: HttpReply, answer: Mapping[str, Any]
    ) -> Accepted | Rejected:
        """The older gateway names no code: details are a refusal, and an answer without them is none."""
        words = answer.get("details")
        if words is None:
            return Accepted(message.reference)
        is_auth = isinstance(words, str) and any(word in words.lower() for word in AUTH_WORDS)
        category = ErrorCategory.AUTH if is_auth else ErrorCategory.UNKNOWN
        return self.reject(config, message, reply, None, words, category)

    def parse_receipts(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Receipt]:
        told = entry(json_of(body), "messages", "msg")
        # The console's template has one object; an operator may have made it an array.
        return readable(self.label, told if isinstance(told, list) else [told], _receipt)

    def parse_inbound(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Inbound]:
        """The current shape, and the one before it, whose `from` and `to` are texts and whose text is `body`.

        Messages of other channels come to the same address and are left out.
        """
        told = json_of(body)
        if (word_of(told, "channel") or "SMS").upper() != "SMS":
            return []
        number = e164_of(word_of(told, "from", "number") or word_of(told, "from"))
        content = entry(told, "message", "text")
        if not isinstance(content, str):
            content = entry(told, "body")
        if number is None or not isinstance(content, str):
            raise ReceiptUnreadable(self.label, "the body is no inbound message")
        return [
            Inbound(
                from_number=number,
                to=word_of(told, "to", "number") or word_of(told, "to") or "",
                text=content,
                at=time_of(entry(told, "timeUtc")),
            )
        ]


def _content(config: ProviderConfig, message: OutgoingSms) -> dict[str, Any]:
    return {
        "messages": {
            "authentication": {"producttoken": (config.api_key or "").strip()},
            "msg": [
                {
                    "from": config.sender,
                    "to": [{"number": f"00{message.digits}"}],
                    "body": {"type": "AUTO", "content": message.content},
                    "allowedChannels": ["SMS"],
                    "reference": message.reference,
                }
            ],
        }
    }


def _receipt(told: Any) -> Receipt | None:
    reference, code = word_of(told, "reference"), word_of(told, "status", "code")
    if reference is None or code is None:
        return None
    return Receipt(
        provider_message_id=reference,
        status=RECEIPT_STATUS.get(code, DeliveryStatus.UNKNOWN),
        at=time_of(entry(told, "received")),
        raw_status=code,
    )
