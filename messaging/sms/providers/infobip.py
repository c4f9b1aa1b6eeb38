"""Infobip, SMS API version 3: https://www.infobip.com/docs/api/channels/sms (`sms.md` section 7.2).

Look-up: https://www.infobip.com/docs/api/channels/sms/logs-and-status-reports (48 hours, at most 1,000 a call). The
account: https://www.infobip.com/docs/api/platform/account-management (balance).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from messaging.category import ErrorCategory, MarkerCode
from messaging.errors import PreparationError, ReceiptUnreadable
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
    refusal,
    time_of,
)

#: Groups of a status. SENT is none of the documented ones and taken all the same.
GROUP_ID = {"OK": 0, "PENDING": 1, "SENT": 1, "UNDELIVERABLE": 2, "DELIVERED": 3, "EXPIRED": 4, "REJECTED": 5}
TAKEN = frozenset({0, 1, 3})

#: Newest messages to one number that a look-up reads.
MAX_LISTED = 100

#: Status of a delivered message that only reached the operator; 5 is the handset.
DELIVERED_TO_OPERATOR = 2

RECEIPT_STATUS: dict[int, DeliveryStatus] = {
    0: DeliveryStatus.UNKNOWN,  # OK
    1: DeliveryStatus.UNKNOWN,  # PENDING
    2: DeliveryStatus.UNDELIVERED,  # UNDELIVERABLE
    3: DeliveryStatus.DELIVERED,  # DELIVERED, but see DELIVERED_TO_OPERATOR
    4: DeliveryStatus.UNDELIVERED,  # EXPIRED
    5: DeliveryStatus.FAILED,  # REJECTED
}

#: What the name of a status holds, first row first; the groups come after it.
NAME_PARTS: tuple[tuple[str, ErrorCategory], ...] = (
    ("NOT_ENOUGH_CREDITS", ErrorCategory.AUTH),
    ("SENDER", ErrorCategory.AUTH),
    ("NOT_ALLOWED", ErrorCategory.AUTH),
    ("INVALID", ErrorCategory.INVALID_INPUT),
    ("LIMIT", ErrorCategory.QUOTA),
    ("REJECTED_ROUTE", ErrorCategory.TRANSIENT),
)
GROUP: dict[int, ErrorCategory] = {
    2: ErrorCategory.PERMANENT,  # UNDELIVERABLE
    4: ErrorCategory.TRANSIENT,  # EXPIRED
    5: ErrorCategory.PERMANENT,  # REJECTED
}

#: Codes of refusals.
ERROR_CATEGORY: dict[str, ErrorCategory] = {
    "REJECTED_PREFIX_MISSING": ErrorCategory.INVALID_INPUT,  # no country code
    "REJECTED_DESTINATION": ErrorCategory.INVALID_INPUT,  # the number is blocked or wrong
    "REJECTED_FLOODING_FILTER": ErrorCategory.QUOTA,  # the same text too often
    "REJECTED_NETWORK": ErrorCategory.TRANSIENT,  # the network is not reachable
    "REJECTED_SYSTEM_ERROR": ErrorCategory.TRANSIENT,  # theirs
}


class Infobip(Provider):
    """One message a call, numbers without the plus; the record id comes back as `callbackData`."""

    type = "INFOBIP"
    label = "infobip"
    codes = ERROR_CATEGORY
    can_find_sent = True
    takes_callback = True
    can_try_account = True

    def check_config(self, config: ProviderConfig) -> None:
        super().check_config(config)
        if not base_url(config, self.label):
            # Each account has an address of its own: https://xxxxx.api.infobip.com
            raise PreparationError(MarkerCode.PROVIDER_CONFIG_INVALID, f"{self.label}: api_endpoint is missing")

    def send(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, before_body: Callable[[], None]
    ) -> Accepted | Rejected:
        self.check(config, message)
        reply = client.post(
            f"{base_url(config, self.label)}/sms/3/messages",
            headers={"Authorization": f"App {config.api_key}", "Content-Type": "application/json"},
            body=json.dumps({"messages": [_message(config, message)]}).encode(),
            before_body=before_body,
        )
        said = reply.json()
        if not reply.is_success:
            return self._refused(config, message, reply)
        answered = entry(said, "messages", 0)
        status = entry(answered, "status")
        group = _group_of(status)
        if group is None:
            raise self.bad_response(reply)
        if group not in TAKEN:
            name, words = entry(status, "name"), entry(status, "description")
            return self.reject(config, message, reply, name, words, self._category(str(name), group))
        return self.accept(reply, entry(answered, "messageId"))

    def find_sent(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, since: datetime
    ) -> Sequence[Accepted]:
        """By number, text and time: the logs do not name what we gave as `callbackData`."""
        asked = {
            "destination": message.digits,
            "sentSince": since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000+0000"),
            "limit": str(MAX_LISTED),
        }
        reply = client.get(
            f"{base_url(config, self.label)}/sms/3/logs?{urlencode(asked)}",
            headers={"Authorization": f"App {config.api_key}"},
        )
        if not reply.is_success:
            raise refusal(self, self._refused(config, message, reply))
        results = entry(reply.json(), "results")
        if not isinstance(results, list):
            raise self.bad_response(reply, is_uncertain=False)
        found = [(time_of(entry(result, "sentAt")), result) for result in results if _is_it(result, message)]
        found.sort(key=lambda listed: listed[0] or since)
        return [self.accept(reply, entry(result, "messageId")) for _, result in found]

    def try_account(self, config: ProviderConfig, client: HttpClient) -> Rejected | None:
        self.check_config(config)
        reply = client.get(
            f"{base_url(config, self.label)}/account/1/balance", headers={"Authorization": f"App {config.api_key}"}
        )
        return None if reply.is_success else self._refused(config, None, reply)

    def _refused(self, config: ProviderConfig, message: OutgoingSms | None, reply: HttpReply) -> Rejected:
        said = reply.json()
        older = entry(said, "requestError", "serviceException")
        code = entry(said, "errorCode") or entry(older, "messageId")
        return self.reject(config, message, reply, code, entry(said, "description") or entry(older, "text"))

    def classify(self, code: str, http_status: int | None, text: str) -> ErrorCategory:
        group = next((number for name, number in GROUP_ID.items() if code.startswith(f"{name}_")), None)
        return super().classify(code, http_status, text) if group is None else self._category(code, group)

    def _category(self, name: str, group: int) -> ErrorCategory:
        if group == GROUP_ID["REJECTED"]:
            if name in self.codes:
                return self.codes[name]
            for part, category in NAME_PARTS:
                if part in name:
                    return category
        return GROUP.get(group, ErrorCategory.UNKNOWN)

    def parse_receipts(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Receipt]:
        return readable(self.label, self._results(body), _receipt)

    def parse_inbound(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Inbound]:
        found = []
        for result in self._results(body):
            number, words = e164_of(entry(result, "from")), entry(result, "text")
            if number is not None and isinstance(words, str):
                to = entry(result, "to")
                found.append(Inbound(number, str(to or ""), words, time_of(entry(result, "receivedAt"))))
        return found

    def _results(self, body: bytes) -> list[Any]:
        results = entry(json_of(body), "results")
        if not isinstance(results, list):
            raise ReceiptUnreadable(self.label, "no results")
        return results


def _message(config: ProviderConfig, message: OutgoingSms) -> dict[str, Any]:
    webhooks: dict[str, Any] = {"callbackData": message.reference}
    if config.callback is not None:
        webhooks |= {"delivery": {"url": config.callback}, "contentType": "application/json"}
    built: dict[str, Any] = {
        "destinations": [{"to": message.digits}],
        "content": {"text": message.content},
        "webhooks": webhooks,
    }
    if config.sender is not None:
        built["sender"] = config.sender
    return built


def _is_it(result: Any, message: OutgoingSms) -> bool:
    """Whether a log entry is of a message of these words to this number that was taken."""
    group = _group_of(entry(result, "status"))
    is_ours = (
        str(entry(result, "destination")) == message.digits and entry(result, "content", "text") == message.content
    )
    return is_ours and group is not None and group != GROUP_ID["REJECTED"]


def _group_of(status: Any) -> int | None:
    number = entry(status, "groupId")
    if isinstance(number, int) and number in RECEIPT_STATUS:
        return number
    name = entry(status, "groupName")
    return GROUP_ID.get(name) if isinstance(name, str) else None


def _receipt(result: Any) -> Receipt | None:
    status = entry(result, "status")
    message_id = entry(result, "messageId")
    group = _group_of(status)
    if not isinstance(message_id, str) or group is None:
        return None
    said = RECEIPT_STATUS[group]
    if said is DeliveryStatus.DELIVERED and entry(status, "id") == DELIVERED_TO_OPERATOR:
        said = DeliveryStatus.UNKNOWN
    at = time_of(entry(result, "doneAt")) or time_of(entry(result, "sentAt"))
    return Receipt(message_id, said, at, str(entry(status, "name") or entry(status, "groupName") or group))
