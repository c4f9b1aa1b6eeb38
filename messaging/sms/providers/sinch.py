"""Sinch, SMS REST API (XMS): https://developers.sinch.com/docs/sms/api-reference (`sms.md` section 7.5).

Look-up, and what the account is tried by: https://developers.sinch.com/docs/sms/api-reference/sms/batches/listbatches.
"""

import base64
import hashlib
import hmac
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
    header_of,
    json_of,
    refusal,
    time_of,
)

REGIONS = ("us", "eu", "au", "br", "ca")
DEFAULT_REGION = "us"
#: Batches of one reference that a look-up reads.
MAX_LISTED = 30

RECEIPT_STATUS: dict[str, DeliveryStatus] = {
    "queued": DeliveryStatus.UNKNOWN,
    "dispatched": DeliveryStatus.UNKNOWN,
    "unknown": DeliveryStatus.UNKNOWN,
    "delivered": DeliveryStatus.DELIVERED,
    "failed": DeliveryStatus.UNDELIVERED,
    "expired": DeliveryStatus.UNDELIVERED,
    "deleted": DeliveryStatus.UNDELIVERED,
    "aborted": DeliveryStatus.FAILED,
    "cancelled": DeliveryStatus.FAILED,
    "rejected": DeliveryStatus.FAILED,
}

#: The same by number, for a status that is not listed; any other number from 402 on is undelivered.
RECEIPT_CODE: dict[int, DeliveryStatus] = {
    0: DeliveryStatus.DELIVERED,
    400: DeliveryStatus.UNKNOWN,
    401: DeliveryStatus.UNKNOWN,
    **dict.fromkeys((402, 403, 405, 407, 408, *range(410, 419)), DeliveryStatus.FAILED),
}

#: By the name that the signature's own header gives, absent in older requests.
HASHES = {"HmacSHA256": hashlib.sha256, "HmacSHA384": hashlib.sha384, "HmacSHA512": hashlib.sha512}

#: Codes of refusals.
ERROR_CATEGORY: dict[str, ErrorCategory] = {
    "syntax_invalid_json": ErrorCategory.INVALID_INPUT,
    "syntax_invalid_parameter_format": ErrorCategory.INVALID_INPUT,
    "syntax_constraint_violation": ErrorCategory.INVALID_INPUT,
}


class Sinch(Provider):
    """A batch of one message a call. `api_secret`, if set, is what its requests to us are signed with."""

    type = "SINCH"
    label = "sinch"
    codes = ERROR_CATEGORY
    can_find_sent = True
    finds_by_reference = True
    takes_callback = True
    can_try_account = True

    def check_config(self, config: ProviderConfig) -> None:
        super().check_config(config)
        self.base(config)

    def base(self, config: ProviderConfig) -> str:
        """Everything before `/batches`; `api_endpoint` replaces the service plan too.

        Raises: PreparationError, PROVIDER_CONFIG_INVALID.
        """
        endpoint = base_url(config, self.label)
        if endpoint:
            return endpoint
        region = (config.ext("region") or DEFAULT_REGION).lower()
        if region not in REGIONS:
            raise PreparationError(
                MarkerCode.PROVIDER_CONFIG_INVALID,
                f"{self.label}: ext_config.region is {region[:20]!r}; allowed: {', '.join(REGIONS)}",
            )
        plan = (config.account_id or "").strip()
        if not plan:
            raise PreparationError(
                MarkerCode.PROVIDER_CONFIG_INVALID, f"{self.label}: account_id, the service plan, is missing"
            )
        return f"https://{region}.sms.api.sinch.com/xms/v1/{plan}"

    def send(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, before_body: Callable[[], None]
    ) -> Accepted | Rejected:
        self.check(config, message)
        batch: dict[str, Any] = {
            "to": [message.phone_number],
            "body": message.content,
            "client_reference": message.reference,
        }
        if config.sender is not None:  # else the plan's own default
            batch["from"] = config.sender
        if config.callback is not None:
            batch |= {"delivery_report": "per_recipient_final", "callback_url": config.callback}
        reply = client.post(
            f"{self.base(config)}/batches",
            headers={**_authorization(config), "Content-Type": "application/json"},
            body=json.dumps(batch).encode(),
            before_body=before_body,
        )
        if not reply.is_success:
            return self._refused(config, message, reply)
        return self.accept(reply, entry(reply.json(), "id"))

    def find_sent(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, since: datetime
    ) -> Sequence[Accepted]:
        """By our reference, which another installation with the same account may use too: number and text tell."""
        asked = {
            "client_reference": message.reference,
            "start_date": since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
            "page_size": str(MAX_LISTED),
        }
        reply = client.get(f"{self.base(config)}/batches?{urlencode(asked)}", headers=_authorization(config))
        if not reply.is_success:
            raise refusal(self, self._refused(config, message, reply))
        said = reply.json()
        batches = entry(said, "batches")
        if batches is None and entry(said, "count") == 0:
            return []
        if not isinstance(batches, list):
            raise self.bad_response(reply, is_uncertain=False)
        found = [batch for batch in batches if _is_it(batch, message)]
        found.sort(key=lambda batch: time_of(entry(batch, "created_at")) or since)
        return [self.accept(reply, entry(batch, "id")) for batch in found]

    def try_account(self, config: ProviderConfig, client: HttpClient) -> Rejected | None:
        self.check_config(config)
        reply = client.get(f"{self.base(config)}/batches?page_size=1", headers=_authorization(config))
        return None if reply.is_success else self._refused(config, None, reply)

    def _refused(self, config: ProviderConfig, message: OutgoingSms | None, reply: HttpReply) -> Rejected:
        said = reply.json()
        return self.reject(config, message, reply, entry(said, "code"), entry(said, "text") or entry(said, "message"))

    def parse_receipts(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Receipt]:
        said = json_of(body)
        kind, batch_id = entry(said, "type"), entry(said, "batch_id")
        if not isinstance(kind, str) or "delivery_report" not in kind or not isinstance(batch_id, str):
            raise ReceiptUnreadable(self.label, "no delivery report of a batch")
        if kind.startswith("recipient_"):
            return [_receipt(batch_id, said)]
        statuses = entry(said, "statuses")
        if not isinstance(statuses, list):
            raise ReceiptUnreadable(self.label, "a delivery report without statuses")
        # A batch of ours has one recipient, so one of these counts it.
        counted = [status for status in statuses if isinstance(status, dict) and status.get("count") != 0]
        return [_receipt(batch_id, status) for status in counted]

    def check_receipt(
        self, config: ProviderConfig, url: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]
    ) -> bool | None:
        if not config.api_secret:
            return None
        signature = header_of(headers, "x-sinch-webhook-signature")
        nonce = header_of(headers, "x-sinch-webhook-signature-nonce")
        timestamp = header_of(headers, "x-sinch-webhook-signature-timestamp")
        used = HASHES.get(header_of(headers, "x-sinch-webhook-signature-algorithm") or "HmacSHA256")
        if signature is None or nonce is None or timestamp is None or used is None:
            return False
        signed = b"%b.%b.%b" % (body, nonce.encode(), timestamp.encode())
        expected = base64.b64encode(hmac.new(config.api_secret.encode(), signed, used).digest())
        return hmac.compare_digest(expected, signature.encode())

    def parse_inbound(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Inbound]:
        said = json_of(body)
        kind = entry(said, "type")
        if not isinstance(kind, str) or not kind.startswith("mo_"):
            raise ReceiptUnreadable(self.label, "no inbound message")
        number, words = e164_of(entry(said, "from")), entry(said, "body")
        # A binary or a picture says nothing that could be read.
        if kind != "mo_text" or number is None or not isinstance(words, str):
            return []
        at = time_of(entry(said, "sent_at")) or time_of(entry(said, "received_at"))
        return [Inbound(number, str(entry(said, "to") or ""), words, at)]


def _authorization(config: ProviderConfig) -> dict[str, str]:
    return {"Authorization": f"Bearer {config.api_key}"}


def _is_it(batch: Any, message: OutgoingSms) -> bool:
    """Whether a batch of the list is this message."""
    to = entry(batch, "to", 0)
    return (
        entry(batch, "client_reference") == message.reference
        and entry(batch, "body") == message.content
        and isinstance(to, str)
        and to.removeprefix("+") == message.digits
        and entry(batch, "canceled") is not True
    )


def _receipt(batch_id: str, report: Any) -> Receipt:
    word, code = entry(report, "status"), entry(report, "code")
    shown = str(word or code)
    status = RECEIPT_STATUS.get(shown.lower())
    if status is None and isinstance(code, int):
        status = RECEIPT_CODE.get(code, DeliveryStatus.UNDELIVERED if code > 401 else DeliveryStatus.UNKNOWN)
    return Receipt(batch_id, status or DeliveryStatus.UNKNOWN, time_of(entry(report, "at")), shown)
