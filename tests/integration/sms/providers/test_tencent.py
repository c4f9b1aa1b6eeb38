"""Tencent Cloud over real sockets, at a server that checks headers, body and signature as the real one does."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from messaging.category import ErrorCategory, MarkerCode
from messaging.errors import DeliveryError, PreparationError
from messaging.http.client import HttpClient, HttpLimits
from messaging.sms.providers.base import Accepted, OutgoingSms, ProviderConfig, Rejected
from messaging.sms.providers.tencent import Tencent
from tests.far_end.provider_server import ProviderServer, Reply, serving
from tests.far_end.tencent_api import (
    SDK_APP_ID,
    SECRET_ID,
    SECRET_KEY,
    SIGN_NAME,
    TEMPLATE_ID,
    TencentApi,
    error,
    sent,
)


class Desk:
    """An account at the server, and a client."""

    def __init__(self, server: ProviderServer, api: TencentApi) -> None:
        self.server = server
        self.api = api
        self.client = HttpClient(HttpLimits(2, 2, 2))
        self.config = ProviderConfig(
            1,
            7,
            "TENCENT",
            api_key=SECRET_ID,
            api_secret=SECRET_KEY,
            api_endpoint=server.url,
            ext_config={"sdkAppId": SDK_APP_ID},
            sender_id="Shop",
        )
        self.message = OutgoingSms(
            17,
            "+8613800138000",
            "the local text",
            region_code="CN",
            sign_name=SIGN_NAME,
            external_template_id=TEMPLATE_ID,
            template_params=("1234", "十分钟"),
            template_variables={"time": "十分钟", "code": "1234"},
        )

    def send(self, adapter: Tencent | None = None, **changed: Any) -> Accepted | Rejected:
        message = replace(self.message, **changed)
        return (adapter or Tencent()).send(self.config, message, self.client, lambda: None)


@pytest.fixture
def desk() -> Iterator[Desk]:
    api = TencentApi()
    with serving(api) as server:
        made = Desk(server, api)
        yield made
        made.client.close()


def test_a_signed_message_is_accepted_by_its_serial_number(desk: Desk) -> None:
    # sms.md P20, P36
    accepted = desk.send()
    assert accepted == Accepted(desk.api.taken[0].id)
    assert desk.api.asked == {
        "PhoneNumberSet": ["+8613800138000"],
        "SmsSdkAppId": SDK_APP_ID,
        "TemplateId": TEMPLATE_ID,
        "TemplateParamSet": ["1234", "十分钟"],  # sms.md P25: the order is the template's, as given
        "SessionContext": "17",
        "SignName": SIGN_NAME,
    }
    headers = desk.server.requests[0].headers
    assert headers["x-tc-region"] == "ap-guangzhou"
    assert headers["content-type"] == "application/json"


def test_the_signed_host_is_the_one_that_is_sent_with_its_port(desk: Desk) -> None:
    # sms.md P26: the server signs the Host it was sent
    assert isinstance(desk.send(), Accepted)
    assert desk.server.requests[0].headers["host"] == desk.server.host
    assert ":" in desk.server.host


def test_a_sender_is_named_abroad_only(desk: Desk) -> None:
    desk.send(phone_number="+85298765432", region_code="HK", sign_name=None)
    assert desk.api.asked["SenderId"] == "Shop"
    assert "SignName" not in desk.api.asked
    desk.send()
    assert "SenderId" not in desk.api.asked


def test_a_region_of_ones_own_is_asked(desk: Desk) -> None:
    desk.config = replace(desk.config, ext_config={"sdkAppId": int(SDK_APP_ID), "region": "ap-singapore"})
    assert isinstance(desk.send(), Accepted)
    assert desk.server.requests[0].headers["x-tc-region"] == "ap-singapore"


def test_values_are_the_same_at_every_attempt(desk: Desk) -> None:
    # sms.md L9
    desk.send()
    first = desk.api.asked["TemplateParamSet"]
    desk.send()
    assert desk.api.asked["TemplateParamSet"] == first


@pytest.mark.parametrize(
    ("body", "code", "category"),
    [
        (error("AuthFailure.SecretIdNotFound", "x"), "AuthFailure.SecretIdNotFound", ErrorCategory.AUTH),  # P21
        (
            sent("+86", "LimitExceeded.PhoneNumberDailyLimit", "x", ""),  # P22
            "LimitExceeded.PhoneNumberDailyLimit",
            ErrorCategory.QUOTA,
        ),
        (
            sent("+86", "InvalidParameterValue.ContentLengthLimit", "x", ""),  # P23
            "InvalidParameterValue.ContentLengthLimit",
            ErrorCategory.INVALID_INPUT,
        ),
    ],
)
def test_a_refusal_stands_in_a_reply_with_status_200(
    desk: Desk, body: dict[str, Any], code: str, category: ErrorCategory
) -> None:
    desk.server.next.append(Reply(200, body))
    assert desk.send() == Rejected(code, "x", category)


@pytest.mark.parametrize(
    "body",
    [
        {"Response": {"SendStatusSet": [], "RequestId": "r"}},
        {"Response": {"RequestId": "r"}},
        {"Response": {"SendStatusSet": [{"Code": "Ok"}]}},
        {"Response": {"SendStatusSet": [{"SerialNo": "1"}]}},
        {},
        [],
        "<html>",
        b"",
    ],
)
def test_a_reply_that_names_no_outcome_is_none(desk: Desk, body: Any) -> None:
    # sms.md P24
    desk.server.next.append(Reply(200, body))
    with pytest.raises(DeliveryError) as caught:
        desk.send()
    assert (caught.value.code, caught.value.category) == ("BAD_RESPONSE", ErrorCategory.UNKNOWN)


def test_a_server_error_without_a_code_has_the_status(desk: Desk) -> None:
    # sms.md P24
    desk.server.next.append(Reply(500, b"oops"))
    refused = desk.send()
    assert isinstance(refused, Rejected)
    assert (refused.code, refused.category) == ("HTTP_500", ErrorCategory.TRANSIENT)


def test_without_a_template_or_an_application_nobody_is_called(desk: Desk) -> None:
    # sms.md P24
    with pytest.raises(PreparationError) as caught:
        desk.send(external_template_id="")
    assert caught.value.marker is MarkerCode.EXTERNAL_TEMPLATE_REQUIRED
    desk.config = replace(desk.config, ext_config=None)
    with pytest.raises(PreparationError) as caught:
        desk.send()
    assert caught.value.marker is MarkerCode.PROVIDER_CONFIG_INVALID
    assert desk.server.requests == []


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"api_key": "other"}, "AuthFailure.SecretIdNotFound"),
        ({"api_secret": "other"}, "AuthFailure.SignatureFailure"),
        ({"ext_config": {"sdkAppId": "14"}}, "InvalidParameterValue.SdkAppIdNotExist"),
    ],
)
def test_wrong_credentials_are_for_an_operator(desk: Desk, changed: dict[str, Any], code: str) -> None:
    desk.config = replace(desk.config, **changed)
    refused = desk.send()
    assert isinstance(refused, Rejected)
    assert (refused.code, refused.category) == (code, ErrorCategory.AUTH)


def test_a_clock_that_is_wrong_is_told(desk: Desk) -> None:
    refused = desk.send(Tencent(clock=lambda: datetime(2021, 1, 1, tzinfo=UTC)))
    assert isinstance(refused, Rejected)
    assert (refused.code, refused.category) == ("AuthFailure.SignatureExpire", ErrorCategory.AUTH)


def test_neither_secret_nor_number_reach_a_log_or_a_refusal(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    words = f"+8613800138000 {SECRET_KEY} {SECRET_ID} the local text"
    desk.server.next.append(Reply(200, error("AuthFailure.X", words)))
    said = json.dumps([str(desk.send()), caplog.text, repr(desk.config), repr(desk.message)], ensure_ascii=False)
    for secret in ("13800138000", SECRET_KEY, SECRET_ID, "the local text", "十分钟"):
        assert secret not in said
