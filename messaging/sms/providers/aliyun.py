"""Aliyun (Alibaba Cloud) SMS: RPC calls of API version 2017-05-25, signed with HMAC-SHA1 in the form body.

Sends approved templates only: the text of the record is not sent. Receipts are the console's "HTTP batch push" and the
international product's webhook; neither is signed. Sources: https://help.aliyun.com/document_detail/419273.html
(SendSms), https://help.aliyun.com/document_detail/419277.html (QuerySendDetails, the look-up),
https://help.aliyun.com/zh/sms/developer-reference/api-dysmsapi-2017-05-25-querysmssignlist (what the account is tried
by), https://help.aliyun.com/document_detail/101346.html (error codes),
https://www.alibabacloud.com/help/doc-detail/409034.htm (international webhook); `sms.md` section 7.3.
"""

import base64
import hashlib
import hmac
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

from messaging.category import ErrorCategory, MarkerCode
from messaging.clock import Clock, utc_now
from messaging.errors import PreparationError, ReceiptUnreadable
from messaging.http.client import HttpClient, HttpReply, nothing
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
from messaging.templates.given import value_text

DEFAULT_BASE_URL = "https://dysmsapi.aliyuncs.com"
DEFAULT_REGION = "cn-hangzhou"
API_VERSION = "2017-05-25"
#: Messages of one number and day that a look-up reads: so many pages of so many.
PAGE_SIZE = 50
MAX_PAGES = 4
#: Days, the last ones, that a look-up asks about; details are kept for 30.
MAX_DAYS = 3

AUTH, INVALID_INPUT, PERMANENT, QUOTA, TRANSIENT = (
    ErrorCategory.AUTH,
    ErrorCategory.INVALID_INPUT,
    ErrorCategory.PERMANENT,
    ErrorCategory.QUOTA,
    ErrorCategory.TRANSIENT,
)

ERROR_CATEGORY: Mapping[str, ErrorCategory] = {
    "isp.RAM_PERMISSION_DENY": AUTH,  # the RAM user may not send
    "isv.OUT_OF_SERVICE": AUTH,  # suspended for arrears
    "isv.AMOUNT_NOT_ENOUGH": AUTH,  # balance
    "isv.PRODUCT_UN_SUBSCRIPT": AUTH,  # the product is not activated
    "isv.PRODUCT_UNSUBSCRIBE": AUTH,
    "isv.ACCOUNT_NOT_EXISTS": AUTH,
    "isv.ACCOUNT_ABNORMAL": AUTH,
    "isv.DENY_IP_RANGE": AUTH,  # our address is in the region of a wrong endpoint
    "isv.SMS_SIGNATURE_ILLEGAL": AUTH,  # signature: the name shown before the text, approved by an operator
    "isv.SMS_SIGN_ILLEGAL": AUTH,
    "isv.SIGN_STATE_ILLEGAL": AUTH,
    "isv.SMS_TEMPLATE_ILLEGAL": AUTH,  # not approved, or not of this account
    "isv.SMS_SIGNATURE_SCENE_ILLEGAL": AUTH,
    "isv.EXTEND_CODE_ERROR": AUTH,
    "SignatureDoesNotMatch": AUTH,  # secret
    "InvalidAccessKeyId.NotFound": AUTH,
    "IncompleteSignature": AUTH,
    "isv.MOBILE_NUMBER_ILLEGAL": INVALID_INPUT,
    "isv.MOBILE_COUNT_OVER_LIMIT": INVALID_INPUT,  # numbers in one call
    "isv.INVALID_PARAMETERS": INVALID_INPUT,
    "isv.TEMPLATE_MISSING_PARAMETERS": INVALID_INPUT,
    "isv.INVALID_JSON_PARAM": INVALID_INPUT,
    "isv.PARAM_LENGTH_LIMIT": INVALID_INPUT,  # a value is too long; no rate
    "isv.PARAM_NOT_SUPPORT_URL": INVALID_INPUT,
    "isv.DOMESTIC_NUMBER_NOT_SUPPORTED": INVALID_INPUT,  # an international template to a Chinese number
    "MissingPhoneNumbers": INVALID_INPUT,
    "MissingSignName": INVALID_INPUT,
    "MissingTemplateCode": INVALID_INPUT,
    "isv.SMS_CONTENT_ILLEGAL": PERMANENT,  # forbidden words
    "isv.BLACK_KEY_CONTROL_LIMIT": PERMANENT,  # forbidden words in a value; no rate
    "isv.BUSINESS_LIMIT_CONTROL": QUOTA,  # a minute, an hour or a day of this number
    "isv.DAY_LIMIT_CONTROL": QUOTA,
    "isv.MONTH_LIMIT_CONTROL": QUOTA,
    "isp.SYSTEM_ERROR": TRANSIENT,
    "isp.GATEWAY_ERROR": TRANSIENT,
    "ServiceUnavailable": TRANSIENT,
    "InternalError": TRANSIENT,
}

ERROR_PREFIX = (("Throttling", QUOTA),)  # Throttling.User, Throttling.Api

#: `Status` of the international webhook. 1 is "sent": see `_international`; 3 was its word for delivered until 2018.
INTERNATIONAL_STATUS = {
    "1": DeliveryStatus.UNKNOWN,
    "2": DeliveryStatus.UNDELIVERED,
    "3": DeliveryStatus.DELIVERED,
    "6": DeliveryStatus.UNDELIVERED,  # expired
}

#: `ErrorCode` beside status 1 when the operator has confirmed it.
INTERNATIONAL_SUCCESS = frozenset({"success", "delivered", "delivrd"})

#: A mobile number of mainland China as inbound messages tell it, without its country.
_MAINLAND = re.compile(r"1[3-9][0-9]{9}")


class Aliyun(Provider):
    """The adapter; `clock` and `nonce` make a request's time and its one-time word."""

    type = "ALIYUN"
    label = "aliyun"
    codes = ERROR_CATEGORY
    prefixes = ERROR_PREFIX
    required = ("api_key", "api_secret")
    can_find_sent = True
    finds_by_reference = True
    can_try_account = True

    def __init__(self, *, clock: Clock = utc_now, nonce: Callable[[], str] = lambda: str(uuid.uuid4())) -> None:
        self._clock = clock
        self._nonce = nonce

    def check(self, config: ProviderConfig, message: OutgoingSms) -> None:
        self.check_config(config)
        if not (message.external_template_id or "").strip():
            raise PreparationError(MarkerCode.EXTERNAL_TEMPLATE_REQUIRED, f"{self.label}: no external template id")
        if not (message.sign_name or "").strip():
            raise PreparationError(MarkerCode.PROVIDER_CONFIG_INVALID, f"{self.label}: no sign name")

    def send(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, before_body: Callable[[], None]
    ) -> Accepted | Rejected:
        self.check(config, message)
        reply = self._call(config, client, _content(message), before_body)
        answer = reply.json()
        code = word_of(answer, "Code")
        if not reply.is_success or (code is not None and code != "OK"):
            return self.reject(config, message, reply, code, entry(answer, "Message"))
        message_id = word_of(answer, "BizId")
        if code is None or message_id is None:
            raise self.bad_response(reply)
        return Accepted(message_id)

    def find_sent(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, since: datetime
    ) -> Sequence[Accepted]:
        """By number, day and our `OutId`, which another installation with the same account may use too: the template
        tells. Details name no `BizId`, so what is found has no id, and its receipt no record.
        """
        for day in self._days(since):
            for listed in self._details(config, message, client, day):
                at = time_of(entry(listed, "SendDate"), CHINA)
                is_ours = word_of(listed, "OutId") == message.reference
                if is_ours and word_of(listed, "TemplateCode") == message.external_template_id and at and at >= since:
                    return [Accepted(None)]
        return []

    def _days(self, since: datetime) -> list[str]:
        """The days of China from then to now, the newest first."""
        today, first = self._clock().astimezone(CHINA).date(), since.astimezone(CHINA).date()
        count = min(max((today - first).days, 0) + 1, MAX_DAYS)
        return [(today - timedelta(days=n)).strftime("%Y%m%d") for n in range(count)]

    def _details(self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, day: str) -> Iterator[Any]:
        """What was sent to the number on a day. Raises: DeliveryError, when it could not be asked."""
        for page in range(1, MAX_PAGES + 1):
            asked = {
                "Action": "QuerySendDetails",
                "PhoneNumber": message.digits.removeprefix("86") if _is_mainland(message) else message.digits,
                "SendDate": day,
                "PageSize": str(PAGE_SIZE),
                "CurrentPage": str(page),
            }
            reply = self._call(config, client, asked)
            refused = self._refused(config, message, reply)
            if refused is not None:
                raise refusal(self, refused)
            listed = entry(reply.json(), "SmsSendDetailDTOs", "SmsSendDetailDTO")
            if not isinstance(listed, list):
                raise self.bad_response(reply, is_uncertain=False)
            yield from listed
            if len(listed) < PAGE_SIZE:
                return

    def try_account(self, config: ProviderConfig, client: HttpClient) -> Rejected | None:
        self.check_config(config)
        asked = {"Action": "QuerySmsSignList", "PageIndex": "1", "PageSize": "1"}
        return self._refused(config, None, self._call(config, client, asked))

    def _refused(self, config: ProviderConfig, message: OutgoingSms | None, reply: HttpReply) -> Rejected | None:
        """The refusal of a call that only reads."""
        answer = reply.json()
        code = word_of(answer, "Code")
        if reply.is_success and code == "OK":
            return None
        return self.reject(config, message, reply, code, entry(answer, "Message"))

    def _call(
        self,
        config: ProviderConfig,
        client: HttpClient,
        asked: Mapping[str, str],
        before_body: Callable[[], None] | None = None,
    ) -> HttpReply:
        """One signed call; without `before_body` one that only reads."""
        parameters = {
            "AccessKeyId": (config.api_key or "").strip(),
            "Format": "JSON",
            "RegionId": config.ext("regionId") or DEFAULT_REGION,
            "SignatureMethod": "HMAC-SHA1",
            "SignatureNonce": self._nonce(),
            "SignatureVersion": "1.0",
            "Timestamp": self._clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "Version": API_VERSION,
            **asked,
        }
        return client.post(
            base_url(config, self.label, DEFAULT_BASE_URL) + "/",
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            body=signed_body(parameters, config.api_secret or ""),
            before_body=before_body or nothing,
            is_reading=before_body is None,
        )

    def parse_receipts(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Receipt]:
        return readable(self.label, self._entries(body), lambda told: _domestic(told) or _international(told))

    def receipt_reply(self) -> tuple[int, str, bytes]:
        # `code` must be a number; without it the batch comes again after 1, 5 and 10 minutes.
        return 200, "application/json", b'{"code":0,"msg":"OK"}'

    def parse_inbound(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Inbound]:
        """`SmsUp` of the HTTP batch push: replies of numbers of mainland China."""
        return readable(self.label, self._entries(body), _inbound)

    def _entries(self, body: bytes) -> list[Any]:
        told = json_of(body)
        if isinstance(told, dict):
            return [told]
        if not isinstance(told, list):
            raise ReceiptUnreadable(self.label, "the body is no JSON array")
        return told


def _is_mainland(message: OutgoingSms) -> bool:
    return _MAINLAND.fullmatch(message.digits.removeprefix("86")) is not None and message.digits.startswith("86")


def _content(message: OutgoingSms) -> dict[str, str]:
    """The parameters of `SendSms`."""
    content = {
        "Action": "SendSms",
        "OutId": message.reference,
        "PhoneNumbers": message.digits,
        "SignName": (message.sign_name or "").strip(),
        "TemplateCode": (message.external_template_id or "").strip(),
    }
    if message.template_variables:
        content["TemplateParam"] = template_param(message.template_variables)
    return content


def encoded(text: str) -> str:
    """Percent-encoding of the signature: UTF-8, all but unreserved characters (RFC 3986), hex in upper case."""
    return quote(text, safe="-_.~", errors="replace")


def signature(parameters: Mapping[str, str], secret: str) -> str:
    """The RPC signature of a POST with these parameters, Base64."""
    text = "POST&%2F&" + encoded(_pairs(parameters))
    mac = hmac.new(f"{secret}&".encode(), text.encode(), hashlib.sha1)
    return base64.b64encode(mac.digest()).decode("ascii")


def signed_body(parameters: Mapping[str, str], secret: str) -> bytes:
    """The form: the parameters and their signature."""
    return f"{_pairs(parameters)}&Signature={encoded(signature(parameters, secret.strip()))}".encode("ascii")


def _pairs(parameters: Mapping[str, str]) -> str:
    return "&".join(f"{encoded(name)}={encoded(value)}" for name, value in sorted(parameters.items()))


def template_param(variables: Mapping[str, Any]) -> str:
    """The variables as a JSON object of texts: another value draws `isv.INVALID_JSON_PARAM`."""
    texts = {name: value_text(value) for name, value in variables.items()}
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def _domestic(told: Any) -> Receipt | None:
    """One entry of `SmsReport`: `success` is what the operator says."""
    message_id, is_delivered = word_of(told, "biz_id"), entry(told, "success")
    if message_id is None or not isinstance(is_delivered, bool):
        return None
    return Receipt(
        provider_message_id=message_id,
        status=DeliveryStatus.DELIVERED if is_delivered else DeliveryStatus.UNDELIVERED,
        at=time_of(entry(told, "report_time"), CHINA),
        raw_status=word_of(told, "err_code") or str(is_delivered).lower(),
    )


def _inbound(told: Any) -> Inbound | None:
    told_number, content = word_of(told, "phone_number") or "", entry(told, "content")
    number = e164_of(f"+86{told_number}" if _MAINLAND.fullmatch(told_number) else told_number)
    if number is None or not isinstance(content, str):
        return None
    return Inbound(
        from_number=number,
        to=word_of(told, "dest_code") or "",
        text=content,
        at=time_of(entry(told, "send_time"), CHINA),
    )


def _international(told: Any) -> Receipt | None:
    """One entry of the international webhook: status 1 is final only with the operator's own word for it."""
    message_id, status = word_of(told, "MessageId"), word_of(told, "Status")
    if message_id is None or status is None:
        return None
    word = (word_of(told, "ErrorCode") or "").lower()
    is_confirmed = status == "1" and word in INTERNATIONAL_SUCCESS and word_of(told, "ReceiveDate") is not None
    return Receipt(
        provider_message_id=message_id,
        status=DeliveryStatus.DELIVERED if is_confirmed else INTERNATIONAL_STATUS.get(status, DeliveryStatus.UNKNOWN),
        at=_mail_date(word_of(told, "ReceiveDate") or word_of(told, "SendDate")),
        raw_status=status,
    )


def _mail_date(value: str | None) -> datetime | None:
    """`Thu, 25 Nov 2021 10:27:33 +0800`, in UTC."""
    if value is None:
        return None
    try:
        at = parsedate_to_datetime(value)
        return (at.replace(tzinfo=CHINA) if at.tzinfo is None else at).astimezone(UTC)
    except (ValueError, OverflowError):
        return time_of(value, CHINA)
