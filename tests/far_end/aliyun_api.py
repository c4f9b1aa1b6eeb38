"""Aliyun's SendSms as its public description has it, for one account with one signature and one template.

Parameters and signature are read from the form's own bytes, by the description and not by our code.
"""

import base64
import hashlib
import hmac
import json
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from urllib.parse import quote, unquote

from tests.far_end.provider_server import Reply, Request, Taken

ACCESS_KEY_ID = "LTAI-test-0001"
ACCESS_KEY_SECRET = "aliyun-secret-0001"
SIGN_NAME = "测试"
TEMPLATE_CODE = "SMS_154950909"
#: Names the template asks for.
TEMPLATE_NAMES = {"code"}

_NAMES = {
    "AccessKeyId", "Action", "Format", "PhoneNumbers", "RegionId", "SignName", "SignatureMethod", "SignatureNonce",
    "SignatureVersion", "TemplateCode", "TemplateParam", "Timestamp", "Version", "OutId", "SmsUpExtendCode",
}  # fmt: skip
#: Parameters of calls that only read.
_READING = {
    "QuerySendDetails": {"PhoneNumber", "SendDate", "PageSize", "CurrentPage", "BizId"},
    "QuerySmsSignList": {"PageIndex", "PageSize"},
}
_CHINA = timezone(timedelta(hours=8))
_COMMON = ("AccessKeyId", "Action", "SignatureMethod", "SignatureNonce", "SignatureVersion", "Timestamp", "Version")


class AliyunApi:
    """Accepts what is well formed and signed."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []
        self.nonces: set[str] = set()
        #: The parameters of the last call.
        self.asked: dict[str, str] = {}

    def answer(self, request: Request) -> Reply:
        if request.method != "POST" or request.path != "/" or request.query:
            return _gateway(404, "InvalidAction.NotFound", "Specified api is not found")
        if request.headers.get("content-type") != "application/x-www-form-urlencoded":
            return _gateway(415, "UnsupportedHTTPMethod", "This http method is not supported.")
        pairs = [pair.partition("=") for pair in request.body.decode("ascii").split("&")]
        asked = {unquote(name): unquote(value) for name, _, value in pairs}
        if len(asked) != len(pairs) or "+" in request.body.decode("ascii"):
            return _gateway(400, "InvalidParameter", "a parameter stands twice, or a space is a plus")
        self.asked = dict(asked)
        refused = self._refused_by_gateway(asked)
        if refused is not None:
            return refused
        if asked["Action"] == "QuerySmsSignList":
            return _said(
                "OK", "OK", TotalCount=1, SmsSignList=[{"SignName": SIGN_NAME, "AuditStatus": "AUDIT_STATE_PASS"}]
            )
        return self._details(asked) if asked["Action"] == "QuerySendDetails" else self._send(asked)

    def _refused_by_gateway(self, asked: dict[str, str]) -> Reply | None:
        signature = asked.pop("Signature", None)
        missing = next((name for name in _COMMON if not asked.get(name)), None)
        if missing or signature is None:
            return _gateway(400, f"Missing{missing or 'Signature'}", f"{missing or 'Signature'} is mandatory")
        if asked["AccessKeyId"] != ACCESS_KEY_ID:
            return _gateway(404, "InvalidAccessKeyId.NotFound", "Specified access key is not found.")
        if signature != _signature(asked):
            return _gateway(400, "SignatureDoesNotMatch", "Specified signature is not matched with our calculation.")
        if asked["SignatureMethod"] != "HMAC-SHA1" or asked["SignatureVersion"] != "1.0":
            return _gateway(400, "IncompleteSignature", "The request signature does not conform to Aliyun standards.")
        if asked["Action"] not in ("SendSms", *_READING) or asked["Version"] != "2017-05-25":
            return _gateway(404, "InvalidAction.NotFound", "Specified api is not found")
        if not _is_recent(asked["Timestamp"]):
            return _gateway(400, "InvalidTimeStamp.Expired", "Specified time stamp or date value is expired.")
        if asked["SignatureNonce"] in self.nonces:
            return _gateway(400, "SignatureNonceUsed", "Specified signature nonce was used already.")
        self.nonces.add(asked["SignatureNonce"])
        reading = _READING.get(asked["Action"])
        needed = ("PhoneNumbers", "SignName", "TemplateCode") if reading is None else sorted(reading - {"BizId"})
        mandatory = next((n for n in needed if not asked.get(n)), None)
        if mandatory:
            return _gateway(400, f"Missing{mandatory}", f"{mandatory} is mandatory for this action.")
        unknown = asked.keys() - (_NAMES if reading is None else reading | {*_COMMON, "Format", "RegionId"})
        if unknown:
            return _gateway(400, "InvalidParameter", f"unknown parameter {min(unknown)}")
        return None

    def _details(self, asked: dict[str, str]) -> Reply:
        """What was sent to a number on a day: no `BizId` stands there."""
        number, size = asked["PhoneNumber"], int(asked["PageSize"])
        if not 1 <= size <= 50:
            return _said("isv.INVALID_PARAMETERS", "PageSize")
        found = [
            t
            for t in reversed(self.taken)
            if number == re.sub(r"^86(?=1[3-9]\d{9}$)", "", t.number)
            and t.at.astimezone(_CHINA).strftime("%Y%m%d") == asked["SendDate"]
        ]
        begin = size * (int(asked["CurrentPage"]) - 1)
        details = [
            {
                "OutId": t.reference,
                "SendDate": t.at.astimezone(_CHINA).strftime("%Y-%m-%d %H:%M:%S"),
                "SendStatus": 1,
                "PhoneNum": number,
                "Content": "【测试】您的验证码为123456",
                "TemplateCode": t.text,
            }
            for t in found[begin : begin + size]
        ]
        return _said("OK", "OK", TotalCount=str(len(found)), SmsSendDetailDTOs={"SmsSendDetailDTO": details})

    def _send(self, asked: dict[str, str]) -> Reply:
        number = asked["PhoneNumbers"]
        if not re.fullmatch(r"[1-9]\d{6,14}", number) or number.endswith("5550001"):
            return _said("isv.MOBILE_NUMBER_ILLEGAL", f"{number} invalid mobile number")
        if asked["SignName"] != SIGN_NAME:
            return _said("isv.SMS_SIGNATURE_ILLEGAL", "该账号下找不到对应签名")
        if asked["TemplateCode"] != TEMPLATE_CODE:
            return _said("isv.SMS_TEMPLATE_ILLEGAL", "该账号下找不到对应模板")
        refused = _refused_values(asked.get("TemplateParam"))
        if refused is not None:
            return refused
        biz_id = f"{900619746936498440 + len(self.taken)}^0"
        self.taken.append(Taken(biz_id, number, asked["TemplateCode"], asked["SignName"], asked.get("OutId")))
        return _said("OK", "OK", BizId=biz_id)


def _refused_values(text: str | None) -> Reply | None:
    try:
        values: Any = {} if text is None else json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        return _said("isv.INVALID_JSON_PARAM", "JSON参数不合法，只接受字符串值")
    if not values.keys() >= TEMPLATE_NAMES:
        return _said("isv.TEMPLATE_MISSING_PARAMETERS", "模板缺少变量")
    return None


def _signature(asked: dict[str, str]) -> str:
    def encode(text: str) -> str:
        return quote(text, safe="").replace("+", "%20").replace("*", "%2A").replace("%7E", "~")

    canonical = "&".join(sorted(f"{encode(name)}={encode(value)}" for name, value in asked.items()))
    to_sign = f"POST&{encode('/')}&{encode(canonical)}"
    return base64.b64encode(hmac.digest(f"{ACCESS_KEY_SECRET}&".encode(), to_sign.encode(), hashlib.sha1)).decode()


def _is_recent(stamp: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", stamp):
        return False
    return abs((datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds()) < 900


def _gateway(status: int, code: str, message: str) -> Reply:
    return Reply(
        status,
        {
            "RequestId": "744AFD0E-2982-5DE3-AC6E-5D8C4DBE0A4C",
            "HostId": "dysmsapi.aliyuncs.com",
            "Code": code,
            "Message": message,
            "Recommend": f"https://api.aliyun.com/troubleshoot?q={code}&product=Dysmsapi",
        },
    )


def _said(code: str, message: str, **more: Any) -> Reply:
    return Reply(200, {"Message": message, "RequestId": "A3E71DBD-2B8B-5D8C-8A9B-F0E1D2C3B4A5", "Code": code} | more)
