"""Tencent Cloud SMS: JSON calls of API version 2021-01-11, signed with TC3-HMAC-SHA256.

Sends approved templates only, with values by position: the text of the record is not sent. HTTP status 200 stands for
refusals too. Receipts are not signed. Sources: https://www.tencentcloud.com/document/product/382/40472 (SendSms),
https://www.tencentcloud.com/document/product/382/40518 (PullSmsSendStatusByPhoneNumber, the look-up; the account is
tried by SendStatusStatistics), https://www.tencentcloud.com/document/product/382/40473 (error codes),
https://www.tencentcloud.com/document/api/382/43547 (receipts), https://www.tencentcloud.com/document/api/382/43548
(replies); `sms.md` section 7.4.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from messaging.category import ErrorCategory, MarkerCode
from messaging.clock import Clock, utc_now
from messaging.errors import PreparationError, ReceiptUnreadable
from messaging.http.client import HttpClient, HttpReply, host_header, nothing
from messaging.sms.models import DeliveryStatus
from messaging.sms.providers.base import (
    CHINA,
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
    word_of,
)

DEFAULT_BASE_URL = "https://sms.tencentcloudapi.com"
DEFAULT_REGION = "ap-guangzhou"
API_VERSION = "2021-01-11"

#: Statuses of one number that a look-up reads, and for how long they are kept.
MAX_LISTED = 100
KEPT = timedelta(days=7) - timedelta(minutes=1)

#: Signed byte for byte as the header says it.
CONTENT_TYPE = "application/json"

AUTH, INVALID_INPUT, PERMANENT, QUOTA, TRANSIENT = (
    ErrorCategory.AUTH,
    ErrorCategory.INVALID_INPUT,
    ErrorCategory.PERMANENT,
    ErrorCategory.QUOTA,
    ErrorCategory.TRANSIENT,
)

ERROR_CATEGORY: Mapping[str, ErrorCategory] = {
    "IpNotInWhitelist": AUTH,
    "IpInBlacklist": AUTH,
    "FailedOperation.InsufficientBalanceInSmsPackage": AUTH,
    "FailedOperation.SignatureIncorrectOrUnapproved": AUTH,  # signature: the name shown before the text
    "FailedOperation.MissingSignature": AUTH,
    "FailedOperation.TemplateIncorrectOrUnapproved": AUTH,
    "FailedOperation.TemplateUnapprovedOrNotExist": AUTH,
    "FailedOperation.TemplateIdNotExist": AUTH,
    "FailedOperation.ProhibitSubAccountUse": AUTH,
    "InvalidParameterValue.SdkAppIdNotExist": AUTH,
    "InternalError.SigVerificationFail": AUTH,
    "InternalError.SigFieldMissing": AUTH,
    "UnsupportedOperation.UnsupportedRegion": AUTH,
    "FailedOperation.ContainSensitiveWord": PERMANENT,
    "FailedOperation.PhoneNumberInBlacklist": PERMANENT,
    "FailedOperation.MarketingSendTimeConstraint": PERMANENT,
    "LimitExceeded.AppCountryOrRegionInBlacklist": PERMANENT,  # no rate
    "FailedOperation.TemplateParamSetNotMatchApprovedTemplate": INVALID_INPUT,
    "FailedOperation.FailResolvePacket": INVALID_INPUT,
    "FailedOperation.JsonParseFail": INVALID_INPUT,
    "FailedOperation.PhoneNumberParseFail": INVALID_INPUT,
    "LimitExceeded.PhoneNumberCountLimit": INVALID_INPUT,  # numbers in one call
    "FailedOperation.OtherError": TRANSIENT,
    "FailedOperation": TRANSIENT,
}

#: Other `FailedOperation.` codes go by the words in them.
ERROR_PREFIX = (
    ("AuthFailure.", AUTH),
    ("UnauthorizedOperation.", AUTH),
    ("InvalidParameter", INVALID_INPUT),
    ("MissingParameter", INVALID_INPUT),
    ("UnsupportedOperation.", INVALID_INPUT),
    ("LimitExceeded.", QUOTA),
    ("RequestLimitExceeded", QUOTA),
    ("InternalError.", TRANSIENT),
)

RECEIPT_STATUS = {"SUCCESS": DeliveryStatus.DELIVERED, "FAIL": DeliveryStatus.UNDELIVERED}


class Tencent(Provider):
    """The adapter; `clock` makes a request's time, which the provider takes for five minutes."""

    type = "TENCENT"
    label = "tencent"
    codes = ERROR_CATEGORY
    prefixes = ERROR_PREFIX
    required = ("api_key", "api_secret")
    can_find_sent = True
    finds_by_reference = True
    can_try_account = True

    def __init__(self, *, clock: Clock = utc_now) -> None:
        self._clock = clock

    def check_config(self, config: ProviderConfig) -> None:
        super().check_config(config)
        if config.ext("sdkAppId") is None:
            raise PreparationError(MarkerCode.PROVIDER_CONFIG_INVALID, f"{self.label}: ext_config has no sdkAppId")

    def check(self, config: ProviderConfig, message: OutgoingSms) -> None:
        self.check_config(config)
        if not (message.external_template_id or "").strip():
            raise PreparationError(MarkerCode.EXTERNAL_TEMPLATE_REQUIRED, f"{self.label}: no external template id")

    def send(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, before_body: Callable[[], None]
    ) -> Accepted | Rejected:
        self.check(config, message)
        reply = self._call(config, client, "SendSms", _content(config, message), before_body)
        answer = entry(reply.json(), "Response")
        error = entry(answer, "Error")
        if error is not None or not reply.is_success:
            return self.reject(config, message, reply, word_of(error, "Code"), entry(error, "Message"))
        status = entry(answer, "SendStatusSet", 0)
        code, message_id = word_of(status, "Code"), word_of(status, "SerialNo")
        if code is not None and code != "Ok":
            return self.reject(config, message, reply, code, entry(status, "Message"))
        if code is None or message_id is None:
            raise self.bad_response(reply)
        return Accepted(message_id)

    def find_sent(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, since: datetime
    ) -> Sequence[Accepted]:
        """By number and our `SessionContext`. What the network has not reported yet is not listed."""
        asked = {
            "BeginTime": int(max(since, self._clock() - KEPT).timestamp()),
            "Offset": 0,
            "Limit": MAX_LISTED,
            "PhoneNumber": message.phone_number,
            "SmsSdkAppId": config.ext("sdkAppId"),
        }
        reply = self._call(config, client, "PullSmsSendStatusByPhoneNumber", asked)
        refused = self._refused(config, message, reply)
        if refused is not None:
            raise refusal(self, refused)
        listed = entry(reply.json(), "Response", "PullSmsSendStatusSet")
        if not isinstance(listed, list):
            raise self.bad_response(reply, is_uncertain=False)
        found = [told for told in listed if word_of(told, "SessionContext") == message.reference]
        found.sort(key=lambda told: _epoch(entry(told, "UserReceiveTime")) or since)
        return [self.accept(reply, entry(told, "SerialNo")) for told in found]

    def try_account(self, config: ProviderConfig, client: HttpClient) -> Rejected | None:
        self.check_config(config)
        now = self._clock().astimezone(CHINA)
        asked = {
            "BeginTime": f"{now:%Y%m%d}00",
            "EndTime": f"{now:%Y%m%d%H}",
            "Limit": 0,
            "Offset": 0,
            "SmsSdkAppId": config.ext("sdkAppId"),
        }
        return self._refused(config, None, self._call(config, client, "SendStatusStatistics", asked))

    def _refused(self, config: ProviderConfig, message: OutgoingSms | None, reply: HttpReply) -> Rejected | None:
        """The refusal of a call that only reads."""
        answer = entry(reply.json(), "Response")
        error = entry(answer, "Error")
        if reply.is_success and error is None and answer is not None:
            return None
        return self.reject(config, message, reply, word_of(error, "Code"), entry(error, "Message"))

    def _call(
        self,
        config: ProviderConfig,
        client: HttpClient,
        action: str,
        content: Mapping[str, Any],
        before_body: Callable[[], None] | None = None,
    ) -> HttpReply:
        """One signed call; without `before_body` one that only reads."""
        url = base_url(config, self.label, DEFAULT_BASE_URL) + "/"
        body = json.dumps(content, separators=(",", ":")).encode("ascii")
        at = self._clock()
        return client.post(
            url,
            headers={
                "Authorization": authorization(
                    (config.api_key or "").strip(),
                    (config.api_secret or "").strip(),
                    host=host_header(url),
                    at=at,
                    body=body,
                ),
                "Content-Type": CONTENT_TYPE,
                "X-TC-Action": action,
                "X-TC-Version": API_VERSION,
                "X-TC-Timestamp": str(int(at.timestamp())),
                "X-TC-Region": config.ext("region") or DEFAULT_REGION,
            },
            body=body,
            before_body=before_body or nothing,
            is_reading=before_body is None,
        )

    def parse_receipts(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Receipt]:
        told = json_of(body)
        if not isinstance(told, list):
            raise ReceiptUnreadable(self.label, "the body is no JSON array")
        return readable(self.label, told, _receipt)

    def receipt_reply(self) -> tuple[int, str, bytes]:
        return 200, "application/json", b'{"result":0,"errmsg":"OK"}'

    def parse_inbound(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Inbound]:
        """A reply names the signature it answers, not the number it was sent to."""
        told = json_of(body)
        country, mobile, content = word_of(told, "nationcode"), word_of(told, "mobile"), entry(told, "text")
        number = None if country is None or mobile is None else e164_of(f"+{country.lstrip('+')}{mobile}")
        if number is None or not isinstance(content, str):
            raise ReceiptUnreadable(self.label, "the body is no inbound message")
        return [
            Inbound(
                from_number=number,
                to=word_of(told, "sign") or "",
                text=content,
                at=_epoch(entry(told, "time")),
            )
        ]


def _receipt(told: Any) -> Receipt | None:
    message_id, status = word_of(told, "sid"), word_of(told, "report_status")
    if message_id is None or status is None:
        return None
    return Receipt(
        provider_message_id=message_id,
        status=RECEIPT_STATUS.get(status.upper(), DeliveryStatus.UNKNOWN),
        at=time_of(entry(told, "user_receive_time"), CHINA),
        raw_status=status,
    )


def _content(config: ProviderConfig, message: OutgoingSms) -> dict[str, Any]:
    content: dict[str, Any] = {
        "PhoneNumberSet": [message.phone_number],
        "SmsSdkAppId": config.ext("sdkAppId"),
        "TemplateId": (message.external_template_id or "").strip(),
        "TemplateParamSet": list(message.template_params),
        "SessionContext": message.reference,
    }
    if (message.sign_name or "").strip():
        content["SignName"] = (message.sign_name or "").strip()
    # Mainland China shows the signature and takes no sender.
    if message.region_code != "CN" and (config.sender_id or "").strip():
        content["SenderId"] = (config.sender_id or "").strip()
    return content


def authorization(secret_id: str, secret_key: str, *, host: str, at: datetime, body: bytes) -> str:
    """The header that signs a POST of `body` to the root of `host`, which is what `Host` says, at a time."""
    day = at.astimezone(UTC).strftime("%Y-%m-%d")
    scope = f"{day}/sms/tc3_request"
    signature = _signature(secret_key, host=host, timestamp=int(at.timestamp()), day=day, body=body)
    return f"TC3-HMAC-SHA256 Credential={secret_id}/{scope}, SignedHeaders=content-type;host, Signature={signature}"


def _signature(secret_key: str, *, host: str, timestamp: int, day: str, body: bytes) -> str:
    request = "\n".join(
        (
            "POST",
            "/",
            "",
            f"content-type:{CONTENT_TYPE}",
            f"host:{host}",
            "",
            "content-type;host",
            hashlib.sha256(body).hexdigest(),
        )
    )
    hashed = hashlib.sha256(request.encode()).hexdigest()
    to_sign = f"TC3-HMAC-SHA256\n{timestamp}\n{day}/sms/tc3_request\n{hashed}"
    key = f"TC3{secret_key}".encode()
    for part in (day, "sms", "tc3_request"):
        key = _mac(key, part)
    return _mac(key, to_sign).hex()


def _mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _epoch(value: object) -> datetime | None:
    """Unix seconds, in UTC."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return datetime.fromtimestamp(float(value), UTC)
    except (ValueError, OverflowError, OSError):
        return None
