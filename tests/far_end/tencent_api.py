"""Tencent Cloud's SendSms (2021-01-11) as its public description has it, for one application with one template.

The signature is computed from the request's own bytes and headers, by the description and not by our code.
"""

import hashlib
import hmac
import re
import time
from datetime import UTC, datetime
from typing import Any

from tests.far_end.provider_server import Reply, Request, Taken

SECRET_ID = "AKID-test-0001"
SECRET_KEY = "tencent-secret-0001"
SDK_APP_ID = "1400006666"
TEMPLATE_ID = "1110"
#: How many values the template takes.
TEMPLATE_VALUES = 2
SIGN_NAME = "腾讯云"

_AUTHORIZATION = re.compile(
    r"TC3-HMAC-SHA256 Credential=(?P<id>[^/]+)/(?P<day>\d{4}-\d\d-\d\d)/sms/tc3_request,"
    r" SignedHeaders=content-type;host, Signature=(?P<signature>[0-9a-f]{64})"
)
_ACTIONS = ("SendSms", "PullSmsSendStatusByPhoneNumber", "SendStatusStatistics")
_KEYS = {
    "PhoneNumberSet", "SmsSdkAppId", "TemplateId", "SignName", "TemplateParamSet", "ExtendCode", "SessionContext",
    "SenderId",
}  # fmt: skip


class TencentApi:
    """Accepts what is well formed and signed; refusals have HTTP status 200."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []
        #: The body of the last signed call.
        self.asked: dict[str, Any] = {}

    def answer(self, request: Request) -> Reply:
        if request.method != "POST" or request.path != "/" or request.query:
            return _error("InvalidAction", "The path is wrong")
        if request.headers.get("content-type") not in ("application/json", "application/json; charset=utf-8"):
            return _error("InvalidParameter", "ContentType must be application/json")
        refused = _refused_headers(request) or _refused_signature(request)
        if refused is not None:
            return refused
        asked = request.json()
        if not isinstance(asked, dict):
            return _error("InvalidParameter", "The request body is not JSON")
        self.asked = asked
        answers = {"PullSmsSendStatusByPhoneNumber": self._statuses, "SendStatusStatistics": self._statistics}
        return answers.get(request.headers["x-tc-action"], self._send)(asked)

    def _statuses(self, asked: dict[str, Any]) -> Reply:
        """What networks have reported of a number; here they do so at once."""
        if asked.keys() - {"EndTime"} != {"BeginTime", "Offset", "Limit", "PhoneNumber", "SmsSdkAppId"}:
            return _error("MissingParameter", "The request is missing a required parameter.")
        if asked["SmsSdkAppId"] != SDK_APP_ID or asked["Offset"] != 0 or not 1 <= asked["Limit"] <= 100:
            return _error("InvalidParameterValue", "SmsSdkAppId, Offset or Limit")
        if not time.time() - 7 * 86400 <= asked["BeginTime"] <= time.time():
            return _error("InvalidParameterValue.BeginTimeVerifyFail", "BeginTime")
        told = [
            {
                "UserReceiveTime": int(t.at.timestamp()),
                "CountryCode": "1",
                "SubscriberNumber": t.number[1:],
                "PhoneNumber": f"+{t.number}",
                "SerialNo": t.id,
                "ReportStatus": "SUCCESS",
                "Description": "DELIVRD",
                "SessionContext": t.reference,
            }
            for t in self.taken
            if f"+{t.number}" == asked["PhoneNumber"] and t.at.timestamp() >= asked["BeginTime"]
        ]
        return Reply(200, {"Response": {"PullSmsSendStatusSet": told[: asked["Limit"]], "RequestId": "a0aabda6"}})

    def _statistics(self, asked: dict[str, Any]) -> Reply:
        if asked.keys() != {"BeginTime", "EndTime", "Offset", "Limit", "SmsSdkAppId"}:
            return _error("MissingParameter", "The request is missing a required parameter.")
        if asked["SmsSdkAppId"] != SDK_APP_ID:
            return _error("InvalidParameterValue.SdkAppIdNotExist", "SdkAppId does not exist.")
        if not all(re.fullmatch(r"\d{10}", str(asked[name])) for name in ("BeginTime", "EndTime")):
            return _error("InvalidParameterValue.BeginTimeVerifyFail", "BeginTime")
        counts = {"FeeCount": 0, "RequestCount": 0, "RequestSuccessCount": 0}
        return Reply(200, {"Response": {"SendStatusStatistics": counts, "RequestId": "a0aabda6"}})

    def _send(self, asked: dict[str, Any]) -> Reply:
        missing = next((n for n in ("PhoneNumberSet", "SmsSdkAppId", "TemplateId") if not asked.get(n)), None)
        if missing is not None:
            return _error("MissingParameter", f"The request is missing a required parameter `{missing}`.")
        unknown = asked.keys() - _KEYS
        if unknown:
            return _error("UnknownParameter", f"The parameter `{min(unknown)}` is not recognized.")
        if asked["SmsSdkAppId"] != SDK_APP_ID:
            return _error("InvalidParameterValue.SdkAppIdNotExist", "SdkAppId does not exist.")
        [number] = asked["PhoneNumberSet"]
        values = asked.get("TemplateParamSet", [])
        if not isinstance(number, str) or not re.fullmatch(r"\+[1-9]\d{6,14}", number) or number.endswith("5550001"):
            return self._said(number, "InvalidParameterValue.IncorrectPhoneNumber", "incorrect phone number", asked)
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            return _error("InvalidParameter", "TemplateParamSet is an array of strings")
        if asked["TemplateId"] != TEMPLATE_ID:
            return self._said(number, "FailedOperation.TemplateIncorrectOrUnapproved", "template", asked)
        if number.startswith("+86") and asked.get("SignName") != SIGN_NAME:
            return self._said(number, "FailedOperation.SignatureIncorrectOrUnapproved", "signature", asked)
        if len(values) != TEMPLATE_VALUES:
            return self._said(
                number, "FailedOperation.TemplateParamSetNotMatchApprovedTemplate", "number of values", asked
            )
        serial = f"5000:1045710669157053657849499{len(self.taken):04d}"
        sender = asked.get("SignName") or asked.get("SenderId")
        self.taken.append(Taken(serial, number.removeprefix("+"), TEMPLATE_ID, sender, asked.get("SessionContext")))
        return self._said(number, "Ok", "send success", asked, serial)

    def _said(self, number: Any, code: str, message: str, asked: dict[str, Any], serial: str = "") -> Reply:
        return Reply(200, sent(number, code, message, serial, asked.get("SessionContext", "")))


def sent(number: Any, code: str, message: str, serial: str, context: str = "") -> dict[str, Any]:
    """The answer about one number."""
    status = {
        "SerialNo": serial,
        "PhoneNumber": number,
        "Fee": 1 if code == "Ok" else 0,
        "SessionContext": context,
        "Code": code,
        "Message": message,
        "IsoCode": "CN",
    }
    return {"Response": {"SendStatusSet": [status], "RequestId": "a0aabda6-cf91-4f3e-a81f-9198114a2279"}}


def _refused_headers(request: Request) -> Reply | None:
    headers = request.headers
    if headers.get("x-tc-action") not in _ACTIONS or headers.get("x-tc-version") != "2021-01-11":
        return _error("InvalidAction", "The action or version does not exist")
    if not re.fullmatch(r"[a-z]+-[a-z]+(-\d)?", headers.get("x-tc-region", "")):
        return _error("UnsupportedRegion", "The request does not support this region.")
    stamp = headers.get("x-tc-timestamp", "")
    if not stamp.isdigit():
        return _error("MissingParameter", "X-TC-Timestamp")
    if abs(time.time() - int(stamp)) > 300:
        return _error("AuthFailure.SignatureExpire", "The provided credentials are expired")
    return None


def _refused_signature(request: Request) -> Reply | None:
    found = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
    if found is None:
        return _error("AuthFailure.InvalidAuthorization", "The Authorization header has a wrong form")
    if found["id"] != SECRET_ID:
        return _error("AuthFailure.SecretIdNotFound", "The SecretId is not found, please ensure that it is correct.")
    day = datetime.fromtimestamp(int(request.headers["x-tc-timestamp"]), UTC).strftime("%Y-%m-%d")
    if found["day"] != day or found["signature"] != _signature(request, day):
        return _error("AuthFailure.SignatureFailure", "The provided credentials could not be validated.")
    return None


def _signature(request: Request, day: str) -> str:
    canonical_headers = f"content-type:{request.headers['content-type']}\nhost:{request.headers['host']}\n"
    digest = hashlib.sha256(request.body).hexdigest()
    canonical = f"POST\n/\n\n{canonical_headers}\ncontent-type;host\n{digest}"
    stamp = request.headers["x-tc-timestamp"]
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    to_sign = f"TC3-HMAC-SHA256\n{stamp}\n{day}/sms/tc3_request\n{hashed}"
    signing = hmac.digest(f"TC3{SECRET_KEY}".encode(), day.encode(), "sha256")
    signing = hmac.digest(signing, b"sms", "sha256")
    signing = hmac.digest(signing, b"tc3_request", "sha256")
    return hmac.digest(signing, to_sign.encode(), "sha256").hex()


def _error(code: str, message: str) -> Reply:
    return Reply(200, error(code, message))


def error(code: str, message: str) -> dict[str, Any]:
    """The answer of a whole call that was refused."""
    request_id = "ed93f3cb-f35e-473f-b9f3-0d451b8b79c6"
    return {"Response": {"Error": {"Code": code, "Message": message}, "RequestId": request_id}}
