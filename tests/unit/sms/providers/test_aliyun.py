"""Aliyun without a network: its signature, its table, what its receipts and inbound messages say."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from messaging.category import ErrorCategory, MarkerCode
from messaging.errors import PreparationError, ReceiptUnreadable
from messaging.sms.models import DeliveryStatus
from messaging.sms.providers.aliyun import ERROR_CATEGORY, Aliyun, encoded, signature, template_param
from messaging.sms.providers.base import OutgoingSms, ProviderConfig, Receipt

CONFIG = ProviderConfig(1, 7, "ALIYUN", api_key="testAKID", api_secret="testSecret")
MESSAGE = OutgoingSms(17, "+8613800138000", "", external_template_id="SMS_123", sign_name="TestSign")

#: The parameters of the vectors.
VECTOR = {
    "AccessKeyId": "testAKID",
    "Action": "SendSms",
    "Format": "JSON",
    "PhoneNumbers": "13800138000",
    "SignName": "TestSign",
    "SignatureMethod": "HMAC-SHA1",
    "SignatureNonce": "fixed-nonce",
    "SignatureVersion": "1.0",
    "TemplateCode": "SMS_123",
    "Timestamp": "2021-01-01T00:00:00Z",
    "Version": "2017-05-25",
}

AUTH, INVALID_INPUT, PERMANENT, QUOTA, TRANSIENT = (
    ErrorCategory.AUTH,
    ErrorCategory.INVALID_INPUT,
    ErrorCategory.PERMANENT,
    ErrorCategory.QUOTA,
    ErrorCategory.TRANSIENT,
)


def test_the_signature_is_that_of_the_official_signer() -> None:
    # sms.md P19
    assert signature(VECTOR, "testSecret") == "D0fTraNgTn0Eli1pZ2fzp93C9CM="
    chinese = VECTOR | {"SignName": "测试", "TemplateParam": '{"code":"12 34*~"}'}
    assert signature(chinese, "testSecret") == "OCbXysjIdK1zwbzQiLAStceDgrU="


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello world", "hello%20world"),
        ("a*b", "a%2Ab"),
        ("a~b", "a~b"),
        ("/", "%2F"),
        ("", ""),
        ("AZaz09-_.~", "AZaz09-_.~"),
        ("测", "%E6%B5%8B"),
        ("😀", "%F0%9F%98%80"),
        ("\ud800", "%3F"),
    ],
)
def test_text_is_encoded_as_the_signature_wants_it(text: str, expected: str) -> None:
    # sms.md P19
    assert encoded(text) == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"code": 123456}, '{"code":"123456"}'),  # sms.md P16
        ({"b": "x", "a": "y"}, '{"b":"x","a":"y"}'),  # in the caller's order
        ({"v": None, "w": True, "x": 1.5, "y": ["a", 1], "z": "测"}, None),
    ],
)
def test_every_value_of_a_template_is_a_text(variables: dict[str, Any], expected: str | None) -> None:
    made = template_param(variables)
    if expected is not None:
        assert made == expected
    assert {type(value) for value in json.loads(made).values()} == {str}


def test_values_that_are_no_text_are_written_as_json() -> None:
    made = json.loads(template_param({"v": None, "w": True, "x": 1.5, "y": ["a", 1]}))
    assert made == {"v": "", "w": "true", "x": "1.5", "y": '["a",1]'}


#: `sms.md` section 7.3, row by row; then what only a prefix or words decide.
CATEGORIES = [
    (
        AUTH,
        "isp.RAM_PERMISSION_DENY isv.OUT_OF_SERVICE isv.AMOUNT_NOT_ENOUGH isv.PRODUCT_UN_SUBSCRIPT"
        " isv.PRODUCT_UNSUBSCRIBE isv.ACCOUNT_NOT_EXISTS isv.ACCOUNT_ABNORMAL isv.DENY_IP_RANGE"
        " isv.SMS_SIGNATURE_ILLEGAL isv.SMS_SIGN_ILLEGAL isv.SIGN_STATE_ILLEGAL isv.SMS_TEMPLATE_ILLEGAL"
        " isv.SMS_SIGNATURE_SCENE_ILLEGAL isv.EXTEND_CODE_ERROR SignatureDoesNotMatch InvalidAccessKeyId.NotFound"
        " IncompleteSignature",
    ),
    (
        INVALID_INPUT,
        "isv.MOBILE_NUMBER_ILLEGAL isv.MOBILE_COUNT_OVER_LIMIT isv.INVALID_PARAMETERS isv.TEMPLATE_MISSING_PARAMETERS"
        " isv.INVALID_JSON_PARAM isv.PARAM_LENGTH_LIMIT isv.PARAM_NOT_SUPPORT_URL isv.DOMESTIC_NUMBER_NOT_SUPPORTED"
        " MissingPhoneNumbers MissingSignName MissingTemplateCode",
    ),
    (PERMANENT, "isv.SMS_CONTENT_ILLEGAL isv.BLACK_KEY_CONTROL_LIMIT"),
    (
        QUOTA,
        "isv.BUSINESS_LIMIT_CONTROL isv.DAY_LIMIT_CONTROL isv.MONTH_LIMIT_CONTROL Throttling Throttling.User"
        " Throttling.Api",
    ),
    (TRANSIENT, "isp.SYSTEM_ERROR isp.GATEWAY_ERROR ServiceUnavailable InternalError"),
    # sms.md section 6.2, the words in their order
    (AUTH, "isv.SOME_AUTH_ERROR isv.BALANCE_LOW Signature.DoesNotMatch.New"),
    (PERMANENT, "isv.NUMBER_BLOCKED_LIMIT"),
    (INVALID_INPUT, "isv.NEW_PARAM_LIMIT isv.SOMETHING_ILLEGAL"),
    (QUOTA, "isv.HOUR_LIMIT isv.FREQUENCY_HIGH"),
    (TRANSIENT, "isp.UPSTREAM_TIMEOUT"),
    (ErrorCategory.UNKNOWN, "isv.NOBODY_KNOWS"),
]


@pytest.mark.parametrize(("category", "code"), [(c, code) for c, codes in CATEGORIES for code in codes.split()])
def test_a_code_says_whether_to_try_again(category: ErrorCategory, code: str) -> None:
    # sms.md P13, P14; the provider answers HTTP 200 or 400 with a code
    assert Aliyun().classify(code, 200, "") is category


def test_every_row_of_the_table_is_tested() -> None:
    assert set(ERROR_CATEGORY) <= {code for _, codes in CATEGORIES for code in codes.split()}


@pytest.mark.parametrize(
    ("config", "message", "marker"),
    [
        ({}, {"external_template_id": None}, MarkerCode.EXTERNAL_TEMPLATE_REQUIRED),  # sms.md P12
        ({}, {"external_template_id": "  "}, MarkerCode.EXTERNAL_TEMPLATE_REQUIRED),
        ({}, {"sign_name": None}, MarkerCode.PROVIDER_CONFIG_INVALID),
        ({}, {"sign_name": " "}, MarkerCode.PROVIDER_CONFIG_INVALID),
        ({"api_key": None}, {}, MarkerCode.PROVIDER_CONFIG_INVALID),
        ({"api_secret": " "}, {}, MarkerCode.PROVIDER_CONFIG_INVALID),
    ],
)
def test_what_it_cannot_work_without_is_told_before_a_call(
    config: dict[str, Any], message: dict[str, Any], marker: MarkerCode
) -> None:
    with pytest.raises(PreparationError) as caught:
        Aliyun().check(replace(CONFIG, **config), replace(MESSAGE, **message))
    assert caught.value.marker is marker


def test_a_complete_message_passes_the_check() -> None:
    Aliyun().check(CONFIG, MESSAGE)


def parsed(body: Any) -> list[Receipt]:
    return Aliyun().parse_receipts({}, json.dumps(body).encode(), {})


#: As in https://help.aliyun.com/document_detail/109859.html
REPORT = {
    "phone_number": "13800138000",
    "send_time": "2026-01-01 07:59:00",
    "report_time": "2026-01-01 08:00:00",
    "success": True,
    "err_code": "DELIVERED",
    "err_msg": "用户接收成功",
    "sms_size": "1",
    "biz_id": "900619746936498440^0",
    "out_id": "17",
}

#: As in https://www.alibabacloud.com/help/doc-detail/409034.htm
WEBHOOK = {
    "To": "85212345678",
    "SendDate": "Thu, 25 Nov 2021 10:27:00 +0800",
    "ReceiveDate": "Thu, 25 Nov 2021 10:27:33 +0800",
    "Status": "1",
    "SmsSize": "1",
    "ErrorCode": "success",
    "ErrorDescription": "success",
    "MessageId": "123456789",
}


def test_a_batch_of_reports_is_read_in_utc() -> None:
    # sms.md D1
    failed = REPORT | {"success": False, "err_code": "MK:0011", "biz_id": "b-2", "report_time": None}
    assert parsed([REPORT, failed]) == [
        Receipt("900619746936498440^0", DeliveryStatus.DELIVERED, datetime(2026, 1, 1, tzinfo=UTC), "DELIVERED"),
        Receipt("b-2", DeliveryStatus.UNDELIVERED, None, "MK:0011"),
    ]


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, DeliveryStatus.DELIVERED),
        ({"Status": 1}, DeliveryStatus.DELIVERED),
        ({"ReceiveDate": None}, DeliveryStatus.UNKNOWN),  # sent, and no operator has said more
        ({"ErrorCode": None}, DeliveryStatus.UNKNOWN),
        ({"Status": "2", "ErrorCode": "UNDELIV"}, DeliveryStatus.UNDELIVERED),
        ({"Status": "6", "ErrorCode": "EXPIRED"}, DeliveryStatus.UNDELIVERED),
        ({"Status": "3"}, DeliveryStatus.DELIVERED),
        ({"Status": "9"}, DeliveryStatus.UNKNOWN),
    ],
)
def test_the_international_webhook_is_read_too(changed: dict[str, Any], status: DeliveryStatus) -> None:
    # sms.md D1; it comes as an array over HTTP, and a lone object is taken as well
    told = WEBHOOK | changed
    [receipt] = parsed([told])
    assert parsed(told) == [receipt]
    assert (receipt.provider_message_id, receipt.status) == ("123456789", status)
    assert receipt.at == datetime(2021, 11, 25, 2, 27, 33 if told["ReceiveDate"] else 0, tzinfo=UTC)


def test_an_entry_of_another_shape_does_not_cost_the_others() -> None:
    assert [receipt.provider_message_id for receipt in parsed([{"news": 1}, REPORT, 3])] == ["900619746936498440^0"]
    assert parsed([]) == []


@pytest.mark.parametrize("body", [b"", b"\xff", b"3", b'"x"', b"[3]", b'[{"success":true}]', b"{}", b"[" * 100_000])
def test_a_body_of_another_shape_is_unreadable(body: bytes) -> None:
    with pytest.raises(ReceiptUnreadable):
        Aliyun().parse_receipts({}, body, {})
    with pytest.raises(ReceiptUnreadable):
        Aliyun().parse_inbound({}, body, {})


def test_it_wants_a_number_as_code_or_it_repeats_the_batch() -> None:
    status, media_type, body = Aliyun().receipt_reply()
    assert (status, media_type) == (200, "application/json")
    assert json.loads(body)["code"] == 0


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("13800138000", "+8613800138000"),
        ("8613800138000", "+8613800138000"),
        ("+8613800138000", "+8613800138000"),
        ("85298765432", "+85298765432"),
    ],
)
def test_a_reply_is_read(number: str, expected: str) -> None:
    told = {
        "phone_number": number,
        "send_time": "2026-01-01 08:00:00",
        "content": "TD",
        "sign_name": "TestSign",
        "dest_code": "4045",
        "sequence_id": 1234567890,
    }
    [inbound] = Aliyun().parse_inbound({}, json.dumps([told]).encode(), {})
    assert (inbound.from_number, inbound.to, inbound.text) == (expected, "4045", "TD")
    assert inbound.at == datetime(2026, 1, 1, tzinfo=UTC)


def test_it_signs_no_receipts() -> None:
    assert Aliyun().check_receipt(CONFIG, "https://example.com/hook", {}, b"[]", {}) is None
