"""Tencent Cloud without a network: its signature, its table, what its receipts and replies say."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from messaging.category import ErrorCategory, MarkerCode
from messaging.errors import PreparationError, ReceiptUnreadable
from messaging.sms.models import DeliveryStatus
from messaging.sms.providers.base import OutgoingSms, ProviderConfig, Receipt
from messaging.sms.providers.tencent import ERROR_CATEGORY, Tencent, authorization

CONFIG = ProviderConfig(
    1, 7, "TENCENT", api_key="AKIDtest123", api_secret="SecretKeyTest456", ext_config={"sdkAppId": "1400123456"}
)
MESSAGE = OutgoingSms(17, "+8613800138000", "", external_template_id="1234")

AUTH, INVALID_INPUT, PERMANENT, QUOTA, TRANSIENT = (
    ErrorCategory.AUTH,
    ErrorCategory.INVALID_INPUT,
    ErrorCategory.PERMANENT,
    ErrorCategory.QUOTA,
    ErrorCategory.TRANSIENT,
)


def test_the_signature_is_that_of_the_official_signer() -> None:
    # sms.md P26
    made = authorization(
        "AKIDtest123",
        "SecretKeyTest456",
        host="sms.tencentcloudapi.com",
        at=datetime.fromtimestamp(1551113065, UTC),
        body=b'{"PhoneNumberSet":["+8613800138000"],"SmsSdkAppId":"1400123456"}',
    )
    assert made == (
        "TC3-HMAC-SHA256 Credential=AKIDtest123/2019-02-25/sms/tc3_request, SignedHeaders=content-type;host,"
        " Signature=67d32431f082fc5aad6f6748a28ab393b38e2ed1d75718772bc326e58d5ae497"
    )


def test_the_digest_of_nothing_is_known() -> None:
    # sms.md P27
    assert hashlib.sha256(b"").hexdigest() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


#: `sms.md` section 7.4, row by row: exact codes, then those only a prefix decides, then words.
CATEGORIES = [
    (
        AUTH,
        "AuthFailure.SecretIdNotFound AuthFailure.SignatureExpire UnauthorizedOperation.SmsSdkAppIdVerifyFail"
        " IpNotInWhitelist IpInBlacklist FailedOperation.InsufficientBalanceInSmsPackage"
        " FailedOperation.SignatureIncorrectOrUnapproved FailedOperation.MissingSignature"
        " FailedOperation.TemplateIncorrectOrUnapproved FailedOperation.TemplateUnapprovedOrNotExist"
        " FailedOperation.TemplateIdNotExist FailedOperation.ProhibitSubAccountUse"
        " InvalidParameterValue.SdkAppIdNotExist InternalError.SigVerificationFail InternalError.SigFieldMissing"
        " UnsupportedOperation.UnsupportedRegion",
    ),
    (
        PERMANENT,
        "FailedOperation.ContainSensitiveWord FailedOperation.PhoneNumberInBlacklist"
        " FailedOperation.MarketingSendTimeConstraint LimitExceeded.AppCountryOrRegionInBlacklist",
    ),
    (
        INVALID_INPUT,
        "FailedOperation.TemplateParamSetNotMatchApprovedTemplate FailedOperation.FailResolvePacket"
        " FailedOperation.JsonParseFail FailedOperation.PhoneNumberParseFail InvalidParameter"
        " InvalidParameterValue.ContentLengthLimit InvalidParameterValue.IncorrectPhoneNumber MissingParameter"
        " MissingParameter.EmptyPhoneNumberSet LimitExceeded.PhoneNumberCountLimit"
        " UnsupportedOperation.ContainDomesticAndInternationalPhoneNumber",
    ),
    (
        QUOTA,
        "LimitExceeded.PhoneNumberDailyLimit LimitExceeded.DeliveryFrequencyLimit"
        " LimitExceeded.PhoneNumberThirtySecondLimit RequestLimitExceeded RequestLimitExceeded.UinLimitExceeded",
    ),
    (TRANSIENT, "InternalError.Timeout InternalError.OtherError FailedOperation.OtherError FailedOperation"),
    # sms.md section 6.2, the words in their order
    (AUTH, "FailedOperation.AuthSomething"),
    (PERMANENT, "FailedOperation.NumberBlockedLimit"),
    (INVALID_INPUT, "FailedOperation.IllegalSomething FailedOperation.LengthLimit"),
    (QUOTA, "FailedOperation.FrequencyLimited"),
    (TRANSIENT, "InternalError ResourceUnavailable"),
    (ErrorCategory.UNKNOWN, "FailedOperation.NobodyKnows"),
]


@pytest.mark.parametrize(("category", "code"), [(c, code) for c, codes in CATEGORIES for code in codes.split()])
def test_a_code_says_whether_to_try_again(category: ErrorCategory, code: str) -> None:
    # sms.md P21, P22, P23
    assert Tencent().classify(code, 200, "") is category


def test_every_row_of_the_table_is_tested() -> None:
    assert set(ERROR_CATEGORY) <= {code for _, codes in CATEGORIES for code in codes.split()}


@pytest.mark.parametrize(
    ("config", "message", "marker"),
    [
        ({}, {"external_template_id": None}, MarkerCode.EXTERNAL_TEMPLATE_REQUIRED),  # sms.md P24
        ({}, {"external_template_id": " "}, MarkerCode.EXTERNAL_TEMPLATE_REQUIRED),
        ({"api_key": ""}, {}, MarkerCode.PROVIDER_CONFIG_INVALID),
        ({"api_secret": None}, {}, MarkerCode.PROVIDER_CONFIG_INVALID),
        ({"ext_config": None}, {}, MarkerCode.PROVIDER_CONFIG_INVALID),
        ({"ext_config": "{broken"}, {}, MarkerCode.PROVIDER_CONFIG_INVALID),
        ({"ext_config": {"sdkAppId": " "}}, {}, MarkerCode.PROVIDER_CONFIG_INVALID),
        ({"ext_config": {"sdkAppId": {}}}, {}, MarkerCode.PROVIDER_CONFIG_INVALID),
    ],
)
def test_what_it_cannot_work_without_is_told_before_a_call(
    config: dict[str, Any], message: dict[str, Any], marker: MarkerCode
) -> None:
    with pytest.raises(PreparationError) as caught:
        Tencent().check(replace(CONFIG, **config), replace(MESSAGE, **message))
    assert caught.value.marker is marker


def test_a_complete_message_passes_the_check() -> None:
    Tencent().check(CONFIG, MESSAGE)


#: As in https://www.tencentcloud.com/document/api/382/43547
REPORT = {
    "user_receive_time": "2026-01-01 08:00:00",
    "nationcode": "86",
    "mobile": "13800138000",
    "report_status": "SUCCESS",
    "errmsg": "DELIVRD",
    "description": "The SMS message is successfully delivered",
    "sid": "2019:538884",
}


def test_a_batch_of_receipts_is_read_in_utc() -> None:
    # sms.md D1
    failed = REPORT | {"report_status": "FAIL", "sid": "s-2", "user_receive_time": ""}
    other = REPORT | {"report_status": "LATER", "sid": "s-3"}
    body = json.dumps([REPORT, failed, other, {}]).encode()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert Tencent().parse_receipts({}, body, {}) == [
        Receipt("2019:538884", DeliveryStatus.DELIVERED, at, "SUCCESS"),
        Receipt("s-2", DeliveryStatus.UNDELIVERED, None, "FAIL"),
        Receipt("s-3", DeliveryStatus.UNKNOWN, at, "LATER"),
    ]
    assert Tencent().parse_receipts({}, b"[]", {}) == []


@pytest.mark.parametrize("body", [b"", b"\xff", b"3", b"{}", b"[3]", b'[{"sid":"s-1"}]', b"[" * 100_000])
def test_a_body_of_another_shape_is_unreadable(body: bytes) -> None:
    with pytest.raises(ReceiptUnreadable):
        Tencent().parse_receipts({}, body, {})
    with pytest.raises(ReceiptUnreadable):
        Tencent().parse_inbound({}, body, {})


def test_the_reply_is_what_it_takes_as_received() -> None:
    assert Tencent().receipt_reply() == (200, "application/json", b'{"result":0,"errmsg":"OK"}')


def test_a_reply_is_read() -> None:
    # https://www.tencentcloud.com/document/api/382/43548
    told = {"extend": "", "mobile": "13800138000", "nationcode": "86", "sign": "Sign", "text": "TD", "time": 1457336869}
    [inbound] = Tencent().parse_inbound({}, json.dumps(told).encode(), {})
    assert (inbound.from_number, inbound.to, inbound.text) == ("+8613800138000", "Sign", "TD")
    assert inbound.at == datetime(2016, 3, 7, 7, 47, 49, tzinfo=UTC)


@pytest.mark.parametrize("when", [None, "x", True, 1e300, float("nan"), []])
def test_a_time_that_is_none_does_not_cost_the_reply(when: Any) -> None:
    told = {"mobile": "13800138000", "nationcode": "86", "text": "TD", "time": when}
    [inbound] = Tencent().parse_inbound({}, json.dumps(told).encode(), {})
    assert inbound.at is None


def test_it_signs_no_receipts() -> None:
    assert Tencent().check_receipt(CONFIG, "https://example.com/hook", {}, b"[]", {}) is None
